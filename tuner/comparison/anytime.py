"""How good the best trial so far is, over the trials and over the simulated time that a search has spent."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tiertune.tuner.comparison.document import Curve
from tiertune.tuner.comparison.measured import Journals, Measured, cells_of
from tiertune.tuner.comparison.references import yardstick_cell
from tiertune.tuner.journal import Row
from tiertune.tuner.plan import CampaignPlan
from tiertune.tuner.search.best import costs_that_count
from tiertune.tuner.search.constraint import Constraint
from tiertune.tuner.sweep.row import ALL_FAST
from tiertune.tuner.trial import Scenario

Array = np.ndarray
TRIALS, TIME = "trials", "simulated time"
POINTS = 60
QUARTILES = (0.5, 0.25, 0.75)
Path = tuple[Array, Array]
Paths = dict[str, list[list[Path]]]
"""By contender and search, the path of each scenario."""


def curves_of(plan: CampaignPlan, journals: Journals, measured: Measured) -> list[Curve]:
    """Both kinds of curves for every contender.

    A search's value is the geometric mean over scenarios of its best cost so far against all-fast; quartiles
    are over searches. The best of single runs is flattered by luck, at every point alike.
    """
    cells = cells_of(plan)
    base = {
        scene.scenario.key: (float(measured.all_fast[s].mean()), _all_fast_s(scene.scenario, journals))
        for s, scene in enumerate(measured.scenes)
    }
    paths: Paths = {}
    for name in measured.contenders:
        searches: list[list[Path]] = []
        for (key, contender), group in cells.items():
            if contender != name:
                continue
            searches = searches or [[] for _ in group]
            for own, cell in zip(searches, group, strict=True):
                own.append(_path(journals.search.get(cell.key, []), *base[key], plan.rules.constraints))
        paths[name] = searches
    return [curve for axis in (TRIALS, TIME) for curve in _curves(axis, paths)]


def _all_fast_s(scenario: Scenario, journals: Journals) -> float:
    """Simulated seconds of a run of all-fast, NaN where none worked."""
    rows = journals.references.get(yardstick_cell(scenario, ALL_FAST), [])
    return float(np.mean([row.metrics.get("runtime_s", math.nan) for row in rows])) if rows else math.nan


def _path(
    rows: Sequence[Row], base: float, run_s: float, rules: Sequence[Constraint] = ()
) -> tuple[Array, Array]:
    """After each trial: simulated time spent, in runs of all-fast (`run_s` each, whose cost is `base`), and
    log slowdown of the best so far.

    A failed trial costs what it reached, if it says so, and improves nothing; nor does one that breaks one of
    `rules`.
    """
    spent, best = [], []
    total, reached = 0.0, math.inf
    for row, cost in zip(rows, costs_that_count(rows, rules), strict=True):
        seconds = row.metrics.get("runtime_s", 0.0)
        total += seconds if math.isfinite(seconds) else 0.0
        if cost is not None:
            reached = min(reached, cost - base)
        spent.append(total)
        best.append(reached)
    return np.array(spent) / run_s, np.array(best)


def _curves(axis: str, paths: Paths) -> list[Curve]:
    lengths = [len(best) for searches in paths.values() for own in searches for _, best in own]
    if not lengths or min(lengths) == 0:
        return []
    made = []
    # Where the first search of any system has spent its time: further right, systems would not be on a par.
    ends = {name: min(_in_runs(own)[-1] for own in searches) for name, searches in paths.items() if searches}
    limit = min(ends.values())
    for name, searches in paths.items():
        if axis == TRIALS:
            cost = np.arange(1.0, min(lengths) + 1.0)
            values = [np.mean([best[: len(cost)] for _, best in own], axis=0) for own in searches]
        else:
            cost = np.linspace(limit / POINTS, limit, POINTS)
            values = [_over_time(own, cost) for own in searches]
        with np.errstate(invalid="ignore"):  # before anything worked, the best so far is infinitely slow
            middle, low, high = np.quantile(np.array(values), QUARTILES, axis=0)
        whole = np.isfinite(middle) & np.isfinite(low) & np.isfinite(high)
        columns = (cost, *(np.exp(line) for line in (middle, low, high)))
        made.append(Curve(name, axis, *(column[whole].tolist() for column in columns)))
    return made


def _in_runs(own: Sequence[Path]) -> list[float]:
    """Total simulated time after each trial, mean over scenarios."""
    return [float(value) for value in np.mean([spent for spent, _ in own], axis=0)]


def _over_time(own: Sequence[Path], cost: Array) -> Array:
    """Mean log slowdown over scenarios when each scenario's search has spent `cost`."""
    lines = []
    for spent, best in own:
        index = np.searchsorted(spent, cost, side="right") - 1
        lines.append(np.where(index >= 0, best[np.maximum(index, 0)], math.inf))
    means: Array = np.mean(lines, axis=0)
    return means
