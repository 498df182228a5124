"""Two objectives as one: what an optimiser is told is how far a trial is from the best of both, with weights
that change from proposal to proposal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from tiertune.tuner.optimiser.base import Observation, Optimiser, Proposal
from tiertune.tuner.search.objectives import FLOOR, Objectives
from tiertune.tuner.trial import Status, derive_seed

WEIGHTS = 11
"""How many weights there are, from the first objective alone to the second alone."""
AUGMENTED = 0.05
"""Of the sum of both, so that of two trials that are as far off in one objective the better in the other
wins."""


class Scalarised(Optimiser):
    """Wraps an optimiser by augmented Tchebycheff scalarisation (ParEGO; Knowles 2006).

    Each objective is the log of its metric, 0 for the best that was measured and 1 for the worst. Weights are
    drawn by seed and trial number, so that a proposal stays a function of seed, number and history.
    """

    name: ClassVar[str] = "scalarised"

    def __init__(self, inner: Optimiser, objectives: Objectives) -> None:
        super().__init__(inner.space, inner.settings, inner.decode)
        self.inner = inner
        self.objectives = objectives

    def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
        weight = self.weight(number)
        proposal = self.inner.ask(number, scalarised(history, self.objectives, weight))
        if proposal.origin != "model":
            return proposal
        one, other = (each.metric for each in self.objectives)
        reason = f"{proposal.reason}; {weight:.1f} of {one} and {1.0 - weight:.1f} of {other}"
        # What the model expects is of this mixture, and says nothing of either objective.
        return replace(proposal, reason=reason, gain=None)

    def weight(self, number: int) -> float:
        """The weight of the first objective in the proposal of trial `number`, 0 to 1."""
        random = np.random.default_rng(derive_seed(self.settings.seed, "weight", number))
        return float(random.integers(WEIGHTS)) / (WEIGHTS - 1)


def scalarised(history: Sequence[Observation], objectives: Objectives, weight: float) -> list[Observation]:
    """`history` with one cost a trial that worked: 0 for one that is best in both, lower is better."""
    worked = [o for o in history if o.status is Status.OK and o.cost is not None and o.second is not None]
    if not worked:
        return list(history)
    reference = next((o.second for o in worked if o.number == 0), None) or max(
        o.second or 0.0 for o in worked
    )
    sign = 1.0 if objectives.second.direction == "minimize" else -1.0

    def second(o: Observation) -> float:
        assert o.second is not None
        return sign * math.log(o.second + FLOOR * reference) if reference > 0.0 else 0.0

    places = {o.number: (o.cost or 0.0, second(o)) for o in worked}
    lows, widths = zip(*(_scale([place[k] for place in places.values()]) for k in (0, 1)), strict=True)
    told = []
    for o in history:
        if o.number in places:
            off = [(places[o.number][k] - lows[k]) / widths[k] for k in (0, 1)]
            parts = [weight * off[0], (1.0 - weight) * off[1]]
            o = replace(o, cost=max(parts) + AUGMENTED * sum(parts))
        told.append(replace(o, bound=None))
    return told


def _scale(values: Sequence[float]) -> tuple[float, float]:
    """The best value, and how far the worst is from it; 1 where all are equal."""
    low, high = min(values), max(values)
    return low, high - low or 1.0
