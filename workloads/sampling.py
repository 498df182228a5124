"""Processes of this host, sampled: what the engine's sampler saw as `Sightings`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tiertune import engine
from tiertune.workloads.measured import (
    PROCESS_SHIFT,
    SLICES,
    Area,
    NothingSeen,
    Sightings,
    Slice,
    key_of,
    slice_count,
    this_machine,
    touch_rate,
)

if TYPE_CHECKING:
    import numpy as np

    Ints = np.ndarray[Any, np.dtype[np.int64]]

SEES = {
    "referenced": "loads and stores, in chunks of 2 MiB; not which of the two, nor how accesses depend on"
    " each other",
    "written": "stores, in pages of 4 KiB; not loads, nor how accesses depend on each other",
}
"""What each sampler sees and does not see."""


def choose(wanted: str) -> tuple[str, str]:
    """Sampler to use and why; raises `engine.SamplerUnfit` where none works, or not the wanted one."""
    found = engine.samplers()
    if wanted != "auto":
        lacks = found[wanted]
        if lacks:
            raise engine.SamplerUnfit(lacks)
        return wanted, "as asked for"
    for name, lacks in found.items():
        if not lacks:
            passed = [why for other, why in found.items() if why and other != name]
            reason = "it sees most of those that work here"
            return name, reason + (f" ({'; '.join(passed)})" if passed else "")
    raise engine.SamplerUnfit("no sampler works here: " + "; ".join(found.values()))


def sample_process(
    pid: int, program: str, sampler: str, seconds: float | None, interval_s: float
) -> Sightings:
    """Samples until the process ends, `seconds` are over or Ctrl-C is pressed.

    Raises `engine.EngineError` for a process that is not there, `engine.SamplerUnfit` for one that may not be
    watched, `NothingSeen`.
    """
    columns, told = engine.sample(pid, sampler, seconds, interval_s, 2 * SLICES)
    return sightings(columns, json.loads(told), program, sampler, interval_s)


def sightings(
    columns: dict[str, np.ndarray[Any, Any]],
    told: dict[str, Any],
    program: str,
    sampler: str,
    interval_s: float,
) -> Sightings:
    """What `engine.sample` returns, with looks put together to slices of about equal work."""
    import numpy as np

    windows = told["windows"]
    cpu = np.array([window["cpu_ns"] for window in windows], dtype=np.float64)
    elapsed = sum(window["elapsed_s"] for window in windows)
    if len(windows) == 0 or cpu.sum() <= 0:
        raise NothingSeen("the process did not run while it was watched")
    resident = _stretches(
        [(key_of(process, start), key_of(process, end)) for process, start, end in told["resident"]]
    )
    # A window belongs to the slice in which half of its work is done.
    middle = (np.cumsum(cpu) - cpu / 2) / cpu.sum()
    most = slice_count(len(resident))
    turn = np.minimum((middle * most).astype(np.int64), most - 1)
    slice_of: Ints = np.unique(turn, return_inverse=True)[1].astype(np.int64)
    count = int(slice_of[-1]) + 1

    def summed(name: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        values = np.array([window[name] for window in windows], dtype=np.float64)
        return np.bincount(slice_of, weights=values, minlength=count).astype(np.float64)

    looks, cpu_ns, elapsed_s = summed("looks"), summed("cpu_ns"), summed("elapsed_s")
    start = (columns["process"].astype(np.int64) << PROCESS_SHIFT) | columns["start"].astype(np.int64)
    order = np.lexsort((start, slice_of[columns["window"]]))
    slices = slice_of[columns["window"]][order]
    start, pages = start[order], columns["pages"][order].astype(np.int64)
    hits = columns["hits"][order].astype(np.float64)
    first = np.concatenate([[True], (np.diff(slices) != 0) | (np.diff(start) != 0) | (np.diff(pages) != 0)])
    new = np.flatnonzero(first)[: len(hits)]
    hits = np.add.reduceat(hits, new) if len(hits) else hits
    slices, start, pages = slices[new], start[new], pages[new]
    low, high = np.searchsorted(resident, start), np.searchsorted(resident, start + pages)
    there = high > low
    slices, hits, low, high = slices[there], hits[there], low[there], high[there]
    each = high - low
    rate = touch_rate(hits, looks[slices] * each)
    inside = np.arange(int(each.sum())) - np.repeat(np.cumsum(each) - each, each)
    return Sightings(
        program=program,
        sampler=sampler,
        sees=SEES[sampler],
        threads=max(1, round(float(cpu.sum()) / 1e9 / max(elapsed, 1e-9))),
        areas=tuple(Area(process, first, end, label) for process, first, end, label in told["areas"]),
        slices=tuple(Slice("run", float(e), float(c)) for e, c in zip(elapsed_s, cpu_ns, strict=True)),
        slice=np.repeat(slices, each),
        key=resident[np.repeat(low, each) + inside],
        visits=np.repeat(rate, each),
        resident=resident,
        stores_only=sampler == "written",
        parameters={
            "interval_s": f"{interval_s:g}",
            "looks": str(int(looks.sum())),
            "watched_s": f"{sum(window['watched_s'] for window in windows):.3f}",
            "elapsed_s": f"{elapsed:.3f}",
            "looking_share": f"{told['looking_share']:.4f}",
            "most_threads": str(told["threads"]),
        },
        machine=this_machine(),
        notes=tuple(note[0].upper() + note[1:] for note in told["notes"]),
    )


def _stretches(stretches: list[tuple[int, int]]) -> Ints:
    """All pages of stretches, sorted and each once."""
    import numpy as np

    if not stretches:
        return np.zeros(0, dtype=np.int64)
    return np.unique(np.concatenate([np.arange(low, high, dtype=np.int64) for low, high in stretches]))
