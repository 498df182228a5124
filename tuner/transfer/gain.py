"""How good a config is in a context, against that context's default and against what was tuned for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tiertune.tuner.statistics import CONFIDENCE, Effect, effect

SAME_SPREAD = 1e-12


@dataclass(frozen=True)
class Share:
    """A share of another gain with its interval; 1 is all of it, below 0 is worse than the default."""

    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Gain:
    """A config in a context. `by_seed` are natural logs of default to config, NaN where either run failed.

    `effect` is None where too few pairs worked; `reason` says why runs failed.
    """

    by_seed: np.ndarray
    effect: Effect | None
    reason: str = ""

    @property
    def log(self) -> float:
        """Mean of the logs; minus infinity where a run failed: such a config is chosen by nobody."""
        return -math.inf if np.isnan(self.by_seed).any() else float(self.by_seed.mean())


def gain_of(default_costs: np.ndarray, config_costs: np.ndarray, reason: str = "") -> Gain:
    """The gain of a config over the default on the same seeds, paired by seed.

    A config that failed on any seed has no effect: what its other runs say is no recommendation.
    """
    by_seed = default_costs - config_costs
    worked = not np.isnan(by_seed).any()
    return Gain(by_seed, effect(list(default_costs), list(config_costs)) if worked else None, reason)


def share_of(part: np.ndarray, whole: np.ndarray) -> Share | None:
    """The share that `part` is of `whole`, both log gains by seed, with Fieller's interval (1954) for a ratio
    of paired means. None where the interval of `whole` reaches 0: there is nothing to have a share of.
    """
    from scipy.special import stdtrit

    count = len(part)
    if count < 2 or np.isnan(part).any() or np.isnan(whole).any():
        return None
    reach = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2)) ** 2 / count
    top, bottom = float(part.mean()), float(whole.mean())
    spread = np.cov(part, whole)
    curvature = bottom**2 - reach * float(spread[1, 1])
    if bottom <= 0.0 or curvature <= SAME_SPREAD:
        return None
    middle = (top * bottom - reach * float(spread[0, 1])) / curvature
    offset = (top**2 - reach * float(spread[0, 0])) / curvature
    width = math.sqrt(max(middle**2 - offset, 0.0))
    return Share(top / bottom, middle - width, middle + width)
