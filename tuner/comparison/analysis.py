"""From two journals to a comparison: a pure function, so that equal journals give equal pages."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tiertune.tuner.comparison.anytime import curves_of
from tiertune.tuner.comparison.document import (
    Bound,
    Comparison,
    Contender,
    Entry,
    Ranks,
    Setting,
    Span,
    Tuning,
)
from tiertune.tuner.comparison.fairness import Check, checks
from tiertune.tuner.comparison.inference import Difference
from tiertune.tuner.comparison.measured import Journals, Measured, cells_of, measured
from tiertune.tuner.comparison.scores import (
    DEFAULT,
    STAGES,
    TUNED,
    Scores,
    entries_of,
    level_of,
    over_workloads,
    pairs_at,
    ranks_at,
    scores_of,
    speed,
)
from tiertune.tuner.comparison.tuning import (
    bounds_of,
    calibration_of,
    on_a_bound,
    tuning_of,
    winner_handed_over,
)
from tiertune.tuner.journal import Row
from tiertune.tuner.journal_claim import codes_of
from tiertune.tuner.plan import CampaignPlan
from tiertune.tuner.report.data import python_policies, reproduction

NOT_MEASURED = (
    "Real hardware: every number comes from the modelled machines; their files name the sources.",
    "Other workloads, inputs, ratios, threads and machines; intervals are of workloads like these.",
    "Larger budgets: a system with many knobs may still gain where the curves have not levelled off.",
    "Knobs that a space leaves out; they kept their declared defaults.",
    "The effort of deploying a system, its memory overhead, and its effect on other programs.",
)


def compare(plan: CampaignPlan, journals: Journals, description: str) -> Comparison:
    """The comparison of a campaign that has ended, with its references; void ones say so."""
    figures = measured(plan, journals)
    scores = scores_of(figures)
    found = checks(plan, journals)
    entries = entries_of(scores)
    bounds = bounds_of(plan, journals)
    ranks, pairs, duels = [], [], []
    for stage in STAGES if scores.workloads else ():
        made, ranked = ranks_at(scores, stage)
        ranks.append(made)
        more = pairs_at(scores, stage, ranked)
        pairs += more[0]
        duels += more[1]
    contenders = _contenders(plan, journals, scores, entries, ranks, bounds)
    tuning = tuning_of(scores, duels)
    fastest = min(contenders, key=lambda one: one.slowdown_tuned.value).name if scores.workloads else ""
    void = [f"{check.name}: {check.found}" for check in found if not check.holds and not check.remark]
    setting = _setting(plan, journals, figures)
    return Comparison(
        campaign=plan.name,
        description=description,
        verdict=verdict(void, ranks, tuning, fastest),
        void=void,
        setting=setting,
        oracle_slowdown=_oracle(scores),
        contenders=contenders,
        entries=entries,
        ranks=ranks,
        pairs=pairs,
        duels=duels,
        tuning=tuning,
        calibration=calibration_of(figures),
        curves=curves_of(plan, journals, figures),
        bounds=bounds,
        checks=found,
        left_out=_left_out(scores, found),
        not_measured=list(NOT_MEASURED),
        reproduce=_commands(plan, journals),
    )


def verdict(void: Sequence[str], ranks: Sequence[Ranks], tuning: Tuning, fastest: str) -> str:
    """The sentence at the top. `fastest` has the lowest mean slowdown when tuned, which need not be who
    ranks first: a rank says how often one is ahead, a mean by how much."""
    if void:
        return f"This comparison is void: {_list([reason.partition(':')[0] for reason in void])} not given"
    at = {one.stage: one for one in ranks}
    if TUNED not in at:
        return "nothing could be compared: no scenario has a figure for every system"
    tuned, default = at[TUNED], at[DEFAULT]
    leader, others = tuned.order[0], tuned.order[1:]
    level = _level_with_first(tuned)
    text = f"Tuned at equal budgets, {leader} ranks first of {len(tuned.order)}"
    if fastest != leader:
        text += f" and {fastest} has the lowest mean slowdown"
    if len(level) == len(others):
        text += ", but no two systems are told apart"
    elif level:
        text += f", not told apart from {_list(level)}"
    else:
        text += ", told apart from all others"
    before = default.order[0]
    text += "; so it does at default" if before == leader else f"; at default it is {before}"
    if tuning.tau is not None:
        span = tuning.tau
        text += f"; Kendall's tau of the two orders is {span.value:.2f} ({span.low:.2f} to {span.high:.2f})"
    return text


def _level_with_first(ranks: Ranks) -> list[str]:
    """Who is not told apart from the first."""
    last = max((last for first, last in ranks.joined if first == 0), default=0)
    return ranks.order[1 : last + 1]


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _setting(plan: CampaignPlan, journals: Journals, figures: Measured) -> Setting:
    search = _all(journals.search)
    judged = [*_all(journals.selection), *_all(journals.validation), *_all(journals.references)]
    scenes = figures.scenes
    return Setting(
        trials=plan.trials,
        initial=plan.initial,
        searches=figures.tuned.shape[2],
        validation_seeds=figures.default.shape[2],
        optimiser=plan.optimiser,
        seed=plan.seed,
        scenarios=[scene.name for scene in scenes],
        workloads=len({scene.workload for scene in scenes}),
        machines=len({scene.machine for scene in scenes}),
        search_runs=len(search),
        validation_runs=len(judged),
        run_wall_s=sum(row.wall_s or 0.0 for row in [*search, *judged]),
        ask_cpu_s=sum(row.ask_cpu_s for row in search),
    )


def _all(groups: Mapping[str, list[Row]]) -> list[Row]:
    return [row for rows in groups.values() for row in rows]


def _oracle(scores: Scores) -> Span | None:
    figures = scores.measured
    mean = (figures.oracle - figures.all_fast).mean(axis=1)
    level = level_of(scores, mean)
    return None if math.isnan(level.value) else level


def _contenders(
    plan: CampaignPlan,
    journals: Journals,
    scores: Scores,
    entries: Sequence[Entry],
    ranks: Sequence[Ranks],
    bounds: Sequence[Bound],
) -> list[Contender]:
    """Every system over all scenarios, the best at tuned first."""
    cells = cells_of(plan)
    mean_rank = {one.stage: dict(zip(one.order, one.mean_ranks, strict=True)) for one in ranks}
    made = []
    for c, name in enumerate(scores.measured.contenders):
        group = [cell for (_, contender), some in cells.items() if contender == name for cell in some]
        mine = [entry for entry in entries if entry.system == name]
        own_bounds = [bound for bound in bounds if bound.system == name]
        winners = [config for cell in group if (config := winner_handed_over(cell.key, journals)) is not None]
        rows = [row for cell in group for row in journals.search.get(cell.key, [])]
        level = {stage: level_of(scores, scores.mean[stage][:, c]) for stage in STAGES}
        made.append(
            Contender(
                name=name,
                knobs=len(group[0].space.axes()),
                slowdown_default=level[DEFAULT],
                slowdown_tuned=level[TUNED],
                oracle_share_default=_oracle_share(scores, DEFAULT, c),
                oracle_share_tuned=_oracle_share(scores, TUNED, c),
                gain=speed(*_gain_over_workloads(scores, c)),
                rank_default=mean_rank.get(DEFAULT, {}).get(name, math.nan),
                rank_tuned=mean_rank.get(TUNED, {}).get(name, math.nan),
                improved=sum(entry.verdict == "better" for entry in mine),
                worse=sum(entry.verdict == "worse" for entry in mine),
                kept_default=sum(entry.kept_default for entry in mine),
                at_bound=sum(on_a_bound(config, own_bounds) for config in winners),
                winners=len(winners),
                failed_trials=sum(row.cost is None for row in rows),
                simulated_s=sum(_seconds(row) for row in rows),
            )
        )
    return sorted(made, key=lambda contender: (contender.rank_tuned, contender.slowdown_tuned.value))


def _gain_over_workloads(scores: Scores, c: int) -> tuple[Difference | None, float]:
    return over_workloads(scores, scores.mean[TUNED][:, c] - scores.mean[DEFAULT][:, c])


def _oracle_share(scores: Scores, stage: str, c: int) -> float | None:
    """Speed as a share of the oracle's; above 1 where the oracle is beaten."""
    figures = scores.measured
    oracle = (figures.oracle - figures.all_fast).mean(axis=1)
    _, value = over_workloads(scores, oracle - scores.mean[stage][:, c])
    return None if math.isnan(value) else math.exp(value)


def _seconds(row: Row) -> float:
    seconds = row.metrics.get("runtime_s", 0.0)
    return seconds if math.isfinite(seconds) else 0.0


def _left_out(scores: Scores, found: Sequence[Check]) -> list[str]:
    """Scenarios without a figure for every system, which means and ranks leave out, and remarks."""
    figures = scores.measured
    lines = []
    for s, scene in enumerate(figures.scenes):
        if scores.usable[s]:
            continue
        failed = [
            name
            for c, name in enumerate(figures.contenders)
            if any(np.isnan(scores.mean[stage][s, c]) for stage in STAGES)
        ]
        who = "all-fast" if np.isnan(figures.all_fast[s]).any() else _list(failed)
        lines.append(f"{scene.name}: runs of {who} failed, so means and ranks leave this scenario out")
    return lines + [f"{check.name}: {check.found}" for check in found if check.remark and not check.holds]


def _commands(plan: CampaignPlan, journals: Journals) -> list[str]:
    environments = list(journals.environments.values())
    lines = reproduction(journals.claim, environments)[:-1]
    file = f"results/{plan.name}/campaign.yaml"
    _, policies = python_policies(codes_of(journals.claim))
    return [*lines, f".venv/bin/tiertune compare {file} --results results-again{policies}"]
