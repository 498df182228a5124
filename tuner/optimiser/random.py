"""Random search: the yardstick, and the random picks that SMAC's proposals are interleaved with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from tiertune.tuner.optimiser.base import Observation, Optimiser, Proposal
from tiertune.tuner.trial import canonical, derive_seed

# How often a draw that was tried before is repeated; a small space may be exhausted, and then a repeat is all
# there is.
REDRAWS = 50


class RandomOptimiser(Optimiser):
    """Independent uniform draws (log-uniform for knobs declared so), never the same config twice while others
    are left."""

    name: ClassVar[str] = "random"

    def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
        return self.random(number, history)

    def random(self, number: int, history: Sequence[Observation]) -> Proposal:
        """A draw that depends on seed and number, and on `history` only to be new."""
        tried = {canonical(observation.config) for observation in history}
        self.space.seed(derive_seed(self.settings.seed, "random", number) % 2**32)
        for _ in range(REDRAWS):
            config = self.decode(self.space.sample_configuration())
            if canonical(config) not in tried:
                return Proposal(config, "random", "a random draw")
        return Proposal(config, "random", f"a random draw, tried before: {REDRAWS} draws gave nothing new")
