"""How long a system takes to settle after the last change, and how early it promotes, from a time series.

The plateau is the mean throughput, weighted by time, of the last fifth of the stretch between the last change
and the end. The convergence time is from that change to the first moment after which every point of the
series lies within 5 % of the plateau. There is none where the throughput first settles within the last fifth:
a plateau that is its own evidence shows nothing. Its resolution is that of the series.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from tiertune.workloads.definition import Workload
from tiertune.workloads.streams import Phase, Streams

BAND = 0.05
PLATEAU_SHARE = 0.2
MOST_PHASES = 100_000

Timeline = Mapping[str, Sequence[float]]


def convergence_s(timeline: Timeline, change_s: float) -> float | None:
    """Seconds from `change_s` until the throughput stays within 5 % of its plateau; None where it never does.

    `timeline` has `time_s`, the ends of its stretches, and `throughput_mops`, the mean of each.
    """
    ends, values = timeline.get("time_s", ()), timeline.get("throughput_mops", ())
    if not ends:
        return None
    starts = [0.0, *ends[:-1]]
    # A stretch that straddles the change has some of what was before; it says nothing about after.
    after = _whole([(s, e, v) for s, e, v in zip(starts, ends, values, strict=True) if s >= change_s - 1e-9])
    if len(after) < 3:
        return None
    first, last = after[0][0], after[-1][1]
    window = last - PLATEAU_SHARE * (last - first)
    held = [(e - max(s, window), v) for s, e, v in after if e > window]
    plateau = sum(span * value for span, value in held) / sum(span for span, _ in held)
    settled = None
    for start, _, value in reversed(after):
        if abs(value - plateau) > BAND * plateau:
            break
        settled = start
    if settled is None or settled > window:
        return None
    return max(0.0, settled - change_s)


def _whole(stretches: list[tuple[float, float, float]]) -> list[tuple[float, float, float]]:
    """Start, end and throughput of `stretches`, the last one joined with the one before where it is cut off.

    A run ends where it ends: of 3 ms the throughput is that of one page that was just moved, while all others
    are means of a hundred times as long.
    """
    if len(stretches) < 2:
        return stretches
    *others, (before, middle, whole), (_, end, rest) = stretches
    if 2 * (end - middle) >= middle - before:
        return stretches
    mean = ((middle - before) * whole + (end - middle) * rest) / (end - before)
    return [*others, (before, end, mean)]


def early_promotion_share(timeline: Timeline) -> float | None:
    """Share of all promotions that were made in the first third of the run; None where there were none.

    `timeline` has `time_s`, the ends of its stretches, and `promotions_per_s`, the mean of each. A third for
    a system that promotes at an even rate, 1 for one that is done early.
    """
    ends, rates = timeline.get("time_s", ()), timeline.get("promotions_per_s", ())
    if not ends or not rates:
        return None
    third = ends[-1] / 3.0
    stretches = list(zip([0.0, *ends[:-1]], ends, rates, strict=True))
    total = sum((end - start) * rate for start, end, rate in stretches)
    early = sum((min(end, third) - start) * rate for start, end, rate in stretches if start < third)
    return early / total if total > 0.0 else None


def last_change_s(workload: Workload, timeline: Timeline) -> float | None:
    """When the last phase of `workload` begins; None where that cannot be known from definition and series.

    Phases with `seconds` end by the clock, phases with `ops` when the work of all groups is done, which is
    read off the series. A moving hot set of gups and gups_objects moves at equal shares of the work. The
    phases of recorded graph kernels are not in the series, so for them nothing is said.
    """
    streams, record = workload.sim.streams, workload.sim.record
    if not timeline.get("time_s"):
        return None
    recorded = record.model_dump() if record is not None else {}
    if recorded.get("kernel") in ("gups", "gups_objects"):
        here = int(recorded.get("phases", 1)) if "phases" in recorded else int(recorded.get("moves", 0)) + 1
        phases = here * workload.sim.carry.runs if here > 1 else 1
        total = _ops_until(timeline, timeline["time_s"][-1])
        return _time_of(timeline, total * (phases - 1) / phases)
    return None if streams is None else _last_phase(streams, timeline)


def _last_phase(streams: Streams, timeline: Timeline) -> float | None:
    if sum(block.repeat * len(block.phases) for block in streams.blocks) > MOST_PHASES:
        return None
    phases = [phase for block in streams.blocks for _ in range(block.repeat) for phase in block.phases]
    begin, now = 0.0, 0.0
    for before, phase in pairwise(phases):
        ended = _end(before, now, timeline)
        if ended is None:
            return None
        now = ended
        if phase.groups != before.groups:
            begin = now
    return begin


def _end(phase: Phase, start_s: float, timeline: Timeline) -> float | None:
    if phase.seconds is not None:
        return start_s + phase.seconds
    if any(group.ops is None for group in phase.groups):
        return None
    work = sum(group.ops or 0.0 for group in phase.groups)
    return _time_of(timeline, _ops_until(timeline, start_s) + work)


def _ops_until(timeline: Timeline, time_s: float) -> float:
    """Operations done by `time_s`."""
    done, start = 0.0, 0.0
    for end, rate in zip(timeline["time_s"], timeline["throughput_mops"], strict=True):
        done += rate * 1e6 * max(0.0, min(end, time_s) - start)
        start = end
    return done


def _time_of(timeline: Timeline, ops: float) -> float:
    """When `ops` operations were done; the end of the run where there were fewer."""
    done, start = 0.0, 0.0
    for end, rate in zip(timeline["time_s"], timeline["throughput_mops"], strict=True):
        here = rate * 1e6 * (end - start)
        if done + here >= ops and here > 0.0:
            return start + (end - start) * max(0.0, ops - done) / here
        done, start = done + here, end
    return start
