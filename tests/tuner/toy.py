"""A campaign without engine or files: surfaces as machine, so that tests of the loop take milliseconds."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from tests.tuner import surfaces
from tiertune.tuner.backend import Backend, ConfigRejected, Notify, TrialTimeout
from tiertune.tuner.journal import Journal, Row
from tiertune.tuner.optimiser.base import Optimiser, Settings
from tiertune.tuner.optimiser.registry import optimiser_class
from tiertune.tuner.plan import CampaignPlan, PlannedCell
from tiertune.tuner.search.objectives import Objectives
from tiertune.tuner.search.rules import SearchRules
from tiertune.tuner.trial import (
    Config,
    Measurement,
    Objective,
    Scenario,
    Status,
    Trial,
    canonical,
    derive_seed,
    plain_config,
)

SCENARIO = Scenario(workload="toy", machine="toy-machine", ratio="1:8", threads=4)
RUNTIME = Objective("runtime_s", "minimize")
OBJECTIVES = Objectives(RUNTIME, Objective("migrated_bytes", "minimize"))
DEFAULTS = plain_config(surfaces.space().get_default_configuration())


@dataclass
class ToyBackend(Backend):
    """Runtime = 100 s x surface x log-normal noise; some trials crash or pass their limit.

    Noise has a part of the seed alone and a part of seed and config. Paired trials share the first, as in the
    engine, where equal seeds meet equal luck as far as the configs let them.
    """

    name: ClassVar[str] = "toy"
    surface: Callable[[Config], float] = surfaces.smooth
    noise: float = 0.02
    run_s: float = 0.0
    crash_share: float = 0.0
    timeout_share: float = 0.0
    prepared: list[str] = field(default_factory=list)

    def prepare(self, scenario: Scenario, notify: Notify) -> None:
        self.prepared.append(scenario.key)

    def apply(self, trial: Trial) -> Config:
        for name in trial.config:
            if name not in {*DEFAULTS, "batch"}:
                raise ConfigRejected(f"there is no knob {name}")
        return {**DEFAULTS, **trial.config}

    def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
        own = np.random.default_rng(derive_seed(trial.seed, canonical(trial.config)))
        shared = np.random.default_rng(trial.seed) if trial.noise == "paired" else own
        luck = 0.9 * shared.standard_normal() + 0.436 * own.standard_normal()
        fate = np.random.default_rng(derive_seed(trial.key)).random()
        if self.run_s:
            time.sleep(self.run_s * (0.5 + own.random()))
        if fate < self.crash_share:
            raise RuntimeError("segmentation fault, as asked for")
        if fate < self.crash_share + self.timeout_share:
            raise TrialTimeout("600 s passed", {"runtime_s": 600.0})
        runtime_s = 100.0 * self.surface({**DEFAULTS, **trial.config}) * math.exp(self.noise * luck)
        points = [runtime_s * i / max(1, timeline_points - 1) for i in range(timeline_points)]
        timeline = {"time_s": points, "fast_hit_ratio": [0.5] * timeline_points} if timeline_points else {}
        metrics = {"runtime_s": runtime_s, "throughput_mops": 1e4 / runtime_s, "stall_s": 0.0}
        # Batches of migration are one of the surface's knobs: the best one of it copies a lot.
        copied = float({**DEFAULTS, **trial.config}["migration_kib"]) / 4
        chance = np.random.default_rng(derive_seed(trial.seed, canonical(trial.config), "copies"))
        metrics["migrated_bytes"] = copied * math.exp(self.noise * float(chance.standard_normal()))
        return Measurement(Status.OK, metrics, timeline, raw="toy output")


@dataclass(frozen=True)
class ToyPlan(CampaignPlan):
    """A plan whose space is `surfaces.space`."""

    def new_optimiser(self, cell: PlannedCell) -> Optimiser:
        seed = derive_seed(self.seed, cell.key, "optimiser")
        settings = Settings(seed, self.initial, self.random_share)
        return optimiser_class(self.optimiser)(surfaces.space(seed % 2**32), settings)


def toy_plan(**changes: Any) -> ToyPlan:
    """A small campaign of random search; `changes` are fields of CampaignPlan, `systems` for more cells, or
    `objectives` for two of them."""
    systems = changes.pop("systems", ("toy-system",))
    default = changes.pop("default", DEFAULTS)
    two = OBJECTIVES if changes.pop("objectives", False) else None
    if two is not None:
        changes["rules"] = SearchRules(objectives=two)
    cells = [
        PlannedCell(f"{SCENARIO.key}/{s}", SCENARIO, s, RUNTIME, cast(Any, None), default) for s in systems
    ]
    fields: dict[str, Any] = {
        "name": "toy",
        "seed": 1,
        "trials": 12,
        "initial": 4,
        "random_share": 0.2,
        "optimiser": "random",
        "validation_seeds": 5,
        "workers": 2,
        "cells": tuple(cells),
        **changes,
    }
    numbers = ("seed", "initial", "random_share", "optimiser")
    budget = {"trials": fields["trials"]}
    validation = {"seeds": fields["validation_seeds"]}
    entries = {} if two is None else {"objectives": [dict(vars(one)) for one in two]}
    decisive = {**entries, **{n: fields[n] for n in numbers}, "budget": budget, "validation": validation}
    return ToyPlan(**fields, document={"campaign": decisive})


def table(path: Path) -> list[dict[str, Any]]:
    """All that must be equal in equal campaigns: every trial without its times, attempts and environment."""
    with Journal(path, writer=False) as journal:
        return [_comparable(row, journal.timeline(row.trial)) for row in journal.rows()]


def _comparable(row: Row, timeline: dict[str, list[float]]) -> dict[str, Any]:
    kept = {"trial": row.trial, "status": row.status, "metrics": row.metrics, "cost": row.cost}
    return {**kept, "error": row.error, "raw": row.raw, "timeline": timeline}
