"""How much of a ranking is due to tuning, and how far the method may be trusted: flips, tau, A against A."""

from __future__ import annotations

import math
from statistics import median

import numpy as np

from tiertune.tuner.comparison.document import Bound, Calibration, Duel, Flip, Span, Tuning
from tiertune.tuner.comparison.inference import (
    ALPHA,
    difference,
    holm,
    share_interval,
    shown,
    tau,
    tau_interval,
)
from tiertune.tuner.comparison.measured import Journals, Measured, cells_of, hands_over_default
from tiertune.tuner.comparison.scores import DEFAULT, TUNED, Scores
from tiertune.tuner.plan import CampaignPlan
from tiertune.tuner.trial import Config

Array = np.ndarray


def tuning_of(scores: Scores, duels: list[Duel]) -> Tuning:
    """What changes between the ranking at default and the one at tuned."""
    default, tuned = scores.mean[DEFAULT], scores.mean[TUNED]
    usable = np.flatnonzero(scores.usable)
    found = tau_interval(scores.blocks[DEFAULT], scores.blocks[TUNED])
    flips, pairs = flips_of(duels)
    spread = [[float(np.ptp(rows[s])) for s in usable] for rows in (default, tuned)]
    gains = [float(default[s, c] - tuned[s, c]) for s in usable for c in range(default.shape[1])]
    return Tuning(
        tau=Span(*found) if found else None,
        tau_repeated=_tau_repeated(scores),
        tau_searches=_tau_searches(scores),
        tau_scenarios=[_known(tau(default[s], tuned[s])) for s in usable],
        pairs=pairs,
        flips=[flip for flip in flips if flip.shown],
        reordered=len(flips),
        median_gain=math.exp(median(gains)) if gains else math.nan,
        median_spread_default=math.exp(median(spread[0])) if len(usable) else math.nan,
        median_spread_tuned=math.exp(median(spread[1])) if len(usable) else math.nan,
    )


def flips_of(duels: list[Duel]) -> tuple[list[Flip], int]:
    """Pairs whose order differs between the stages, and of how many pairs in all.

    A flip is shown where both orders are, after Holm's adjustment over all pairs in all scenarios: the larger
    P of the two stages is that of the test that there is none. Adjusted pair by pair, one false flip in a
    comparison of ten systems is to be expected.
    """
    at = {(duel.stage, duel.scenario, duel.first, duel.second): duel for duel in duels}
    couples = [
        (before, after)
        for (stage, *key), before in at.items()
        if stage == DEFAULT and (after := at.get((TUNED, key[0], key[1], key[2]))) is not None
    ]
    turns = [(a.ratio.value - 1.0) * (b.ratio.value - 1.0) < 0.0 for a, b in couples]
    adjusted = holm([max(a.p, b.p) if turn else 1.0 for (a, b), turn in zip(couples, turns, strict=True)])
    flips = []
    for (before, after), turn, p in zip(couples, turns, adjusted, strict=True):
        if not turn:
            continue
        turned = before.ratio.value < 1.0
        ahead, behind = (before.second, before.first) if turned else (before.first, before.second)
        ratios = [_inverse(ratio) if turned else ratio for ratio in (before.ratio, after.ratio)]
        flips.append(
            Flip(
                scenario=before.scenario,
                ahead_at_default=ahead,
                ahead_at_tuned=behind,
                ratio_default=ratios[0],
                ratio_tuned=ratios[1],
                shown=p < ALPHA and "not shown" not in (before.outcome, after.outcome),
            )
        )
    return flips, len(couples)


def _inverse(ratio: Span) -> Span:
    """The same ratio, seen from the other side."""
    low, high = (None if end is None else 1.0 / end for end in (ratio.high, ratio.low))
    return Span(1.0 / ratio.value, low, high)


def _tau_repeated(scores: Scores) -> float | None:
    """Agreement of the ranking at default with that of the same defaults on other seeds, over scenarios."""
    measured = scores.measured
    again, first = measured.again.mean(axis=2), measured.default.mean(axis=2)
    found = [tau(first[s], again[s]) for s in np.flatnonzero(scores.usable)]
    return _mean(found)


def _tau_searches(scores: Scores) -> float | None:
    """Agreement of the rankings that two searches lead to, mean over scenarios and couples of searches."""
    by_search = scores.runs[TUNED].mean(axis=3)
    count = by_search.shape[2]
    found = [
        tau(by_search[s, :, a], by_search[s, :, b])
        for s in np.flatnonzero(scores.usable)
        for a in range(count)
        for b in range(a + 1, count)
    ]
    return _mean(found)


def _mean(values: list[float]) -> float | None:
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else None


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def calibration_of(measured: Measured) -> Calibration:
    """Each default against itself, on other seeds, by the very test that judges systems.

    The rate of alarms without adjustment ought to be near ALPHA; it `holds` unless so many are unlikely then.
    """
    found = []
    for s in range(len(measured.scenes)):
        for c in range(len(measured.contenders)):
            first, second = measured.default[s, c], measured.again[s, c]
            if not np.isnan(first).any() and not np.isnan(second).any():
                found.append(difference(first[None, :], second[None, :]))
    return calibration([one.p for one in found], [shown(one, one.p) for one in found])


def calibration(values: list[float], outcomes: list[int]) -> Calibration:
    """The calibration from p values of A against A, and from what was shown (see `shown`) in each."""
    count = len(values)
    alarms = sum(p < ALPHA for p in values)
    low, high = share_interval(alarms, count) if count else (0.0, 1.0)
    return Calibration(
        tests=count,
        alarms=alarms,
        shown=sum(outcome != 0 for outcome in outcomes),
        rate=alarms / count if count else 0.0,
        low=low,
        high=high,
        adjusted_alarms=sum(p < ALPHA for p in holm(values)),
        gained=sum(outcome < 0 for outcome in outcomes),
        holds=low <= ALPHA,
    )


def bounds_of(plan: CampaignPlan, journals: Journals) -> list[Bound]:
    """For each searched number, how many winners lie on an end of its range; most first within a system.

    Winners are those of searches that did not hand over the default. A knob whose condition is not met is not
    in a winner, and not counted.
    """
    made = []
    names = dict.fromkeys(name for _, name in cells_of(plan))
    for name in names:
        cells = [cell for cell in plan.cells if cell.contender == name]
        winners = [config for cell in cells if (config := winner_handed_over(cell.key, journals)) is not None]
        mine = []
        for axis in cells[0].space.axes():
            if axis.type not in ("int", "float"):
                continue
            values = [float(config[axis.name]) for config in winners if axis.name in config]
            low, high = (
                sum(math.isclose(value, end) for value in values) for end in (axis.minimum, axis.maximum)
            )
            ends = axis.minimum, axis.maximum
            mine.append(Bound(name, axis.name, *ends, str(axis.default), low, high, len(values)))
        made += sorted(mine, key=lambda bound: -(bound.at_low + bound.at_high))
    return made


def winner_handed_over(cell: str, journals: Journals) -> Config | None:
    """The winner that a search hands over, None where it is the default."""
    if hands_over_default(cell, journals):
        return None
    rows = journals.validation[cell]
    return next(row.trial.config for row in rows if row.trial.origin == "winner")


def on_a_bound(config: Config, bounds: list[Bound]) -> bool:
    """Whether any searched number of a config lies on an end of its range."""
    return any(
        math.isclose(float(config[bound.knob]), end)
        for bound in bounds
        if bound.knob in config
        for end in (bound.low, bound.high)
    )
