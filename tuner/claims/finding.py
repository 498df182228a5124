"""What a check came to, and the words that all kinds of checks share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tiertune.tuner.claims.check import Check
from tiertune.tuner.sweep.measured import Group


@dataclass(frozen=True)
class Finding:
    """What one check came to, at one place of its `each`."""

    holds: bool
    measured: str
    expected: str


def label_of(check: Check, groups: Sequence[Group]) -> str:
    """Where a finding is, by the coordinates of `each`."""
    return "".join(f"{groups[0].at.value(name)}: " for name in check.each)


def shown(figure: float, low: float, high: float, least_digits: int = 4) -> str:
    """A figure with as many digits as show on which side of its bounds it is, or as many as are wanted."""
    for digits in range(least_digits, 17):
        text = f"{figure:.{digits}g}"
        if (low <= float(text) <= high) == (low <= figure <= high):
            break
    return text


def span_of(check: Check, low: float, high: float) -> str:
    if check.expected is not None:
        return f"{check.expected:.4g} ({low:.4g} to {high:.4g})"
    if math.isinf(high):
        return f"at least {low:.4g}"
    return f"at most {high:.4g}" if math.isinf(low) else f"{low:.4g} to {high:.4g}"
