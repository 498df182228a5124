"""Judgement after the search, on seeds that the search never saw.

A single run that came out best is about two standard deviations better than its config really is. So first
the best few configs are measured again, in blocks of equal seeds, to pick a winner (selection); then winner
and default are measured on further seeds (validation). The number in a report comes from validation alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tiertune.tuner.events import Phase
from tiertune.tuner.execution import Bench
from tiertune.tuner.host_effect import host_effect
from tiertune.tuner.journal import Journal, Row
from tiertune.tuner.search.constraint import Constraint, broken, constraints_of, means
from tiertune.tuner.statistics import MIN_EFFECT, Effect, effect, verdict
from tiertune.tuner.trial import Config, Objective, Origin, Status, Trial, canonical, derive_seed

FINALISTS = 5
SELECTION_SEEDS = 4
TIMELINE_POINTS = 200
# Numbers of judgement trials start at generation x STAGE: a raised budget is judged afresh, and nothing is
# overwritten.
STAGE = 10_000


@dataclass(frozen=True)
class Outcome:
    """What a cell came to. `winner` is the search row of the winner; rows are of validation, in order of
    blocks.

    `complete` means that every planned run has ended; `lost` counts pairs in which only the tuned run failed.
    """

    winner: Row | None
    default_rows: list[Row]
    winner_rows: list[Row]
    effect: Effect | None
    improved: bool
    verdict: str
    complete: bool
    lost: int = 0


def judge(template: Trial, seed: int, seeds: int, generation: int, bench: Bench) -> Outcome:
    """Select and validate the winner of a searched cell. `template` has the system's own default as
    config; `seeds` >= 5 validation seeds."""
    rules = constraints_of(bench.journal.claimed().document["campaign"])
    finalists = best_rows(bench.journal.rows(template.cell, "search"), FINALISTS, rules)
    default: tuple[Origin, Config] = ("default", template.config)
    contenders: list[tuple[Origin, Config]] = [("candidate", row.trial.config) for row in finalists]
    if contenders:
        _stage("selection", [default, *contenders], SELECTION_SEEDS, template, seed, generation, bench)
        winner = selected(bench.journal, template.cell, generation)
        if winner is not None:
            pair: list[tuple[Origin, Config]] = [default, ("winner", winner.trial.config)]
            _stage("validation", pair, seeds, template, seed, generation, bench)
    return outcome(bench.journal, template.cell, bench.objective, generation)


def outcome(journal: Journal, cell: str, objective: Objective, generation: int) -> Outcome:
    """What the journal says of a cell, also of one that is still running (`complete` is False then).

    The journal's own campaign says how many validation seeds there have to be.
    """
    planned = 2 * journal.claimed().document["campaign"]["validation"]["seeds"]
    winner = selected(journal, cell, generation)
    rows = journal.rows(cell, "validation", before=(generation + 1) * STAGE, at_least=generation * STAGE)
    blocks: dict[int, dict[str, Row]] = {}
    for row in rows:
        blocks.setdefault(row.trial.seed, {})[row.trial.origin] = row
    pairs = [(block["default"], block["winner"]) for block in blocks.values() if len(block) == 2]
    pairs = [pair for pair in pairs if all(row.status.finished for row in pair)]
    costs = [(d.cost, w.cost) for d, w in pairs if d.cost is not None and w.cost is not None]
    lost = sum(d.cost is not None and w.cost is None for d, w in pairs)
    found = effect([d for d, _ in costs], [w for _, w in costs])
    if found is not None and cell in journal.claimed().document["campaign"].get("live", ()):
        found = _over_hosts(found, pairs)
    text = verdict(found, objective, lost, len(pairs))
    rules = constraints_of(journal.claimed().document["campaign"])
    whole = [pair for pair in pairs if all(row.status is Status.OK for row in pair)]
    missed = broken(rules, means([w.metrics for _, w in whole]), means([d.metrics for d, _ in whole]))
    if missed and whole:
        text = f"no improvement found: the tuned configuration does not keep {missed[0]}"
    searched = journal.rows(cell, "search")
    ended = sum(row.status.finished for row in rows)
    complete = ended >= planned
    if winner is None and searched and not best_rows(searched, FINALISTS, rules):
        text = "no improvement found: no configuration but the default worked"
        if best_rows(searched, FINALISTS):
            text = "no improvement found: no configuration but the default kept the constraints"
    elif rows and not complete:
        text = f"not validated: {ended} of {planned} validation runs have ended so far"
    # Whoever stops at the first interval that pleases finds improvements where there are none.
    improved = found is not None and found.improved and not lost and not missed and complete
    ordered = [d for d, _ in pairs], [w for _, w in pairs]
    return Outcome(winner, *ordered, found, improved, text, complete, lost)


def _over_hosts(found: Effect, pairs: Sequence[tuple[Row, Row]]) -> Effect:
    """The effect with the interval of the hosts, where these differ by more than pairs of one host do."""
    judged = host_gains(pairs)
    over = host_effect([gain for _, gain in judged], [host for host, _ in judged])
    if over is None or over.pooled:
        return found
    improved = over.low > 0.0 and over.mean >= math.log1p(MIN_EFFECT)
    low, high = math.exp(over.low), math.exp(over.high)
    return replace(found, ratio=math.exp(over.mean), low=low, high=high, improved=improved)


def host_gains(pairs: Sequence[tuple[Row, Row]]) -> list[tuple[str, float]]:
    """Host and log-ratio of every pair that ran on one host; a pair that had to move is no measure of a
    host."""
    return [
        (d.worker, d.cost - w.cost)
        for d, w in pairs
        if d.worker is not None and d.worker == w.worker and d.cost is not None and w.cost is not None
    ]


def best_rows(rows: Sequence[Row], count: int, rules: Sequence[Constraint] = ()) -> list[Row]:
    """The `count` best search rows with different configs, the default left out; ties go to the earlier
    trial.

    A config that raced counts with the mean of its runs, and is out when one of them failed or broke a rule.
    """
    default = next((canonical(row.trial.config) for row in rows if row.trial.origin == "default"), "")
    reference = next((row.metrics for row in rows if row.trial.number == 0 and row.metrics), None)
    runs: dict[str, list[Row]] = {}
    for row in rows:
        if row.status.finished and row.status is not Status.HOST_UNFIT and row.trial.fidelity == 1.0:
            runs.setdefault(canonical(row.trial.config), []).append(row)
    means_of: list[tuple[float, int, Row]] = []
    for text, mine in runs.items():
        costs = [row.cost for row in mine if row.status is Status.OK and row.cost is not None]
        if (
            text == default
            or len(costs) < len(mine)
            or any(broken(rules, r.metrics, reference) for r in mine)
        ):
            continue
        means_of.append((sum(costs) / len(costs), mine[0].trial.number, mine[0]))
    return [row for _, _, row in sorted(means_of, key=lambda entry: entry[:2])[:count]]


def selected(journal: Journal, cell: str, generation: int) -> Row | None:
    """The search row whose config was best on average over the selection seeds, None before selection is
    complete.

    A candidate that failed on any seed is out, as is one that breaks a constraint on average; where all are
    out, none is selected.
    """
    if not selection_ended(journal, cell, generation):
        return None
    rows = _selection(journal, cell, generation)
    rules = constraints_of(journal.claimed().document["campaign"])
    finalists = best_rows(journal.rows(cell, "search"), FINALISTS, rules)
    default = means([r.metrics for r in rows if r.trial.origin == "default" and r.status is Status.OK])
    ranked: list[tuple[float, int, Row]] = []
    for finalist in finalists:
        text = canonical(finalist.trial.config)
        runs = [r for r in rows if r.trial.origin == "candidate" and canonical(r.trial.config) == text]
        known = [row.cost for row in runs if row.cost is not None]
        whole = bool(known) and len(known) == len(runs)
        if whole and not broken(rules, means([row.metrics for row in runs]), default):
            ranked.append((sum(known) / len(known), finalist.trial.number, finalist))
    return min(ranked, key=lambda entry: entry[:2])[2] if ranked else None


def selection_ended(journal: Journal, cell: str, generation: int) -> bool:
    """Whether every finalist of the search so far had its selection runs; without finalists there are
    none."""
    rows = _selection(journal, cell, generation)
    rules = constraints_of(journal.claimed().document["campaign"])
    finalists = best_rows(journal.rows(cell, "search"), FINALISTS, rules)
    wanted = SELECTION_SEEDS * (len(finalists) + 1) if finalists else 0
    return len(rows) >= wanted and all(row.status.finished for row in rows)


def _selection(journal: Journal, cell: str, generation: int) -> list[Row]:
    first = generation * STAGE
    return journal.rows(cell, "selection", before=first + STAGE, at_least=first)


def _stage(
    purpose: Literal["selection", "validation"],
    contenders: Sequence[tuple[Origin, Config]],
    blocks: int,
    template: Trial,
    seed: int,
    generation: int,
    bench: Bench,
) -> None:
    """Blocks of one run per contender on one seed; the order turns from block to block, so that drift hits
    all alike."""
    width = len(contenders)
    trials = []
    for block in range(blocks):
        # Of the scenario, not of the cell: all systems are judged on the same seeds.
        block_seed = derive_seed(seed, template.scenario.seed_name, purpose, generation, block)
        for slot in range(width):
            origin, config = contenders[(block + slot) % width]
            number = generation * STAGE + block * width + slot
            judged = replace(template, purpose=purpose, noise="paired", number=number)
            trials.append(replace(judged, config=config, seed=block_seed, origin=origin))
    seen = {row.trial.seed for row in bench.journal.rows(template.cell) if row.trial.purpose != purpose}
    if seen & {trial.seed for trial in trials}:
        raise AssertionError(f"{purpose} of {template.cell} would reuse a seed of an earlier purpose")
    stored = bench.journal.rows(
        template.cell, purpose, before=(generation + 1) * STAGE, at_least=generation * STAGE
    )
    bench.listener(Phase(template.cell, purpose, len(trials), sum(row.status.finished for row in stored)))
    timelines = {trial.number: TIMELINE_POINTS for trial in trials[:width] if purpose == "validation"}
    bench.run_all(trials, f"{purpose} of the best configs on fresh seeds", timelines)
