"""Does tonight's winner take over? Only where it beats the one before on seeds that neither has seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tiertune.tuner.backend import Backend
from tiertune.tuner.journal import Journal
from tiertune.tuner.nightly.history import History
from tiertune.tuner.nightly.panel import Ended, Entry, Place, cell_name, entry_of, measure, panel_seeds
from tiertune.tuner.plan import CampaignPlan, PlannedCell
from tiertune.tuner.statistics import effect
from tiertune.tuner.trial import Config
from tiertune.tuner.validation import outcome


@dataclass(frozen=True)
class Bench:
    """Where winners meet: what all promotions of a night share."""

    history: History
    date: str
    suite: str
    seeds: int
    backend: Backend
    workers: int
    place: Place
    go_on: Callable[[], bool]
    counting: Callable[[Sequence[tuple[Entry, list[int]]]], Ended]
    """What hears of runs, by the configurations and seeds that they are of."""


def winner_of(journal: Journal, plan: CampaignPlan, cell: PlannedCell) -> tuple[Config, float] | None:
    """The best validated winner over all searches of a scenario x system, and its gain over the default; None
    where none was better than the default."""
    generation = journal.claimed().generation
    same = [one for one in plan.cells if one.key.partition("#")[0] == cell.key.partition("#")[0]]
    found = [outcome(journal, one.key, one.objective, generation) for one in same]
    won = [
        (one.winner.trial.config, one.effect.ratio)
        for one in found
        if one.improved and one.winner is not None and one.effect is not None
    ]
    return max(won, key=lambda entry: entry[1]) if won else None


def promoted(
    bench: Bench, campaign: str, plan: CampaignPlan, cell: PlannedCell, config: Config, gain: float
) -> Entry | None:
    """The winner as the new panel entry, None where the one before stays.

    Raises TimeoutError where the night ended before they could be compared.
    """
    name = cell_name(campaign, cell)
    entry = entry_of(campaign, plan, cell, "tuned", config, bench.place)
    before = bench.history.incumbent(name)
    words = {"label": entry.followed.label, "key": entry.followed.key, "source": plan.name}
    if before is None:
        text = f"tuned for the first time, {gain:.3f}x the default on validation seeds"
        bench.history.promote(name, bench.date, config, plan.name, {**words, "text": text})
        return entry
    if before[0] == entry.config:
        return None
    old = entry_of(campaign, plan, cell, "tuned", before[0], bench.place)
    seeds = panel_seeds(bench.suite, cell, bench.seeds, f"promotion of {plan.name}")
    costs = []
    ended = bench.counting([(old, seeds), (entry, seeds)])
    for contender in (old, entry):
        made = {}
        for seed, measured, cost in measure(contender, seeds, bench.backend, bench.workers, bench.go_on):
            ended(measured)
            made[seed] = cost
        if len(made) < len(seeds):
            raise TimeoutError
        costs.append([made[seed] for seed in seeds])
    if None in costs[1]:
        return None
    pairs = [(a, b) for a, b in zip(*costs, strict=True) if a is not None and b is not None]
    found = effect([a for a, _ in pairs], [b for _, b in pairs])
    if found is not None and not found.improved:
        return None
    text = "takes over: the winner before fails now"
    if found is not None:
        span = f"{found.low:.3f} to {found.high:.3f}"
        text = f"takes over: {found.ratio:.3f}x the winner before ({span}) on fresh seeds"
    bench.history.promote(name, bench.date, config, plan.name, {**words, "text": text})
    return entry
