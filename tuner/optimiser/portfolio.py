"""Three models in turns: SMAC's forest, a Gaussian process and TPE, since none of them is best everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from ConfigSpace import ConfigurationSpace
from smac.model.abstract_model import AbstractModel

from tiertune.tuner.optimiser.base import Observation, Proposal, Settings
from tiertune.tuner.optimiser.gaussian import GaussianProcess
from tiertune.tuner.optimiser.smac import SmacOptimiser
from tiertune.tuner.optimiser.tpe import TpeOptimiser
from tiertune.tuner.trial import plain_config

if TYPE_CHECKING:
    from tiertune.tuner.optimiser.base import Decode


class GaussianSmac(SmacOptimiser):
    """SMAC with a Gaussian process for a model; all else is as in `SmacOptimiser`."""

    name: ClassVar[str] = "gaussian"

    def _make_model(self, seed: int) -> AbstractModel:
        return GaussianProcess(self.space, seed)


class PortfolioOptimiser(SmacOptimiser):
    """SMAC's initial design and random picks, and of its model-based proposals a third each from the
    forest, the process and TPE.

    Plateaus with cliffs defeat the process, smooth ridges the forest, and either can hold a lucky trial
    for the optimum for long; TPE explores on. All learn from all trials, so what one finds the others
    refine. Measured in `docs/search.md`.
    """

    name: ClassVar[str] = "portfolio"

    def __init__(self, space: ConfigurationSpace, settings: Settings, decode: Decode = plain_config) -> None:
        super().__init__(space, settings, decode)
        self._tpe = TpeOptimiser(space, settings, decode)
        self._gaussian = GaussianSmac(space, settings, decode)

    def _model(self, number: int, history: Sequence[Observation]) -> Proposal:
        turn = number % 3
        if turn == 0:
            return self._tpe._model(number, history)
        if turn == 1:
            return self._gaussian._model(number, history)
        return super()._model(number, history)
