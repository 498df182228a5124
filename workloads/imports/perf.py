"""`perf script` text with data addresses: samples of loads and stores (PEBS, IBS, SPE).

One sample a line, in the order in which perf prints its fields; `pid`, `time`, `event` and `addr` must
be there, and `period`, unless it is given: `perf script -F comm,pid,tid,time,period,event,addr,data_src`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tiertune.files import InputError
from tiertune.workloads.imports.lines import BadLine, lines_of, quoted
from tiertune.workloads.imports.spans import MOST_ADDRESS, areas_of, every_page, spans
from tiertune.workloads.measured import PAGE_BYTES, PROCESS_SHIFT, NothingSeen, Sightings, Slice, slice_count

SAMPLE = re.compile(
    r"^\s*(?:\S.*?\s)??(?P<pid>\d{1,10})(?:/(?P<tid>\d{1,10}))?\s+(?:\[\d{1,6}\]\s+)?"
    r"(?P<time>\d{1,12}\.\d{1,9}):\s+(?:(?P<period>\d{1,19})\s+)?(?P<event>\S{1,256}):\s+"
    r"(?P<addr>(?:0x)?[0-9a-fA-F]{1,16})(?:\s+(?P<rest>.*))?$"
)
FRAME = re.compile(r"^\s+[0-9a-f]{1,16}\s+\S.*\(.*\)\s*$")
LEVEL = re.compile(r"\|LVL ([^|]*)")
OPERATION = re.compile(r"\|OP ([^|]*)")
FORM = "[comm] pid[/tid] [cpu] time: [period] event: addr [data_src ...]"
MOST_SAMPLES = 50_000_000
MOST_PROCESSES = 1000
BUSY_SHARE = 0.02
"""Threads with at least this share of the samples count as busy."""


@dataclass
class _Samples:
    time: list[float]
    key: list[int]
    period: list[int]
    store: list[bool]
    threads: dict[int, int]
    processes: dict[int, int]
    kernel: int = 0
    cached: int = 0


def read_perf(path: Path, period: int | None = None) -> Sightings:
    """The samples of a file; `period` stands where a line has none.

    Raises `InputError` with the line of what does not fit, `NothingSeen`.
    """
    import numpy as np

    samples = _Samples([], [], [], [], {}, {})
    try:
        for number, line in lines_of(path):
            if line.strip() and not line.startswith("#") and not FRAME.match(line):
                _take(samples, number, line, period)
    except BadLine as error:
        raise InputError(f"{path}:{error.number}: {error}") from None
    if not samples.key:
        raise NothingSeen(f"{path} holds no sample of a program's memory")
    time = np.array(samples.time)
    key, weight = np.array(samples.key, dtype=np.int64), np.array(samples.period, dtype=np.float64)
    stretches = spans(key)
    resident = every_page(stretches)
    elapsed = float(time.max() - time.min())
    if elapsed <= 0:
        raise NothingSeen(f"{path}: all samples are of one moment, so nothing is known about rates")
    store = np.array(samples.store)
    if store.all():
        raise NothingSeen(
            f"{path} holds samples of stores only; what is read from memory takes samples of loads"
        )
    count = slice_count(len(resident))
    which = np.minimum(((time - time.min()) / elapsed * count).astype(np.int64), count - 1)
    busy = sum(n >= BUSY_SHARE * len(time) for n in samples.threads.values()) or 1
    loads = ~store
    lines = np.bincount(which[loads], weights=weight[loads], minlength=count)
    notes = [
        "Lines read are samples times their period; the time of the threads counts as busy throughout",
        "Pages between sampled ones, in gaps below 32 MiB, are taken as used but cold",
    ]
    if samples.kernel:
        notes.append(f"{samples.kernel} samples of kernel addresses or of none are left out")
    if samples.cached:
        notes.append(f"{samples.cached} samples of loads that caches served are left out")
    return Sightings(
        program=path.name,
        sampler="perf script",
        sees="sampled loads that reached memory; stores only as far as they were sampled, no prefetches",
        threads=busy,
        areas=areas_of(stretches),
        slices=tuple(Slice("run", elapsed / count, elapsed / count * busy * 1e9, float(n)) for n in lines),
        slice=which,
        key=key,
        visits=np.where(store, 0.0, weight),
        resident=resident,
        stores=np.where(store, weight, 0.0),
        parameters={"samples": str(len(time)), "elapsed_s": f"{elapsed:.6f}"},
        notes=tuple(notes),
    )


def _take(samples: _Samples, number: int, line: str, period: int | None) -> None:
    found = SAMPLE.match(line)
    if found is None:
        raise BadLine(number, f"{quoted(line)} is no sample; expected {FORM}")
    given = int(found["period"]) if found["period"] else period
    if given is None:
        raise BadLine(number, "the sample has no period; print it (-F +period) or give --period")
    if not 1 <= given <= 10**12:
        raise BadLine(number, f"the period is {given}, it must be from 1 to {10**12}")
    if len(samples.key) >= MOST_SAMPLES:
        raise BadLine(number, f"more than {MOST_SAMPLES} samples; cut the file")
    address = int(found["addr"], 16)
    if not PAGE_BYTES <= address < MOST_ADDRESS:
        samples.kernel += 1
        return
    store = _stores(found["event"], found["rest"] or "")
    level = LEVEL.search(found["rest"] or "")
    if level and not store and not _from_memory(level[1]):
        samples.cached += 1
        return
    pid, thread = int(found["pid"]), int(found["tid"] or found["pid"])
    process = samples.processes.setdefault(pid, len(samples.processes))
    if process >= MOST_PROCESSES:
        raise BadLine(number, f"more than {MOST_PROCESSES} processes; cut the file")
    samples.threads[thread] = samples.threads.get(thread, 0) + 1
    samples.time.append(float(found["time"]))
    samples.key.append((process << PROCESS_SHIFT) | (address // PAGE_BYTES))
    samples.period.append(given)
    samples.store.append(store)


def _stores(event: str, source: str) -> bool:
    """Whether a sample is of a store: as its source says (IBS and SPE have one event for both), or else by
    the name of its event."""
    operation = OPERATION.search(source)
    if operation and ("LOAD" in operation[1] or "STORE" in operation[1]):
        return "LOAD" not in operation[1]
    return "store" in event.lower()


def _from_memory(level: str) -> bool:
    return any(word in level for word in ("RAM", "L3 miss", "PMEM", "CXL", "N/A"))
