"""Warm starts: configs of earlier campaigns first, and their trials for the model once a gate has let them
in.

Trials of an unlike campaign are poison for a model: they cost 14.6 % of regret after 30 trials where
starting cold cost 3.5 %. So some of the source's configs run here first, and only where their ranks agree is
the rest believed, for as long as what is measured later agrees as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np

from tiertune.spaces.configspace import values_of
from tiertune.tuner.optimiser.base import Observation, Optimiser, Proposal
from tiertune.tuner.trial import Config, Status, canonical

GATE_CONFIGS = 8
AGREEMENT = 0.7  # Spearman's rank correlation that opens the gate
LATER_AGREEMENT = 0.5  # of a model of the source with what is measured here, below which it is shut again
LATER_TRIALS = 8  # trials outside the gate from which that is judged


@dataclass(frozen=True)
class Remembered:
    """A trial of an earlier campaign: `gain` is the log-ratio of its objective to that of the first
    trial there, lower is better. `rank` is 0, 1, 2 for the best ones, which are tried first, and None for
    others. It is not `feasible` where it breaks a constraint of the campaign that remembers it."""

    config: Config
    gain: float
    rank: int | None
    feasible: bool = True


class WarmStart(Optimiser):
    """Wraps an optimiser: the best remembered configs come right after the default, and after `after` others
    that go first.

    With `gated`, further remembered configs follow as far as `GATE_CONFIGS`, spread over good and bad, and
    the whole source goes to the model while `agreement` holds.
    """

    name: ClassVar[str] = "warm"

    def __init__(
        self,
        inner: Optimiser,
        memory: Sequence[Remembered],
        mode: Literal["start", "gated"],
        after: int = 0,
    ) -> None:
        super().__init__(inner.space, inner.settings, inner.decode)
        self.inner = inner
        self.expects = inner.expects
        self.gated = mode == "gated"
        self.after = after
        self.memory = list(memory)
        self.starts = starts(self.memory, GATE_CONFIGS if self.gated else 0)

    def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
        tried = {canonical(observation.config) for observation in history}
        place = number - 1 - self.after
        if 0 <= place < len(self.starts):
            source = self.starts[place]
            if canonical(source.config) not in tried:
                what = "one of the best" if source.rank is not None else "a sample for the gate"
                return Proposal(source.config, "memory", f"{what} of the nearest earlier campaign")
        if self.gated and place >= len(self.starts):
            held, rank = self.agreement(history)
            if held:
                return self._believing(number, history, tried, rank)
        return self.inner.ask(number, history)

    def agreement(self, history: Sequence[Observation]) -> tuple[bool, float]:
        """Whether the source is believed after `history`, and the rank correlation that says so."""
        known = [o for o in history if o.status is Status.OK and o.cost is not None]
        gains = {canonical(source.config): source.gain for source in self.starts}
        gate = [(gains[canonical(o.config)], o.cost) for o in known if canonical(o.config) in gains]
        rank = spearman(gate)
        if len(gate) < min(GATE_CONFIGS, 5) or rank < AGREEMENT:
            return False, rank
        later = [o for o in known if o.number > 0 and canonical(o.config) not in gains]
        if len(later) < LATER_TRIALS:
            return True, rank
        expected = self._expected([o.config for o in later])
        rank = spearman([(float(e), o.cost) for e, o in zip(expected, later, strict=True)])
        return rank >= LATER_AGREEMENT, rank

    def _believing(
        self, number: int, history: Sequence[Observation], tried: set[str], rank: float
    ) -> Proposal:
        default = next((o.cost for o in history if o.number == 0 and o.cost is not None), None)
        if default is None:  # without the default's cost here, gains have no place to stand on
            return self.inner.ask(number, history)
        told = [source for source in self.memory if canonical(source.config) not in tried]
        shift = len(told)
        merged = [
            Observation(index, source.config, Status.OK, default + source.gain, feasible=source.feasible)
            for index, source in enumerate(told)
        ]
        merged += [replace(o, number=o.number + shift) for o in history]
        proposal = self.inner.ask(number + shift, merged)
        text = f"{proposal.reason}, {shift} of them of an earlier campaign whose ranks agree ({rank:.2f})"
        return Proposal(proposal.config, proposal.origin, text, proposal.repeat, proposal.gain)

    def _expected(self, configs: Sequence[Config]) -> np.ndarray:
        """Gains of `configs` by a model of the source alone."""
        from sklearn.ensemble import RandomForestRegressor

        model = RandomForestRegressor(n_estimators=50, random_state=0, n_jobs=1)
        model.fit([self._row(source.config) for source in self.memory], [s.gain for s in self.memory])
        predicted: np.ndarray = model.predict([self._row(config) for config in configs])
        return predicted

    def _row(self, config: Config) -> list[float]:
        from ConfigSpace import Configuration

        array = Configuration(self.space, values=values_of(self.space, config)).get_array()
        return [float(v) for v in np.nan_to_num(array, nan=-1.0)]


def starts(memory: Sequence[Remembered], gate: int) -> list[Remembered]:
    """The best of a source in their order, then others spread evenly over the ranks until there are
    `gate`."""
    first = sorted((m for m in memory if m.rank is not None), key=lambda m: m.rank or 0)
    others = sorted((m for m in memory if m.rank is None), key=lambda m: m.gain)
    missing = min(max(0, gate - len(first)), len(others))
    places = sorted({round(place) for place in np.linspace(0, len(others) - 1, missing)})
    return first + [others[place] for place in places]


def spearman(pairs: Sequence[tuple[float, float | None]]) -> float:
    """Spearman's rank correlation, 0 where there are fewer than three pairs or one side is constant."""
    if len(pairs) < 3:
        return 0.0
    from scipy.stats import spearmanr

    one, other = [p[0] for p in pairs], [p[1] for p in pairs]
    if len(set(one)) < 2 or len(set(other)) < 2:
        return 0.0
    return float(spearmanr(one, other).statistic)
