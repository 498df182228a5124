"""One cell of a report from the journal: nothing else is read but the engine's declarations."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any, Literal, cast

from tiertune import engine
from tiertune.adapters.registry import adapter_for
from tiertune.engine import KnobInfo
from tiertune.tuner.journal import Journal, Row
from tiertune.tuner.report.document import (
    Cell,
    Effect,
    KnobChange,
    Metric,
    MetricChange,
    Role,
    SearchTrial,
    Timeline,
    ValidationPair,
    Value,
)
from tiertune.tuner.report.front import front_part
from tiertune.tuner.report.hosts import host_part
from tiertune.tuner.report.metrics import metric_of
from tiertune.tuner.search.best import costs_that_count
from tiertune.tuner.search.constraint import Constraint, constraints_of
from tiertune.tuner.trial import Objective, Scenario
from tiertune.tuner.validation import Outcome, outcome
from tiertune.workloads.metrics import of_hosts


def build_cell(
    journal: Journal,
    key: str,
    scenario: Scenario,
    system: str,
    workload: str,
    machine: str,
    objective: Objective,
    *,
    generation: int,
    budget_trials: int,
    threads: int,
    searched: Sequence[str],
    notes: Sequence[str],
    live: bool = False,
) -> Cell:
    """What a report says of one scenario with one system; `searched` are the knobs that were varied."""
    judged = outcome(journal, key, objective, generation)
    search = journal.rows(key, "search")
    everything = journal.rows(key)
    adapter = adapter_for(system)
    default = adapter.resolve(_default_config(judged))
    winner = adapter.resolve(judged.winner.trial.config) if judged.winner else None
    metric = metric_of(objective)
    return Cell(
        id=key,
        system=system,
        workload=workload,
        machine=machine,
        ratio=scenario.ratio,
        threads=threads,
        page_bytes=scenario.page_bytes,
        metric=metric,
        verdict=judged.verdict,
        outcome=_outcome(judged),
        effect=_effect(judged),
        winner_trial=judged.winner.trial.number if judged.winner else None,
        budget_trials=budget_trials,
        statuses=statuses(everything),
        search=search_trials(search, objective, constraints_of(journal.claimed().document["campaign"])),
        validation=pairs(judged, objective),
        metrics=metric_changes(judged),
        knobs=knob_changes(system, default, winner, searched) if winner else [],
        native_block=adapter.native_block(winner) if winner else "",
        timelines=timelines(journal, judged),
        workload_notes=list(notes),
        hosts=host_part(everything, judged, objective, live),
        front=front_part(judged, search, system),
    )


def statuses(rows: Iterable[Row]) -> dict[str, int]:
    """How many trials ended how, `ok` first, then by name."""
    counts = Counter(row.status.value for row in rows)
    return {status: counts[status] for status in sorted(counts, key=lambda status: (status != "ok", status))}


def search_trials(
    rows: Sequence[Row], objective: Objective, rules: Sequence[Constraint] = ()
) -> list[SearchTrial]:
    """The search in order of trials, with the best value so far beside each: of those that keep `rules`, and
    of the first."""
    trials: list[SearchTrial] = []
    best: float | None = None
    for row, cost in zip(rows, costs_that_count(rows, rules), strict=True):
        if cost is not None:
            best = cost if best is None else min(best, cost)
        trials.append(
            SearchTrial(
                number=row.trial.number,
                origin=row.trial.origin,
                status=row.status.value,
                value=_value(row, objective),
                best_so_far=None if best is None else objective.value(best),
                seed=row.trial.seed,
                run_wall_s=row.wall_s,
                optimiser_cpu_s=row.ask_cpu_s,
                fidelity=row.trial.fidelity,
                config=dict(row.trial.config),
                error=row.error,
            )
        )
    return trials


def pairs(judged: Outcome, objective: Objective) -> list[ValidationPair]:
    """Default and winner, seed by seed."""
    made = []
    for default, tuned in zip(judged.default_rows, judged.winner_rows, strict=True):
        made.append(
            ValidationPair(
                seed=default.trial.seed,
                default=_value(default, objective),
                tuned=_value(tuned, objective),
                ratio=_gain(default.cost, tuned.cost),
            )
        )
    return made


def metric_changes(judged: Outcome) -> list[MetricChange]:
    """Medians over validation of every declared metric that was measured, those of hosts last."""
    made = []
    measured = {name for row in (*judged.default_rows, *judged.winner_rows) for name in row.metrics}
    for declared in (*engine.metrics(), *of_hosts(measured)):
        default, tuned = (
            _median(judged.default_rows, declared.name),
            _median(judged.winner_rows, declared.name),
        )
        if default is None and tuned is None:
            continue
        metric = Metric(
            name=declared.name,
            unit=declared.unit,
            direction=cast(Literal["minimize", "maximize", ""], declared.direction),
            meaning=declared.meaning,
        )
        made.append(MetricChange(metric=metric, default=default, tuned=tuned))
    return made


def knob_changes(
    system: str, default: Mapping[str, Value], winner: Mapping[str, Value], searched: Sequence[str]
) -> list[KnobChange]:
    """Every knob of the system, those that the campaign searched first."""
    adapter = adapter_for(system)
    changes = []
    info = engine.system(system)
    for knob in info.knobs:
        native = adapter.native_knob(knob.name)
        before, after = default[knob.name], winner[knob.name]
        changes.append(
            KnobChange(
                name=knob.name,
                meaning=knob.meaning,
                unit=knob.unit,
                native_name=native.name if native else None,
                default=before,
                tuned=after,
                changed=before != after,
                searched=knob.name in searched,
                active=info.acts(knob.name, winner),
                at_bound=at_bound(knob, after) if knob.name in searched else "",
                default_position=position(knob, before),
                tuned_position=position(knob, after),
            )
        )
    return sorted(changes, key=lambda change: not change.searched)


def position(knob: KnobInfo, value: Value) -> float | None:
    """Where `value` lies in the declared range, 0 to 1; None for words, switches and special values."""
    if knob.min is None or knob.max is None or isinstance(value, (bool, str)) or knob.max <= knob.min:
        return None
    if not knob.min <= value <= knob.max:
        return None
    if knob.log and knob.min > 0:
        return math.log(value / knob.min) / math.log(knob.max / knob.min)
    return (value - knob.min) / (knob.max - knob.min)


def at_bound(knob: KnobInfo, value: Value) -> Literal["low", "high", ""]:
    """Whether the winner sits on an end of the declared range: a wider range might hold a better one."""
    place = position(knob, value)
    if place is None:
        return ""
    return "low" if place <= 0.005 else "high" if place >= 0.995 else ""


def timelines(journal: Journal, judged: Outcome) -> list[Timeline]:
    """Default and winner of the first validation seed that has both timelines."""
    for default, tuned in zip(judged.default_rows, judged.winner_rows, strict=True):
        columns: dict[Role, dict[str, list[float]]] = {
            "default": journal.timeline(default.trial),
            "tuned": journal.timeline(tuned.trial),
        }
        if all(columns.values()):
            return [
                Timeline(role=role, seed=default.trial.seed, columns=found) for role, found in columns.items()
            ]
    return []


def _default_config(judged: Outcome) -> Mapping[str, Any]:
    """What the winner was compared with; before that, what the system declares."""
    return judged.default_rows[0].trial.config if judged.default_rows else {}


def _outcome(judged: Outcome) -> Literal["improved", "no-improvement", "not-validated"]:
    if judged.improved:
        return "improved"
    judgeable = judged.effect is not None or judged.lost > 0
    return "no-improvement" if judged.complete and judgeable else "not-validated"


def _effect(judged: Outcome) -> Effect | None:
    found = judged.effect
    if found is None:
        return None
    return Effect(
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        confidence=found.confidence,
        pairs=found.pairs,
        improved=found.improved,
    )


def _gain(default_cost: float | None, tuned_cost: float | None) -> float | None:
    return None if default_cost is None or tuned_cost is None else math.exp(default_cost - tuned_cost)


def _value(row: Row, objective: Objective) -> float | None:
    return None if row.cost is None else objective.value(row.cost)


def _median(rows: Sequence[Row], metric: str) -> float | None:
    values = [
        row.metrics[metric] for row in rows if metric in row.metrics and math.isfinite(row.metrics[metric])
    ]
    return median(values) if values else None
