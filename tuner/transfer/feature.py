"""What a context is like, in numbers and words, and how far two contexts are apart in each of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tiertune.tuner.transfer.context import Context
from tiertune.units import parse_ratio

Value = float | str


@dataclass(frozen=True)
class Feature:
    """One property of contexts. `unit` says what a distance of 1 is."""

    name: str
    unit: str
    value: Callable[[Context], Value]
    distance: Callable[[Context, Context], float]


def program(context: Context) -> str:
    """The program that runs, whatever its input: the kernel where one is recorded, else the workload."""
    record = context.workload.sim.record
    return record.kernel if record is not None else context.workload.name


def latency_gap(context: Context) -> float:
    """How many times the latency of the fast tier the next one has, unloaded."""
    tiers = context.machine.tiers
    return tiers[1].latency_ns / tiers[0].latency_ns


def bandwidth_gap(context: Context) -> float:
    """How many times the read bandwidth of the next tier the fast one has."""
    tiers = context.machine.tiers
    return tiers[0].read_gbps / tiers[1].read_gbps


def slow_per_fast(context: Context) -> float:
    """Bytes of slow memory for each byte of fast memory."""
    fast, slow = parse_ratio(context.scenario.ratio)
    return slow / fast


def contention(context: Context) -> float:
    """Traffic of co-runners as a share of the tiers' peaks, added up."""
    tiers = context.machine.tiers
    return sum(
        one.read_gbps / tiers[one.tier].read_gbps + one.write_gbps / tiers[one.tier].write_gbps
        for one in context.scenario.contention
    )


def _doublings(value: Callable[[Context], float]) -> Callable[[Context, Context], float]:
    return lambda one, other: abs(math.log2(value(one)) - math.log2(value(other)))


FEATURES = (
    Feature("program", "another program", program, lambda a, b: float(program(a) != program(b))),
    Feature(
        "input",
        "another input of the same program",
        lambda context: context.workload.name,
        lambda a, b: float(
            program(a) == program(b)
            and a.workload.model_dump(mode="json") != b.workload.model_dump(mode="json")
        ),
    ),
    Feature("latency gap", "twice the gap", latency_gap, _doublings(latency_gap)),
    Feature("bandwidth gap", "twice the gap", bandwidth_gap, _doublings(bandwidth_gap)),
    Feature("threads", "twice the threads", lambda c: float(c.threads), _doublings(lambda c: c.threads)),
    Feature("slow per fast", "twice the slow memory", slow_per_fast, _doublings(slow_per_fast)),
    Feature(
        "page size",
        "the other page size",
        lambda context: float(context.scenario.page_bytes),
        lambda a, b: float(a.scenario.page_bytes != b.scenario.page_bytes),
    ),
    Feature(
        "contention",
        "a whole tier's peak",
        contention,
        lambda a, b: abs(contention(a) - contention(b)),
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


def distances_of(contexts: Sequence[Context]) -> Distances:
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
