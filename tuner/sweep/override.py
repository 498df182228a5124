"""Changed values of a workload or machine file, checked like the file itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from tiertune.document import Document, dotted
from tiertune.document import Path as Place
from tiertune.files import InputError, Strict
from tiertune.mistakes import sentences_of
from tiertune.nearest import nearest

Model = TypeVar("Model", bound=Strict)

_PART = re.compile(r"([^.\[\]]+)|\[([0-9]+)\]")


class Misplaced(Exception):
    """A place that this file does not have; the row it was meant for is not applicable."""


def overridden(model: Model, changes: Mapping[str, Any], what: str) -> Model:
    """`model` with values changed by their place, such as `tiers[1].latency_ns` or `sim.carry.scale`.

    A place is one that the file has, or a key that may be added to a mapping of it. Raises `Misplaced`
    where the file has no such place, and `InputError`, beginning with `what`, for a value that is refused.
    """
    if not changes:
        return model
    data = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for text, value in changes.items():
        _put(data, _place(text, what), value, text)
    try:
        changed = type(model).model_validate(data)
    except ValidationError as error:
        said = sentences_of(error, type(model), what, Document(data, {}))
        raise InputError(*(re.sub(rf"^{re.escape(what)}:1: ", f"{what}: ", text) for text in said)) from error
    return changed


def _place(text: str, what: str) -> Place:
    if not re.fullmatch(r"[^.\[\]]+(\.[^.\[\]]+|\[[0-9]+\])*", text):
        raise InputError(f"{what}: '{text}' is no place in a file; write it as in tiers[1].latency_ns")
    return tuple(key or int(number) for key, number in _PART.findall(text))


def _put(data: Any, place: Place, value: Any, text: str) -> None:
    for depth, part in enumerate(place):
        last = depth == len(place) - 1
        at = dotted(place[:depth]) or "the file"
        if isinstance(part, int):
            if not isinstance(data, list) or part >= len(data):
                have = f"{len(data)} entries" if isinstance(data, list) else "no list"
                raise Misplaced(f"there is no {text}: {at} has {have}")
        elif not isinstance(data, dict):
            raise Misplaced(f"there is no {text}: {at} holds no keys")
        elif part not in data and not last:
            raise Misplaced(
                f"there is no {text}: {at} has no '{part}', the nearest is '{nearest(part, data)}'"
            )
        if last:
            data[part] = value
        else:
            data = data[part]
