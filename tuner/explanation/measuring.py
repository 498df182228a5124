"""Configs of one context on seeds that its search did not see, all relative to the default."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from tiertune import engine
from tiertune.spaces.definition import Space
from tiertune.spaces.forbidden import Clause, clauses_of, forbidden_by
from tiertune.tuner.comparison.inference import chance
from tiertune.tuner.search.constraint import Constraint, broken, means
from tiertune.tuner.statistics import Effect, effect
from tiertune.tuner.transfer.context import Context, complete
from tiertune.tuner.transfer.measuring import Laboratory, place_of
from tiertune.tuner.trial import Config, Status, derive_seed
from tiertune.units import format_size

Stage = Literal["choice", "judgement", "around"]
"""What is dropped is chosen on seeds of one stage and judged on those of another."""


def held_back_seeds(context: Context, stage: Stage, count: int) -> tuple[int, ...]:
    """Seeds of the campaign's seed, the context and the stage, equal for all systems of a scenario."""
    scenario = context.scenario
    page = format_size(scenario.page_bytes)
    names = (context.workload.name, context.machine.name, scenario.ratio, context.threads, page)
    seeds = tuple(derive_seed(context.seed, *names, "explain", stage, block) for block in range(count))
    if context.used_seeds & set(seeds):
        raise AssertionError(f"explain would reuse a seed of {context.campaign}: {context.cell}")
    return seeds


@dataclass(frozen=True)
class Bench:
    """Measures configs of a context on the seeds of a stage; what is known is not measured again. What the
    space forbids is never measured."""

    context: Context
    space: Space
    laboratory: Laboratory
    seeds: tuple[int, ...]

    def measure(self, configs: Iterable[Config]) -> None:
        """Run these on all seeds; those that the system refuses or the space forbids are passed over."""
        place = place_of(self.context)
        legal = [found for config in configs if (found := self.legal(config)) is not None]
        self.laboratory.measure((place, config, self.seeds) for config in legal)

    def costs(self, config: Config) -> np.ndarray:
        """Costs by seed, NaN where a run failed or the config is not to be run."""
        legal = self.legal(config)
        if legal is None:
            return np.full(len(self.seeds), np.nan)
        return self.laboratory.costs(place_of(self.context), legal, self.seeds)

    def gain(self, config: Config) -> float:
        """Mean log of default to config; minus infinity where a run failed."""
        by_seed = self.costs({}) - self.costs(config)
        return -np.inf if np.isnan(by_seed).any() else float(by_seed.mean())

    def effect(self, config: Config, against: Config | None = None) -> Effect | None:
        """How much better a config is than another (the default), None where a run failed."""
        first, second = self.costs(against or {}), self.costs(config)
        if np.isnan(first).any() or np.isnan(second).any():
            return None
        return effect(list(first), list(second))

    def chance(self, config: Config, against: Config) -> float:
        """P of the test that two configs are as good, 1 where a run failed."""
        by_seed = self.costs(against) - self.costs(config)
        return 1.0 if np.isnan(by_seed).any() else chance(by_seed)

    def missed(self, config: Config, constraints: Sequence[Constraint]) -> list[Constraint]:
        """The constraints of the campaign that a config does not keep on average over the seeds."""
        legal, default = self.legal(config), self.legal({})
        if legal is None or default is None:
            return list(constraints)
        return broken(constraints, means(self._metrics(legal)), means(self._metrics(default)))

    def legal(self, config: Config) -> Config | None:
        """The complete config, None where the system refuses it or the space forbids it."""
        try:
            whole = complete(self.context.system, config)
        except engine.EngineError:
            return None
        return None if self._forbids(whole) else whole

    def forbids(self, config: Config) -> bool:
        """Whether the search would never have tried this config. The default and tuned were run already,
        whatever the space says."""
        return self._forbids(complete(self.context.system, config))

    def _forbids(self, whole: Config) -> bool:
        if not self._clauses or whole in (self.context.tuned, complete(self.context.system, {})):
            return False
        return forbidden_by(self._clauses, self.space.start(whole)) is not None

    @cached_property
    def _clauses(self) -> list[Clause]:
        return clauses_of(self.space)

    def _metrics(self, config: Config) -> list[dict[str, float]]:
        place = place_of(self.context)
        results = [self.laboratory.found[place.run(config, seed).key] for seed in self.seeds]
        return [result.metrics for result in results if result.status == Status.OK]


def bench_of(context: Context, space: Space, laboratory: Laboratory, stage: Stage, count: int) -> Bench:
    """A bench with `count` seeds of a stage."""
    return Bench(context, space, laboratory, held_back_seeds(context, stage, count))
