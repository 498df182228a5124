"""Optuna's tree-structured Parzen estimator: densities of good and bad configs instead of a regression
model."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tiertune.spaces.conditions import holds
from tiertune.spaces.configspace import values_of
from tiertune.tuner.optimiser.base import Observation, Proposal
from tiertune.tuner.optimiser.imputation import told
from tiertune.tuner.optimiser.random import RandomOptimiser
from tiertune.tuner.trial import Config, Status, canonical, derive_seed

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

# Draws of one model-based proposal until one is new; a small space is exhausted soon.
REDRAWS = 8


class TpeOptimiser(RandomOptimiser):
    """A new in-memory study for every proposal, filled from the history, so that nothing has to be restored.

    TPE (Bergstra et al., NeurIPS'11) in Optuna's multivariate form, with a group of densities for each set of
    active knobs. Trials in flight are told as running: Optuna counts them among the bad ones, which keeps
    parallel proposals apart. Failures are told with the costs of `imputation.told`.
    """

    name: ClassVar[str] = "tpe"

    def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
        if number < self.settings.initial:
            draw = self.random(number, history)
            return Proposal(draw.config, "initial", "a random draw of the initial design")
        chance = np.random.default_rng(derive_seed(self.settings.seed, "share", number)).random()
        if chance < self.settings.random_share:
            return self.random(number, history)
        return self._model(number, history)

    def _model(self, number: int, history: Sequence[Observation]) -> Proposal:
        known = told(history)
        past = [self._trial(observation, cost) for observation, cost in known]
        past += [self._trial(o, None) for o in history if o.status is Status.RUNNING]
        tried = {canonical(observation.config) for observation in history}
        for draw in range(REDRAWS):
            values = self._draw(past, derive_seed(self.settings.seed, "model", number, draw) % 2**32)
            config = self._legal(values)
            if config is not None and canonical(config) not in tried:
                reason = f"densities of good and bad configs from {len(known)} trials"
                return Proposal(config, "model", reason)
        fallback = self.random(number, history)
        return Proposal(fallback.config, "random", "a random draw, TPE found nothing new to propose")

    def _draw(self, past: Sequence[FrozenTrial], seed: int) -> dict[str, Any]:
        import optuna

        sampler = _sampler(seed)
        study = optuna.create_study(sampler=sampler)
        study.add_trials(past)
        trial = study.ask()
        values: dict[str, Any] = {}
        for knob in self._ordered():
            if all(holds(condition, values) for condition in self.space.parent_conditions_of[knob.name]):
                values[knob.name] = trial._suggest(knob.name, _distribution(knob))
        return values

    def _ordered(self) -> list[Any]:
        """Knobs with those first on which others depend, as ConfigSpace keeps them."""
        return list(self.space.values())

    def _legal(self, values: dict[str, Any]) -> Config | None:
        from ConfigSpace import Configuration
        from ConfigSpace.exceptions import ForbiddenValueError

        try:
            return self.decode(Configuration(self.space, values=values))
        except ForbiddenValueError:
            return None

    def _trial(self, observation: Observation, cost: float | None) -> FrozenTrial:
        """The observation as Optuna stores it; without a cost it is running."""
        from optuna.trial import TrialState, create_trial

        values = values_of(self.space, observation.config)
        return create_trial(
            state=TrialState.RUNNING if cost is None else TrialState.COMPLETE,
            value=cost,
            params=values,
            distributions={name: _distribution(self.space[name]) for name in values},
        )


def _sampler(seed: int) -> Any:
    from optuna.samplers import TPESampler

    logging.getLogger("optuna").setLevel(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `group` is marked as experimental
        return TPESampler(n_startup_trials=0, multivariate=True, group=True, constant_liar=True, seed=seed)


def _distribution(knob: Any) -> BaseDistribution:
    from ConfigSpace.hyperparameters import (
        CategoricalHyperparameter,
        FloatHyperparameter,
        IntegerHyperparameter,
    )
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(knob, IntegerHyperparameter):
        return IntDistribution(int(knob.lower), int(knob.upper), log=knob.log)
    if isinstance(knob, FloatHyperparameter):
        return FloatDistribution(float(knob.lower), float(knob.upper), log=knob.log)
    if isinstance(knob, CategoricalHyperparameter):
        return CategoricalDistribution(
            [getattr(choice, "item", lambda c=choice: c)() for choice in knob.choices]
        )
    return CategoricalDistribution([knob.value])  # a constant
