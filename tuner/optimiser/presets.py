"""Presets of a space come right after the default: what somebody published costs one trial each to check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from tiertune.tuner.optimiser.base import Observation, Optimiser, Proposal
from tiertune.tuner.trial import Config, canonical


@dataclass(frozen=True)
class Published:
    """A preset as the search tries it: all knobs that it runs with, and where its values are from."""

    name: str
    source: str
    config: Config


class Presets(Optimiser):
    """Wraps an optimiser, which proposes from the trial after the last preset on and knows what came of
    them."""

    name: ClassVar[str] = "presets"

    def __init__(self, inner: Optimiser, presets: Sequence[Published]) -> None:
        super().__init__(inner.space, inner.settings, inner.decode)
        self.inner = inner
        self.expects = inner.expects
        self.presets = list(presets)

    def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
        tried = {canonical(observation.config) for observation in history}
        for preset in self.presets:
            if canonical(preset.config) not in tried:
                return Proposal(
                    preset.config, "preset", f"preset {preset.name} of the space: {preset.source}"
                )
        return self.inner.ask(number, history)
