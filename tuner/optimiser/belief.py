"""Where somebody believes the optimum to be: priors of knobs as densities over the unit cube.

A prior is a normal distribution around a value, cut at the ends of the range, on the knob's own scale; or the
chance of a word. `DOUBT` of each is uniform, so that no place is ruled out. As people may be sure and wrong,
half of what is drawn is drawn without priors, and `MOST` bounds what these may weigh against the model.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import truncnorm

from tiertune.tuner.optimiser.cube import choices_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ConfigSpace import ConfigurationSpace
    from numpy.typing import NDArray

    from tiertune.tuner.optimiser.cube import Matrix

PRIOR = "prior"
"""Key of a hyperparameter's `meta` that holds its prior."""
DOUBT = 0.2
MOST = 100.0
"""By how much the most likely place may weigh more than any other, however many knobs agree."""
GRID = np.linspace(0.0, 1.0, 2049)


class Belief:
    """Priors of the knobs of one space, independent of each other. Knobs without one are uniform."""

    def __init__(self, knobs: Sequence[Any]) -> None:
        self._width = len(knobs)
        self._columns = {
            index: _Choice(knob) if choices_of(knob) else _Number(knob)
            for index, knob in enumerate(knobs)
            if PRIOR in (knob.meta or {})
        }

    @classmethod
    def of(cls, space: ConfigurationSpace) -> Belief | None:
        """The belief that the hyperparameters of `space` carry; None where none has a prior."""
        found = cls(list(space.values()))
        return found if found._columns else None

    def mixed(self, points: Matrix) -> Matrix:
        """Evenly spread points of the unit cube, the first half of them pushed to where there is more belief.

        Every second one would be wrong: those of a Sobol sequence lie in one half of each knob's range.
        """
        half = (len(points) + 1) // 2
        return np.vstack([self.warped(points[:half]), points[half:]])

    def warped(self, points: Matrix) -> Matrix:
        """Evenly spread points of the unit cube, pushed to where there is more belief."""
        moved = points.copy()
        for index, column in self._columns.items():
            moved[:, index] = column.quantile(points[:, index])
        return moved

    def log_weight(self, points: Matrix) -> NDArray[np.float64]:
        """Natural log of the density at rows in ConfigSpace's encoding, relative to the largest: 0 to
        -log(`MOST`). A knob that does not act there (NaN) says nothing."""
        total = np.zeros(len(points))
        for index, column in self._columns.items():
            values = points[:, index]
            acts = ~np.isnan(values)
            total[acts] += np.log(column.density(values[acts]) / column.highest)
        return np.maximum(total, -math.log(MOST))


class _Number:
    """Density and quantiles of a numeric knob on [0, 1]."""

    def __init__(self, knob: Any) -> None:
        around, spread = knob.meta[PRIOR]["around"], knob.meta[PRIOR]["spread"]
        low, high = float(knob.lower), float(knob.upper)
        centre = float(knob.to_vector(around))
        scale = np.log(spread) / np.log(high / low) if knob.log else spread / (high - low)
        self._normal = truncnorm(-centre / scale, (1.0 - centre) / scale, loc=centre, scale=scale)
        self.highest = float(self.density(np.clip([centre], 0.0, 1.0))[0])
        self._cumulated = (1.0 - DOUBT) * self._normal.cdf(GRID) + DOUBT * GRID

    def density(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((1.0 - DOUBT) * self._normal.pdf(values) + DOUBT)

    def quantile(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.interp(shares, self._cumulated, GRID)


class _Choice:
    """The same of a knob of words, whose parts of the unit interval are equal before."""

    def __init__(self, knob: Any) -> None:
        prior, count = knob.meta[PRIOR], choices_of(knob)
        chances = np.full(count, (1.0 - prior["chance"]) / (count - 1))
        chances[int(knob.to_vector(prior["around"]))] = prior["chance"]
        self._chances = (1.0 - DOUBT) * chances + DOUBT / count
        self.highest = float(self._chances.max() * count)
        self._ends = np.cumsum(self._chances)

    def density(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(self._chances[values.astype(int)] * len(self._chances))

    def quantile(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        count = len(self._chances)
        chosen = np.minimum(np.searchsorted(self._ends, shares, side="right"), count - 1)
        return np.asarray((chosen + 0.5) / count)
