"""What a comparison says is shown is there, and as often as it promises; on numbers whose truth is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tiertune.tuner.comparison.inference import (
    ALPHA,
    Ranking,
    cliques,
    difference,
    holm,
    mean_over,
    ranking,
    ranks_of,
    share_interval,
    shown,
    signed_rank,
    tau,
    tau_interval,
)
from tiertune.tuner.comparison.tuning import calibration

SEARCHES, SEEDS, NOISE = 3, 10, 0.02


def tuned(random: np.random.Generator, gain: float, luck: float = NOISE, seeds: int = SEEDS) -> np.ndarray:
    """Log costs of the winners of some searches: `luck` is the deviation between searches."""
    searches = luck * random.standard_normal((SEARCHES, 1))
    return -math.log1p(gain) + searches + NOISE * random.standard_normal((SEARCHES, seeds))


@pytest.mark.parametrize("luck", [0.0, 0.02, 0.1])
@pytest.mark.parametrize("seeds", [5, 10])
def test_a_system_against_itself_is_not_shown_in_95_of_100_comparisons(luck: float, seeds: int) -> None:
    random = np.random.default_rng(1)
    pairs = [(tuned(random, 0.0, luck, seeds), tuned(random, 0.0, luck, seeds)) for _ in range(1000)]
    found = [difference(first, second) for first, second in pairs]
    assert sum(shown(one, one.p) != 0 for one in found) <= ALPHA * len(found)


@pytest.mark.parametrize("luck", [0.0, 0.02, 0.1])
def test_the_interval_covers_search_luck_and_seeds(luck: float) -> None:
    random = np.random.default_rng(2)
    found = [difference(tuned(random, 0.1, luck), tuned(random, 0.0, luck)) for _ in range(1000)]
    covered = sum(one.low <= -math.log1p(0.1) <= one.high for one in found)
    assert 0.935 <= covered / 1000 <= 0.995  # the standard error of the share is 0.7 %


def test_an_interval_of_seeds_alone_would_miss_the_luck_of_searches() -> None:
    """Why variance between searches is in the interval: without it, every second comparison is wrong."""
    random = np.random.default_rng(3)
    found = [difference(tuned(random, 0.0, 0.1)[:1], tuned(random, 0.0, 0.1)[:1]) for _ in range(300)]
    assert sum(shown(one, one.p) != 0 for one in found) > 0.5 * len(found)


def test_a_planted_gain_of_3_percent_is_found_at_2_percent_noise() -> None:
    """Default on the same seeds against three searches that all found the gain."""
    random = np.random.default_rng(4)
    found = [
        difference(tuned(random, 0.03, 0.0), NOISE * random.standard_normal((1, SEEDS))) for _ in range(300)
    ]
    assert sum(shown(one, one.p) == -1 for one in found) >= 0.9 * len(found)


def test_equal_runs_differ_with_certainty_or_not_at_all() -> None:
    ones = np.ones((3, 5))
    same, other = difference(ones, ones), difference(ones, 2.0 * ones)
    assert (same.mean, same.p, shown(same, same.p)) == (0.0, 1.0, 0)
    assert (other.low, other.high, other.p, shown(other, other.p)) == (-1.0, -1.0, 0.0, -1)
    assert other.ratio == pytest.approx((math.e, math.e, math.e))


def test_a_certain_but_tiny_difference_does_not_count() -> None:
    found = difference(np.zeros((1, 5)), np.full((1, 5), 0.005))
    assert found.p == 0.0
    assert shown(found, found.p) == 0


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_holm_holds_the_rate_of_any_false_alarm() -> None:
    random = np.random.default_rng(5)
    alarms = 0
    for _ in range(500):
        found = [difference(tuned(random, 0.0), tuned(random, 0.0)) for _ in range(12)]
        alarms += any(shown(one, p) for one, p in zip(found, holm([o.p for o in found]), strict=True))
    assert alarms <= ALPHA * 500


def test_ranks_share_ties_and_failures_come_last() -> None:
    assert ranks_of(np.array([0.3, 0.1, np.nan, 0.3])).tolist() == [2.5, 1.0, 4.0, 2.5]


def test_critical_differences_are_those_of_the_published_table() -> None:
    """Demsar (2006), table 5: q at 0.05 is 2.343, 2.728 and 3.164 for 3, 5 and 10 classifiers."""
    for count, q in ((3, 2.343), (5, 2.728), (10, 3.164)):
        found = ranking(np.random.default_rng(count).random((8, count)))
        assert found.critical == pytest.approx(q * math.sqrt(count * (count + 1) / 48.0), rel=1e-3)


def test_friedman_by_the_example_of_its_textbook() -> None:
    """Demsar (2006), section 3.2: mean ranks over 14 data sets; p by scipy, which also corrects for ties."""
    c45 = [.763, .599, .954, .628, .882, .936, .661, .583, .775, 1.0, .940, .619, .972, .957]  # fmt: skip
    m = [.768, .591, .971, .661, .888, .931, .668, .583, .838, 1.0, .962, .666, .981, .978]  # fmt: skip
    cf = [.771, .590, .968, .654, .886, .916, .609, .563, .866, 1.0, .965, .614, .9751, .946]  # fmt: skip
    both = [.798, .569, .967, .657, .898, .931, .685, .625, .875, 1.0, .962, .669, .975, .970]  # fmt: skip
    found = ranking(-np.array([c45, m, cf, both]).T)
    assert found.mean_ranks == pytest.approx([3.143, 2.0, 2.893, 1.964], abs=1e-3)
    assert found.critical == pytest.approx(1.25, abs=0.005)
    chi2 = stats.friedmanchisquare(c45, m, cf, both).statistic
    assert found.p == pytest.approx(stats.f.sf(13 * chi2 / (14 * 3 - chi2), 3, 3 * 13))


def test_equal_systems_are_rarely_told_apart_by_ranks() -> None:
    random = np.random.default_rng(6)
    alarms = 0
    for _ in range(200):
        found = ranking(random.standard_normal((6, 10)))
        alarms += any(found.apart(a, b) for a in range(10) for b in range(a))
    assert alarms <= ALPHA * 200


def test_a_system_that_is_best_everywhere_is_told_apart_from_the_worst() -> None:
    random = np.random.default_rng(7)
    found = ranking(random.standard_normal((8, 6)) * 0.2 + np.arange(6))
    assert found.p is not None
    assert found.p < 1e-6
    assert found.apart(0, 5)
    assert not found.apart(0, 1)


def test_two_systems_have_ranks_and_no_critical_difference() -> None:
    found = ranking(np.array([[0.0, 1.0], [0.0, 1.0]]))
    assert found == Ranking([1.0, 2.0], None, None, 2)
    assert cliques([0, 1], found) == [(0, 1)]


def test_lines_join_all_that_are_not_told_apart() -> None:
    found = Ranking([1.0, 2.0, 3.0, 4.5], 0.001, 1.5, 10)
    assert cliques([0, 1, 2, 3], found) == [(0, 1), (1, 2)]
    assert cliques([0, 1, 2, 3], Ranking([1.0, 2.0, 3.0, 4.5], 0.3, 1.5, 10)) == [(0, 3)]


def test_tau_of_known_orders() -> None:
    order = np.arange(5.0)
    assert tau(order, order) == 1.0
    assert tau(order, -order) == -1.0
    assert tau(order, np.array([0.0, 1.0, 2.0, 4.0, 3.0])) == pytest.approx(0.8)
    assert math.isnan(tau(order, np.zeros(5)))


def test_tau_has_an_interval_over_workloads() -> None:
    random = np.random.default_rng(8)
    default = np.arange(6.0) + 0.1 * random.standard_normal((8, 6))
    same = tau_interval(default, default + 0.01)
    mixed = tau_interval(default, random.standard_normal((8, 6)))
    assert same == (1.0, 1.0, 1.0)
    assert mixed is not None
    assert mixed[1] < mixed[0] < mixed[2] < 1.0
    assert tau_interval(default[:2], default[:2]) is None


def test_means_over_workloads_need_three_of_them() -> None:
    found = mean_over([0.1, 0.2, 0.3])
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.2 - 0.24841, 0.2 + 0.24841), abs=1e-4)
    assert mean_over([0.1, 0.2]) is None


def test_signed_rank_is_exact() -> None:
    assert signed_rank([0.1, 0.2, 0.3, 0.4, 0.5, 0.6]) == pytest.approx(2 / 2**6)
    assert signed_rank([0.0, 0.0]) == 1.0


def test_shares_have_exact_intervals() -> None:
    assert share_interval(0, 20) == pytest.approx((0.0, 0.1684), abs=1e-4)
    assert share_interval(20, 20) == pytest.approx((0.8316, 1.0), abs=1e-4)
    assert share_interval(3, 20) == pytest.approx((0.0321, 0.3789), abs=1e-4)


def test_a_against_a_is_calibrated_until_alarms_are_too_many() -> None:
    fine = calibration([0.01] * 6 + [0.5] * 94, [1] * 6 + [0] * 94)
    many = calibration([0.01] * 12 + [0.5] * 88, [1, -1] * 6 + [0] * 88)
    assert (fine.alarms, fine.rate, fine.adjusted_alarms, fine.holds) == (6, 0.06, 0, True)
    assert (many.alarms, many.shown, many.gained, many.holds) == (12, 12, 6, False)


def test_alarms_too_small_to_count_are_alarms_of_the_test_all_the_same() -> None:
    found = calibration([0.01] * 30 + [0.5] * 70, [0] * 100)
    assert (found.alarms, found.shown, found.holds) == (30, 0, False)


def test_an_order_of_ties_alone_has_no_tau() -> None:
    """Three systems that are first, second and third once each: the verdict said that tau was nan."""
    turning = np.array([[1.0, 2.0, 3.0], [2.0, 3.0, 1.0], [3.0, 1.0, 2.0]])
    settled = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [1.0, 3.0, 2.0]])
    assert tau_interval(turning, settled) is None
    assert tau_interval(settled, turning) is None
    assert tau_interval(settled, settled) is not None
