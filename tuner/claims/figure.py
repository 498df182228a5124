"""Rows that a selector means, and their figures: medians over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import mean, median

from tiertune.tuner.claims.check import Position, Selector
from tiertune.tuner.claims.definition import PERFORMANCE
from tiertune.tuner.sweep.measured import CONVERGENCE, KNOB, Group
from tiertune.tuner.trial import Status


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
    if any(map(math.isnan, figures)):  # lowest and highest would hang on their order
        return math.nan
    ways: dict[str, Callable[[Sequence[float]], float]] = {
        "lowest": min,
        "highest": max,
        "mean": mean,
        "median": median,
    }
    return ways[selector.take](figures) if selector.take in ways else figures[0]


def quotient(figure: float, other: float) -> float:
    """`figure / other`; of nothing to nothing there is no "so many times as much"."""
    if other:
        return figure / other
    return math.copysign(math.inf, figure) if figure else math.nan


def told_apart(group: Group, groups: Sequence[Group]) -> str:
    """The coordinates in which a group differs from the others."""
    names = [name for name in group.at.__dataclass_fields__ if name not in ("part", "seed")]
    different = [name for name in names if len({getattr(other.at, name) for other in groups}) > 1]
    return " ".join(str(getattr(group.at, name)) for name in different)


def figure_of(group: Group, metric: str, per: str | None = None) -> float:
    """The median over seeds of a figure of a group; raises `MissingRowError` when there is none.

    With `per` that figure is divided by another one of the group. What has a change to
    settle after, and has not by the end of a run, takes for ever there. Of seeds that failed, or have no
    such figure, the others say nothing.
    """
    lost = [f"{count} {status}" for status, count in group.statuses.items() if status != Status.OK]
    if lost and Status.OK in group.statuses:
        raise MissingRowError(f"{group.at.system} was not measured on every seed ({', '.join(lost)})")
    if metric.startswith(KNOB):
        return _knob(group, metric.removeprefix(KNOB), per)
    spread = group.spreads.get("slowdown" if metric == PERFORMANCE else metric)
    if metric == CONVERGENCE and group.settled is not None:
        figure = group.settled
    elif spread is None:
        raise MissingRowError(f"{group.at.system} has no '{metric}' ({', '.join(group.statuses)})")
    elif spread.seeds < group.statuses[Status.OK]:
        seeds = group.statuses[Status.OK]
        raise MissingRowError(f"{group.at.system} has '{metric}' on {spread.seeds} of {seeds} seeds only")
    else:
        figure = 1 / spread.median if metric == PERFORMANCE else spread.median
    return figure if per is None else quotient(figure, figure_of(group, per))


def _knob(group: Group, name: str, per: str | None) -> float:
    if name not in group.knobs:
        raise MissingRowError(f"{group.at.system} has no number for knob {name} in config {group.at.config}")
    return group.knobs[name] if per is None else quotient(group.knobs[name], figure_of(group, per))
