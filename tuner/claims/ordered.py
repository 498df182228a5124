"""Checks of several rows by their order: ranks, trends, peaks, correlations, best configs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from tiertune.tuner.claims.check import Check, Selector
from tiertune.tuner.claims.figure import MissingRowError, chosen_by, figure_of, quotient, taken, twin_of
from tiertune.tuner.claims.finding import Finding, shown, span_of
from tiertune.tuner.sweep.measured import Group
from tiertune.tuner.sweep.quantity import MINIMIZE, direction_of
from tiertune.tuner.sweep.window import WINDOW


def order(check: Check, groups: Sequence[Group], label: str) -> Finding:
    tiers = []
    for tier in check.rows:
        chosen = [(row, chosen_by(row, groups)) for row in tier]
        several = [row for row, those in chosen if row.take == "each" and len(those) > 1]
        if several:
            raise MissingRowError(f"'{several[0].said()}' is several rows; name more coordinates")
        tiers.append(
            [taken(row, [_figure(check, row, group, groups) for group in those]) for row, those in chosen]
        )
    # What is undefined has no place in an order.
    known = not any(math.isnan(figure) for tier in tiers for figure in tier)
    holds = known and all(max(lower) < min(upper) for lower, upper in pairwise(tiers))
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


def _figure(check: Check, row: Selector, group: Group, groups: Sequence[Group]) -> float:
    figure = figure_of(group, check.metric, check.per)
    if row.divided_by is None:
        return figure
    return quotient(figure, figure_of(twin_of(group, row.divided_by, groups), check.metric, check.per))


def trend(check: Check, chosen: Sequence[Group], label: str) -> Finding:
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


def balance(check: Check, chosen: Sequence[Group], label: str) -> Finding:
    """Whether the figures have one peak, within a step of where `beside` and `per` meet; or one valley, where
    lower is better."""
    line = _line(check, chosen)
    figures = [figure_of(group, check.metric) for group in line]
    assert check.beside is not None
    shares = [figure_of(group, check.beside, check.per) for group in line]
    if wrong := [share for share in shares if not 0.0 < share < math.inf]:
        raise MissingRowError(f"{check.beside} / {check.per} is {wrong[0]:g} in a row, where nothing meets")
    gaps = [abs(math.log(share)) for share in shares]
    sign = _sign(check)
    goods = [sign * figure for figure in figures]
    peak, meeting = goods.index(max(goods)), gaps.index(min(gaps))
    one_peak = all(a < b for a, b in pairwise(goods[: peak + 1])) and all(
        a > b for a, b in pairwise(goods[peak:])
    )
    assert check.over is not None
    at = [group.at.value(check.over) for group in line]
    told = " ".join(f"{figure:.4g}" for figure in figures)
    said = f"{label}{check.metric} over {check.over}"
    return Finding(
        one_peak and abs(peak - meeting) <= 1,
        f"{said}: {told}, {'highest' if sign > 0 else 'lowest'} at {at[peak]},"
        f" {check.beside} meets {check.per} at {at[meeting]}",
        f"{said}: one {'peak' if sign > 0 else 'valley'}, within a step of where {check.beside} meets"
        f" {check.per}",
    )


def _sign(check: Check) -> float:
    """1 where higher is better, or neither; -1 where lower is."""
    from tiertune import engine

    directions = {metric.name: metric.direction for metric in engine.metrics()}
    of = check.metric
    if of.startswith(WINDOW):  # a column of the series is named like the metric that it is of
        of = of.rpartition(".")[0].rpartition(".")[2]
    return -1.0 if direction_of(of, directions) == MINIMIZE else 1.0


def _line(check: Check, chosen: Sequence[Group]) -> Sequence[Group]:
    assert check.over is not None
    values = [group.at.value(check.over) for group in chosen]
    if len(set(values)) != len(values) or len(values) < 2:
        raise MissingRowError(
            f"'{check.of.said()}' has {len(values)} rows for {len(set(values))} values of {check.over};"
            " a trend needs one for each, and two or more"
        )
    return chosen


def correlation(check: Check, chosen: Sequence[Group], label: str) -> Finding:
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
    measured = f"{said} = {shown(found, low, high, least_digits=3)}"
    return Finding(low <= found <= high, measured, f"{said}: {span_of(check, low, high)}")


def optima(check: Check, chosen: Sequence[Group], label: str) -> Finding:
    """Whether no two values of a coordinate have the same best config, each `least` times its worst one."""
    assert check.over is not None
    assert check.least is not None
    places: dict[str, dict[str, float]] = {}
    for group in chosen:
        figures = places.setdefault(group.at.value(check.over), {})
        figures[group.at.config] = figure_of(group, check.metric, check.per)
    if len(places) < 2 or min(map(len, places.values())) < 2:
        raise MissingRowError(f"'{check.of.said()}' has no two configs at two values of {check.over} each")
    sign = _sign(check)
    best = {place: max(figures, key=lambda name: sign * figures[name]) for place, figures in places.items()}
    spans = {
        place: quotient(max(figures.values()), min(figures.values())) for place, figures in places.items()
    }
    told = ", ".join(f"{place}: {best[place]}, {spans[place]:.4g} times the worst" for place in places)
    said = f"{label}best {check.called()} over {check.over}"
    return Finding(
        len(set(best.values())) == len(best) and all(span >= check.least for span in spans.values()),
        f"{said}: {told}",
        f"{said}: another config each time, at least {check.least:.4g} times the worst",
    )
