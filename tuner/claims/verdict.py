"""Claims against measured groups: met, missed by how much, or not checkable and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import mean, median

from tiertune.tuner.claims.check import Check, Selector
from tiertune.tuner.claims.definition import PERFORMANCE, Claim
from tiertune.tuner.sweep.measured import KNOB, Group

CONVERGENCE, LAST_CHANGE = "convergence_s", "last_change_s"


class Verdict(StrEnum):
    """How a claim fares."""

    MET = "met"
    MISSED = "missed"
    NOT_CHECKABLE = "not-checkable"


class MissingRowError(Exception):
    """A check names a row or figure that the sweep does not have. One sentence."""


@dataclass(frozen=True)
class Finding:
    """What one check came to, at one place of its `each`."""

    holds: bool
    measured: str
    expected: str


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict; `measured` and `expected` are those of its checks, failed ones first."""

    claim: Claim
    verdict: Verdict
    measured: str
    expected: str
    reason: str
    findings: tuple[Finding, ...] = ()

    def document(self) -> dict[str, str]:
        """One row of the scoreboard."""
        claim = self.claim
        return {
            "id": claim.id,
            "paper": claim.paper,
            "gate": claim.gate,
            "verdict": self.verdict,
            "measured": self.measured,
            "expected": self.expected,
            "reason": self.reason,
            "statement": claim.statement,
            "where": claim.where,
        }


def judge(claim: Claim, groups: Sequence[Group]) -> Judged:
    """The verdict on `claim` by the groups of its sweep."""
    if claim.not_checkable is not None:
        return Judged(claim, Verdict.NOT_CHECKABLE, "", "", claim.not_checkable)
    broken = [
        f"{group.at.system}: {error}"
        for group in groups
        for (_, error) in group.errors
        if "ok" not in group.statuses
    ]
    findings: list[Finding] = []
    failed: list[Finding] = []
    try:
        for check in claim.checks:
            places = list(_places(check, groups))
            found = [finding for place in places for finding in _findings(check, place)]
            misses = [finding for finding in found if not finding.holds]
            findings += found
            if len(misses) > check.misses_allowed:
                failed += misses
    except MissingRowError as missing:
        return Judged(claim, Verdict.NOT_CHECKABLE, "", "", "; ".join([str(missing), *broken[:3]]))
    told = failed or findings
    verdict = Verdict.MISSED if failed else Verdict.MET
    return Judged(
        claim,
        verdict,
        "; ".join(dict.fromkeys(finding.measured for finding in told)),
        "; ".join(dict.fromkeys(finding.expected for finding in told)),
        (claim.if_missed or "") if failed else "",
        tuple(findings),
    )


def _places(check: Check, groups: Sequence[Group]) -> Iterator[Sequence[Group]]:
    """The groups that each evaluation of a check is about."""
    if not check.each:
        yield groups
        return
    keys = dict.fromkeys(tuple(group.at.value(name) for name in check.each) for group in groups)
    for key in keys:
        yield [group for group in groups if tuple(group.at.value(name) for name in check.each) == key]


def _findings(check: Check, groups: Sequence[Group]) -> Iterator[Finding]:
    label = "".join(f"{groups[0].at.value(name)}: " for name in check.each)
    if check.kind == "order":
        yield _order(check, groups, label)
        return
    chosen = chosen_by(check.of, groups)
    if check.kind == "trend":
        yield _trend(check, chosen, label)
    elif check.kind == "balance":
        yield _balance(check, chosen, label)
    elif check.kind == "optima":
        yield _optima(check, chosen, label)
    elif check.kind == "correlation":
        yield _correlation(check, chosen, label)
    else:
        yield from _compared(check, chosen, groups, label)


def _compared(
    check: Check, chosen: Sequence[Group], groups: Sequence[Group], label: str
) -> Iterator[Finding]:
    """Figures against their bounds, or against another row's."""
    low, high = check.bounds()
    expected = _range(check, low, high)
    several = check.of.take == "each" and len(chosen) > 1
    figures = [figure_of(group, check.metric, check.per) for group in chosen]
    names = [check.of.said() if not several else _told_apart(group, chosen) for group in chosen]
    if check.of.take != "each":
        figures, names = [_taken(check.of, figures)], [check.of.said()]
    for figure, name in zip(figures, names, strict=True):
        said = f"{label}{check.called()} {name}"
        if check.to is not None:
            figure = _between(check, figure, _one(check, check.to, groups))
            said = f"{said} {_sign(check)} {check.to.said()}"
        if check.against is not None:
            pair = check.against
            other = _between(check, _one(check, pair.of, groups), _one(check, pair.to, groups))
            # Against nothing, or less than nothing, there is no "so many times as much".
            figure = figure / other if other > 0 else math.nan
            said = f"({said}) / ({pair.of.said()} {_sign(check)} {pair.to.said()})"
        told = "undefined" if math.isnan(figure) else f"{figure:.4g}"
        yield Finding(low <= figure <= high, f"{said} = {told}", f"{said}: {expected}")


def _sign(check: Check) -> str:
    return "-" if check.kind == "difference" else "/"


def _between(check: Check, figure: float, other: float) -> float:
    if check.kind == "difference":
        return figure - other
    return figure / other if other else math.inf


def _one(check: Check, selector: Selector, groups: Sequence[Group]) -> float:
    """The figure of the one row, or of all together, that a selector means."""
    chosen = chosen_by(selector, groups)
    if selector.take == "each" and len(chosen) > 1:
        raise MissingRowError(f"'{selector.said()}' is {len(chosen)} rows; name more coordinates")
    return _taken(selector, [figure_of(group, check.metric, check.per) for group in chosen])


def _taken(selector: Selector, figures: Sequence[float]) -> float:
    ways: dict[str, Callable[[Sequence[float]], float]] = {
        "lowest": min,
        "highest": max,
        "mean": mean,
        "median": median,
    }
    return ways[selector.take](figures) if selector.take in ways else figures[0]


def _told_apart(group: Group, groups: Sequence[Group]) -> str:
    """The coordinates in which a group differs from the others."""
    names = [name for name in group.at.__dataclass_fields__ if name not in ("part", "seed")]
    different = [name for name in names if len({getattr(other.at, name) for other in groups}) > 1]
    return " ".join(str(getattr(group.at, name)) for name in different)


def _order(check: Check, groups: Sequence[Group], label: str) -> Finding:
    tiers = []
    for tier in check.rows:
        chosen = [(row, chosen_by(row, groups)) for row in tier]
        several = [row for row, those in chosen if row.take == "each" and len(those) > 1]
        if several:
            raise MissingRowError(f"'{several[0].said()}' is several rows; name more coordinates")
        tiers.append(
            [
                _taken(row, [figure_of(group, check.metric, check.per) for group in those])
                for row, those in chosen
            ]
        )
    holds = all(max(lower) < min(upper) for lower, upper in pairwise(tiers))
    names = [[row.said() for row in tier] for tier in check.rows]
    flat = sorted(
        (figure, name)
        for tier, those in zip(tiers, names, strict=True)
        for figure, name in zip(tier, those, strict=True)
    )
    measured = " < ".join(f"{name} {figure:.4g}" for figure, name in flat)
    return Finding(
        holds, f"{label}{check.called()}: {measured}", label + " < ".join("|".join(tier) for tier in names)
    )


def _trend(check: Check, chosen: Sequence[Group], label: str) -> Finding:
    """Whether figures rise or fall along a coordinate, in the order of the sweep, but for some slack."""
    figures = [figure_of(group, check.metric, check.per) for group in _line(check, chosen)]
    sign = 1.0 if check.direction == "rising" else -1.0
    slack = check.slack_pct / 100.0
    steps = all(sign * (b - a) >= -slack * abs(a) for a, b in pairwise(figures))
    said = f"{label}{check.called()} {check.of.said()} over {check.over}"
    told = " ".join(f"{figure:.4g}" for figure in figures)
    return Finding(
        steps and sign * (figures[-1] - figures[0]) > 0, f"{said}: {told}", f"{said}: {check.direction}"
    )


def _balance(check: Check, chosen: Sequence[Group], label: str) -> Finding:
    """Whether the figures have one peak, within a step of where `beside` and `per` meet."""
    line = _line(check, chosen)
    figures = [figure_of(group, check.metric) for group in line]
    assert check.beside is not None
    gaps = [abs(math.log(figure_of(group, check.beside, check.per))) for group in line]
    peak, meeting = figures.index(max(figures)), gaps.index(min(gaps))
    one_peak = all(a < b for a, b in pairwise(figures[: peak + 1])) and all(
        a > b for a, b in pairwise(figures[peak:])
    )
    assert check.over is not None
    at = [group.at.value(check.over) for group in line]
    told = " ".join(f"{figure:.4g}" for figure in figures)
    said = f"{label}{check.metric} over {check.over}"
    return Finding(
        one_peak and abs(peak - meeting) <= 1,
        f"{said}: {told}, highest at {at[peak]}, {check.beside} meets {check.per} at {at[meeting]}",
        f"{said}: one peak, within a step of where {check.beside} meets {check.per}",
    )


def _line(check: Check, chosen: Sequence[Group]) -> Sequence[Group]:
    assert check.over is not None
    values = [group.at.value(check.over) for group in chosen]
    if len(set(values)) != len(values) or len(values) < 2:
        raise MissingRowError(
            f"'{check.of.said()}' has {len(values)} rows for {len(set(values))} values of {check.over};"
            " a trend needs one for each, and two or more"
        )
    return chosen


def _correlation(check: Check, chosen: Sequence[Group], label: str) -> Finding:
    """Spearman's correlation of two figures over rows."""
    from scipy.stats import spearmanr

    assert check.beside is not None
    first = [figure_of(group, check.metric, check.per) for group in chosen]
    other = [figure_of(group, check.beside) for group in chosen]
    if len(chosen) < 3:
        raise MissingRowError(f"'{check.of.said()}' is {len(chosen)} rows; a correlation needs three or more")
    found = float(spearmanr(first, other).statistic)
    low, high = check.bounds()
    said = f"{label}rank correlation of {check.called()} with {check.beside}"
    return Finding(low <= found <= high, f"{said} = {found:.3g}", f"{said}: {_range(check, low, high)}")


def _optima(check: Check, chosen: Sequence[Group], label: str) -> Finding:
    """Whether no two values of a coordinate have the same best config, each `least` times its worst one."""
    assert check.over is not None
    assert check.least is not None
    places: dict[str, dict[str, float]] = {}
    for group in chosen:
        figures = places.setdefault(group.at.value(check.over), {})
        figures[group.at.config] = figure_of(group, check.metric, check.per)
    if len(places) < 2 or min(map(len, places.values())) < 2:
        raise MissingRowError(f"'{check.of.said()}' has no two configs at two values of {check.over} each")
    best = {place: max(figures, key=lambda name: figures[name]) for place, figures in places.items()}
    spans = {place: max(figures.values()) / min(figures.values()) for place, figures in places.items()}
    told = ", ".join(f"{place}: {best[place]}, {spans[place]:.4g} times the worst" for place in places)
    said = f"{label}best {check.called()} over {check.over}"
    return Finding(
        len(set(best.values())) == len(best) and min(spans.values()) >= check.least,
        f"{said}: {told}",
        f"{said}: another config each time, at least {check.least:.4g} times the worst",
    )


def _range(check: Check, low: float, high: float) -> str:
    if check.expected is not None:
        return f"{check.expected:.4g} ({low:.4g} to {high:.4g})"
    if math.isinf(high):
        return f"at least {low:.4g}"
    return f"at most {high:.4g}" if math.isinf(low) else f"{low:.4g} to {high:.4g}"


def chosen_by(selector: Selector, groups: Sequence[Group]) -> list[Group]:
    """The groups that a selector means, at least one; raises `MissingRowError`."""
    wanted = selector.coordinates()
    found = [
        group for group in groups if all(getattr(group.at, name) == value for name, value in wanted.items())
    ]
    if not found:
        raise MissingRowError(f"the sweep has no row '{selector.said()}'")
    if selector.best_by is not None:
        by = selector.best_by
        return [max(found, key=lambda group: figure_of(group, by))]
    return found


def _unsettled(group: Group) -> bool:
    settled = group.spreads.get(CONVERGENCE)
    return settled is None or 2 * settled.seeds <= group.spreads[LAST_CHANGE].seeds


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


def _knob(group: Group, name: str, per: str | None) -> float:
    if name not in group.knobs:
        raise MissingRowError(f"{group.at.system} has no number for knob {name} in config {group.at.config}")
    if per is None:
        return group.knobs[name]
    other = figure_of(group, per)
    return group.knobs[name] / other if other else math.inf
