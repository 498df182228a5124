"""Rows that a selector means, and their figures: medians over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import mean, median

from tiertune.tuner.claims.check import Position, Selector
from tiertune.tuner.claims.definition import PERFORMANCE
from tiertune.tuner.sweep.measured import KNOB, Group

CONVERGENCE, LAST_CHANGE = "convergence_s", "last_change_s"


class MissingRowError(Exception):
    """A check names a row or figure that the sweep does not have. One sentence."""


def chosen_by(selector: Selector, groups: Sequence[Group]) -> list[Group]:
    """The groups that a selector means, at least one; raises `MissingRowError`."""
    wanted = selector.coordinates()
    found = [
        group
        for group in groups
        if all(getattr(group.at, name) == value for name, value in wanted.items())
        and (selector.systems is None or group.at.system in selector.systems)
    ]
    if not found:
        raise MissingRowError(f"the sweep has no row '{selector.said()}'")
    if selector.best_by is not None:
        by = selector.best_by
        return [max(found, key=lambda group: figure_of(group, by))]
    return found


def twin_of(group: Group, at: Position, groups: Sequence[Group]) -> Group:
    """The group that differs from `group` in the coordinates `at` alone; raises `MissingRowError`."""
    given = at.coordinates()
    wanted = {name: given.get(name, getattr(group.at, name)) for name in group.at.__dataclass_fields__}
    for other in groups:
        if all(getattr(other.at, name) == value for name, value in wanted.items()):
            return other
    where = " ".join(str(value) for name, value in wanted.items() if name != "seed")
    raise MissingRowError(f"the sweep has no row '{where}'")


def taken(selector: Selector, figures: Sequence[float]) -> float:
    ways: dict[str, Callable[[Sequence[float]], float]] = {
        "lowest": min,
        "highest": max,
        "mean": mean,
        "median": median,
    }
    return ways[selector.take](figures) if selector.take in ways else figures[0]


def told_apart(group: Group, groups: Sequence[Group]) -> str:
    """The coordinates in which a group differs from the others."""
    names = [name for name in group.at.__dataclass_fields__ if name not in ("part", "seed")]
    different = [name for name in names if len({getattr(other.at, name) for other in groups}) > 1]
    return " ".join(str(getattr(group.at, name)) for name in different)


def figure_of(group: Group, metric: str, per: str | None = None) -> float:
    """The median over seeds of a figure of a group; raises `MissingRowError` when there is none.

    With `per` that figure is divided by another one of the group. What has a change to
    settle after, and has not by the end of half its runs or more, takes for ever.
    """
    if metric.startswith(KNOB):
        return _knob(group, metric.removeprefix(KNOB), per)
    spread = group.spreads.get("slowdown" if metric == PERFORMANCE else metric)
    if metric == CONVERGENCE and LAST_CHANGE in group.spreads and _unsettled(group):
        return math.inf
    if spread is None:
        raise MissingRowError(f"{group.at.system} has no '{metric}' ({', '.join(group.statuses)})")
    figure = 1 / spread.median if metric == PERFORMANCE else spread.median
    if per is None:
        return figure
    other = figure_of(group, per)
    return figure / other if other else math.inf


def _unsettled(group: Group) -> bool:
    settled = group.spreads.get(CONVERGENCE)
    return settled is None or 2 * settled.seeds <= group.spreads[LAST_CHANGE].seeds


def _knob(group: Group, name: str, per: str | None) -> float:
    if name not in group.knobs:
        raise MissingRowError(f"{group.at.system} has no number for knob {name} in config {group.at.config}")
    if per is None:
        return group.knobs[name]
    other = figure_of(group, per)
    return group.knobs[name] / other if other else math.inf
