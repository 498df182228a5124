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
from tiertune.tuner.trial import Config, Status
from tiertune.tuner.validation import outcome


class Unjudged(Exception):
    """Not all runs that it takes were made; `why` is what a host said that was not in order, None where the
    window closed."""

    def __init__(self, why: str | None = None) -> None:
        super().__init__(why)
        self.why = why


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


def winner_of(journal: Journal, plan: CampaignPlan, cell: PlannedCell) -> tuple[Config, float | None] | None:
    """The best validated winner over all searches of a scenario x system, and its gain over the default; None
    where none was better than the default.

    The largest of several gains is more than its configuration really gains, so there is none then.
    """
    generation = journal.claimed().generation
    same = [one for one in plan.cells if one.key.partition("#")[0] == cell.key.partition("#")[0]]
    found = [outcome(journal, one.key, one.objective, generation) for one in same]
    won = [
        (one.winner.trial.config, one.effect.ratio)
        for one in found
        if one.improved and one.winner is not None and one.effect is not None
    ]
    if not won:
        return None
    config, gain = max(won, key=lambda entry: entry[1])
    return config, gain if len(same) == 1 else None


def promoted(
    bench: Bench, campaign: str, plan: CampaignPlan, cell: PlannedCell, config: Config, gain: float | None
) -> Entry | None:
    """The winner as the new panel entry, None where the one before stays.

    The first one needs no comparison where its `gain` over the default is known from seeds that it was not
    chosen by. Raises Unjudged where they could not be compared tonight.
    """
    name = cell_name(campaign, cell)
    entry = entry_of(campaign, plan, cell, "tuned", config, bench.place)
    before = bench.history.incumbent(name)
    words = {"label": entry.followed.label, "key": entry.followed.key, "source": plan.name}
    if before is None and gain is not None:
        text = f"tuned for the first time, {gain:.3f}x the default on validation seeds"
        bench.history.promote(name, bench.date, config, plan.name, {**words, "text": text})
        return entry
    if before is not None and before[0] == entry.config:
        return None
    news, rival, role, known = "tuned for the first time", "the default", "default", cell.default
    if before is not None:
        news, rival, role, known = "takes over", "the winner before", "tuned", before[0]
    old = entry_of(campaign, plan, cell, role, known, bench.place)
    seeds = panel_seeds(bench.suite, cell, bench.seeds, f"promotion of {plan.name}")
    ended = bench.counting([(old, seeds), (entry, seeds)])
    before_costs, costs = (_costs(bench, contender, seeds, ended) for contender in (old, entry))
    if None in costs:
        return None
    pairs = [(a, b) for a, b in zip(before_costs, costs, strict=True) if a is not None and b is not None]
    found = effect([a for a, _ in pairs], [b for _, b in pairs])
    if found is not None and not found.improved:
        return None
    if found is None and pairs:  # one that fails now and then may still be the faster one
        return None
    text = f"{news}: {rival} fails now"
    if found is not None:
        span = f"{found.low:.3f} to {found.high:.3f}"
        text = f"{news}: {found.ratio:.3f}x {rival} ({span}) on fresh seeds"
    bench.history.promote(name, bench.date, config, plan.name, {**words, "text": text})
    return entry


def _costs(bench: Bench, contender: Entry, seeds: list[int], ended: Ended) -> list[float | None]:
    """Of each seed, None where the run failed. A run on a host that was not in order is none."""
    made = {}
    for seed, measured, cost in measure(contender, seeds, bench.backend, bench.workers, bench.go_on):
        if measured.status is Status.HOST_UNFIT:
            raise Unjudged(measured.error or measured.status.meaning)
        ended(measured)
        made[seed] = cost
    if len(made) < len(seeds):
        raise Unjudged
    return [made[seed] for seed in seeds]
