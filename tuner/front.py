"""The front of two objectives as fresh seeds show it: who is beaten beyond noise, and by how much the others
differ from the default.

Whether anything is better than the default is asked of every configuration in both objectives, so Holm's
adjustment is over all of these.

One configuration beats another when it is shown better in one objective, by a hundredth of the default's
value at least, and its interval in the other rules out that it is worse by as much. The sum of what it gains
and loses is then a gain, so that no circle of configurations can beat each other, and some are always left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tiertune.tuner.comparison.inference import ALPHA, difference, holm
from tiertune.tuner.search.objectives import Objectives, Pair
from tiertune.tuner.statistics import CONFIDENCE, MIN_EFFECT, MIN_PAIRS, interval


@dataclass(frozen=True)
class Share:
    """Mean of a metric over the seeds, and its ratio to the default's with an interval; None without a
    default above 0."""

    mean: float
    ratio: float | None
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.ratio is None or self.low is None or self.high is None:
            return f"{self.mean:.4g}"
        return f"{self.ratio:.2f} ({self.low:.2f} to {self.high:.2f})"


@dataclass(frozen=True)
class Point:
    """A configuration that was validated; `name` is its canonical text, `beaten_by` the name of one that
    beats it, and `gains` whether it is shown better than the default in either objective."""

    name: str
    first: Share
    second: Share
    beaten_by: str | None
    gains: bool


@dataclass(frozen=True)
class Front:
    """All points that can be judged, by the first objective, the default among them; `seeds` they all ran
    on."""

    objectives: Objectives
    points: tuple[Point, ...]
    default: str
    seeds: int
    confidence: float = CONFIDENCE

    @property
    def found(self) -> list[Point]:
        """The configurations on the front, without the default."""
        return [p for p in self.points if p.beaten_by is None and p.name != self.default]

    @property
    def default_stays(self) -> bool:
        """Whether nothing beats the default."""
        return any(p.beaten_by is None for p in self.points if p.name == self.default)

    @property
    def improved(self) -> bool:
        """Whether some configuration on it is shown better than the default in one objective."""
        return any(point.gains for point in self.found)


def front_of(objectives: Objectives, default: str, runs: Mapping[str, Sequence[Pair]]) -> Front | None:
    """The front of `runs`: values of each configuration in order of the same seeds. None with too few
    seeds."""
    seeds = len(runs[default])
    if seeds < MIN_PAIRS:
        return None
    values = {name: np.array([objectives.signed(pair) for pair in pairs]) for name, pairs in runs.items()}
    means = {name: rows.mean(axis=0) for name, rows in values.items()}
    scale = scale_of([abs(m) for m in means.values()], abs(means[default]))
    gains = _gains({name: rows / scale for name, rows in values.items()}, default)
    beaten: dict[str, str] = {}
    for name, rows in values.items():
        beats = [
            other
            for other in values
            if other != name and _beats(values[other], rows, scale, gains[other] if name == default else None)
        ]
        if beats:
            beaten[name] = min(beats, key=lambda other: float(np.sum(means[other] / scale)))
    points = []
    for name, rows in values.items():
        shares = [_share(np.abs(rows[:, k]), np.abs(values[default][:, k])) for k in (0, 1)]
        better = any(gains.get(name, ()))
        points.append(Point(name, shares[0], shares[1], beaten.get(name), better))
    points.sort(key=lambda point: (*means[point.name], point.name))
    return Front(objectives, tuple(points), default, seeds)


def scale_of(means: Sequence[np.ndarray], default: np.ndarray) -> np.ndarray:
    """What differences are measured in: the default's values; where one is 0, the largest there is."""
    largest = np.max(np.array(means), axis=0)
    found: np.ndarray = np.where(default > 0.0, default, np.where(largest > 0.0, largest, 1.0))
    return found


def verdict_of(front: Front) -> str:
    """The sentence on a front."""
    one, other = (each.metric for each in front.objectives)
    found = front.found
    if not front.improved:
        return f"no improvement found: nothing is better than default in {one} or {other} beyond noise"
    if front.default_stays:
        count = f"{len(found) + 1} configurations, the default among them, trade"
    elif len(found) == 1:
        both = f"{one} {found[0].first} and {other} {found[0].second}, relative to default"
        return f"one configuration is best in both objectives: {both}"
    else:
        count = f"{len(found)} configurations trade"
    told = f"{_times(found[0].first)} {one} at {_times(found[0].second)} {other}"
    if len(found) > 1:
        told = f"from {told} to {_times(found[-1].first)} at {_times(found[-1].second)}"
    return f"{count} {one} for {other}: {told}, relative to default"


def _times(share: Share) -> str:
    return f"{share.mean:.3g} (default 0)" if share.ratio is None else f"{share.ratio:.2f}x"


def _gains(values: Mapping[str, np.ndarray], default: str) -> dict[str, tuple[bool, bool]]:
    """In which objectives each configuration is shown better than the default; `values` are in its units."""
    others = [name for name in values if name != default]
    found = [difference(values[name].T[[k]], values[default].T[[k]]) for name in others for k in (0, 1)]
    adjusted = holm([one.p for one in found])
    shown = [-one.mean >= MIN_EFFECT and p < ALPHA for one, p in zip(found, adjusted, strict=True)]
    return dict(zip(others, zip(shown[::2], shown[1::2], strict=True), strict=True))


def _beats(
    one: np.ndarray, other: np.ndarray, scale: np.ndarray, gains: tuple[bool, bool] | None = None
) -> bool:
    """`gains` has in which objectives `one` is shown better, where that is known."""
    for k in (0, 1):
        worse = (one[:, 1 - k] - other[:, 1 - k]) / scale[1 - k]
        better = gains[k] if gains else _better(one[:, k], other[:, k], scale[k])
        if better and interval(worse)[1] < MIN_EFFECT:
            return True
    return False


def _better(one: np.ndarray, other: np.ndarray, scale: float) -> bool:
    ahead = (other - one) / scale
    return float(ahead.mean()) >= MIN_EFFECT and interval(ahead)[0] > 0.0


def _share(values: np.ndarray, default: np.ndarray) -> Share:
    """A ratio of means with the interval of its paired residuals, as values may be 0 on some seeds."""
    mean, reference = float(values.mean()), float(default.mean())
    if reference <= 0.0:
        return Share(mean, None, None, None)
    ratio = mean / reference
    low, high = interval((values - ratio * default) / reference)
    return Share(mean, ratio, ratio + low, ratio + high)
