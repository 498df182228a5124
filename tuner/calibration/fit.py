"""From samples of a node to the figures of a tier, each with its interval."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiertune.tuner.backend import HostUnfit
from tiertune.tuner.calibration.bandwidth import Peaks, fit_peaks
from tiertune.tuner.calibration.curve import Curve, fit_curve
from tiertune.tuner.calibration.measuring import Sample, of_kind

if TYPE_CHECKING:
    import numpy as np

RESAMPLES = 200
CONFIDENCE = 0.95
LEAST_ROUNDS = 3
IDLE, LOADED, ALONE = "idle latency", "loaded latency", "one thread's streaming"
READS, WRITES = "reads alone", "reads and writes"
"""Kinds of samples, of each of which some have to be undisturbed; the last two by all threads."""
PREFETCHED = 63 / 64
"""Share of a stream's lines that the model has prefetched; the first line of each 4 KiB is waited for."""
MOST_FILL_BUFFERS = 64.0
"""More lines in flight than this are not told apart by the model's equation of a stream."""


@dataclass(frozen=True)
class Figure:
    """A measured figure with its interval from resampled rounds (percentiles of the bootstrap)."""

    value: float
    low: float
    high: float
    unit: str
    rounds: int

    def said(self) -> str:
        """The figure in words."""
        return (
            f"{self.value:.4g} {self.unit} ({CONFIDENCE:.0%} interval {self.low:.4g} to {self.high:.4g},"
            f" {self.rounds} rounds)"
        )

    def document(self) -> dict[str, float | int | str]:
        """The figure as plain data."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class TierFit:
    """A node's figures: `figures` by name, the curve, and what the streams say of the bus."""

    figures: dict[str, Figure]
    curve: Curve
    curve_low: tuple[float, ...]
    curve_high: tuple[float, ...]
    peaks: Peaks
    scaling: float
    """Bandwidth of all threads over that of one, as a share of their number: near 1, cores are the limit."""
    loaded: bool
    """Whether there was a thread that could load memory beside the one that reads."""


def fit_node(samples: Sequence[Mapping[str, Any]], duplex: bool, seed: int = 1) -> TierFit:
    """Figures of one node. `samples` are those of `tierload measure`; rounds are resampled for intervals.

    Raises `HostUnfit` where too little of the measurement was undisturbed.
    """
    import numpy as np

    loaded, streams = of_kind(samples, "loaded"), of_kind(samples, "stream")
    # Of all samples: where those of all threads were disturbed, fewer threads are no peak.
    most = max((sample["threads"] for sample in samples if sample["measure"] == "stream"), default=0)
    loads = any(sample["measure"] == "loaded" and sample["threads"] for sample in samples)
    held = _rounds_held(loaded, streams, most)
    _check(held, loads)
    rounds = sorted({sample["round"] for sample in (*loaded, *streams)})
    whole = _once(loaded, streams, most, duplex)
    generator = np.random.default_rng(seed)
    by_round = {number: _of_round(loaded, number) for number in rounds}
    streams_by_round = {number: _of_round(streams, number) for number in rounds}
    drawn = []
    for _ in range(RESAMPLES):
        picked = generator.choice(rounds, len(rounds))
        again = [sample for number in picked for sample in by_round[int(number)]]
        streamed = [sample for number in picked for sample in streams_by_round[int(number)]]
        try:
            drawn.append(_once(again, streamed, most, duplex))
        except ValueError:
            continue  # a draw without one of the kinds: possible where few slots were undisturbed
    units = {"latency_ns": "ns", "read_gbps": "GB/s", "write_gbps": "GB/s", "stream_gbps": "GB/s"}
    units["fill_buffers"] = "lines"
    kinds = {"latency_ns": (IDLE,), "read_gbps": (READS, WRITES), "write_gbps": (READS, WRITES)}
    kinds |= {"stream_gbps": (ALONE,), "fill_buffers": (IDLE, ALONE)}
    figures = {
        name: _figure(
            whole.values[name],
            [one.values[name] for one in drawn],
            unit,
            min(len(held[kind]) for kind in kinds[name]),
        )
        for name, unit in units.items()
    }
    places = [place for place, _ in whole.curve.points]
    multiples = np.array([[one.curve.multiplier(place) for place in places] for one in drawn])
    tails = 100 * (1 - CONFIDENCE) / 2
    return TierFit(
        figures,
        whole.curve,
        tuple(float(value) for value in np.percentile(multiples, tails, axis=0)),
        tuple(float(value) for value in np.percentile(multiples, 100 - tails, axis=0)),
        whole.peaks,
        whole.values["scaling"],
        loads,
    )


def ratio_figure(samples: Sequence[Mapping[str, Any]], above: str, below: str) -> Figure:
    """How many times longer an access of kind `above` takes than one of `below`, round by round."""
    found: dict[int, dict[str, float]] = {}
    for sample in of_kind(samples, "updates"):
        found.setdefault(sample["round"], {})[sample["kind"]] = sample["ns_per_access"]
    ratios = [times[above] / times[below] for times in found.values() if above in times and below in times]
    return median_figure(ratios, "misses")


def median_figure(values: Sequence[float], unit: str, seed: int = 1) -> Figure:
    """The median of one figure of every round. Raises `HostUnfit` where there are too few."""
    import numpy as np

    if len(values) < LEAST_ROUNDS:
        raise HostUnfit(
            f"only {len(values)} rounds were undisturbed, {LEAST_ROUNDS} are needed; other programs keep this"
            " host busy: measure when it is quieter, or without --short"
        )
    generator = np.random.default_rng(seed)
    array = np.array(values, dtype=float)
    drawn = [float(np.median(generator.choice(array, len(array)))) for _ in range(RESAMPLES)]
    return _figure(float(np.median(array)), drawn, unit, len(array))


def fill_buffers(stream_gbps: float, latency_ns: float) -> float:
    """Lines in flight that let one thread stream so fast at this latency, by the model's own equation.

    A line takes 64 bytes / bandwidth = latency x (63/64 / F + 1/64), since the first line of each 4 KiB is
    waited for; F is at most 64, where the equation no longer tells.
    """
    share = 64.0 / stream_gbps / latency_ns
    waited = 1.0 - PREFETCHED
    if share <= waited + PREFETCHED / MOST_FILL_BUFFERS:
        return MOST_FILL_BUFFERS
    return max(PREFETCHED / (share - waited), 1.0)


@dataclass(frozen=True)
class _Once:
    values: dict[str, float]
    curve: Curve
    peaks: Peaks


def _once(loaded: Sequence[Sample], streams: Sequence[Sample], most: int, duplex: bool) -> _Once:
    """Every figure from one set of samples, `most` threads being all of them."""
    import numpy as np

    full = [sample for sample in streams if sample["threads"] == most]
    alone = [
        sample["read_gbps"] for sample in streams if sample["threads"] == 1 and not sample["write_share"]
    ]
    if not full or not alone or len(loaded) < LEAST_ROUNDS:
        raise ValueError("no samples of a kind")
    peaks = fit_peaks(_column(full, "read_gbps"), _column(full, "write_gbps"), duplex)
    utilisation = peaks.utilisation(_column(loaded, "read_gbps"), _column(loaded, "write_gbps"))
    curve = fit_curve(utilisation, _column(loaded, "latency_ns") / _drift(loaded))
    one = float(np.median(alone))
    reads = float(np.median([sample["read_gbps"] for sample in full if not sample["write_share"]]))
    under = curve.latency_ns * curve.multiplier(one / peaks.read_gbps)
    values = {
        "latency_ns": curve.latency_ns,
        "read_gbps": peaks.read_gbps,
        "write_gbps": peaks.write_gbps,
        "stream_gbps": one,
        "fill_buffers": fill_buffers(one, under),
        "scaling": reads / one / most,
    }
    return _Once(values, curve, peaks)


def _drift(loaded: Sequence[Sample]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """How much slower than usual memory was in the round of each sample, by the idle latency in it.

    Other programs load the memory of a shared host for longer than a round; what a round's own idle latency
    has of that is no effect of the load that is measured. The median over the rounds stays what it is.
    """
    import numpy as np

    idle = {sample["round"]: sample["latency_ns"] for sample in loaded if sample["threads"] == 0}
    if not idle:
        return np.ones(len(loaded))
    usual = float(np.median([idle[sample["round"]] for sample in loaded if sample["round"] in idle]))
    return np.array([idle.get(sample["round"], usual) / usual for sample in loaded])


def _column(samples: Sequence[Sample], name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    import numpy as np

    return np.array([sample[name] for sample in samples], dtype=float)


def _figure(value: float, drawn: Sequence[float], unit: str, rounds: int) -> Figure:
    import numpy as np

    tails = 100 * (1 - CONFIDENCE) / 2
    low, high = np.percentile(drawn, [tails, 100 - tails])
    # The fit of all rounds is no percentile of the draws; an interval holds its own figure.
    return Figure(value, float(min(low, value)), float(max(high, value)), unit, rounds)


def _rounds_held(loaded: Sequence[Sample], streams: Sequence[Sample], most: int) -> dict[str, set[int]]:
    """The rounds in which a sample of each kind was undisturbed."""
    kinds: dict[str, tuple[Sequence[Sample], Callable[[Sample], bool]]] = {
        IDLE: (loaded, lambda sample: not sample["threads"]),
        LOADED: (loaded, lambda sample: bool(sample["threads"])),
        ALONE: (streams, lambda sample: sample["threads"] == 1 and not sample["write_share"]),
        READS: (streams, lambda sample: sample["threads"] == most and not sample["write_share"]),
        WRITES: (streams, lambda sample: sample["threads"] == most and bool(sample["write_share"])),
    }
    return {
        kind: {sample["round"] for sample in some if fits(sample)} for kind, (some, fits) in kinds.items()
    }


def _check(held: Mapping[str, set[int]], loads: bool) -> None:
    lacking = [
        kind for kind, found in held.items() if len(found) < LEAST_ROUNDS and (kind != LOADED or loads)
    ]
    if lacking:
        raise HostUnfit(
            f"too few undisturbed samples of {' and of '.join(lacking)}, {LEAST_ROUNDS} rounds are needed:"
            " other programs keep the processors of this host busy; measure when it is quieter, or without"
            " --short"
        )


def _of_round(samples: Sequence[Sample], number: int) -> list[Sample]:
    return [sample for sample in samples if sample["round"] == number]
