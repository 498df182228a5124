"""Values of knobs as files hold them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, WithJsonSchema

from tiertune.files import sentence

Value = bool | int | float | str


def _scalar(value: object) -> object:
    if not isinstance(value, (bool, int, float, str)):
        raise sentence("is not a value of a knob; write a number, true, false or a word")
    return value


Scalar = Annotated[
    Value, BeforeValidator(_scalar), WithJsonSchema({"type": ["boolean", "integer", "number", "string"]})
]
