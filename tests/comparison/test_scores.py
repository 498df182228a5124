"""Rankings, flips and calibration of planted campaigns come out as planted."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.comparison.planted import changed, figures
from tiertune.tuner.comparison.analysis import verdict
from tiertune.tuner.comparison.document import Duel, Pair
from tiertune.tuner.comparison.measured import Measured
from tiertune.tuner.comparison.scores import (
    DEFAULT,
    STAGES,
    TUNED,
    Scores,
    entries_of,
    over_workloads,
    pairs_at,
    ranks_at,
    scores_of,
    slowdown,
)
from tiertune.tuner.comparison.tuning import calibration_of, flips_of, tuning_of

DEFAULTS = {"a": 1.2, "b": 1.3, "c": 1.6, "d": 1.8}
# c is the last but one at default and the first when tuned.
GAINS = {"a": 1.0, "b": 1.05, "c": 1.45, "d": 1.1}


def judged(measured: Measured) -> tuple[Scores, list[Pair], list[Duel]]:
    scores = scores_of(measured)
    pairs: list[Pair] = []
    duels: list[Duel] = []
    for stage in STAGES:
        more = pairs_at(scores, stage, ranks_at(scores, stage)[1])
        pairs += more[0]
        duels += more[1]
    return scores, pairs, duels


def test_planted_slowdowns_and_gains_are_found() -> None:
    scores = scores_of(figures(DEFAULTS, GAINS))
    for c, name in enumerate(DEFAULTS):
        found = slowdown(*over_workloads(scores, scores.mean[TUNED][:, c]))
        assert found.low is not None
        assert found.high is not None
        assert found.low < found.value < found.high
        assert found.value == pytest.approx(DEFAULTS[name] / GAINS[name], rel=0.01)
    verdicts = {
        name: {entry.verdict for entry in entries_of(scores) if entry.system == name} for name in DEFAULTS
    }
    assert verdicts["c"] == {"better"}
    assert "better" not in verdicts["a"]


def test_ranks_are_over_workloads_not_over_machines() -> None:
    """Six workloads on two machines are six blocks: machines are no independent evidence."""
    ranks, _ = ranks_at(scores_of(figures(DEFAULTS, GAINS)), TUNED)
    assert ranks.blocks == 6
    assert ranks.order[0] == "c"
    assert ranks_at(scores_of(figures(DEFAULTS, GAINS)), DEFAULT)[0].order == ["a", "b", "c", "d"]


def test_planted_flips_are_shown_and_no_others() -> None:
    scores, _, duels = judged(figures(DEFAULTS, GAINS, noise=0.005, luck=0.002))
    tuning = tuning_of(scores, duels)
    flipped = {(flip.ahead_at_default, flip.ahead_at_tuned) for flip in tuning.flips}
    assert flipped == {("a", "c"), ("b", "c")}
    assert len(tuning.flips) == 2 * 12
    assert all(flip.ratio_default.value > 1.0 > flip.ratio_tuned.value for flip in tuning.flips)
    assert tuning.pairs == 6 * 12
    assert tuning.tau is not None
    assert tuning.tau.value == pytest.approx(1 - 2 * 2 / 6)
    assert tuning.tau_repeated == 1.0


def test_of_systems_that_are_equal_when_tuned_hardly_a_flip_is_shown() -> None:
    """Ten systems make 540 pairs in twelve scenarios: shown pair by pair, half of comparisons had a flip."""
    default = {f"s{number}": 1.1 * 1.03**number for number in range(10)}
    gain = {name: value / 1.1 for name, value in default.items()}
    false = 0
    for seed in range(8):
        scores = scores_of(figures(default, gain, noise=0.005, luck=0.01, seed=seed, seeds=8))
        duels: list[Duel] = []
        for stage in STAGES:
            duels += pairs_at(scores, stage, ranks_at(scores, stage)[1])[1]
        flips, pairs = flips_of(duels)
        assert pairs == 540
        false += any(flip.shown for flip in flips)
    assert false <= 1


def test_tuning_that_lifts_all_alike_leaves_the_ranking() -> None:
    scores, _, duels = judged(figures(DEFAULTS, dict.fromkeys(DEFAULTS, 1.3)))
    tuning = tuning_of(scores, duels)
    assert tuning.tau is not None
    assert tuning.tau.value == 1.0
    assert tuning.flips == []
    assert tuning.median_gain == pytest.approx(1.3, rel=0.02)


def test_equal_systems_have_no_winner() -> None:
    """A against A through the whole of it: 20 campaigns of four equal systems with equal luck."""
    alarms = duels_shown = 0
    for seed in range(20):
        same = dict.fromkeys(DEFAULTS, 1.3)
        _, pairs, duels = judged(figures(same, dict.fromkeys(DEFAULTS, 1.1), 0.02, 0.02, seed))
        alarms += any(pair.apart for pair in pairs)
        families = {(duel.stage, duel.first, duel.second) for duel in duels if duel.outcome != "not shown"}
        duels_shown += len(families)
    assert alarms <= 2  # 5 % of two stages of 20 campaigns each
    assert duels_shown <= 0.05 * 20 * 2 * 6


def test_a_planted_lead_of_3_percent_is_found_at_2_percent_noise() -> None:
    found = 0
    for seed in range(10):
        measured = figures({"a": 1.0, "b": 1.0}, {"a": 1.03, "b": 1.0}, 0.02, 0.0, seed, seeds=10)
        _, pairs, _ = judged(measured)
        tuned = next(pair for pair in pairs if pair.stage == TUNED)
        assert tuned.losses == 0
        found += tuned.wins
    assert found >= 0.6 * 10 * 12


def test_wins_are_counted_with_their_sides() -> None:
    _, pairs, _ = judged(figures(DEFAULTS, GAINS, noise=0.003, luck=0.001))
    at = {(pair.stage, pair.first, pair.second): pair for pair in pairs}
    assert (at[DEFAULT, "a", "c"].wins, at[DEFAULT, "a", "c"].losses) == (12, 0)
    assert (at[TUNED, "a", "c"].wins, at[TUNED, "a", "c"].losses) == (0, 12)
    assert at[DEFAULT, "a", "c"].ratio.value == pytest.approx(1.6 / 1.2, rel=0.01)


def test_a_failed_run_is_last_and_out_of_the_means() -> None:
    whole = figures(DEFAULTS, GAINS)
    tuned = whole.tuned.copy()
    tuned[0, 2, 1, 3] = np.nan
    scores = scores_of(changed(whole, tuned=tuned))
    assert scores.usable.tolist() == [False] + [True] * 11
    entry = next(entry for entry in entries_of(scores) if entry.system == "c")
    assert (entry.verdict, entry.rank_tuned, entry.failed_runs) == ("failed", 4.0, 1)
    assert not math.isnan(over_workloads(scores, scores.mean[TUNED][:, 2])[1])


def test_a_search_that_keeps_the_default_gains_nothing_for_sure() -> None:
    whole = figures(DEFAULTS, GAINS)
    tuned = whole.tuned.copy()
    tuned[:, 0] = whole.default[:, 0, None, :]
    kept = whole.kept.copy()
    kept[:, 0] = True
    found = [e for e in entries_of(scores_of(changed(whole, tuned=tuned, kept=kept))) if e.system == "a"]
    assert {(entry.verdict, entry.p, entry.kept_default) for entry in found} == {("not shown", 1.0, 3)}
    assert {entry.gain.value for entry in found if entry.gain} == {1.0}


def test_calibration_counts_defaults_that_differ_from_themselves() -> None:
    fine = calibration_of(figures(DEFAULTS, GAINS))
    assert fine.tests == 4 * 12
    assert fine.holds
    drifted = figures(DEFAULTS, GAINS)
    wrong = calibration_of(changed(drifted, again=drifted.again - 0.1))
    assert wrong.alarms == 48
    assert not wrong.holds


def test_who_ranks_first_and_is_not_the_fastest_is_said_to_be_so() -> None:
    """A rank says how often one is ahead, a mean by how much: a reader of the table would wonder."""
    ranks: Any = [
        SimpleNamespace(stage=stage, order=["often", "far"], joined=[(0, 1)])
        for stage in ("default", "tuned")
    ]
    tuning: Any = SimpleNamespace(tau=None)
    said = verdict([], ranks, tuning, "far")
    assert said.startswith(
        "Tuned at equal budgets, often ranks first of 2 and far has the lowest mean slowdown"
    )
    assert "slowdown" not in verdict([], ranks, tuning, "often")
