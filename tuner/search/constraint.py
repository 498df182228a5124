"""Bounds that a config must keep to be handed over, however fast it is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Constraint:
    """`metric` is at most (or at least) a bound, in the metric's unit or as a multiple of the default's
    value."""

    metric: str
    at_most: float | None = None
    at_least: float | None = None
    of_default: bool = False

    def kept(self, metrics: Mapping[str, float], default: Mapping[str, float] | None) -> bool:
        """Whether `metrics` keep the bound. A value that is missing or no number does not; nor does anything
        while the default's value is not known and the bound is relative to it."""
        value = metrics.get(self.metric)
        if value is None or not math.isfinite(value):
            return False
        scale = 1.0
        if self.of_default:
            reference = None if default is None else default.get(self.metric)
            if reference is None or not math.isfinite(reference):
                return False
            scale = reference
        if self.at_most is not None and value > self.at_most * scale:
            return False
        return self.at_least is None or value >= self.at_least * scale

    def __str__(self) -> str:
        bounds = [("at most", self.at_most), ("at least", self.at_least)]
        unit = " x default" if self.of_default else ""
        said = " and ".join(f"{word} {bound:g}{unit}" for word, bound in bounds if bound is not None)
        return f"{self.metric} {said}"


def constraints_of(campaign: Mapping[str, Any]) -> tuple[Constraint, ...]:
    """Those of a campaign's document, as journals hold it."""
    return tuple(Constraint(**entry) for entry in campaign.get("constraints", ()))


def broken(
    constraints: Sequence[Constraint], metrics: Mapping[str, float], default: Mapping[str, float] | None
) -> list[Constraint]:
    """Those that `metrics` do not keep."""
    return [constraint for constraint in constraints if not constraint.kept(metrics, default)]


def counts(
    constraints: Sequence[Constraint],
    number: int,
    metrics: Mapping[str, float],
    default: Mapping[str, float] | None,
) -> bool:
    """Whether a search trial may be the best so far: one that keeps the constraints, and the first, which a
    search falls back to. `default` are the metrics of that."""
    return number == 0 or not broken(constraints, metrics, default)


def means(many: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Mean of each metric that all of `many` have."""
    names = set.intersection(*[set(one) for one in many]) if many else set()
    return {name: sum(one[name] for one in many) / len(many) for name in sorted(names)}
