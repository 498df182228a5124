"""Knobs on a common scale: every searched range is 0 to 1, ratios where ratios matter."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tiertune.spaces.definition import Axis
from tiertune.spaces.value import Value

STEP = 1 / 8
"""One step of a knob, as a share of its range on its own scale."""
ON_BOUND = 0.01
"""Closer to an end of the range than this share of it is on the end."""
WORD_TYPES = ("bool", "choice")


def place_on(axis: Axis, value: Value) -> float:
    """Where a value stands in its range, 0 to 1. A value outside (a special one) counts as the nearer end."""
    if axis.type in WORD_TYPES:
        return axis.choices.index(value) / max(1, len(axis.choices) - 1) if value in axis.choices else 0.0
    number, low, high = float(value), axis.minimum, axis.maximum
    if axis.log:
        number, low, high = (math.log(max(one, axis.minimum)) for one in (number, low, high))
    return min(max((number - low) / (high - low), 0.0), 1.0) if high > low else 0.0


def value_at(axis: Axis, place: float) -> Value:
    """The value at a place of the range; the inverse of `place_on` up to rounding."""
    if axis.type in WORD_TYPES:
        return axis.choices[round(place * (len(axis.choices) - 1))]
    low, high = axis.minimum, axis.maximum
    if place in (0.0, 1.0):
        return axis.plain(high if place else low)  # exactly, whatever the logarithm rounds to
    if axis.log:
        return axis.plain(math.exp(math.log(low) + place * (math.log(high) - math.log(low))))
    return axis.plain(low + place * (high - low))


def levels(axis: Axis, count: int, always: Sequence[Value]) -> list[Value]:
    """`count` values spread evenly over the range, and those of `always` (in place of the nearest one, the
    ends excepted), by size. Words and switches: all of them."""
    if axis.type in WORD_TYPES:
        return list(axis.choices)
    found = [value_at(axis, number / (count - 1)) for number in range(count)]
    kept: list[Value] = []
    for value in dict.fromkeys(always):
        free = [one for one in found if one not in kept]
        inner = [one for one in free if one not in (found[0], found[-1])]
        if value in found or not inner:
            kept.append(value)
            continue
        nearest = min(inner, key=lambda one: abs(place_on(axis, one) - place_on(axis, value)))
        found[found.index(nearest)] = value
        kept.append(value)
    return sorted(dict.fromkeys(found), key=float)


def steps_from(axis: Axis, value: Value) -> list[Value]:
    """The values one step away: down and up, fewer where the range ends. Words: all others."""
    if axis.type in WORD_TYPES:
        return [choice for choice in axis.choices if choice != value]
    here = place_on(axis, value)
    around: list[Value] = []
    for direction in (-1, 1):
        place = here + direction * STEP
        if (direction < 0 and here <= ON_BOUND) or (direction > 0 and here >= 1 - ON_BOUND):
            continue
        moved = value_at(axis, min(max(place, 0.0), 1.0))
        if moved == value:  # a range of few whole numbers
            moved = axis.plain(float(value) + direction)
        if moved != value:
            around.append(moved)
    return around


def bound_of(axis: Axis, value: Value) -> str:
    """`lowest` or `highest` where a number lies on an end of its range, else empty."""
    if axis.type in WORD_TYPES or value in axis.specials:
        return ""
    here = place_on(axis, value)
    return "lowest" if here <= ON_BOUND else "highest" if here >= 1 - ON_BOUND else ""
