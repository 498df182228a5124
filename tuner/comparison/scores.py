"""Systems against the yardsticks, in each scenario and over all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tiertune.tuner.comparison.document import Duel, Entry, Pair, Ranks, Span
from tiertune.tuner.comparison.inference import (
    Array,
    Difference,
    Ranking,
    cliques,
    difference,
    holm,
    mean_over,
    ranking,
    ranks_of,
    shown,
    signed_rank,
)
from tiertune.tuner.comparison.measured import Measured

DEFAULT, TUNED = "default", "tuned"
STAGES = (DEFAULT, TUNED)


@dataclass(frozen=True)
class Scores:
    """Log slowdowns against all-fast by stage, each of shape (scenes, contenders, searches, seeds).

    At default there is one search. A contender is whole in a scene where all its runs worked; `mean` is NaN
    where it is not. `blocks` are the means over scenes of equal workload, of the scenes in which every
    contender is whole: machines that run the same workload are no independent evidence.
    """

    measured: Measured
    runs: dict[str, Array]
    mean: dict[str, Array]
    usable: Array
    workloads: list[str]
    blocks: dict[str, Array]

    def block_mean(self, values: Array) -> Array:
        """Means over the usable scenes of each workload; `values` has scenes first."""
        names = [scene.workload for scene in self.measured.scenes]
        return np.array(
            [
                values[[s for s, name in enumerate(names) if name == workload and self.usable[s]]].mean(
                    axis=0
                )
                for workload in self.workloads
            ]
        )


def scores_of(measured: Measured) -> Scores:
    """Scores of what was measured. NaN of all-fast makes a scene unusable."""
    base = measured.all_fast[:, None, None, :]
    runs = {DEFAULT: measured.default[:, :, None, :] - base, TUNED: measured.tuned - base}
    mean = {stage: values.mean(axis=(2, 3)) for stage, values in runs.items()}  # NaN if any run failed
    usable = np.logical_and(*(~np.isnan(values).any(axis=1) for values in mean.values()))
    workloads = list(
        dict.fromkeys(scene.workload for scene, use in zip(measured.scenes, usable, strict=True) if use)
    )
    partial = Scores(measured, runs, mean, usable, workloads, {})
    blocks = {stage: partial.block_mean(values) for stage, values in mean.items()}
    return Scores(measured, runs, mean, usable, workloads, blocks)


def slowdown(found: Difference | None, mean: float) -> Span:
    """A mean log as a factor, with its interval where there is one."""
    if found is None:
        return Span(math.exp(mean))
    return Span(math.exp(found.mean), math.exp(found.low), math.exp(found.high))


def speed(found: Difference | None, mean: float = 0.0) -> Span:
    """A mean difference of logs as a factor of speed, above 1 where the first side is faster."""
    if found is None:
        return Span(math.exp(-mean))
    return Span(*found.ratio)


def over_workloads(scores: Scores, values: Array) -> tuple[Difference | None, float]:
    """Interval over workloads of a value per scene, and its mean; NaN without a usable scene."""
    blocks = scores.block_mean(values) if scores.workloads else np.array([math.nan])
    return mean_over(blocks), float(blocks.mean())


def level_of(scores: Scores, values: Array) -> Span:
    """Geometric mean over workloads of a slowdown per scene, with an interval of what systems differ by.

    How slow a workload is at all is the same for all systems and no news, so each workload's own level, its
    mean over systems and stages, is taken out before the interval is made (Cousineau 2005), and the
    interval is widened for it by `sqrt(n / (n - 1))` of the n means (Morey 2008).
    """
    _, mean = over_workloads(scores, values)
    if len(scores.workloads) < 3:
        return Span(math.exp(mean))
    everything = np.concatenate([scores.blocks[stage] for stage in STAGES], axis=1)
    level = everything.mean(axis=1)
    found = mean_over(scores.block_mean(values) - level)
    assert found is not None
    reach = (found.high - found.mean) * math.sqrt(everything.shape[1] / (everything.shape[1] - 1))
    return Span(math.exp(mean), math.exp(mean - reach), math.exp(mean + reach))


def entries_of(scores: Scores) -> list[Entry]:
    """Every system in every scenario, tuned against default."""
    measured = scores.measured
    gains: dict[tuple[int, int], Difference] = {}
    for s in range(len(measured.scenes)):
        for c in range(len(measured.contenders)):
            if not math.isnan(scores.mean[DEFAULT][s, c]) and not math.isnan(scores.mean[TUNED][s, c]):
                gains[s, c] = _gain(scores, s, c)
    adjusted = dict(zip(gains, holm([found.p for found in gains.values()]), strict=True))
    ranks = {stage: [ranks_of(row) for row in scores.mean[stage]] for stage in STAGES}
    made = []
    for s, scene in enumerate(measured.scenes):
        for c, name in enumerate(measured.contenders):
            found = gains.get((s, c))
            searches = scores.runs[TUNED][s, c].mean(axis=1)
            made.append(
                Entry(
                    scenario=scene.name,
                    workload=scene.workload,
                    machine=scene.machine,
                    ratio=scene.scenario.ratio,
                    system=name,
                    slowdown_default=_level(scores, DEFAULT, s, c),
                    slowdown_tuned=_level(scores, TUNED, s, c),
                    gain=speed(found) if found else None,
                    p=found.p if found else None,
                    p_adjusted=adjusted.get((s, c)),
                    verdict=_verdict(found, adjusted.get((s, c), 1.0)),
                    rank_default=float(ranks[DEFAULT][s][c]),
                    rank_tuned=float(ranks[TUNED][s][c]),
                    spread_over_searches=math.exp(float(np.ptp(searches))) if found else None,
                    searches_ahead=int((searches < scores.mean[DEFAULT][s, c]).sum()),
                    kept_default=int(measured.kept[s, c].sum()),
                    failed_runs=int(np.isnan(measured.tuned[s, c]).sum()),
                )
            )
    return made


def _gain(scores: Scores, s: int, c: int) -> Difference:
    if scores.measured.kept[s, c].all():  # the default against itself: no difference, and no doubt of it
        return Difference(0.0, 0.0, 0.0, 1.0)
    return difference(scores.runs[TUNED][s, c], scores.runs[DEFAULT][s, c])


def _level(scores: Scores, stage: str, s: int, c: int) -> Span | None:
    runs = scores.runs[stage][s, c]
    if np.isnan(runs).any():
        return None
    return slowdown(difference(runs, np.zeros((1, runs.shape[1]))), 0.0)


def _verdict(found: Difference | None, adjusted: float) -> str:
    if found is None:
        return "failed"
    return {-1: "better", 0: "not shown", 1: "worse"}[shown(found, adjusted)]


def ranks_at(scores: Scores, stage: str) -> tuple[Ranks, Ranking]:
    """Mean ranks over workloads with their critical difference."""
    found = ranking(scores.blocks[stage])
    order = sorted(range(len(found.mean_ranks)), key=lambda c: (found.mean_ranks[c], c))
    made = Ranks(
        stage=stage,
        order=[scores.measured.contenders[c] for c in order],
        mean_ranks=[found.mean_ranks[c] for c in order],
        p=found.p,
        critical_difference=found.critical,
        blocks=found.blocks,
        joined=cliques(order, found),
    )
    return made, found


def pairs_at(scores: Scores, stage: str, found: Ranking) -> tuple[list[Pair], list[Duel]]:
    """Every two systems: over workloads, and scenario by scenario."""
    names = scores.measured.contenders
    couples = [(a, b) for a in range(len(names)) for b in range(a + 1, len(names))]
    blocks = scores.blocks[stage]
    signed = holm([signed_rank(blocks[:, a] - blocks[:, b]) for a, b in couples])
    pairs, duels = [], []
    for (a, b), p in zip(couples, signed, strict=True):
        mine = _duels(scores, stage, a, b)
        outcomes = [duel.outcome for duel in mine]
        wins, losses = outcomes.count(names[a]), outcomes.count(names[b])
        interval, mean = mean_over(blocks[:, a] - blocks[:, b]), float((blocks[:, a] - blocks[:, b]).mean())
        pairs.append(
            Pair(
                stage=stage,
                first=names[a],
                second=names[b],
                ratio=speed(interval, mean),
                wins=wins,
                losses=losses,
                undecided=len(mine) - wins - losses,
                p_signed_rank=p,
                apart=found.apart(a, b),
            )
        )
        duels += mine
    return pairs, duels


def _duels(scores: Scores, stage: str, a: int, b: int) -> list[Duel]:
    runs, names = scores.runs[stage], scores.measured.contenders
    scenes = [
        s for s in range(len(runs)) if not np.isnan(runs[s, a]).any() and not np.isnan(runs[s, b]).any()
    ]
    found = [difference(runs[s, a], runs[s, b]) for s in scenes]
    adjusted = holm([one.p for one in found])
    return [
        Duel(
            stage=stage,
            scenario=scores.measured.scenes[s].name,
            first=names[a],
            second=names[b],
            ratio=speed(one),
            p=one.p,
            p_adjusted=p,
            outcome={-1: names[a], 0: "not shown", 1: names[b]}[shown(one, p)],
        )
        for s, one, p in zip(scenes, found, adjusted, strict=True)
    ]
