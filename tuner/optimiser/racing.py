"""Racing: a config that looks better than the incumbent runs again beside it, on seeds that both share.

A single run that came out best is mostly luck. Repeating everything costs most of the exploration; repeating
only what claims to be better costs few trials, and what the model is told of it is the mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from tiertune.tuner.optimiser.base import Observation, Optimiser, Proposal
from tiertune.tuner.trial import Config, Status, canonical

ROUNDS = 4  # shared seeds; who is ahead on all of them is the incumbent
SHARE = 0.3  # of the trials after the initial design, at most
LOST = 1.0  # standard errors behind on shared seeds
CAUTION = 0.6


@dataclass
class Entry:
    """A config with all its runs. `shared` holds costs by shared seed, `flying` the seeds that still run."""

    config: Config
    first: int
    costs: list[float] = field(default_factory=list)
    shared: dict[int, float] = field(default_factory=dict)
    flying: set[int] = field(default_factory=set)
    failed: Observation | None = None
    running: bool = False
    feasible: bool = True

    @property
    def works(self) -> bool:
        """Whether something is known of it and nothing speaks against it."""
        return bool(self.costs) and self.failed is None and self.feasible

    @property
    def mean(self) -> float:
        """Mean cost of all runs."""
        return sum(self.costs) / len(self.costs)


class Racing(Optimiser):
    """Wraps an optimiser: some of its trials become repeats of contenders. `inner` never sees repeats, but
    one observation a config, with the mean cost."""

    name: ClassVar[str] = "racing"

    def __init__(self, inner: Optimiser) -> None:
        super().__init__(inner.space, inner.settings, inner.decode)
        self.inner = inner
        self.expects = inner.expects

    def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
        entries = entries_of(history)
        repeats = sum(observation.repeat is not None for observation in history)
        after = number - self.settings.initial
        if after >= 0 and repeats < SHARE * (after + 1):
            found = _next_race(list(entries.values()))
            if found is not None:
                entry, seed, reason = found
                return Proposal(entry.config, "race", reason, repeat=seed)
        return self.inner.ask(number, merged(entries))

    def handed_over(self, history: Sequence[Observation]) -> int:
        """The number of a trial of the config that is best by what is known so far.

        That is the lowest mean with `CAUTION` standard errors on top, as few runs may be lucky ones.
        """
        entries = list(entries_of(history).values())
        working = [entry for entry in entries if entry.works] or entries[:1]
        noise = _noise(working)

        def cautious(entry: Entry) -> tuple[float, int]:
            mean = entry.mean if entry.costs else math.inf
            return mean + CAUTION * noise / math.sqrt(max(1, len(entry.costs))), entry.first

        return min(working, key=cautious).first


def entries_of(history: Sequence[Observation]) -> dict[str, Entry]:
    """Runs by config, in the order of their first trial."""
    entries: dict[str, Entry] = {}
    for o in history:
        entry = entries.setdefault(canonical(o.config), Entry(o.config, o.number))
        if o.status is Status.OK and o.cost is not None:
            entry.costs.append(o.cost)
            entry.feasible = entry.feasible and o.feasible
            if o.repeat is not None:
                entry.shared[o.repeat] = o.cost
        elif o.status is Status.RUNNING:
            entry.running = True
            if o.repeat is not None:
                entry.flying.add(o.repeat)
        elif o.status.finished and o.status is not Status.HOST_UNFIT:
            entry.failed = o
    return entries


def merged(entries: dict[str, Entry]) -> list[Observation]:
    """One observation a config: its failure, the mean of what is known, or that it runs."""
    made = []
    for entry in entries.values():
        if entry.failed is not None:
            o = entry.failed
            made.append(Observation(entry.first, entry.config, o.status, None, o.bound, capped=o.capped))
        elif entry.costs:
            made.append(
                Observation(entry.first, entry.config, Status.OK, entry.mean, feasible=entry.feasible)
            )
        elif entry.running:
            made.append(Observation(entry.first, entry.config, Status.RUNNING))
        else:
            made.append(Observation(entry.first, entry.config, Status.HOST_UNFIT))
    return made


def incumbent(entries: Sequence[Entry]) -> Entry:
    """Of the configs with most shared seeds behind them, the one with the lowest mean; else the lowest
    cost."""
    working = [entry for entry in entries if entry.works]
    if not working:
        return entries[0]
    most = max(len(entry.shared) for entry in working)
    return min((e for e in working if len(e.shared) == most), key=lambda e: (e.mean, e.first))


def _noise(entries: Sequence[Entry]) -> float:
    """Standard deviation of one run, pooled over configs that ran more than once; 0 where none did."""
    repeated = [entry for entry in entries if len(entry.costs) > 1]
    freedom = sum(len(entry.costs) - 1 for entry in repeated)
    squares = sum((cost - entry.mean) ** 2 for entry in repeated for cost in entry.costs)
    return math.sqrt(squares / freedom) if freedom else 0.0


def _next_race(entries: Sequence[Entry]) -> tuple[Entry, int, str] | None:
    """Who runs again, on which shared seed, and why; None where nobody challenges."""
    working = [entry for entry in entries if entry.works]
    if len(working) < 2:
        return None
    champion = incumbent(working)
    if not champion.shared:  # the first race is between the two that look best
        working.sort(key=lambda e: (e.mean, e.first))
        champion, challengers = working[0], working[1:2]
    else:
        challengers = [
            e for e in working if e is not champion and e.mean < champion.mean and not _lost(e, champion)
        ]
    for challenger in sorted(challengers, key=lambda e: (e.mean, e.first)):
        if len(challenger.shared) + len(challenger.flying) >= ROUNDS:
            continue
        seed = min(set(range(ROUNDS)) - set(challenger.shared) - challenger.flying)
        if seed not in champion.shared and seed not in champion.flying:
            return champion, seed, f"the incumbent on shared seed {seed}, which a challenger will run on"
        text = f"it looks better than the incumbent, so it runs on shared seed {seed} as well"
        return challenger, seed, text
    return None


def _lost(challenger: Entry, champion: Entry) -> bool:
    """Whether the challenger is behind on the seeds that both ran on, by more than the noise of that."""
    seeds = sorted(set(challenger.shared) & set(champion.shared))
    if not seeds:
        return False
    behind = [challenger.shared[seed] - champion.shared[seed] for seed in seeds]
    mean = sum(behind) / len(behind)
    if len(behind) == 1:
        return False
    spread = math.sqrt(sum((b - mean) ** 2 for b in behind) / (len(behind) - 1))
    return mean > LOST * spread / math.sqrt(len(behind))
