"""What the figures of a comparison allow to say: intervals, adjusted tests, ranks, agreement of rankings.

Pure functions of numbers. All values are natural logs of ratios or costs, lower is better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from tiertune.tuner.statistics import CONFIDENCE, MIN_EFFECT

Array = np.ndarray
ALPHA = 1.0 - CONFIDENCE
RESAMPLES = 2_000


@dataclass(frozen=True)
class Difference:
    """A mean difference of logs with its interval, `p` of the two-sided test that it is 0."""

    mean: float
    low: float
    high: float
    p: float

    @property
    def ratio(self) -> tuple[float, float, float]:
        """How many times as fast the first side is: the factor by which its cost is lower, low and high."""
        return math.exp(-self.mean), math.exp(-self.high), math.exp(-self.low)


def difference(first: Array, second: Array) -> Difference:
    """Mean of `first` minus mean of `second` in logs, each of shape (searches, seeds), on the same seeds.

    Searches are independent samples of what the optimiser hands over, seeds are paired; so the variance of
    the difference has three parts, `s1^2/searches + s2^2/searches + sd^2/seeds`, with the variances between
    searches of each side and that between seeds of the paired difference. Student's t with the
    Welch-Satterthwaite degrees of freedom. What does not vary between searches, such as a default, has one
    row. A single search says nothing of the optimiser's luck; then the interval covers seeds alone.
    """
    parts = [(float(side.mean(axis=1).var(ddof=1)), len(side)) for side in (first, second) if len(side) > 1]
    paired = first.mean(axis=0) - second.mean(axis=0)
    if len(paired) > 1:
        parts.append((float(paired.var(ddof=1)), len(paired)))
    return _student(float(paired.mean()), parts)


def mean_over(values: Sequence[float] | Array) -> Difference | None:
    """Student's t interval of a mean over independent blocks, such as workloads; None under three of them."""
    sample = np.asarray(values, dtype=np.float64)
    if len(sample) < 3:
        return None
    return _student(float(sample.mean()), [(float(sample.var(ddof=1)), len(sample))])


def chance(values: Sequence[float] | Array) -> float:
    """P of Student's two-sided test that the mean of at least two independent values is 0."""
    sample = np.asarray(values, dtype=np.float64)
    return _student(float(sample.mean()), [(float(sample.var(ddof=1)), len(sample))]).p


def _student(mean: float, parts: Sequence[tuple[float, int]]) -> Difference:
    """Interval and test from (variance, count) of the independent parts of a mean."""
    from scipy.special import stdtr, stdtrit

    shares = [(variance / count, count - 1) for variance, count in parts]
    total = sum(share for share, _ in shares)
    error = math.sqrt(total)
    if error <= 1e-12 * max(1.0, abs(mean)):  # deterministic runs
        return Difference(mean, mean, mean, 1.0 if abs(mean) <= 1e-12 else 0.0)
    degrees = total**2 / sum(share**2 / freedom for share, freedom in shares)
    reach = float(stdtrit(degrees, 1.0 - ALPHA / 2.0)) * error
    p = 2.0 * float(stdtr(degrees, -abs(mean) / error))
    return Difference(mean, mean - reach, mean + reach, p)


def holm(values: Sequence[float]) -> list[float]:
    """P values adjusted by Holm's step-down method for being one family, in the order given."""
    adjusted = [0.0] * len(values)
    reached = 0.0
    for position, index in enumerate(sorted(range(len(values)), key=lambda index: values[index])):
        reached = max(reached, min(1.0, (len(values) - position) * values[index]))
        adjusted[index] = reached
    return adjusted


def shown(found: Difference, adjusted_p: float) -> int:
    """-1 where the first side is shown to be better (lower), 1 where worse, 0 where neither is shown.

    Shown means: below ALPHA after adjustment, and no less than the smallest effect that counts.
    """
    if adjusted_p >= ALPHA or abs(found.mean) < math.log1p(MIN_EFFECT):
        return 0
    return -1 if found.mean < 0 else 1


@dataclass(frozen=True)
class Ranking:
    """Mean ranks over blocks (1 is best), Friedman's test of their equality, and Nemenyi's distance.

    `critical` is None, and `p` too, where there are fewer than three contenders or two blocks.
    """

    mean_ranks: list[float]
    p: float | None
    critical: float | None
    blocks: int

    def apart(self, first: int, second: int) -> bool:
        """Whether two contenders are told apart: Friedman's test rejects, and the distance is critical."""
        if self.critical is None or self.p is None or self.p >= ALPHA:
            return False
        return abs(self.mean_ranks[first] - self.mean_ranks[second]) >= self.critical


def ranking(scores: Array) -> Ranking:
    """Ranks of contenders (columns) within blocks (rows); NaN is a failure and comes last, ties share a rank.

    Friedman's test in the form of Iman and Davenport, then Nemenyi's critical difference (Demsar, JMLR 7,
    2006, equations for `F_F` and `CD`). Ranks, because slowdowns of workloads are on no common scale.
    """
    ranks = np.array([ranks_of(row) for row in scores])
    blocks, count = ranks.shape
    means = ranks.mean(axis=0)
    if count < 3 or blocks < 2:
        return Ranking(means.tolist(), None, None, blocks)
    from scipy.special import fdtrc

    between = blocks * float(((means - (count + 1) / 2.0) ** 2).sum())
    within = float(((ranks - (count + 1) / 2.0) ** 2).sum()) / (blocks * (count - 1))
    chi2 = between / within if within > 0.0 else 0.0
    left = blocks * (count - 1) - chi2
    freedom = count - 1, (count - 1) * (blocks - 1)
    p = float(fdtrc(*freedom, (blocks - 1) * chi2 / left)) if left > 1e-12 else 0.0
    return Ranking(
        means.tolist(), p, _nemenyi_q(count) * math.sqrt(count * (count + 1) / (6.0 * blocks)), blocks
    )


@cache
def _nemenyi_q(count: int) -> float:
    """Quantile of the studentised range over sqrt 2, for infinitely many degrees of freedom."""
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(CONFIDENCE, count, math.inf)) / math.sqrt(2.0)


def ranks_of(row: Array) -> Array:
    """Ranks from 1 of the values of a row, ties shared, NaN last."""
    known = np.where(np.isnan(row), np.inf, row)
    below = (known[None, :] < known[:, None]).sum(axis=1)
    equal = (known[None, :] == known[:, None]).sum(axis=1)
    ranks: Array = below + (equal + 1) / 2.0
    return ranks


def cliques(order: Sequence[int], found: Ranking) -> list[tuple[int, int]]:
    """Longest runs (first, last) of neighbours in `order` that are not told apart, as diagrams join them."""
    runs: list[tuple[int, int]] = []
    for first in range(len(order)):
        last = first
        while last + 1 < len(order) and not found.apart(order[first], order[last + 1]):
            last += 1
        if last > first and not any(a <= first and last <= b for a, b in runs):
            runs.append((first, last))
    return runs


def signed_rank(values: Sequence[float] | Array) -> float:
    """Wilcoxon's two-sided signed-rank p; exact for up to 50 differences without ties, 1 where all are 0."""
    sample = np.asarray(values, dtype=np.float64)
    if not sample.any():
        return 1.0
    from scipy.stats import wilcoxon

    return float(wilcoxon(sample).pvalue)


def tau(first: Array, second: Array) -> float:
    """Kendall's tau-b between two rankings of the same contenders; NaN where one has nothing but ties."""
    before, after = (np.sign(row[:, None] - row[None, :])[_upper(len(row))] for row in (first, second))
    ties = math.sqrt(float((before**2).sum() * (after**2).sum()))
    return float((before * after).sum()) / ties if ties else math.nan


def _upper(count: int) -> tuple[Array, Array]:
    return np.triu_indices(count, 1)


def tau_interval(default: Array, tuned: Array) -> tuple[float, float, float] | None:
    """Tau between two orders by mean rank over blocks, with its percentile interval over resampled blocks.

    Both of shape (blocks, contenders). None under three blocks or contenders, and where one of the orders has
    nothing but ties.
    """
    blocks, count = default.shape
    if blocks < 3 or count < 3:
        return None
    first, second = (np.array([ranks_of(row) for row in rows]) for rows in (default, tuned))
    middle = tau(first.mean(axis=0), second.mean(axis=0))
    if math.isnan(middle):
        return None
    drawn = np.random.default_rng(blocks).integers(0, blocks, (RESAMPLES, blocks))
    taus = [tau(first[some].mean(axis=0), second[some].mean(axis=0)) for some in drawn]
    low, high = np.nanquantile(taus, [ALPHA / 2.0, 1.0 - ALPHA / 2.0])
    return middle, float(low), float(high)


def share_interval(hits: int, count: int) -> tuple[float, float]:
    """Clopper and Pearson's exact interval of a share."""
    from scipy.special import betaincinv

    low = float(betaincinv(hits, count - hits + 1, ALPHA / 2.0)) if hits else 0.0
    high = float(betaincinv(hits + 1, count - hits, 1.0 - ALPHA / 2.0)) if hits < count else 1.0
    return low, high
