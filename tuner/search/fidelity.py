"""Shorter runs: what they are of a workload, and the schedule that uses them while they rank configs as whole
runs do.

The first dozen configs run both short and whole. Where Spearman's correlation of their ranks is below
`AGREEMENT`, short runs are refused from then on: constants of cooling and migration act over seconds, and a
window that is too short ranks wrongly. Else new configs run short first, and of each `GROUP` of them the best
runs whole as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tiertune.tuner.optimiser.base import Observation, Optimiser, Proposal
from tiertune.tuner.optimiser.warm import spearman
from tiertune.tuner.trial import Config, Status, canonical

if TYPE_CHECKING:
    from tiertune.workloads.definition import Workload

CHECK = 12
AGREEMENT = 0.7
GROUP = 3


class CannotShorten(ValueError):
    """This workload has no shorter form; the sentence says why."""


def shortened(workload: Workload, share: float) -> Workload:
    """The workload with `share` of its work: streams do fewer operations, a recorded run repeats less often.

    Raises CannotShorten where a recorded run does not repeat often enough.
    """
    sim = workload.sim
    if sim.streams is not None:
        streams = sim.streams.shortened(share)
        return workload.model_copy(update={"sim": sim.model_copy(update={"streams": streams})})
    runs = max(1, round(sim.carry.runs * share))
    if abs(runs / sim.carry.runs - share) > 0.25 * share:
        raise CannotShorten(
            f"{workload.name} repeats its recorded run {sim.carry.runs} times, of which {share:g} is no whole"
            " number; raise sim.carry.runs or leave short runs out"
        )
    carry = sim.carry.model_copy(update={"runs": runs})
    return workload.model_copy(update={"sim": sim.model_copy(update={"carry": carry})})


@dataclass(frozen=True)
class Agreement:
    """How well short runs rank: `rank` over `pairs` configs that ran both ways, None before there are
    enough."""

    pairs: int
    rank: float | None
    offset: float

    @property
    def trusted(self) -> bool:
        """Whether short runs may speak for whole ones."""
        return self.rank is not None and self.rank >= AGREEMENT

    def __str__(self) -> str:
        if self.rank is None:
            return f"short runs: {self.pairs} configs have run both ways, of {CHECK}"
        said = "are used" if self.trusted else f"are refused, as that is below {AGREEMENT}"
        how = f"{self.rank:.2f} (Spearman, {self.pairs} configs)"
        return f"short runs agree with whole ones on ranks by {how} and {said}"


def agreement_of(history: Sequence[Observation]) -> Agreement:
    """The agreement after `history`; the first `CHECK` pairs decide, so that it does not change its mind."""
    short, whole = _costs(history, short=True), _costs(history, short=False)
    both = [text for text in short if text in whole][:CHECK]
    offset = float(np.median([whole[text] - short[text] for text in both])) if both else 0.0
    rank = spearman([(short[text], whole[text]) for text in both]) if len(both) >= CHECK else None
    return Agreement(len(both), rank, offset)


class ShortRuns(Optimiser):
    """Wraps an optimiser, which is told one cost a config: of the whole run, or of the short one moved by the
    median difference of the two."""

    name: ClassVar[str] = "short-runs"

    def __init__(self, inner: Optimiser, share: float) -> None:
        super().__init__(inner.space, inner.settings, inner.decode)
        self.inner = inner
        self.expects = inner.expects
        self.share = share

    def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
        agreement = agreement_of(history)
        if agreement.rank is not None and not agreement.trusted:
            return self.inner.ask(number, _merged(history, agreement))
        waiting = self._waiting(history)
        checking = agreement.rank is None
        if waiting and (checking or len(waiting) >= GROUP):
            config, why = waiting[0], f"the best of {len(waiting)} short runs"
            if checking:
                why = f"it ran short, the whole run says whether that may be trusted ({agreement})"
            return Proposal(config, "model", why)
        proposal = self.inner.ask(number, _merged(history, agreement))
        text = f"{proposal.reason}; {self.share:g} of a run first"
        return Proposal(proposal.config, proposal.origin, text, gain=proposal.gain, fidelity=self.share)

    def _waiting(self, history: Sequence[Observation]) -> list[Config]:
        """Configs of the present group that only ran short, the best first; a group ends with a whole run."""
        whole = {canonical(o.config) for o in history if o.fidelity == 1.0}
        group: list[Observation] = []
        for o in history:
            if o.fidelity == 1.0:
                group = []
            elif o.status is Status.OK and o.cost is not None and canonical(o.config) not in whole:
                group.append(o)
        return [o.config for o in sorted(group, key=lambda o: (o.cost, o.number))]


def _costs(history: Sequence[Observation], *, short: bool) -> dict[str, float]:
    return {
        canonical(o.config): o.cost
        for o in history
        if o.status is Status.OK and o.cost is not None and (o.fidelity < 1.0) == short
    }


def _merged(history: Sequence[Observation], agreement: Agreement) -> list[Observation]:
    whole: dict[str, Observation] = {canonical(o.config): o for o in history if o.fidelity == 1.0}
    trust = agreement.rank is None or agreement.trusted
    found = dict(whole)
    for o in history:
        text = canonical(o.config)
        if o.fidelity < 1.0 and text not in whole:
            if not trust:  # known to have been tried, but nothing is believed of it
                found[text] = Observation(o.number, o.config, Status.HOST_UNFIT)
            elif o.status is Status.OK and o.cost is not None:
                found[text] = Observation(o.number, o.config, o.status, o.cost + agreement.offset)
            else:
                found[text] = Observation(o.number, o.config, o.status)
    return sorted(found.values(), key=lambda o: o.number)
