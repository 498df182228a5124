"""How far two contexts are apart in each of their traits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tiertune.tuner.transfer.traits import Traits

Value = float | str


@dataclass(frozen=True)
class Feature:
    """One property of contexts. `unit` says what a distance of 1 is."""

    name: str
    unit: str
    value: Callable[[Traits], Value]
    distance: Callable[[Traits, Traits], float]


def _doublings(value: Callable[[Traits], float]) -> Callable[[Traits, Traits], float]:
    return lambda one, other: abs(math.log2(value(one)) - math.log2(value(other)))


FEATURES = (
    Feature(
        "program", "another program", lambda one: one.program, lambda a, b: float(a.program != b.program)
    ),
    Feature(
        "input",
        "another input of the same program",
        lambda one: one.workload,
        lambda a, b: float(a.program == b.program and a.workload_digest != b.workload_digest),
    ),
    Feature(
        "latency gap", "twice the gap", lambda one: one.latency_gap, _doublings(lambda one: one.latency_gap)
    ),
    Feature(
        "bandwidth gap",
        "twice the gap",
        lambda one: one.bandwidth_gap,
        _doublings(lambda one: one.bandwidth_gap),
    ),
    Feature(
        "threads", "twice the threads", lambda one: float(one.threads), _doublings(lambda one: one.threads)
    ),
    Feature(
        "slow memory per fast",
        "twice the slow memory",
        lambda one: one.slow_per_fast,
        _doublings(lambda one: one.slow_per_fast),
    ),
    Feature(
        "page size",
        "the other page size",
        lambda one: float(one.page_bytes),
        lambda a, b: float(a.page_bytes != b.page_bytes),
    ),
    Feature(
        "contention",
        "a whole tier's peak",
        lambda one: one.contention,
        lambda a, b: abs(a.contention - b.contention),
    ),
)


@dataclass(frozen=True)
class Distances:
    """Distances between contexts by feature, for features that vary; those that go together are one.

    `by_name` has a symmetric contexts x contexts array for each name; `units` what a distance of 1 is.
    """

    by_name: dict[str, np.ndarray]
    units: dict[str, str]

    def nearest(self, to: int, among: Sequence[int]) -> int:
        """The context of `among` that is nearest, each feature counted against its largest distance.

        Of several at the same distance the first.
        """
        scaled = [distance / distance.max() for distance in self.by_name.values()]
        total = [sum(float(one[to, other]) for one in scaled) for other in among]
        return among[int(np.argmin(np.round(total, 9)))]


def distances_of(contexts: Sequence[Traits]) -> Distances:
    """How far contexts are apart. Features whose distances are proportional cannot be told apart; merged."""
    arrays: dict[str, np.ndarray] = {}
    units: dict[str, str] = {}
    for feature in FEATURES:
        array = np.array([[feature.distance(one, other) for other in contexts] for one in contexts])
        if not array.any():
            continue
        same = next((name for name, known in arrays.items() if _proportional(known, array)), None)
        if same is None:
            arrays[feature.name], units[feature.name] = array, feature.unit
        else:
            both = f"{same} and {feature.name}"
            arrays = {(both if name == same else name): known for name, known in arrays.items()}
            units = {(both if name == same else name): unit for name, unit in units.items()}
            units[both] = f"{units[both]}; {feature.name} goes with it"
    return Distances(arrays, units)


def _proportional(one: np.ndarray, other: np.ndarray) -> bool:
    return bool(np.allclose(one / one.max(), other / other.max(), atol=1e-9))
