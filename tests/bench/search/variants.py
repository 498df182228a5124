"""Ways of searching that are raced. Each is an `Optimiser` and is told the same kind of history."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from ConfigSpace import Configuration
from smac import HyperparameterOptimizationFacade, Scenario
from smac.initial_design import SobolInitialDesign
from smac.model.random_forest import RandomForest
from smac.runhistory import TrialInfo, TrialValue

from tiertune.spaces.configspace import values_of
from tiertune.tuner.optimiser.base import Observation, Optimiser, Proposal
from tiertune.tuner.optimiser.portfolio import GaussianSmac, PortfolioOptimiser
from tiertune.tuner.optimiser.racing import Racing
from tiertune.tuner.optimiser.random import RandomOptimiser
from tiertune.tuner.optimiser.tpe import TpeOptimiser
from tiertune.tuner.optimiser.warm import Remembered, WarmStart


class StudySmac(Optimiser):
    """SMAC as the tuning study set it: 100 trials, 20 of them initial, a random config 20 % of the time.

    All else is as SMAC has it (its facade for costly functions: 10 trees, log costs, a new model every 8
    trials, 10 000 random candidates and its own local search), each config measured once. One thing differs
    that the model does not notice: `max_leaf_nodes` is None instead of 2^20, which spares a second a
    proposal. The facade lives on between proposals, as a user's would, so proposals must be asked for in
    order.
    """

    name = "study"
    _facade: HyperparameterOptimizationFacade | None = None

    def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
        if self._facade is None:
            self._facade = self._made()
            self._told = -1
            self._infos: dict[int, TrialInfo] = {}
        facade = self._facade
        for observation in history:
            if observation.number > self._told and observation.cost is not None:
                info = self._infos.get(observation.number)
                if info is None:  # the default, which went first
                    values = values_of(self.space, observation.config)
                    info = TrialInfo(Configuration(self.space, values=values), seed=0)
                facade.tell(info, TrialValue(cost=math.exp(observation.cost)), save=False)
                self._told = observation.number
        try:
            info = facade.ask()
        except StopIteration:
            return Proposal(self.decode(self.space.sample_configuration()), "random", "SMAC gave up")
        self._infos[number] = info
        return Proposal(self.decode(info.config), "model", "SMAC's own")

    def _made(self) -> HyperparameterOptimizationFacade:
        self._scratch = tempfile.TemporaryDirectory(prefix="bench-search-")
        seed = self.settings.seed % 2**31
        scenario = Scenario(
            self.space, name="s", output_directory=Path(self._scratch.name), deterministic=True,
            n_trials=100_000, seed=seed,
        )  # fmt: skip
        facade = HyperparameterOptimizationFacade
        return facade(
            scenario,
            None,
            model=RandomForest(
                self.space, n_trees=10, ratio_features=1.0, min_samples_split=2, min_samples_leaf=1,
                max_leaf_nodes=None, n_jobs=1, log_y=True, seed=seed,  # type: ignore[arg-type]
            ),
            initial_design=SobolInitialDesign(scenario, n_configs=self.settings.initial - 1, max_ratio=1.0),
            random_design=facade.get_random_design(scenario, probability=self.settings.random_share),
            intensifier=facade.get_intensifier(scenario, max_config_calls=1),
            logging_level=False,
            overwrite=True,
        )  # fmt: skip


@dataclass(frozen=True)
class Variant:
    """A way of searching: an optimiser with its settings."""

    name: str
    meaning: str
    make: Callable[..., Optimiser]
    initial: int = 20
    random_share: float = 0.2
    trials: int = 100
    belief: str | None = None  # kind of the priors on the space
    source: str | None = None  # the variant that searched the neighbour before; for warm starts


def _racing(*arguments: Any) -> Optimiser:
    return Racing(PortfolioOptimiser(*arguments))


def _warm(memory: Sequence[Remembered], *arguments: Any, mode: Literal["start", "gated"]) -> Optimiser:
    return Racing(WarmStart(PortfolioOptimiser(*arguments), memory, mode))


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("random", "random search", RandomOptimiser),
        Variant("study", "SMAC as the tuning study set it", StudySmac),
        Variant("tpe", "Optuna's TPE", TpeOptimiser, 10, 0.0),
        Variant("gp", "a Gaussian process in SMAC", GaussianSmac, 10, 0.05, 40),
        Variant("default", "tiertune: portfolio, races", _racing, 10, 0.1, 40),
        Variant("warm", "tiertune, warm start", partial(_warm, mode="start"), 5, 0.1, 20, source="default"),
        Variant(
            "gated", "tiertune, gated warm start", partial(_warm, mode="gated"), 6, 0.1, 20, source="default"
        ),
        Variant("believed", "tiertune, good priors", _racing, 10, 0.1, 40, "good"),
        Variant("misled", "tiertune, bad priors", _racing, 10, 0.1, 40, "bad"),
    )
}
