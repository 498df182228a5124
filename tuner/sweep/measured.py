"""Measured rows: what each came to, against all-fast, against other rows, and over seeds."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from tiertune.tuner.sweep.axes import DEFAULT, Reference
from tiertune.tuner.sweep.row import NOT_APPLICABLE, Coordinates, PlannedRow, Result
from tiertune.tuner.trial import Objective, Status

KNOB = "knob."
"""Before the name of a knob: its value as a figure of a group."""

CONVERGENCE, LAST_CHANGE = "convergence_s", "last_change_s"

EXACT = ("workload", "override", "machine", "fast", "threads", "contention", "seed")
"""Coordinates that a compared row shares unless the comparison names them; `Coordinates` has two more."""


@dataclass
class MeasuredRow:
    """A row with everything that is known of it. `values` are figures by name, derived ones included."""

    plan: PlannedRow
    result: Result
    objective: Objective | None
    values: dict[str, float] = field(default_factory=dict)
    compared_with: dict[str, str | None] = field(default_factory=dict)
    baseline: Result | None = None
    """What slowdowns are against."""

    @property
    def at(self) -> Coordinates:
        """Where it stands."""
        return self.plan.at

    @property
    def ok(self) -> bool:
        """Whether it was measured."""
        return self.result.status == Status.OK

    @property
    def said(self) -> str | None:
        """Why it was not measured, or has no slowdown; None where it has all."""
        base = self.baseline
        if not self.ok or base is None or base.status == Status.OK:
            return self.result.error
        return f"no slowdown, as all-fast is {base.status}: {base.error}"

    @property
    def crashed(self) -> bool:
        """Whether its run did, or that of what slowdowns are against."""
        return Status.CRASHED in (self.result.status, self.baseline.status if self.baseline else "")

    def document(self) -> dict[str, Any]:
        """The row as plain data; time series are kept apart."""
        at = {name: getattr(self.at, name) for name in Coordinates.__dataclass_fields__}
        result = self.result
        return {
            "id": self.plan.id,
            **at,
            "status": result.status,
            "error": self.said,
            "knobs": self.plan.config,
            "traffic": [dict(entry) for entry in self.plan.contention],
            "footprint_bytes": result.footprint_bytes or None,
            "fast_bytes": result.fast_bytes if self.ok else None,
            "metrics": result.metrics,
            "gauges": result.gauges,
            **({"observed": result.observed} if result.observed else {}),
            "derived": {
                name: value
                for name, value in self.values.items()
                if name not in result.metrics
                and name not in result.observed
                and not name.startswith("gauge.")
            },
            "compared_with": self.compared_with,
            "wall_s": result.wall_s,
        }


def measured_rows(
    plans: Sequence[PlannedRow], results: Mapping[str, Result], references: Sequence[Reference]
) -> list[MeasuredRow]:
    """Rows of `plans` that have ended, from the results of their runs and baselines by key."""
    rows = []
    for plan in plans:
        if plan.run is None:
            rows.append(MeasuredRow(plan, Result(NOT_APPLICABLE, error=plan.reason), None))
        elif plan.run.key in results:
            metric = plan.run.setting.workload.metric
            rows.append(MeasuredRow(plan, results[plan.run.key], Objective(metric.name, metric.direction)))
            rows[-1].baseline = results.get(plan.run.baseline().key)
            _own_values(rows[-1])
    for reference in references:
        _compare(rows, reference)
    return rows


def _own_values(row: MeasuredRow) -> None:
    baseline = row.baseline
    if not row.ok or row.objective is None:
        return
    result = row.result
    row.values = {**result.metrics, **{f"gauge.{name}": value for name, value in result.gauges.items()}}
    row.values |= result.observed
    if result.convergence_s is not None:
        row.values[CONVERGENCE] = result.convergence_s
    if result.last_change_s is not None:
        row.values[LAST_CHANGE] = result.last_change_s
    if result.early_promotion_share is not None:
        row.values["early_promotion_share"] = result.early_promotion_share
        row.values["early_promotions"] = result.early_promotion_share * result.metrics["promotions"]
    if baseline is not None and baseline.status == Status.OK:
        worse = _times_worse(row.objective, result.metrics, baseline.metrics)
        row.values |= {"slowdown": worse, "slowdown_pct": 100.0 * (worse - 1.0)}


def _times_worse(objective: Objective, metrics: Mapping[str, float], best: Mapping[str, float]) -> float:
    """How many times worse the workload's own metric is than in `best`; 1 where they are equal."""
    mine, other = metrics[objective.metric], best[objective.metric]
    return mine / other if objective.direction == "minimize" else other / mine


def _compare(rows: Sequence[MeasuredRow], reference: Reference) -> None:
    """Fills in ratios to the referenced rows: `LABEL.METRIC`, `LABEL.speedup`, `LABEL.slowdown_points`."""
    given, label = reference.coordinates(), reference.label
    places: dict[tuple[Any, ...], list[MeasuredRow]] = {}
    for row in rows:
        if all(getattr(row.at, name) == value for name, value in given.items()):
            places.setdefault(_exact(row.at, given), []).append(row)
    for row in rows:
        candidates = [
            found
            for found in places.get(_exact(row.at, given), [])
            if _same_content(row.plan, found.plan, given)
        ]
        other = min(candidates, key=lambda found: _distance(row.at, found.at), default=None)
        if other is None or not _related(row.at, other.at, given):
            row.compared_with[label] = None
            continue
        row.compared_with[label] = other.plan.id
        if row.ok and other.ok and row.objective is not None:
            for name, value in row.result.metrics.items():
                if other.result.metrics.get(name):
                    row.values[f"{label}.{name}"] = value / other.result.metrics[name]
            row.values[f"{label}.speedup"] = 1.0 / _times_worse(
                row.objective, row.result.metrics, other.result.metrics
            )
            if "slowdown_pct" in row.values and "slowdown_pct" in other.values:
                points = row.values["slowdown_pct"] - other.values["slowdown_pct"]
                row.values[f"{label}.slowdown_points"] = points


def _same_content(mine: PlannedRow, other: PlannedRow, given: Mapping[str, object]) -> bool:
    """Names of overrides and contention mean something within a part: what is not compared is equal."""
    if mine.run is None or other.run is None or mine.at.part == other.at.part:
        return True
    here, there = mine.run.setting.documents, other.run.setting.documents
    return (
        (here[0] == there[0] or not given.keys().isdisjoint(("workload", "override")))
        and (here[1] == there[1] or not given.keys().isdisjoint(("machine", "override")))
        and (mine.contention == other.contention or not given.keys().isdisjoint(("contention", "machine")))
    )


def _exact(at: Coordinates, given: Mapping[str, object]) -> tuple[Any, ...]:
    return tuple(given.get(name, getattr(at, name)) for name in EXACT)


def _related(mine: Coordinates, other: Coordinates, given: Mapping[str, object]) -> bool:
    """Another system, config or page size only where the comparison asks for it, or as that system has it."""
    if "system" not in given and mine.system != other.system:
        return False
    elsewhere = "system" in given and mine.system != other.system
    if "config" not in given and mine.config != other.config and not (elsewhere and other.config == DEFAULT):
        return False
    return "page_bytes" in given or mine.page_bytes == other.page_bytes or elsewhere


def _distance(mine: Coordinates, other: Coordinates) -> tuple[bool, ...]:
    """Nearest first: the same system and config where there is a choice, then the default config."""
    same = (mine.system == other.system, mine.config == other.config, other.config == DEFAULT)
    return tuple(not fits for fits in (*same, mine.page_bytes == other.page_bytes, mine.part == other.part))


@dataclass(frozen=True)
class Spread:
    """A figure over seeds."""

    seeds: int
    median: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class Group:
    """Rows that differ in their seed alone: statuses, counted, and figures over the seeds measured."""

    at: Coordinates
    statuses: dict[str, int]
    spreads: dict[str, Spread]
    errors: dict[tuple[str, str], int]
    """How many rows ended with a status and its sentence."""
    knobs: dict[str, float] = field(default_factory=dict)
    """Settings that are numbers, by name."""
    settled: float | None = None
    """Median of `convergence_s` over all seeds, for ever where a run never settles; None without a change."""

    def document(self) -> dict[str, Any]:
        """The group as plain data."""
        at = {name: getattr(self.at, name) for name in Coordinates.__dataclass_fields__ if name != "seed"}
        spreads = {name: spread.__dict__ for name, spread in self.spreads.items()}
        return {**at, "statuses": self.statuses, "statistics": spreads}


def groups_of(rows: Sequence[MeasuredRow]) -> list[Group]:
    """Groups in the order of their first rows. Where seeds failed, a spread says over how many it is."""
    together: dict[Coordinates, list[MeasuredRow]] = {}
    for row in rows:
        together.setdefault(row.at.without_seed(), []).append(row)
    groups = []
    for at, members in together.items():
        statuses: dict[str, int] = {}
        for row in members:
            status = str(row.result.status)
            statuses[status] = statuses.get(status, 0) + 1
        names = dict.fromkeys(name for row in members for name in row.values)
        errors = Counter((str(row.result.status), row.said) for row in members if row.said is not None)
        spreads = {
            name: spread([row.values[name] for row in members if name in row.values]) for name in names
        }
        knobs = {
            name: float(value)
            for name, value in members[0].plan.config.items()
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        }
        groups.append(Group(at, statuses, spreads, dict(errors), knobs, _settled(members)))
    return groups


def _settled(rows: Sequence[MeasuredRow]) -> float | None:
    changed = [row.values for row in rows if LAST_CHANGE in row.values]
    return median(values.get(CONVERGENCE, math.inf) for values in changed) if changed else None


def spread(values: Sequence[float]) -> Spread:
    """Median, lowest and highest of at least one value."""
    return Spread(len(values), median(values), min(values), max(values))


def knobs_text(row: MeasuredRow) -> str:
    """The complete config as JSON, for one column of a table."""
    return json.dumps(row.plan.config, sort_keys=True)


def traffic_text(row: MeasuredRow) -> str:
    """The traffic of co-runners as JSON, likewise."""
    return json.dumps([dict(entry) for entry in row.plan.contention], sort_keys=True)
