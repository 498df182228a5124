"""Costs of failed trials: finite, from what was seen, and documented here.

A model fed infinity or NaN stops proposing, and a failed trial that is left out is proposed again. So every
failure is told, as worse than anything that worked:

- crashed, no-metric, invalid-config: 10 % worse than the worst trial that worked.
- timeout: twice the larger of its bound (the runtime it had reached) and the worst trial that worked.
- given up at a cap because it was slower than the best: 10 % above the cap, as that much is known of it; as
a crash where it is not known what the cap is in terms of the objective.
- broke a constraint: 10 % worse than it was, and than the worst trial that worked: it must not be handed
over.
- host-unfit: not told, the config is not to blame. Nor is an interrupted trial, which will be run again.

A penalty far above the data would flatten all differences between configs that work, hence no more than
these. Costs are natural logs, so a factor is a sum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tiertune.tuner.optimiser.base import Observation
from tiertune.tuner.trial import Status

CRASH_FACTOR = 1.1
TIMEOUT_FACTOR = 2.0

_FAILED = (Status.CRASHED, Status.NO_METRIC, Status.INVALID_CONFIG)


def told(history: Sequence[Observation]) -> list[tuple[Observation, float]]:
    """What a model is told: observations with a finite cost each, in the order given.

    Trials in flight, host-unfit and interrupted ones are left out.
    """
    worked = [
        o.cost
        for o in history
        if o.status is Status.OK and o.feasible and o.cost is not None and math.isfinite(o.cost)
    ]
    worst = max(worked, default=0.0)
    pairs: list[tuple[Observation, float]] = []
    for observation in history:
        cost = _cost(observation, worst)
        if cost is not None:
            pairs.append((observation, cost))
    return pairs


def _cost(observation: Observation, worst: float) -> float | None:
    if observation.status is Status.OK:
        if observation.cost is None or not math.isfinite(observation.cost):
            raise ValueError(f"trial {observation.number} is ok but its cost is {observation.cost}")
        if not observation.feasible:
            return max(worst, observation.cost) + math.log(CRASH_FACTOR)
        return observation.cost
    bound = observation.bound
    if bound is None or not math.isfinite(bound):
        bound = worst
    if observation.capped:
        return bound + math.log(CRASH_FACTOR)
    if observation.status in _FAILED:
        return worst + math.log(CRASH_FACTOR)
    if observation.status is Status.TIMEOUT:
        return max(worst, bound) + math.log(TIMEOUT_FACTOR)
    return None
