"""Judgement after the search, on seeds that the search never saw.

A single run that came out best is about two standard deviations better than its config really is. So first
the best few configs are measured again, in blocks of equal seeds, to pick a winner (selection); then winner
and default are measured on further seeds (validation). The number in a report comes from validation alone.

With two objectives it is several configs, spread over the front, that are selected and validated with the
default; the winner is the best of them in the first objective.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tiertune.tuner.events import Phase
from tiertune.tuner.execution import Bench
from tiertune.tuner.front import Front, front_of, scale_of, verdict_of
from tiertune.tuner.host_effect import host_effect
from tiertune.tuner.journal import Journal, Row
from tiertune.tuner.search.constraint import Constraint, broken, constraints_of, means
from tiertune.tuner.search.objectives import Objectives, Pair, layers, objectives_of, spread
from tiertune.tuner.statistics import MIN_EFFECT, Effect, effect, verdict
from tiertune.tuner.trial import Config, Objective, Origin, Status, Trial, canonical, derive_seed

FINALISTS = 5
SELECTION_SEEDS = 4
FRONT_FINALISTS = 8
FRONT_POINTS = 5
TIMELINE_POINTS = 200
# Numbers of judgement trials start at generation x STAGE: a raised budget is judged afresh, and nothing is
# overwritten.
STAGE = 10_000


@dataclass(frozen=True)
class Outcome:
    """What a cell came to. `winner` is the search row of the winner; rows are of validation, in order of
    blocks.

    `complete` means that every planned run has ended; `lost` counts pairs in which only the tuned run failed.
    With two objectives there is a `front`, as soon as there are seeds enough, and `failed` has those that
    failed on some seed or broke a constraint, by canonical text, and why. `gains` are the log-ratios that the
    interval is of: those of pairs, or the means of hosts.
    """

    winner: Row | None
    default_rows: list[Row]
    winner_rows: list[Row]
    effect: Effect | None
    improved: bool
    verdict: str
    complete: bool
    lost: int = 0
    front: Front | None = None
    failed: tuple[tuple[str, str], ...] = ()
    gains: tuple[float, ...] = ()


def judgement_trials(trials: int, seeds: int, objectives: Objectives | None) -> tuple[int, int]:
    """How many trials selection and validation of a cell take at most, after a search of `trials`."""
    finalists = min(FINALISTS if objectives is None else FRONT_FINALISTS, trials - 1)
    points = 1 if objectives is None else min(FRONT_POINTS, trials - 1)
    return (finalists + 1) * SELECTION_SEEDS, (points + 1) * seeds


def judge(template: Trial, seed: int, seeds: int, generation: int, bench: Bench) -> Outcome:
    """Select and validate the winner of a searched cell. `template` has the system's own default as
    config; `seeds` >= 5 validation seeds."""
    finalists = finalists_of(bench.journal, template.cell)
    default: tuple[Origin, Config] = ("default", template.config)
    contenders: list[tuple[Origin, Config]] = [("candidate", row.trial.config) for row in finalists]
    if contenders:
        _stage("selection", [default, *contenders], SELECTION_SEEDS, template, seed, generation, bench)
        winner = selected(bench.journal, template.cell, generation)
        if winner is not None:
            contenders = [default, ("winner", winner.trial.config)]
            others = all_selected(bench.journal, template.cell, generation)[1:]
            contenders += [("candidate", row.trial.config) for row in others]
            _stage("validation", contenders, seeds, template, seed, generation, bench)
    return outcome(bench.journal, template.cell, bench.objective, generation)


def outcome(journal: Journal, cell: str, objective: Objective, generation: int) -> Outcome:
    """What the journal says of a cell, also of one that is still running (`complete` is False then).

    The journal's own campaign says how many validation seeds there have to be.
    """
    campaign = journal.claimed().document["campaign"]
    points = all_selected(journal, cell, generation)
    planned = (1 + max(1, len(points))) * campaign["validation"]["seeds"]
    winner = points[0] if points else None
    rows = journal.rows(cell, "validation", before=(generation + 1) * STAGE, at_least=generation * STAGE)
    blocks: dict[int, dict[str, Row]] = {}
    for row in rows:
        if row.trial.origin in ("default", "winner"):
            blocks.setdefault(row.trial.seed, {})[row.trial.origin] = row
    pairs = [(block["default"], block["winner"]) for block in blocks.values() if len(block) == 2]
    pairs = [pair for pair in pairs if all(row.status.finished for row in pair)]
    costs = [(d.cost, w.cost) for d, w in pairs if d.cost is not None and w.cost is not None]
    lost = sum(d.cost is not None and _failed(w) for d, w in pairs)
    found = effect([d for d, _ in costs], [w for _, w in costs])
    gains = tuple(d - w for d, w in costs)
    if found is not None and cell in campaign.get("live", ()):
        found, gains = _over_hosts(found, gains, pairs)
    text = verdict(found, objective, lost, len(pairs))
    rules = constraints_of(campaign)
    whole = [pair for pair in pairs if all(row.status is Status.OK for row in pair)]
    missed = broken(rules, means([w.metrics for _, w in whole]), means([d.metrics for d, _ in whole]))
    if missed and whole:
        text = f"no improvement found: the tuned configuration does not keep {missed[0]}"
    searched = journal.rows(cell, "search")
    going_on = None if rows else _before_validation(journal, cell, generation, searched)
    ended = sum(row.status.finished for row in rows)
    complete = ended >= planned
    if going_on is not None:
        text = going_on
    elif winner is None and searched and not best_rows(searched, FINALISTS, rules):
        text = "no improvement found: no configuration but the default worked"
        if best_rows(searched, FINALISTS):
            text = "no improvement found: no configuration but the default kept the constraints"
    elif rows and not complete:
        text = f"not validated: {ended} of {planned} validation runs have ended so far"
    objectives = objectives_of(campaign)
    front, failed = _front(objectives, points, rows, rules) if objectives and points else (None, ())
    if front is not None and complete:
        text = verdict_of(front)
    # Whoever stops at the first interval that pleases finds improvements where there are none.
    improved = found is not None and found.improved and not lost and not missed and complete
    if objectives is not None:
        improved = front is not None and front.improved and complete
    ordered = [d for d, _ in pairs], [w for _, w in pairs]
    return Outcome(winner, *ordered, found, improved, text, complete, lost, front, failed, gains)


def _before_validation(journal: Journal, cell: str, generation: int, searched: Sequence[Row]) -> str | None:
    """How far search or selection are, of which nothing can be judged yet; None once both have ended."""
    stopped = journal.stopped(cell, generation)
    wanted = stopped[0] if stopped else journal.claimed().document["campaign"]["budget"]["trials"]
    ended = sum(row.status.finished for row in searched)
    if ended < wanted:
        return f"searching: {ended} of {wanted} trials so far"
    if selection_ended(journal, cell, generation):
        return None
    ended = sum(row.status.finished for row in _selection(journal, cell, generation))
    wanted = SELECTION_SEEDS * (len(finalists_of(journal, cell)) + 1)
    return f"not validated: {ended} of {wanted} selection runs have ended so far"


def _failed(row: Row) -> bool:
    """Whether it was the configuration that failed: a host that was not in order is no fault of it."""
    return row.cost is None and row.status is not Status.HOST_UNFIT


def _front(
    objectives: Objectives, points: Sequence[Row], rows: Sequence[Row], rules: Sequence[Constraint]
) -> tuple[Front | None, tuple[tuple[str, str], ...]]:
    """The front over the seeds on which everything has run that never failed, and who did fail or broke a
    constraint."""
    runs: dict[str, dict[int, Row]] = {}
    default = ""
    for row in rows:
        text = canonical(row.trial.config)
        runs.setdefault(text, {})[row.trial.seed] = row
        default = text if row.trial.origin == "default" else default
    fit = {text: rows_of for text, rows_of in runs.items() if text == default}
    failed: list[tuple[str, str]] = []
    ended = {
        text: [row for row in mine.values() if row.status.finished and row.status is not Status.HOST_UNFIT]
        for text, mine in runs.items()
    }
    reference = means([row.metrics for row in ended.get(default, []) if row.status is Status.OK])
    for text in (canonical(row.trial.config) for row in points):
        lost = sum(_failed(row) for row in ended.get(text, []))
        missed = broken(rules, means([row.metrics for row in ended.get(text, [])]), reference)
        if lost:
            failed.append((text, f"failed in {lost} of {len(ended[text])} validation runs"))
        elif missed and text in runs:
            failed.append((text, f"does not keep {missed[0]}"))
        elif text in runs:
            fit[text] = runs[text]
    if default not in fit:
        return None, tuple(failed)
    known = {
        text: {seed: objectives.values(row.metrics) for seed, row in mine.items() if row.cost is not None}
        for text, mine in fit.items()
    }
    seeds = [seed for seed in known[default] if all(mine.get(seed) is not None for mine in known.values())]
    values: dict[str, list[Pair]] = {
        text: [pair for seed in seeds if (pair := mine[seed]) is not None] for text, mine in known.items()
    }
    return front_of(objectives, default, values), tuple(failed)


def _over_hosts(
    found: Effect, gains: tuple[float, ...], pairs: Sequence[tuple[Row, Row]]
) -> tuple[Effect, tuple[float, ...]]:
    """The effect with the interval of the hosts and their gains, where hosts differ by more than pairs of one
    do."""
    judged = host_gains(pairs)
    over = host_effect([gain for _, gain in judged], [host for host, _ in judged])
    if over is None or over.pooled:
        return found, gains
    improved = over.low > 0.0 and over.mean >= math.log1p(MIN_EFFECT)
    low, high = math.exp(over.low), math.exp(over.high)
    of_hosts = replace(found, ratio=math.exp(over.mean), low=low, high=high, improved=improved)
    return of_hosts, tuple(over.by_host.values())


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


def finalists_of(journal: Journal, cell: str) -> list[Row]:
    """The search rows whose configs are measured again to select from."""
    campaign = journal.claimed().document["campaign"]
    rules, objectives = constraints_of(campaign), objectives_of(campaign)
    rows = journal.rows(cell, "search")
    if objectives is None:
        return best_rows(rows, FINALISTS, rules)
    found = best_rows(rows, len(rows), rules)
    values = [objectives.signed(_values(objectives, row)) for row in found]
    chosen: list[Row] = []
    # Single runs flatter: those right behind the front may be on it. So the next layers are asked, too.
    for layer in layers(values):
        places = spread([values[index] for index in layer], FRONT_FINALISTS - len(chosen))
        chosen += [found[layer[place]] for place in places]
    return chosen


def _values(objectives: Objectives, row: Row) -> Pair:
    values = objectives.values(row.metrics)
    assert values is not None, f"{row.trial.key} is ok without both objectives"
    return values


def selected(journal: Journal, cell: str, generation: int) -> Row | None:
    """The search row whose config was best on average over the selection seeds, None before selection is
    complete."""
    found = all_selected(journal, cell, generation)
    return found[0] if found else None


def handed_over(journal: Journal, cell: str, generation: int) -> Config | None:
    """What the search of a cell tells people to run: the selected config, or the default where that was no
    worse on the same seeds; None before selection is complete and where no config but the default worked.

    What its space fixes says how things are to be, such as which memory is managed: a default that is
    otherwise is none of the space's, and not handed over.
    """
    found = selected(journal, cell, generation)
    if found is None:
        return None
    if beats_default(journal, cell, generation):
        return found.trial.config
    rows = _selection(journal, cell, generation)
    default = next(row.trial.config for row in rows if row.trial.origin == "default")
    space = journal.claimed().document.get("cells", {}).get(cell, {}).get("space", {})
    fixed = {name: knob.get("fixed") for name, knob in space.get("knobs", {}).items()}
    otherwise = any(value is not None and default[name] != value for name, value in fixed.items())
    return found.trial.config if otherwise else default


def beats_default(journal: Journal, cell: str, generation: int) -> bool | None:
    """Whether the selected config did better than the default on the same seeds, None where nothing is
    selected."""
    found = selected(journal, cell, generation)
    if found is None:
        return None
    return not keeps_default(_selection(journal, cell, generation), found.trial.config)


def _unspoilt(rows: Sequence[Row]) -> list[Row]:
    """A seed on which somebody's host was not in order is nobody's: means are over the same seeds for all."""
    spoilt = {row.trial.seed for row in rows if row.status is Status.HOST_UNFIT}
    return [row for row in rows if row.trial.seed not in spoilt]


def keeps_default(rows: Sequence[Row], config: Config) -> bool:
    """Whether the default was no worse than the selected `config` over selection's `rows`.

    Decided by these alone, so that validation plays no part in the choice.
    """
    rows = _unspoilt(rows)
    text = canonical(config)
    default = [row.cost for row in rows if row.trial.origin == "default"]
    best = [row.cost for row in rows if row.trial.origin != "default" and canonical(row.trial.config) == text]
    if not default or not best or None in default:  # a default that fails is beaten by what works
        return False
    known, reference = ([cost for cost in costs if cost is not None] for costs in (best, default))
    return len(known) < len(best) or sum(known) / len(known) >= sum(reference) / len(reference)


def all_selected(journal: Journal, cell: str, generation: int) -> list[Row]:
    """The search rows that go to validation: the winner, and with two objectives others of the front of
    means, in order of the first one. Empty before selection is complete.

    A candidate that failed on any seed is out, as is one that breaks a constraint on average; where all are
    out, none is selected.
    """
    if not selection_ended(journal, cell, generation):
        return []
    rows = _unspoilt(_selection(journal, cell, generation))
    campaign = journal.claimed().document["campaign"]
    rules, objectives = constraints_of(campaign), objectives_of(campaign)
    finalists = finalists_of(journal, cell)
    default = means([r.metrics for r in rows if r.trial.origin == "default" and r.status is Status.OK])
    ranked: list[tuple[float, int, Row]] = []
    measured: dict[int, dict[str, float]] = {}
    for finalist in finalists:
        text = canonical(finalist.trial.config)
        runs = [r for r in rows if r.trial.origin == "candidate" and canonical(r.trial.config) == text]
        known = [row.cost for row in runs if row.cost is not None]
        whole = bool(known) and len(known) == len(runs)
        if whole and not broken(rules, means([row.metrics for row in runs]), default):
            ranked.append((sum(known) / len(known), finalist.trial.number, finalist))
            measured[finalist.trial.number] = means([row.metrics for row in runs])
    ordered = [row for _, _, row in sorted(ranked, key=lambda entry: entry[:2])]
    if objectives is None:
        return ordered[:1]
    return _on_front(objectives, ordered, measured, default)


def _on_front(
    objectives: Objectives,
    rows: Sequence[Row],
    measured: Mapping[int, Mapping[str, float]],
    default: Mapping[str, float],
) -> list[Row]:
    """Up to `FRONT_POINTS` of `rows`, spread over the front of their means; what is the same to a hundredth
    of the default's value in both objectives is one."""
    found = [(objectives.values(measured[row.trial.number]), row) for row in rows]
    points = [(objectives.signed(values), row) for values, row in found if values is not None]
    if not points:
        return []
    front = [points[index] for index in layers([values for values, _ in points])[0]]
    reference = np.abs(objectives.values(default) or (0.0, 0.0))
    scale = scale_of([np.abs(values) for values, _ in front], reference)
    apart = float(scale[0]) * MIN_EFFECT, float(scale[1]) * MIN_EFFECT
    chosen = spread([values for values, _ in front], FRONT_POINTS, apart)
    return [front[place][1] for place in chosen]


def selection_ended(journal: Journal, cell: str, generation: int) -> bool:
    """Whether every finalist of the search so far had its selection runs; without finalists there are
    none."""
    rows = _selection(journal, cell, generation)
    finalists = finalists_of(journal, cell)
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
