"""Runs configs in contexts on seeds that no search saw, through the cache of sweeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from tiertune.tuner.backend import Notify
from tiertune.tuner.sweep.measurement import Progress, measure
from tiertune.tuner.sweep.row import Coordinates, PlannedRow, Result, Run, Setting
from tiertune.tuner.transfer.context import Context
from tiertune.tuner.trial import Config, Status, canonical, derive_seed
from tiertune.units import format_size

Stage = Literal["choice", "judgement", "along"]
"""Configs are chosen on the seeds of one stage and judged on those of another."""

FEWEST_POINTS = 10
"""Of the time series that every run of a sweep has; nothing here reads them."""


@dataclass(frozen=True)
class Place:
    """Where configs run: a context, or a context that was moved along an axis."""

    context: Context
    setting: Setting
    ratio: str
    text: str

    def run(self, config: Config, seed: int) -> Run:
        """One run; configs at one seed share their random numbers."""
        return Run(
            self.setting, self.context.system, config, self.ratio, self.context.traffic, seed, "fast",
            "paired", FEWEST_POINTS,
        )  # fmt: skip

    def plan(self, config: Config, seed: int) -> PlannedRow:
        """The run as a row of a sweep."""
        setting = self.setting
        at = Coordinates(
            "transfer", self.context.system, canonical(config), setting.workload.name, "none",
            setting.machine.name, self.ratio, setting.threads, "none", setting.page_bytes, seed,
        )  # fmt: skip
        return PlannedRow(at, self.run(config, seed), config, "", self.context.traffic)


def place_of(context: Context) -> Place:
    """The context itself as a place."""
    return Place(context, context.setting, context.scenario.ratio, "")


def held_back_seeds(context: Context, stage: Stage, count: int) -> tuple[int, ...]:
    """Seeds that the context's campaign has not used: of the campaign's seed, the context and the stage."""
    scenario = context.scenario
    page = format_size(scenario.page_bytes)
    names = (context.workload.name, context.machine.name, scenario.ratio, context.threads, page)
    seeds = tuple(derive_seed(context.seed, *names, "transfer", stage, block) for block in range(count))
    if context.used_seeds & set(seeds):
        raise AssertionError(f"transfer would reuse a seed of {context.campaign}: {context.cell}")
    return seeds


@dataclass
class Laboratory:
    """Measures on demand; everything that was measured before, here or in an earlier call, is read back."""

    results: Path
    jobs: int
    notify: Notify
    listener: Callable[[Progress], None]
    fresh: bool = False
    found: dict[str, Result] = field(default_factory=dict)

    def measure(self, wanted: Iterable[tuple[Place, Config, Sequence[int]]]) -> None:
        """Make these runs; afterwards `costs` has them."""
        plans = [place.plan(config, seed) for place, config, seeds in wanted for seed in seeds]
        new = [plan for plan in plans if plan.run is not None and plan.run.key not in self.found]
        if new:
            self.found |= measure(
                new, self.results, jobs=self.jobs, fresh=self.fresh, timelines=False, notify=self.notify,
                listener=self.listener, baselines=False,
            )  # fmt: skip

    def costs(self, place: Place, config: Config, seeds: Sequence[int]) -> np.ndarray:
        """Costs by seed (natural logs, lower is better), NaN where a run failed."""
        objective = place.context.objective
        values = []
        for seed in seeds:
            result = self.found[place.run(config, seed).key]
            cost = objective.cost(result.metrics) if result.status == Status.OK else None
            values.append(np.nan if cost is None else cost)
        return np.array(values)

    def failure(self, place: Place, config: Config, seeds: Sequence[int]) -> str:
        """Why the first run that failed did, empty where none did."""
        for seed in seeds:
            result = self.found[place.run(config, seed).key]
            if result.status != Status.OK:
                return f"{result.status}: {result.error or 'no reason given'}"
        return ""
