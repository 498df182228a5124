"""Where SMAC's acquisition function is largest, searched over the unit cube in a few batched calls.

SMAC's own search builds a Python object for each of thousands of candidates and asks the forest in a hundred
small calls. This one does the same search (many random candidates, then local search from the best of them
and from the best configs tried so far) on one numpy matrix, a row per candidate, and is part of SMAC by its
extension point `AbstractAcquisitionMaximizer`. Nothing here hashes or orders by hash, so equal seeds give
equal results in any process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from ConfigSpace import Configuration, ConfigurationSpace
from smac.acquisition.maximizer.abstract_acquisition_maximizer import AbstractAcquisitionMaximizer
from smac.main.exceptions import ConfigurationSpaceExhaustedException

from tiertune.tuner.optimiser.belief import Belief
from tiertune.tuner.optimiser.cube import Cube

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tiertune.tuner.optimiser.cube import Matrix

IsNew = Callable[[Configuration], bool]

RANDOM_CANDIDATES = 2000
STARTS = 10  # of each kind: best random candidates, best configs tried
STEPS = 12
RETURNED = 20


class CubeMaximizer(AbstractAcquisitionMaximizer):
    """Random plus local search, vectorised.

    `is_new` says of a configuration whether it may be proposed (it was not tried and is not in flight).
    """

    def __init__(self, space: ConfigurationSpace, seed: int, is_new: IsNew) -> None:
        super().__init__(space, challengers=RETURNED, seed=seed)
        self._random = np.random.default_rng(seed)
        self._is_new = is_new
        self._cube = Cube(space)
        self._belief = Belief.of(space)

    def _maximize(
        self, previous_configs: list[Configuration], n_points: int
    ) -> list[tuple[float, Configuration]]:
        draws = self._cube.sample(RANDOM_CANDIDATES, self._random)
        if self._belief is not None:  # half of them where the optimum is believed to be
            even = self._random.random(draws.shape)
            draws = self._cube.placed(self._belief.mixed(even))
        values = self._value(draws)
        # Ties are common, a forest is piecewise constant: a random second key keeps the choice unbiased.
        starts = draws[self._best(values, STARTS)]
        if previous_configs:
            tried = np.array([config.get_array() for config in previous_configs])
            tried = np.where(np.isnan(tried), self._cube.sample(len(tried), self._random), tried)
            starts = np.vstack([starts, tried[self._best(self._value(tried), STARTS)]])
        climbed, climbed_values = self._climb(starts)
        candidates, values = np.vstack([climbed, draws]), np.concatenate([climbed_values, values])
        found: list[tuple[float, Configuration]] = []
        legal = self._cube.deactivated(candidates)
        for index in self._best(values, len(values)):
            if np.isneginf(values[index]) or len(found) == min(n_points, RETURNED):
                break
            configuration = Configuration(self._configspace, vector=legal[index])
            if self._is_new(configuration) and all(configuration != other for _, other in found):
                configuration.origin = "Acquisition Function Maximizer: unit cube"
                found.append((float(values[index]), configuration))
        if not found:  # SMAC's iterator would fail on an empty list with an IndexError
            raise ConfigurationSpaceExhaustedException
        return found

    def _climb(self, points: Matrix) -> tuple[Matrix, NDArray[np.float64]]:
        """Local search from each row at once: to the best neighbour while that is better."""
        values = self._value(points)
        active = np.ones(len(points), dtype=bool)
        for _ in range(STEPS):
            neighbours = self._cube.neighbours(points[active], self._random)
            count, width = neighbours.shape[1], neighbours.shape[2]
            scored = self._value(neighbours.reshape(-1, width)).reshape(-1, count)
            best = scored.argmax(axis=1)
            rows = np.flatnonzero(active)
            reached = scored[np.arange(len(rows)), best]
            better = reached > values[rows]
            points[rows[better]] = neighbours[np.flatnonzero(better), best[better]]
            values[rows[better]] = reached[better]
            active[rows[~better]] = False
            if not active.any():
                break
        return points, values

    def _value(self, points: Matrix) -> NDArray[np.float64]:
        """Acquisition value of each row, minus infinity where the space forbids it."""
        assert self._acquisition_function is not None
        legal = self._cube.deactivated(points)
        values: NDArray[np.float64] = self._acquisition_function._compute(legal).reshape(-1)
        return np.where(self._cube.forbidden(legal) | ~np.isfinite(values), -np.inf, values)

    def _best(self, values: NDArray[np.float64], count: int) -> NDArray[np.intp]:
        order = np.lexsort((self._random.random(len(values)), -values))
        return order[:count]
