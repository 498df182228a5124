"""Types of keys that several kinds of files share."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Strict, StringConstraints, WithJsonSchema

from tiertune.mistakes import sentence
from tiertune.units import UnitError, parse_ratio, parse_size


def _size(value: object) -> int:
    try:
        return parse_size(value)  # type: ignore[arg-type]
    except UnitError as error:
        raise sentence(str(error)) from error


def _ratio(value: object) -> str:
    try:
        fast, slow = parse_ratio(value)  # type: ignore[arg-type]
    except UnitError as error:
        raise sentence(str(error)) from error
    return f"{fast}:{slow}"


def name_mistake(text: str) -> str | None:
    """What is wrong with a name; None where nothing is."""
    if _NAME.fullmatch(text):
        return None
    hint = re.sub(r"[^a-z0-9.+]+", "-", text.lower()).strip("-+.")[:64].rstrip("-+.")
    return "is not a name: lower-case letters, digits, dots and single dashes or plus signs, at most 64" + (
        f"; the nearest valid name is '{hint}'" if hint else ""
    )


def _name(value: object) -> object:
    if isinstance(value, str) and (mistake := name_mistake(value)):
        raise sentence(mistake)
    return value


# Dots alone would be a folder that is there: results/sweeps/.. is all of the results.
_NAME = re.compile(r"(?=.{1,64}$)(?=.*[a-z0-9])[a-z0-9.]+([-+][a-z0-9.]+)*")

Text = Annotated[str, Strict(), StringConstraints(min_length=1)]
Integer = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
Flag = Annotated[bool, Strict()]

Name = Annotated[str, BeforeValidator(_name)]
"""Also a file name and part of keys in journals, hence no spaces, slashes or capitals."""


def _page_size(value: object) -> int:
    try:
        return parse_size(value, 4 * 2**10, 2**30)  # type: ignore[arg-type]
    except UnitError as error:
        raise sentence(str(error)) from error


SIZE_SCHEMA = {
    "anyOf": [
        {"type": "integer", "minimum": 1},
        {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*(B|kB|MB|GB|TB|KiB|MiB|GiB|TiB)?\s*$"},
    ]
}

Size = Annotated[int, BeforeValidator(_size), WithJsonSchema(SIZE_SCHEMA)]
"""Bytes; written `64GiB`, `13.75MiB`, `96GB` or as a whole number of bytes."""

PageSize = Annotated[int, BeforeValidator(_page_size), WithJsonSchema(SIZE_SCHEMA)]
"""Bytes of a page; which sizes a system manages, the engine says."""

Ratio = Annotated[
    str,
    BeforeValidator(_ratio),
    WithJsonSchema({"type": "string", "pattern": r"^\s*[0-9]+\s*:\s*[0-9]+\s*$"}),
]
"""fast:slow, such as `1:8`."""
