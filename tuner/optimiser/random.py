"""Random search: the yardstick, and the random picks that SMAC's proposals are interleaved with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tiertune.tuner.optimiser.base import Observation, Optimiser, Proposal, Settings
from tiertune.tuner.optimiser.belief import Belief
from tiertune.tuner.optimiser.cube import Cube
from tiertune.tuner.trial import Config, canonical, derive_seed, plain_config

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from tiertune.tuner.optimiser.base import Decode

# How often a draw that was tried before is repeated; a small space may be exhausted, and then a repeat is all
# there is.
REDRAWS = 50
BELIEVED = 0.5
"""Share of random draws by the priors of a space; the others are uniform, in case these are wrong."""


class RandomOptimiser(Optimiser):
    """Independent uniform draws (log-uniform for knobs declared so), half of them by its priors where a space
    has some; never the same config twice while others are left."""

    name: ClassVar[str] = "random"

    def __init__(self, space: ConfigurationSpace, settings: Settings, decode: Decode = plain_config) -> None:
        super().__init__(space, settings, decode)
        self.belief = Belief.of(space)

    def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
        return self.random(number, history)

    def random(self, number: int, history: Sequence[Observation]) -> Proposal:
        """A draw that depends on seed and number, and on `history` only to be new."""
        tried = {canonical(observation.config) for observation in history}
        for config in self._draws(derive_seed(self.settings.seed, "random", number)):
            if canonical(config) not in tried:
                return Proposal(config, "random", "a random draw")
        return Proposal(config, "random", f"a random draw, tried before: {REDRAWS} draws gave nothing new")

    def _draws(self, seed: int) -> Iterator[Config]:
        """Up to `REDRAWS` draws, one at least."""
        if self.belief is None:
            self.space.seed(seed % 2**32)
            for _ in range(REDRAWS):
                yield self.decode(self.space.sample_configuration())
            return
        cube, random = Cube(self.space), np.random.default_rng(seed)
        points = random.random((REDRAWS, len(list(self.space.values()))))
        if random.random() < BELIEVED:
            points = self.belief.warped(points)
        while not (found := cube.legal(cube.placed(points))):  # all that is believed in may be forbidden
            points = random.random(points.shape)
        yield from map(self.decode, found)
