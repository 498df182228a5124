"""When a search may end early: nothing better came for long, and the model expects no more than noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tiertune.tuner.optimiser.base import Observation, Proposal
from tiertune.tuner.optimiser.racing import entries_of


@dataclass(frozen=True)
class StopRule:
    """Ends a search when no trial of the last `patience` was better than the best before by more than `gain`
    (a share), and the model does not expect more than that, or than the noise, of its next proposal."""

    patience: int
    gain: float


def reason_to_stop(
    rule: StopRule, history: Sequence[Observation], proposal: Proposal, initial: int, *, expects: bool
) -> str | None:
    """Why the search ends before `proposal`, None where it goes on.

    Where the optimiser `expects` something of its proposals, one without a gain is not its model's: a random
    pick or a repeat ends no search. Looks at complete trials only; a pure function, so that a resumed search
    ends at the same trial.
    """
    whole = [observation for observation in history if observation.fidelity == 1.0]
    ended = [observation for observation in whole if observation.status.finished]
    # Patience is of whole runs, so they are counted without the short ones among them.
    history = [replace(observation, number=place) for place, observation in enumerate(ended)]
    known = [entry for entry in entries_of(history).values() if entry.works]
    complete = len(history)
    if complete < initial + rule.patience or not known:
        return None
    since = complete - rule.patience
    before = [entry.mean for entry in known if entry.first < since]
    after = [entry.mean for entry in known if entry.first >= since]
    wanted = max(math.log1p(rule.gain), noise_of(history))
    if not before or (after and min(before) - min(after) > wanted):
        return None
    agrees = not expects if proposal.gain is None else proposal.gain <= wanted
    if not agrees:
        return None
    text = f"no trial of the last {rule.patience} was better by {math.expm1(wanted) * 100:.1f} %"
    if proposal.gain is not None:
        text += f", and the model expects {math.expm1(proposal.gain) * 100:.2f} % of the next"
    return text


def noise_of(history: Sequence[Observation]) -> float:
    """Standard error of the mean of a raced config, from the repeats of all; 0 where there are too few."""
    squares, freedom, runs, raced = 0.0, 0, 0, 0
    for entry in entries_of(history).values():
        if len(entry.costs) > 1:
            squares += sum((cost - entry.mean) ** 2 for cost in entry.costs)
            freedom += len(entry.costs) - 1
            runs += len(entry.costs)
            raced += 1
    if freedom < 3:
        return 0.0
    return math.sqrt(squares / freedom / (runs / raced))
