"""SMAC, through ask and tell: random-forest model, expected improvement, Sobol start, interleaved random
picks."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from ConfigSpace import Configuration, ConfigurationSpace
from scipy.stats.qmc import Sobol
from smac import HyperparameterOptimizationFacade, Scenario
from smac.acquisition.function import EI
from smac.acquisition.maximizer.abstract_acquisition_maximizer import AbstractAcquisitionMaximizer
from smac.initial_design import SobolInitialDesign
from smac.intensifier.intensifier import Intensifier
from smac.main.config_selector import ConfigSelector
from smac.main.exceptions import ConfigurationSpaceExhaustedException
from smac.model.abstract_model import AbstractModel
from smac.model.random_forest import RandomForest
from smac.runhistory import StatusType, TrialInfo, TrialValue
from smac.runhistory.encoder import RunHistoryEncoder

from tiertune.spaces.configspace import values_of
from tiertune.tuner.optimiser.acquisition import CubeMaximizer, IsNew
from tiertune.tuner.optimiser.base import Observation, Proposal
from tiertune.tuner.optimiser.belief import Belief
from tiertune.tuner.optimiser.cube import Cube
from tiertune.tuner.optimiser.imputation import told
from tiertune.tuner.optimiser.random import RandomOptimiser
from tiertune.tuner.trial import Status, canonical, derive_seed

DECAY = 2.0  # trials after the initial design up to which priors weigh as much as what they say
STEP = 0.1
UNLIMITED = 10**9  # our loop counts the budget; SMAC's own count must never end it


class SmacOptimiser(RandomOptimiser):
    """SMAC's facade, with a new one for every proposal.

    It is told the whole history and asked once, so a proposal is a function of seed, number and history by
    construction, and there is no state to save, to restore or to spoil. What is SMAC's own: ask and tell,
    Sobol design, random forest, expected improvement, the selection of the next config. What is ours, by
    SMAC's extension points: where the acquisition function is maximised (`CubeMaximizer`), which random picks
    are interleaved (by trial number, so that they need no model), no racing, and one batched call for the
    incumbent.

    Costs are logs of the objective, told as they are. Measured with `tests/tuner/optimiser_race.py`: regret
    of the config handed over after 100 trials at 4 % noise, in percent, mean over the first 4 or 6 seeds, and
    CPU seconds of a model-based ask on a busy machine. Differences of a point are luck at so few seeds.

    ============================ ===== ======= ====== =========== =====
    variant                      seeds plateau smooth conditional CPU s
    ============================ ===== ======= ====== =========== =====
    in use: 30 trees, EI         6     1.3     3.4    3.5         0.11
    10 trees                     6     1.4     3.3    6.0         0.07
    10 trees, SMAC's own search  4     2.4     3.6    4.4         0.82
    leaves of 3                  6     2.6     3.9    5.1         0.10
    PI instead of EI             4     2.1     6.4    6.0         0.12
    EI and model mean in turns   4     2.0     4.1    3.8         0.13
    SMAC's log scaling on top    6     2.1     7.1    4.6         0.13
    random search                6     1.8     5.0    8.7         0.00
    ============================ ===== ======= ====== =========== =====
    """

    name: ClassVar[str] = "smac"
    expects = True
    trees: ClassVar[int] = 30
    min_leaf: ClassVar[int] = 1

    def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
        if number < self.settings.initial:
            return self._initial(number, history)
        chance = np.random.default_rng(derive_seed(self.settings.seed, "share", number)).random()
        if chance < self.settings.random_share:
            return self.random(number, history)
        return self._model(number, history)

    def _initial(self, number: int, history: Sequence[Observation]) -> Proposal:
        with tempfile.TemporaryDirectory(prefix="tiertune-smac-") as scratch:
            scenario = self._scenario(scratch, derive_seed(self.settings.seed, "initial") % 2**31)
            shaped = self.belief is not None or Cube(self.space).weighted
            made = ShapedSobol if shaped else SobolInitialDesign
            design = made(scenario, n_configs=self.settings.initial).select_configurations()
        tried = {canonical(observation.config) for observation in history}
        # Forbidden points and duplicates drop out of the design, so it may be shorter than asked for.
        if number <= len(design):
            config = self.decode(design[number - 1])
            if canonical(config) not in tried:
                return Proposal(config, "initial", f"point {number} of the Sobol design")
        draw = self.random(number, history)
        return Proposal(draw.config, "initial", "a random draw, the Sobol design has no new point here")

    def _model(self, number: int, history: Sequence[Observation]) -> Proposal:
        known = told(history)
        tried = {canonical(observation.config) for observation in history}

        def is_new(configuration: Configuration) -> bool:
            return canonical(self.decode(configuration)) not in tried

        with tempfile.TemporaryDirectory(prefix="tiertune-smac-") as scratch:
            seed = derive_seed(self.settings.seed, "model", number) % 2**31
            facade = self._facade(scratch, seed, is_new, number - self.settings.initial)
            for observation, cost in known:
                facade.tell(*_as_trial(self.space, observation, cost), save=False)
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    configuration = facade.ask().config
                    gain = self._gain(facade, configuration)
            except (StopIteration, ConfigurationSpaceExhaustedException):
                draw = self.random(number, history)
                text = "a random draw, SMAC found nothing new to propose"
                return Proposal(draw.config, "random", text, gain=0.0)
        config = self.decode(configuration)
        reason = f"expected improvement of a model of {len(known)} trials"
        return Proposal(config, "model", reason, gain=gain)

    def _gain(self, facade: HyperparameterOptimizationFacade, configuration: Configuration) -> float:
        """Expected improvement of the proposal, in natural log of the objective."""
        point = configuration.get_array()[None, :]
        expected = facade._config_selector._acquisition_function
        assert isinstance(expected, EI)
        value = EI._compute(expected, point)  # what is measured, without what is believed
        return float(np.asarray(value).reshape(-1)[0])

    def _scenario(self, scratch: str, seed: int) -> Scenario:
        return Scenario(
            self.space,
            name="scratch",
            output_directory=Path(scratch),
            deterministic=True,
            n_trials=UNLIMITED,
            seed=seed,
        )

    def _maximizer(self, seed: int, is_new: IsNew) -> AbstractAcquisitionMaximizer:
        return CubeMaximizer(self.space, seed, is_new)

    def _make_model(self, seed: int) -> AbstractModel:
        return RandomForest(
            self.space,
            max_leaf_nodes=None,  # type: ignore[arg-type]
            n_jobs=1,
            seed=seed,
            n_trees=self.trees,
            ratio_features=1.0,
            min_samples_split=2,
            min_samples_leaf=self.min_leaf,
        )

    def _facade(self, scratch: str, seed: int, is_new: IsNew, after: int) -> HyperparameterOptimizationFacade:
        scenario = self._scenario(scratch, seed)
        facade = HyperparameterOptimizationFacade
        return facade(
            scenario,
            None,
            model=self._make_model(seed),
            acquisition_function=EI() if self.belief is None else BelievedEI(self.belief, after),
            acquisition_maximizer=self._maximizer(seed, is_new),
            initial_design=facade.get_initial_design(scenario, n_configs=0),
            random_design=facade.get_random_design(scenario, probability=0.0),
            intensifier=_EachConfigOnce(scenario, max_config_calls=1),
            runhistory_encoder=RunHistoryEncoder(scenario),
            config_selector=_BatchedSelector(scenario, retrain_after=1),
            logging_level=False,
            overwrite=True,
        )


class ShapedSobol(SobolInitialDesign):
    """Sobol points, denser where priors say so, and with words as likely as the space has them; SMAC's are
    all equal."""

    def _select_configurations(self) -> list[Configuration]:
        cube, belief = Cube(self._configspace), Belief.of(self._configspace)
        width = len(list(self._configspace.values()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a count that is no power of two
            even = Sobol(d=width, scramble=True, seed=self._seed).random(self._n_configs)
        return cube.legal(cube.placed(even if belief is None else belief.mixed(even)))


class BelievedEI(EI):
    """Expected improvement times the priors, to a power that falls with the trials `after` the initial design
    (piBO; Hvarfner et al., ICLR'22).

    SMAC's own form multiplies probabilities of whole numbers, which are tiny, with densities of others, has
    no answer for knobs that do not act, and counts its steps within one facade, of which there is one a
    proposal here.
    """

    def __init__(self, belief: Belief, after: int) -> None:
        super().__init__()
        self._belief = belief
        self._power = DECAY / (1 + after)

    def _compute(self, X: np.ndarray) -> np.ndarray:
        # In steps, as a forest is piecewise constant: else the prior alone would decide within a piece.
        weight = np.round(self._power * self._belief.log_weight(X) / STEP) * STEP
        improvement: np.ndarray = super()._compute(X)
        return improvement * np.exp(weight)[:, None]


class _BatchedSelector(ConfigSelector):
    """Predicts all tried configs in one call where SMAC makes a call for each."""

    def _get_x_best(self, X: np.ndarray) -> tuple[np.ndarray, float]:
        assert self._model is not None
        means = self._model.predict_marginalized(X)[0].reshape(-1)
        best = int(means.argmin())
        return X[best], float(means[best])


class _EachConfigOnce(Intensifier):
    """No racing: we judge repeats ourselves, on seeds of their own. SMAC's racing book-keeping costs more
    than the model."""

    def __iter__(self) -> Iterator[TrialInfo]:
        for configuration in self.config_generator:
            yield TrialInfo(configuration, seed=0)

    def update_incumbents(self, config: Configuration) -> None:
        """Nothing to update: incumbents are what racing compares with."""


def _as_trial(
    space: ConfigurationSpace, observation: Observation, cost: float
) -> tuple[TrialInfo, TrialValue]:
    status = StatusType.SUCCESS if observation.status is Status.OK else StatusType.CRASHED
    return TrialInfo(Configuration(space, values=values_of(space, observation.config)), seed=0), TrialValue(
        cost=cost, status=status
    )


logging.getLogger("smac").setLevel(logging.ERROR)
