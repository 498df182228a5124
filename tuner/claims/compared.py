"""Checks that hold figures to bounds: of a row, of one row to another, or of many rows together."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from statistics import geometric_mean, mean

from tiertune.tuner.claims.check import Check, Selector
from tiertune.tuner.claims.figure import MissingRowError, chosen_by, figure_of, quotient, taken, told_apart
from tiertune.tuner.claims.finding import Finding, label_of, shown, span_of
from tiertune.tuner.sweep.measured import Group


def compared(check: Check, chosen: Sequence[Group], groups: Sequence[Group], label: str) -> Iterator[Finding]:
    """Figures against their bounds, or against another row's."""
    low, high = check.bounds()
    expected = span_of(check, low, high)
    for name, figure in _figures(check, chosen, groups):
        said = f"{label}{_phrase(check, name)}"
        yield Finding(low <= figure <= high, f"{said} = {_told(figure, low, high)}", f"{said}: {expected}")


def together(check: Check, places: Sequence[Sequence[Group]]) -> Finding:
    """One figure of those at all places, against its bounds."""
    assert check.together is not None
    low, high = check.bounds()
    figures: dict[str, float] = {}
    for place in places:
        label, found = label_of(check, place), list(_figures(check, chosen_by(check.of, place), place))
        # Where each place has one figure, the place says which it is.
        alone = label.removesuffix(": ") if len(found) == 1 else ""
        figures |= {alone or f"{label}{name}": figure for name, figure in found}
    one = math.nan
    if not any(map(math.isnan, figures.values())):  # which of them is the lowest would hang on their order
        one = _TOGETHER[check.together](list(figures.values()), 1.0 if check.kind == "ratio" else 0.0)
    over = " and ".join(check.each) or "rows"
    said = f"{check.together.replace('_', ' ')} of {_phrase(check, check.of.said())} over {over}"
    told = ", ".join(f"{name} {_told(figure)}" for name, figure in figures.items())
    measured = f"{said} = {_told(one, low, high)} ({told})"
    return Finding(low <= one <= high, measured, f"{said}: {span_of(check, low, high)}")


def _geometric(figures: Sequence[float]) -> float:
    return geometric_mean(figures) if min(figures) > 0 else math.nan


_TOGETHER: dict[str, Callable[[Sequence[float], float], float]] = {
    "mean": lambda figures, _: mean(figures),
    "geomean": lambda figures, _: _geometric(figures),
    "lowest": lambda figures, _: min(figures),
    "highest": lambda figures, _: max(figures),
    "share_above": lambda figures, equal: mean(figure > equal for figure in figures),
    # Where none is above there is nothing to be far from.
    "mean_above": lambda figures, equal: mean([figure for figure in figures if figure > equal] or [equal]),
}


def _figures(check: Check, chosen: Sequence[Group], groups: Sequence[Group]) -> Iterator[tuple[str, float]]:
    """What is compared, by the name of its row."""
    several = check.of.take == "each" and len(chosen) > 1
    figures = [figure_of(group, check.metric, check.per) for group in chosen]
    names = [check.of.said() if not several else told_apart(group, chosen) for group in chosen]
    if check.of.take != "each":
        figures, names = [taken(check.of, figures)], [check.of.said()]
    for figure, name in zip(figures, names, strict=True):
        compared = figure
        if check.to is not None:
            compared = _between(check, figure, _one(check, check.to, groups))
        if check.against is not None:
            pair = check.against
            other = _between(check, _one(check, pair.of, groups), _one(check, pair.to, groups))
            # Against nothing, or less than nothing, there is no "so many times as much".
            compared = compared / other if other > 0 else math.nan
        yield name, compared


def _phrase(check: Check, name: str) -> str:
    """The comparison of the row of this name in words."""
    said = f"{check.called()} {name}"
    if check.to is not None:
        said = f"{said} {_sign(check)} {check.to.said()}"
    if check.against is not None:
        pair = check.against
        said = f"({said}) / ({pair.of.said()} {_sign(check)} {pair.to.said()})"
    return said


def _told(figure: float, low: float = -math.inf, high: float = math.inf) -> str:
    return "undefined" if math.isnan(figure) else shown(figure, low, high)


def _sign(check: Check) -> str:
    return "-" if check.kind == "difference" else "/"


def _between(check: Check, figure: float, other: float) -> float:
    if check.kind == "difference":
        return figure - other
    return quotient(figure, other)


def _one(check: Check, selector: Selector, groups: Sequence[Group]) -> float:
    """The figure of the one row, or of all together, that a selector means."""
    chosen = chosen_by(selector, groups)
    if selector.take == "each" and len(chosen) > 1:
        raise MissingRowError(f"'{selector.said()}' is {len(chosen)} rows; name more coordinates")
    return taken(selector, [figure_of(group, check.metric, check.per) for group in chosen])
