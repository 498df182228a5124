"""Which contender of a sweep is first in which scenario, and who is told apart from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import numpy as np

from tiertune.tuner.comparison.inference import ALPHA, Difference, difference, shown
from tiertune.tuner.statistics import MIN_EFFECT, interval
from tiertune.tuner.sweep.luck import adjusted
from tiertune.tuner.sweep.measured import MeasuredRow
from tiertune.tuner.sweep.quantity import MAXIMIZE, Quantity
from tiertune.tuner.sweep.row import YARDSTICKS
from tiertune.tuner.sweep.scenario import CONTENDER, Axis, Plane

MOST_KEPT = 100_000
"""Estimates that are kept: a page asks for each several times, and an interval takes milliseconds."""


class Standing(StrEnum):
    """How an entry stands in its scenario."""

    FIRST = "first"
    LEVEL = "not told apart from the first"
    BEHIND = "behind"
    ONE_SEED = "one seed, not judged"
    FAILED = "not judged: seeds failed"
    PARTLY = "not judged: not on every seed"
    NO_FIGURE = "has no such figure"
    NOT_RANKED = "neither way is better"
    YARDSTICK = "yardstick, not ranked"


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, geometric where all values are positive, with its 95 % interval; a single seed has
    none."""

    value: float
    low: float | None
    high: float | None
    seeds: int


@dataclass(frozen=True)
class Entry:
    """A contender in a scenario. `times` is how many times worse than the first it is, on the same seeds."""

    subject: str
    estimate: Estimate | None
    times: Estimate | None
    standing: Standing


@dataclass(frozen=True)
class Scene:
    """A scenario: where it is on the axes, and its entries, the first first."""

    place: tuple[str, ...]
    entries: tuple[Entry, ...]

    @property
    def name(self) -> str:
        """What it is called; empty where there is only one."""
        return ", ".join(self.place)

    @property
    def firsts(self) -> tuple[str, ...]:
        """The first and those that are not told apart from it; nobody where nothing can be ranked."""
        ahead = (Standing.FIRST, Standing.LEVEL)
        return tuple(entry.subject for entry in self.entries if entry.standing in ahead)


@dataclass(frozen=True)
class Outcome:
    """What a sweep says by one figure."""

    quantity: Quantity
    subject: Axis
    axes: tuple[Axis, ...]
    scenes: tuple[Scene, ...]
    seeds: int


@dataclass(frozen=True)
class _Sample:
    """The values of one contender in one scenario by seed; `whole` where no seed failed."""

    subject: str
    by_seed: Mapping[int, float]
    rows: int
    whole: bool
    ranked: bool


def outcome_of(plane: Plane, quantity: Quantity) -> Outcome:
    """The order in every scenario. The first is that with the best mean; others are compared with it on the
    same seeds, and adjusted for its being picked from them and for all scenarios of the sweep."""
    systems = {row.at.system for row in plane.rows}
    yardsticks = set(YARDSTICKS) if plane.subject.name == CONTENDER and systems - set(YARDSTICKS) else set()
    samples: dict[tuple[str, ...], dict[str, list[MeasuredRow]]] = {}
    for row in plane.rows:
        subject = plane.value(row.at, plane.subject.name)
        samples.setdefault(plane.scene_of(row.at), {}).setdefault(subject, []).append(row)
    scenes = [
        (place, [_sample(subject, rows, quantity.name, yardsticks) for subject, rows in members.items()])
        for place, members in sorted(samples.items(), key=lambda item: _order(plane.scenes, item[0]))
    ]
    found: dict[tuple[tuple[str, ...], str], Difference] = {}
    tests: dict[tuple[tuple[str, ...], str], tuple[float, int]] = {}
    firsts: dict[tuple[str, ...], _Sample | None] = {}
    contenders: dict[tuple[str, ...], int] = {}
    for place, members in scenes:
        able = _able(members)
        first = firsts[place] = _first(able, quantity)
        contenders[place] = len(able)
        for one in able:
            if first is None or one is first:
                continue
            compared = _difference(one, first, quantity)
            if compared is not None:
                found[place, one.subject] = compared
                tests[place, one.subject] = compared.p, len(one.by_seed.keys() & first.by_seed.keys())
    chances = adjusted(tests, contenders)
    made = []
    for place, members in scenes:
        first = firsts[place]
        entries = [
            _entry(one, first, quantity, found.get((place, one.subject)), chances.get((place, one.subject)))
            for one in members
        ]
        made.append(Scene(place, tuple(sorted(entries, key=lambda entry: _place(entry, quantity)))))
    seeds = max((len(one.by_seed) for _, members in scenes for one in members), default=0)
    return Outcome(quantity, plane.subject, plane.scenes, tuple(made), seeds)


def estimate(values: Sequence[float]) -> Estimate:
    """Of at least one value."""
    return _estimate(tuple(values))


@lru_cache(maxsize=MOST_KEPT)
def _estimate(values: tuple[float, ...]) -> Estimate:
    sample = np.asarray(values, dtype=np.float64)
    positive = bool((sample > 0.0).all())
    scaled = np.log(sample) if positive else sample
    ends = interval(scaled) if len(sample) > 1 else None
    back = math.exp if positive else float
    low, high = (None, None) if ends is None else (back(ends[0]), back(ends[1]))
    return Estimate(back(float(scaled.mean())), low, high, len(sample))


def _order(axes: Sequence[Axis], place: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(axis.values.index(value) for axis, value in zip(axes, place, strict=True))


def _sample(subject: str, rows: Sequence[MeasuredRow], name: str, yardsticks: Set[str]) -> _Sample:
    values = {row.at.seed: row.values[name] for row in rows if row.ok and name in row.values}
    ranked = rows[0].at.system not in yardsticks
    return _Sample(subject, values, len(rows), all(row.ok for row in rows), ranked)


def _able(members: Sequence[_Sample]) -> list[_Sample]:
    """Those that have the figure on every seed."""
    return [one for one in members if one.ranked and one.whole and len(one.by_seed) == one.rows]


def _first(able: Sequence[_Sample], quantity: Quantity) -> _Sample | None:
    """The best of them; None where neither way is better."""
    if not able or not quantity.direction:
        return None
    sign = -1.0 if quantity.direction == MAXIMIZE else 1.0
    return min(able, key=lambda one: sign * estimate(list(one.by_seed.values())).value)


def _difference(one: _Sample, first: _Sample, quantity: Quantity) -> Difference | None:
    """Of costs on the seeds that both have, in logs where all are positive; None on fewer than two."""
    seeds = sorted(one.by_seed.keys() & first.by_seed.keys())
    if len(seeds) < 2:
        return None
    sign = -1.0 if quantity.direction == MAXIMIZE else 1.0
    sides = np.array([[sample.by_seed[seed] for seed in seeds] for sample in (one, first)])
    costs = sign * (np.log(sides) if bool((sides > 0.0).all()) else sides)
    return difference(costs[:1], costs[1:])


def _entry(
    one: _Sample,
    first: _Sample | None,
    quantity: Quantity,
    compared: Difference | None,
    chance: float | None,
) -> Entry:
    if not one.by_seed:
        return Entry(one.subject, None, None, Standing.FAILED if not one.whole else Standing.NO_FIGURE)
    mean = estimate(list(one.by_seed.values()))
    if one is first:
        return Entry(one.subject, mean, None, Standing.FIRST)
    if not one.whole or len(one.by_seed) < one.rows:
        return Entry(one.subject, mean, None, Standing.PARTLY if one.whole else Standing.FAILED)
    if first is None:
        standing = Standing.FAILED if quantity.direction else Standing.NOT_RANKED
        standing = standing if one.ranked else Standing.YARDSTICK
        return Entry(one.subject, mean, None, standing)
    values = [*one.by_seed.values(), *first.by_seed.values()]
    positive = all(value > 0.0 for value in values)
    if not one.ranked:
        told = _difference(one, first, quantity)
        times = _times(told, one, first) if told and positive else _once(one, first, quantity, positive)
        return Entry(one.subject, mean, times, Standing.YARDSTICK)
    if compared is None or chance is None:
        once = _once(one, first, quantity, positive)
        level = mean.value == estimate(list(first.by_seed.values())).value
        level = level or (once is not None and once.value < 1.0 + MIN_EFFECT)
        return Entry(one.subject, mean, once, Standing.LEVEL if level else Standing.ONE_SEED)
    # In units of the figure a smallest difference that counts is not known; in ratios it is.
    apart = shown(compared, chance) == 1 if positive else chance < ALPHA and compared.mean > 0.0
    times = _times(compared, one, first) if positive else None
    return Entry(one.subject, mean, times, Standing.BEHIND if apart else Standing.LEVEL)


def _times(found: Difference, one: _Sample, first: _Sample) -> Estimate:
    mean, low, high = (math.exp(end) for end in (found.mean, found.low, found.high))
    return Estimate(mean, low, high, len(one.by_seed.keys() & first.by_seed.keys()))


def _once(one: _Sample, first: _Sample, quantity: Quantity, positive: bool) -> Estimate | None:
    shared = one.by_seed.keys() & first.by_seed.keys()
    if not positive or len(shared) != 1:
        return None
    (seed,) = shared
    ratio = one.by_seed[seed] / first.by_seed[seed]
    return Estimate(1.0 / ratio if quantity.direction == MAXIMIZE else ratio, None, None, 1)


def _place(entry: Entry, quantity: Quantity) -> tuple[bool, bool, float]:
    """The order of entries: the first, then by their means, those without a figure last."""
    if entry.estimate is None:
        return True, True, 0.0
    sign = -1.0 if quantity.direction == MAXIMIZE else 1.0
    return False, entry.standing is not Standing.FIRST, sign * entry.estimate.value
