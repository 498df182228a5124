"""Where SMAC's acquisition function is largest, searched over the unit cube in a few batched calls.

SMAC's own search builds a Python object for each of thousands of candidates and asks the forest in a hundred
small calls. This one does the same search (many random candidates, then local search from the best of them
and from the best configs tried so far) on one numpy matrix, a row per candidate, and is part of SMAC by its
extension point `AbstractAcquisitionMaximizer`. Nothing here hashes or orders by hash, so equal seeds give
equal results in any process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from ConfigSpace import Configuration, ConfigurationSpace
from ConfigSpace.hyperparameters import (
    CategoricalHyperparameter,
    Constant,
    IntegerHyperparameter,
    OrdinalHyperparameter,
)
from smac.acquisition.maximizer.abstract_acquisition_maximizer import AbstractAcquisitionMaximizer
from smac.main.exceptions import ConfigurationSpaceExhaustedException

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

IsNew = Callable[[Configuration], bool]

RANDOM_CANDIDATES = 2000
STARTS = 10  # of each kind: best random candidates, best configs tried
STEPS = 12
STEP_SIZES = (0.02, 0.05, 0.15)  # standard deviations in the unit cube
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

    def _maximize(
        self, previous_configs: list[Configuration], n_points: int
    ) -> list[tuple[float, Configuration]]:
        draws = self._cube.sample(RANDOM_CANDIDATES, self._random)
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


class Cube:
    """A space as columns of numbers: knobs on [0, 1], choices as 0, 1, 2, …, in ConfigSpace's own encoding.

    Points carry a value for every knob; `deactivated` puts NaN where a condition switches a knob off.
    """

    def __init__(self, space: ConfigurationSpace) -> None:
        self._space = space
        self._knobs: list[Any] = list(space.values())
        self._choices = np.array([_choices(knob) for knob in self._knobs])

    def sample(self, count: int, random: np.random.Generator) -> Matrix:
        """`count` uniform points, shape (count, knobs)."""
        points = random.random((count, len(self._knobs)))
        return self._snapped(np.where(self._choices > 0, np.floor(points * self._choices), points))

    def neighbours(self, points: Matrix, random: np.random.Generator) -> Matrix:
        """Points that differ in one knob, shape (points, neighbours, knobs), the same number for each
        point."""
        rows, width = points.shape
        offsets = np.tile(np.asarray(STEP_SIZES), 2)
        moved = np.repeat(points[:, None, :], width * len(offsets), axis=1)
        for knob in range(width):
            block = slice(knob * len(offsets), (knob + 1) * len(offsets))
            if self._choices[knob] > 0:
                moved[:, block, knob] = random.integers(0, self._choices[knob], (rows, len(offsets)))
            else:
                step = random.standard_normal((rows, len(offsets))) * offsets
                # Reflected at the bounds: clipping would pile neighbours up there.
                inside = np.abs(moved[:, block, knob] + step)
                moved[:, block, knob] = np.clip(1.0 - np.abs(1.0 - inside), 0.0, 1.0)
        return self._snapped(moved.reshape(-1, width)).reshape(rows, -1, width)

    def deactivated(self, points: Matrix) -> Matrix:
        """A copy with NaN for knobs whose condition does not hold, also where that only follows from
        another."""
        legal = points.copy().T
        for _ in self._space.conditions:
            before = np.isnan(legal).sum()
            for condition in self._space.conditions:
                child = self._space.index_of[condition.child.name]
                legal[child, ~condition.satisfied_by_vector_array(legal)] = np.nan
            if np.isnan(legal).sum() == before:
                break
        return legal.T

    def forbidden(self, legal: Matrix) -> NDArray[np.bool_]:
        """Which rows of deactivated points the space forbids."""
        found = np.zeros(len(legal), dtype=bool)
        for clause in self._space.forbidden_clauses:
            found |= clause.is_forbidden_vector_array(legal.T)
        return found

    def _snapped(self, points: Matrix) -> Matrix:
        """Points moved to values that whole-number knobs really take."""
        for index, knob in enumerate(self._knobs):
            if isinstance(knob, IntegerHyperparameter):
                points[:, index] = knob.to_vector(knob.to_value(points[:, index]))
        return points


def _choices(knob: Any) -> int:
    """How many choices a knob has, 0 for a numeric one."""
    if isinstance(knob, Constant):
        return 1
    if isinstance(knob, CategoricalHyperparameter):
        return len(knob.choices)
    if isinstance(knob, OrdinalHyperparameter):
        return len(knob.sequence)
    return 0
