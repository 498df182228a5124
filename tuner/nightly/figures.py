"""What a finished search says of the tuner: one number a campaign and round, in natural logs, higher is
worse.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tiertune.tuner.journal import Journal, Row
from tiertune.tuner.nightly.detection import Kind
from tiertune.tuner.plan import CampaignPlan
from tiertune.tuner.trial import Status
from tiertune.tuner.validation import outcome

REACHED = 0.9
"""A search has arrived where it has that share of the gain of its own best trial."""


@dataclass(frozen=True)
class Figure:
    """What a figure is called, and what is assumed of it. `local` ones depend on the host that ran it."""

    words: str
    unit: str
    kind: Kind
    local: bool = False


# A search has a seed of its own each round, so its figures differ by luck: steps of less than `least` are not
# looked for, and it takes some nights before anything is said. That of failed trials is in share of trials.
FIGURES: Mapping[str, Figure] = {
    "gain": Figure("default against tuned on validation seeds", "ratio", Kind(0.02, 0.03, 6)),
    "trials_to_reach": Figure("trials until 90 % of a search's gain", "trials", Kind(0.5, 0.5, 6)),
    "proposal_cpu_s": Figure("CPU time to propose a trial", "s", Kind(0.15, 0.25, 6), local=True),
    "trial_wall_s": Figure("wall time of a trial", "s", Kind(0.15, 0.25, 6), local=True),
    "failed_trials": Figure("share of trials that failed", "share", Kind(0.5, 0.2, 6)),
}


@dataclass(frozen=True)
class Measured:
    """A figure of a round; `failed` of `runs` trials where it has no value of its own."""

    name: str
    value: float | None
    failed: int = 0
    runs: int = 0


def tuner_figures(journal: Journal, plan: CampaignPlan) -> list[Measured]:
    """The figures of a whole round, means over its cells; those that it does not tell are left out."""
    generation = journal.claimed().generation
    gains: list[float] = []
    trials: list[float] = []
    asks: list[float] = []
    walls: list[float] = []
    failed = runs = 0
    for cell in plan.cells:
        rows = [row for row in journal.rows(cell.key, "search") if row.status.finished]
        # A host that was not in order is no trial that worked, and none that failed.
        made = [row for row in rows if row.status is not Status.HOST_UNFIT]
        failed += sum(row.status is not Status.OK for row in made)
        runs += len(made)
        found = outcome(journal, cell.key, cell.objective, generation).effect
        gains += [-math.log(found.ratio)] if found else []
        reached = trials_to_reach(rows)
        trials += [math.log(reached)] if reached else []
        asks += [row.ask_cpu_s for row in rows if row.trial.origin == "model"]
        walls += [row.wall_s for row in made if row.wall_s]
    measured = [
        Measured("gain", _mean(gains)),
        Measured("trials_to_reach", _mean(trials)),
        Measured("proposal_cpu_s", _log_mean(asks)),
        Measured("trial_wall_s", _log_mean(walls)),
    ]
    told = [one for one in measured if one.value is not None]
    return [*told, Measured("failed_trials", None, failed, runs)] if runs else told


def trials_to_reach(rows: Sequence[Row]) -> int | None:
    """How many trials a search took to get most of its way from the first trial to its best, None where it
    never got anywhere. A short run is no measurement of the whole, but takes a trial."""
    whole = [row for row in rows if row.trial.fidelity == 1.0]
    costs = [(row.trial.number + 1, row.cost) for row in whole if row.cost is not None]
    if not costs:
        return None
    first, best = costs[0][1], min(cost for _, cost in costs)
    if best >= first:
        return None
    goal = first - REACHED * (first - best)
    return next(number for number, cost in costs if cost <= goal)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _log_mean(values: Iterable[float]) -> float | None:
    """Log of the mean of positive values."""
    mean = _mean(list(values))
    return math.log(mean) if mean else None
