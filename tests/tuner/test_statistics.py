"""The interval holds what it promises, and the verdict says no more than the data do."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tiertune.tuner.statistics import MIN_EFFECT, MIN_PAIRS, Effect, effect, interval, verdict
from tiertune.tuner.trial import Objective

RUNTIME = Objective("runtime_s", "minimize")
THROUGHPUT = Objective("throughput_mops", "maximize")
SEEDS = 10
NOISE = 0.02
SIMULATIONS = 400


def simulated(gain: float, noise: float, count: int, seed: int) -> list[Effect]:
    """Effects of `count` validations: default and tuned with independent noise, tuned faster by `gain`."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        default = noise * random.standard_normal(SEEDS)
        tuned = noise * random.standard_normal(SEEDS) - math.log1p(gain)
        judged = effect(list(default), list(tuned))
        assert judged is not None
        found.append(judged)
    return found


@pytest.mark.parametrize("noise", [0.005, NOISE, 0.1])
def test_a_against_a_is_no_improvement_in_95_of_100(noise: float) -> None:
    alarms = sum(judged.improved for judged in simulated(0.0, noise, SIMULATIONS, seed=1))
    assert alarms <= 0.05 * SIMULATIONS


def test_a_planted_gain_of_3_percent_is_found_at_2_percent_noise() -> None:
    found = sum(judged.improved for judged in simulated(0.03, NOISE, SIMULATIONS, seed=2))
    # Theory (noncentral t, 9 degrees of freedom): 84 %.
    assert found >= 0.75 * SIMULATIONS


def test_paired_noise_makes_a_planted_gain_certain() -> None:
    random = np.random.default_rng(3)
    for _ in range(50):
        shared = NOISE * random.standard_normal(SEEDS)
        tuned = shared - math.log1p(0.03) + 0.2 * NOISE * random.standard_normal(SEEDS)
        judged = effect(list(shared), list(tuned))
        assert judged is not None
        assert judged.improved


@pytest.mark.parametrize("count", [5, 10, 30])
def test_the_interval_covers_as_often_as_it_says(count: int) -> None:
    random = np.random.default_rng(count)
    covered = 0
    for _ in range(SIMULATIONS):
        low, high = interval(random.standard_normal(count) + 7.0)
        covered += low <= 7.0 <= high
    # 95 % with a standard error of 1.1 % in 400 draws; a percentile bootstrap of 10 values stays below 92 %.
    assert 0.925 <= covered / SIMULATIONS <= 0.985


def test_equal_values_give_equal_intervals() -> None:
    values = [0.1, 0.12, 0.08, 0.11, 0.13]
    assert interval(values) == interval(values)
    assert list(interval([0.3] * 10)) == pytest.approx([0.3, 0.3])


def test_the_ratio_is_above_1_where_tuned_is_better_in_either_direction() -> None:
    runtime = [RUNTIME.cost({"runtime_s": s}) for s in (200.0, 100.0)]
    throughput = [THROUGHPUT.cost({"throughput_mops": m}) for m in (50.0, 100.0)]
    for default, tuned in (runtime, throughput):
        assert default is not None
        assert tuned is not None
        judged = effect([default] * 5, [tuned] * 5)
        assert judged is not None
        assert judged.ratio == pytest.approx(2.0)
        assert judged.improved


def test_a_real_but_tiny_gain_does_not_count() -> None:
    judged = effect([0.0] * 10, [-math.log1p(MIN_EFFECT / 2)] * 10)
    assert judged is not None
    assert judged.low > 1.0
    assert not judged.improved
    assert verdict(judged, RUNTIME).startswith("no improvement found: 1.0050x is below the 1 % that counts")


def test_too_few_pairs_are_not_judged() -> None:
    few = [0.0] * (MIN_PAIRS - 1)
    assert effect(few, few) is None
    assert verdict(None, RUNTIME).startswith("not validated")


@pytest.mark.parametrize(
    ("found", "objective", "sentence"),
    [
        (
            Effect(1.42, 1.38, 1.46, 0.95, 10, True),
            RUNTIME,
            "tuned is 1.42x faster than default, 95 % interval 1.38 to 1.46",
        ),
        (
            Effect(1.42, 1.38, 1.46, 0.95, 10, True),
            THROUGHPUT,
            "tuned is at 1.42x the throughput_mops of default, 95 % interval 1.38 to 1.46",
        ),
        (
            Effect(1.0042, 0.9961, 1.0123, 0.95, 10, False),
            RUNTIME,
            "no improvement found: tuned is at 1.0042x of default, 95 % interval 0.9961 to 1.0123",
        ),
        (
            Effect(0.9985, 0.998, 0.999, 0.95, 10, False),
            RUNTIME,
            "no improvement found: tuned is at 0.9985x of default, 95 % interval 0.9980 to 0.9990",
        ),
        (
            Effect(0.9, 0.86, 0.94, 0.95, 10, False),
            RUNTIME,
            "no improvement found: tuned is worse than default, 0.90x its speed, 95 % interval 0.86 to 0.94",
        ),
    ],
)
def test_the_verdict_is_a_plain_sentence(found: Effect, objective: Objective, sentence: str) -> None:
    assert verdict(found, objective) == sentence


def test_a_tuned_config_that_fails_is_no_improvement() -> None:
    fast = Effect(2.0, 1.9, 2.1, 0.95, 8, True)
    assert verdict(fast, RUNTIME, lost=2, pairs=10) == (
        "no improvement found: the tuned configuration failed in 2 of 10 validation runs"
    )


@pytest.mark.parametrize("jitter", [0.0, 1e-12, 1e-6, 1e-4])
@pytest.mark.parametrize("count", [5, 10, 20])
def test_ties_and_one_outlier_have_an_interval_of_their_size(jitter: float, count: int) -> None:
    gains = [0.02 + jitter * number for number in range(count - 1)] + [0.3]
    judged = effect([0.0] * count, [-gain for gain in gains])
    assert judged is not None
    # Four steps of the mean's standard error, which is a count-th of the outlier here, are beyond any doubt.
    step = 0.28 / count
    assert math.log(judged.high) <= 0.02 + (1 + 5) * step
    assert math.log(judged.low) >= 0.02 + (1 - 5) * step
    assert judged.low < judged.ratio < judged.high
