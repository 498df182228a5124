"""A Gaussian process as SMAC's model: smooth surfaces of few knobs are learnt from fewer trials than by
trees."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from ConfigSpace import ConfigurationSpace
from ConfigSpace.hyperparameters import CategoricalHyperparameter
from smac.model.abstract_model import AbstractModel


class GaussianProcess(AbstractModel):
    """scikit-learn's process over the unit cube: Matérn 5/2 with a length for each column, and noise.

    Choices are columns of zeros and ones; a knob that is switched off stands in the middle of its range.
    Costs are cut at the 75th percentile plus its distance from the best: how bad a bad config is teaches
    nothing about where the best one lies, and a cliff would shorten all lengths.
    """

    def __init__(self, space: ConfigurationSpace, seed: int) -> None:
        super().__init__(space, seed=seed)
        self._choices = [
            len(knob.choices) if isinstance(knob, CategoricalHyperparameter) else 0 for knob in space.values()
        ]
        self._fitted: Any = None

    def _train(self, X: np.ndarray, Y: np.ndarray) -> Self:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

        points, costs = self._columns(X), Y.reshape(-1)
        best, upper = float(costs.min()), float(np.quantile(costs, 0.75))
        costs = np.minimum(costs, upper + (upper - best))
        self._centre, spread = float(costs.mean()), float(costs.std())
        self._spread = spread if spread > 0.0 else 1.0
        lengths = np.full(points.shape[1], 0.7)
        kernel = ConstantKernel(1.0, (0.05, 20.0)) * Matern(lengths, (0.1, 30.0), nu=2.5)
        kernel += WhiteKernel(0.1, (1e-4, 1.0))
        process = GaussianProcessRegressor(kernel, random_state=self._seed, n_restarts_optimizer=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            process.fit(points, (costs - self._centre) / self._spread)
        self._fitted = process
        # Of the surface, not of a measurement: the noise is no reason to measure again at the same place.
        self._noise = float(process.kernel_.k2.noise_level)
        return self

    def _predict(
        self, X: np.ndarray, covariance_type: str | None = "diagonal"
    ) -> tuple[np.ndarray, np.ndarray | None]:
        means, deviations = self._fitted.predict(self._columns(X), return_std=True)
        variances = np.maximum(deviations**2 - self._noise, 1e-10)
        return means * self._spread + self._centre, variances * self._spread**2

    def _columns(self, X: np.ndarray) -> np.ndarray:
        columns = []
        for index, count in enumerate(self._choices):
            column = X[:, index]
            if count:
                known = np.nan_to_num(column, nan=-1.0)
                columns += [(known == choice).astype(float) for choice in range(count)]
            else:
                columns.append(np.nan_to_num(column, nan=0.5))
        return np.column_stack(columns)
