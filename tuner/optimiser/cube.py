"""A search space as rows of numbers, so that thousands of configs are handled in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from ConfigSpace import Configuration
from ConfigSpace.hyperparameters import (
    CategoricalHyperparameter,
    Constant,
    IntegerHyperparameter,
    OrdinalHyperparameter,
)

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

STEP_SIZES = (0.02, 0.05, 0.15)  # standard deviations in the unit cube


class Cube:
    """A space as columns of numbers: knobs on [0, 1], choices as 0, 1, 2, …, in ConfigSpace's own encoding.

    Points carry a value for every knob; `deactivated` puts NaN where a condition switches a knob off.
    """

    def __init__(self, space: ConfigurationSpace) -> None:
        self._space = space
        self._knobs: list[Any] = list(space.values())
        self._choices = np.array([choices_of(knob) for knob in self._knobs])
        self._weights = {
            index: np.cumsum(knob.probabilities)
            for index, knob in enumerate(self._knobs)
            if isinstance(knob, CategoricalHyperparameter) and np.ptp(knob.probabilities) > 1e-9
        }

    def sample(self, count: int, random: np.random.Generator) -> Matrix:
        """`count` uniform points, shape (count, knobs)."""
        return self.placed(random.random((count, len(self._knobs))))

    @property
    def weighted(self) -> bool:
        """Whether some words of a knob are likelier than others."""
        return bool(self._weights)

    def placed(self, points: Matrix) -> Matrix:
        """Points of the unit cube as this space encodes them: choices have their parts of [0, 1)."""
        placed = np.where(self._choices > 0, np.floor(points * self._choices), points)
        for index, ends in self._weights.items():
            placed[:, index] = np.minimum(
                np.searchsorted(ends, points[:, index], side="right"), len(ends) - 1
            )
        return self._snapped(placed)

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

    def legal(self, points: Matrix) -> list[Configuration]:
        """The rows that the space does not forbid, as configurations."""
        legal = self.deactivated(points)
        kept = legal[~self.forbidden(legal)]
        return [Configuration(self._space, vector=row) for row in kept]

    def _snapped(self, points: Matrix) -> Matrix:
        """Points moved to values that whole-number knobs really take."""
        for index, knob in enumerate(self._knobs):
            if isinstance(knob, IntegerHyperparameter):
                points[:, index] = knob.to_vector(knob.to_value(points[:, index]))
        return points


def choices_of(knob: Any) -> int:
    """How many choices a knob has, 0 for a numeric one."""
    if isinstance(knob, Constant):
        return 1
    if isinstance(knob, CategoricalHyperparameter):
        return len(knob.choices)
    if isinstance(knob, OrdinalHyperparameter):
        return len(knob.sequence)
    return 0
