"""A conclusion measured on every sample of the model, and the verdict on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from tiertune.tuner.backend import Notify
from tiertune.tuner.sensitivity.conclusion import Conclusion, Scene
from tiertune.tuner.sensitivity.parameters import Sample, Uncertain, changed_machine
from tiertune.tuner.statistics import interval
from tiertune.tuner.sweep.measurement import Progress, measure
from tiertune.tuner.sweep.row import PlannedRow, Result, Run, Setting
from tiertune.tuner.trial import Status

MOST = 0.9
"""A conclusion that holds in this share of the models, and not in all, is robust in most."""


class Verdict(StrEnum):
    """How a conclusion fares over the models."""

    ROBUST = "robust"
    MOSTLY = "mostly robust"
    NOT_ROBUST = "not robust"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Swing:
    """What one parameter alone does: leads at both ends, in percent; None where a run failed."""

    parameter: Uncertain
    low_pct: float | None
    high_pct: float | None

    def size(self) -> float:
        """How far apart the ends are."""
        if self.low_pct is None or self.high_pct is None:
            return 0.0
        return abs(self.high_pct - self.low_pct)


@dataclass(frozen=True)
class SceneStudy:
    """A scene's leads of `better` over `worse`, in percent: how much faster, by the workload's own metric."""

    name: str
    nominal_pct: float | None
    swings: tuple[Swing, ...]
    together_pct: tuple[float | None, ...]
    holding: int
    measured: int
    verdict: Verdict
    models: int
    """How many were tried; `measured` are those of which no run failed."""
    errors: tuple[str, ...] = ()
    """Why runs failed, each reason once."""
    seeds: int = 1
    nominal_interval_pct: tuple[float, float] | None = None
    """95 % interval of the nominal lead, of the mean over paired seeds; None with one seed."""

    def document(self) -> dict[str, Any]:
        """The scene as plain data."""
        return {
            "scene": self.name,
            "nominal_lead_pct": self.nominal_pct,
            "nominal_interval_pct": None
            if self.nominal_interval_pct is None
            else [*self.nominal_interval_pct],
            "seeds": self.seeds,
            "verdict": str(self.verdict),
            "errors": list(self.errors),
            "models": self.measured,
            "models_where_it_holds": self.holding,
            "one_at_a_time": [
                {
                    "parameter": swing.parameter.name,
                    "low": swing.parameter.low,
                    "lead_at_low_pct": swing.low_pct,
                    "high": swing.parameter.high,
                    "lead_at_high_pct": swing.high_pct,
                }
                for swing in self.swings
            ],
            "together_lead_pct": list(self.together_pct),
        }


def run_study(
    conclusion: Conclusion,
    scenes: Sequence[Scene],
    samples: Sequence[Sample],
    parameters: Sequence[Uncertain],
    results: Path,
    *,
    jobs: int,
    fresh: bool,
    notify: Notify,
    listener: Callable[[Progress], None],
) -> list[SceneStudy]:
    """Measures both sides of every scene on every sample, through the cache of sweeps, and judges."""
    settings: dict[tuple[str, int], Setting] = {}
    planned: dict[tuple[int, int, str], list[PlannedRow]] = {}
    for number, sample in enumerate(samples):
        for place, scene in enumerate(scenes):
            for side, rows in (("better", scene.better), ("worse", scene.worse)):
                planned[place, number, side] = [_changed(row, sample, number, settings) for row in rows]
    found = measure(
        [plan for plans in planned.values() for plan in plans],
        results,
        jobs=jobs,
        fresh=fresh,
        timelines=False,
        notify=notify,
        listener=listener,
        baselines=False,
    )
    studies = []
    for place, scene in enumerate(scenes):
        leads = [
            lead_pct(planned[place, number, "better"], planned[place, number, "worse"], found)
            for number in range(len(samples))
        ]
        study = judged(scene.name, conclusion, samples, parameters, leads)
        sides = [
            planned[place, number, side] for number in range(len(samples)) for side in ("better", "worse")
        ]
        nominal = by_seed(scene.better, scene.worse, found)
        studies.append(
            replace(
                study,
                errors=_errors([row for side in sides for row in side], found),
                seeds=max(1, len(nominal)),
                nominal_interval_pct=interval_pct(nominal),
            )
        )
    return studies


def judged(
    name: str,
    conclusion: Conclusion,
    samples: Sequence[Sample],
    parameters: Sequence[Uncertain],
    leads: Sequence[float | None],
) -> SceneStudy:
    """The verdict on leads in percent, one a sample: the conclusion holds where a lead is above its own."""
    by_name = {(sample.kind, sample.name): lead for sample, lead in zip(samples, leads, strict=True)}
    swings = tuple(
        Swing(parameter, by_name[("low", parameter.name)], by_name[("high", parameter.name)])
        for parameter in parameters
    )
    together = tuple(lead for sample, lead in zip(samples, leads, strict=True) if sample.kind == "together")
    measured = [lead for lead in leads if lead is not None]
    holding = sum(lead > conclusion.by_pct for lead in measured)
    if len(measured) < len(leads):
        verdict = Verdict.NOT_MEASURED
    elif holding == len(measured):
        verdict = Verdict.ROBUST
    elif holding >= MOST * len(measured):
        verdict = Verdict.MOSTLY
    else:
        verdict = Verdict.NOT_ROBUST
    return SceneStudy(
        name,
        by_name[("nominal", "nominal")],
        tuple(sorted(swings, key=Swing.size, reverse=True)),
        together,
        holding,
        len(measured),
        verdict,
        len(leads),
    )


def overall(studies: Sequence[SceneStudy]) -> Verdict:
    """The verdict on all scenes: the worst of them."""
    order = [Verdict.NOT_MEASURED, Verdict.NOT_ROBUST, Verdict.MOSTLY, Verdict.ROBUST]
    return min((study.verdict for study in studies), key=order.index)


def _changed(
    row: PlannedRow, sample: Sample, number: int, settings: dict[tuple[str, int], Setting]
) -> PlannedRow:
    run = row.run
    assert run is not None
    if not sample.values:
        return row
    key = (run.setting.key, number)
    if key not in settings:
        setting = run.setting
        machine = changed_machine(setting.machine, sample.values)
        settings[key] = Setting(setting.workload, machine, setting.threads, setting.page_bytes)
    return replace(row, run=replace(run, setting=settings[key]))


def lead_pct(
    better: Sequence[PlannedRow], worse: Sequence[PlannedRow], found: Mapping[str, Result]
) -> float | None:
    """How much faster one side is in percent, the geometric mean over paired seeds; None where a run failed
    or has no partner."""
    logs = by_seed(better, worse, found)
    if not logs or not len(logs) == len(better) == len(worse):
        return None
    return 100.0 * math.expm1(sum(logs) / len(logs))


def by_seed(
    better: Sequence[PlannedRow], worse: Sequence[PlannedRow], found: Mapping[str, Result]
) -> list[float]:
    """Natural logs of how many times faster one side is, by seed; seeds on which a run failed are left
    out."""
    others = {row.at.seed: row.run for row in worse}
    logs = []
    for row in better:
        mine, other = row.run, others.get(row.at.seed)
        if mine is None or other is None:
            continue
        values = _metric(mine, found), _metric(other, found)
        if values[0] and values[1]:
            faster = math.log(values[1] / values[0])
            logs.append(-faster if mine.setting.workload.metric.direction == "maximize" else faster)
    return logs


def interval_pct(logs: Sequence[float]) -> tuple[float, float] | None:
    """95 % interval of the lead that these have in the mean; None for one seed."""
    if len(logs) < 2:
        return None
    low, high = interval(logs)
    return 100.0 * math.expm1(low), 100.0 * math.expm1(high)


def _errors(rows: Sequence[PlannedRow], found: Mapping[str, Result]) -> tuple[str, ...]:
    results = (found.get(row.run.key) for row in rows if row.run is not None)
    said = (f"{result.status}: {result.error}" for result in results if result and result.status != Status.OK)
    return tuple(dict.fromkeys(said))


def _metric(run: Run, found: Mapping[str, Result]) -> float | None:
    result = found.get(run.key)
    if result is None or result.status != Status.OK:
        return None
    return result.metrics[run.setting.workload.metric.name]
