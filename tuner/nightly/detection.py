"""Did a figure change? A test for a step in the last nights, with one error budget a night for all figures.

Pure: histories in, steps out. Every night, for every series, the last 1, 2, 3, 5 and 8 nights are compared
with the nights before them, back to the last known step. The spread that a night mean may have is
estimated from three things together: how far the replicates within a night scatter, how far the series
moved from night to night so far, and how restless the other series of its kind were. So the second night
can be judged already, and a long history outweighs all assumptions. A night that was measured in part counts
with the runs it has. P-values over windows are combined by Bonferroni weights, over series by Holm: while
nothing changes, a night raises anything at all with a probability of at most `ALPHA`, whatever hangs together
among series; that is one false alarm in 1 / ALPHA nights on average, however many figures a suite has.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

ALPHA = 0.005
"""Probability of a false alarm in a night, over all series together."""

WINDOWS: Mapping[int, float] = {1: 0.4, 2: 0.3, 3: 0.1, 5: 0.1, 8: 0.1}
"""How many of the last nights may differ, and the share of a series' error that goes to that question."""

PRIOR_NIGHTS = 6
"""What is assumed of the spread of whole nights weighs as much as that many nights of history."""

MOST_PRIOR_NIGHTS = 20
"""What replicates show weighs as much as there are of them, but no more than that many nights."""

LONGEST = 60
"""Nights before these are not looked at: machines age."""

FROZEN = 0.05
"""Nights that vary by less than this share of what their replicates suggest are the same draw again."""


CHI_SQUARED_MEDIAN = 0.4549
"""Of one degree of freedom."""

ENOUGH_PAIRS = 4
"""Neighbouring nights, over all series of a kind, that it takes to say how much whole nights differ."""


@dataclass(frozen=True)
class Kind:
    """What is assumed of a figure. All numbers are natural logs, so that 0.01 is about 1 %.

    `night`: standard deviation of a whole night that replicates do not show. `least`: a smaller step is not
    worth waking anybody. `nights`: history that it takes to judge where a night has fewer than three
    replicates.
    """

    night: float = 0.005
    least: float = 0.01
    nights: int = 5


@dataclass(frozen=True)
class Reading:
    """A figure in one night: its replicates, higher is worse, and how many further runs of it failed."""

    night: str
    values: tuple[float, ...]
    failed: int = 0

    @cached_property
    def mean(self) -> float:
        """Of the replicates, NaN where all failed."""
        return math.fsum(self.values) / len(self.values) if self.values else math.nan

    @cached_property
    def squares(self) -> float:
        """Sum of squared distances from the mean."""
        return math.fsum((value - self.mean) ** 2 for value in self.values)


@dataclass(frozen=True)
class Series:
    """One figure since its last known step, oldest night first; the last reading is tonight's."""

    key: str
    kind: Kind
    readings: Sequence[Reading]


@dataclass(frozen=True)
class Step:
    """A series changed: by `size` (natural log, above 0 is worse) since `night`, `nights` nights ago counting
    tonight. `failing` steps are of the share of failed runs, their size is that share."""

    key: str
    night: str
    nights: int
    size: float
    before: float
    p: float
    failing: bool = False


@dataclass(frozen=True)
class _Shape:
    """A series as numbers: night means, the pooled variance and number of replicates of a night, and by how
    much more the mean of each night varies because it has fewer."""

    series: Series
    means: np.ndarray
    within: float
    replicates: float
    lacking: np.ndarray
    degrees: int
    nights: tuple[str, ...]


def steps(series: Iterable[Series], alpha: float = ALPHA, confirm: int = 1) -> tuple[list[Step], list[Step]]:
    """What got worse tonight and what got better, most certain first; each list is one family of tests.

    `confirm` is the number of nights that have to agree before anything is said (1: the night itself is
    enough).
    """
    known = list(series)
    shapes = [shape for shape in map(_shape, known) if shape is not None]
    restless = _restlessness(shapes)
    worse: list[Step] = []
    better: list[Step] = []
    for shape in shapes:
        up, down = _sharpest(shape, restless[shape.series.kind], confirm)
        worse += [up] if up else []
        better += [down] if down else []
    failing = [step for one in known if (step := _failing(one)) is not None]
    return _holm(worse + failing, alpha, len(shapes) + len(failing)), _holm(better, alpha, len(shapes))


def _shape(series: Series) -> _Shape | None:
    """None where tonight has no value, or there is too little to compare it with."""
    readings = list(series.readings)
    if not readings or not readings[-1].values:
        return None
    usable = [reading for reading in readings if reading.values][-LONGEST:]
    counts = [len(reading.values) for reading in usable]
    needed = 1 if min(counts) >= 3 else series.kind.nights
    if len(usable) <= needed:
        return None
    degrees = sum(counts) - len(counts)
    within = math.fsum(reading.squares for reading in usable) / degrees if degrees else 0.0
    # Of the nights before: what tonight lacks must not make all of them look wider.
    replicates = (len(counts) - 1) / sum(1 / count for count in counts[:-1])
    means = np.array([reading.mean for reading in usable])
    lacking = np.maximum(0.0, within * (1 / np.array(counts) - 1 / replicates))
    nights = tuple(reading.night for reading in usable)
    return _Shape(series, means, within, replicates, lacking, degrees, nights)


def _restlessness(shapes: Sequence[_Shape]) -> dict[Kind, float]:
    """Variance between nights that replicates do not explain, by kind: as assumed, or as most series show."""
    between: dict[Kind, list[float]] = {}
    within: dict[Kind, list[float]] = {}
    for shape in shapes:
        # Of neighbours, and their median: a step is one difference of many.
        between.setdefault(shape.series.kind, []).extend((np.diff(shape.means) ** 2 / 2).tolist())
        within.setdefault(shape.series.kind, []).append(shape.within / shape.replicates)
    found = {}
    for kind, squares in between.items():
        shown = float(np.median(squares)) / CHI_SQUARED_MEDIAN if len(squares) >= ENOUGH_PAIRS else 0.0
        found[kind] = max(kind.night**2, shown - float(np.median(within[kind])))
    return found


def _sharpest(shape: _Shape, restless: float, confirm: int) -> tuple[Step | None, Step | None]:
    """The most certain step up and the most certain one down, with p over all windows; None where too
    small."""
    from scipy.special import stdtr

    means = shape.means
    enough = 1 if shape.replicates >= 3 else shape.series.kind.nights
    windows = {w: share for w, share in WINDOWS.items() if w <= len(means) - enough}
    total = sum(windows.values())
    drawn = shape.within / shape.replicates
    last = np.array([width for width in windows if width >= confirm])
    if not len(last):
        return None, None
    first = len(means) - last
    # Sums up to each night, of distances from tonight, so that squares lose no digits.
    sums = np.concatenate([[0.0], np.cumsum(means - means[-1])])
    squares = np.concatenate([[0.0], np.cumsum((means - means[-1]) ** 2)])
    before, after = sums[first] / first, (sums[-1] - sums[first]) / last
    around = squares[-1] - first * before**2 - last * after**2
    degrees = len(means) - 2
    prior = _weight(drawn, restless, shape.degrees)
    variance = (prior * (drawn + restless) + around) / (prior + degrees)
    error = variance * (1 / first + 1 / last)
    certain = np.full(len(last), prior + degrees)
    if _frozen(means, drawn):
        # Equal seeds on a simulator give equal nights. What changes its random numbers draws anew, once, and
        # how wide it draws is known from the seeds of one night alone.
        wider = 2 * drawn > error
        error = np.where(wider, 2 * drawn, error)
        certain = np.where(wider, max(1.0, shape.replicates - 1), certain)
    error, certain = _in_part(shape, first, last, error, certain)
    sizes = after - before
    p = stdtr(certain, -np.abs(sizes) / np.sqrt(error))
    shares = np.array([windows[int(width)] for width in last])
    found = [
        Step(
            shape.series.key,
            shape.nights[-width],
            int(width),
            float(size),
            float(level + means[-1]),
            min(1.0, float(chance * total / share)),
        )
        for width, size, level, chance, share in zip(last, sizes, before, p, shares, strict=True)
    ]
    large = [step for step in found if abs(step.size) >= shape.series.kind.least]
    up = min((step for step in large if step.size > 0), key=lambda step: step.p, default=None)
    down = min((step for step in large if step.size < 0), key=lambda step: step.p, default=None)
    return up, down


def _in_part(
    shape: _Shape, first: np.ndarray, last: np.ndarray, error: np.ndarray, certain: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Variance of a step and its degrees of freedom, with what nights add that were measured in part.

    That holds for runs that vary by themselves and for seeds that differ every night alike: then how wide
    they differ is known from as many seeds as a night has.
    """
    sums = np.concatenate([[0.0], np.cumsum(shape.lacking)])
    lacking = sums[first] / first**2 + (sums[-1] - sums[first]) / last**2
    whole = lacking <= 0.0
    known = error**2 / certain + lacking**2 / max(1.0, shape.replicates - 1)
    both = (error + lacking) ** 2 / np.where(whole, 1.0, known)
    return error + lacking, np.where(whole, certain, both)


def _weight(drawn: float, restless: float, degrees: int) -> float:
    """Degrees of freedom of the sum of both variances, by Welch and Satterthwaite: where replicates make most
    of it, it is known from the second night on."""
    known = drawn**2 / degrees if degrees else 0.0
    weight = (drawn + restless) ** 2 / (known + restless**2 / PRIOR_NIGHTS)
    return min(weight, float(MOST_PRIOR_NIGHTS))


def _frozen(means: np.ndarray, drawn: float) -> bool:
    """Whether most nights are the one before again, to a small part of the variance that replicates show."""
    if len(means) < ENOUGH_PAIRS + 1:
        return False
    shown = float(np.median(np.diff(means) ** 2 / 2)) / CHI_SQUARED_MEDIAN
    return shown < FROZEN * drawn


def _failing(series: Series) -> Step | None:
    """Runs fail tonight that did not before, by Fisher's exact test."""
    if len(series.readings) < 2 or not series.readings[-1].failed:
        return None
    *past, tonight = series.readings[-LONGEST:]
    runs = len(tonight.values) + tonight.failed
    failed_before = sum(reading.failed for reading in past)
    runs_before = sum(len(reading.values) + reading.failed for reading in past)
    failed = tonight.failed + failed_before
    ways = sum(
        math.comb(failed, mine) * math.comb(runs + runs_before - failed, runs - mine)
        for mine in range(tonight.failed, min(failed, runs) + 1)
    )
    p = ways / math.comb(runs + runs_before, runs)
    share = tonight.failed / runs
    before = failed_before / runs_before if runs_before else 0.0
    if share - before < series.kind.least:
        return None
    return Step(series.key, tonight.night, 1, share, before, p, failing=True)


def _holm(found: Sequence[Step], alpha: float, tested: int) -> list[Step]:
    """Those that stay within a family-wise error of `alpha` over `tested` series.

    Series whose step was too small to be in `found` count, too.
    """
    kept = []
    for rank, step in enumerate(sorted(found, key=lambda step: step.p)):
        if step.p > alpha / (tested - rank):
            break
        kept.append(step)
    return kept
