"""What DAMON saw: the tracepoint `damon_aggregated` as perf or trace-cmd print it, or `damo report raw`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiertune.files import InputError
from tiertune.workloads.imports.lines import BadLine, lines_of, quoted
from tiertune.workloads.imports.spans import MOST_ADDRESS, areas_of, every_page
from tiertune.workloads.measured import (
    PAGE_BYTES,
    PROCESS_SHIFT,
    NothingSeen,
    Sightings,
    Slice,
    slice_count,
    touch_rate,
)

if TYPE_CHECKING:
    import numpy as np

    Ints = np.ndarray[Any, np.dtype[np.int64]]

TRACE = re.compile(
    r"\s(?P<time>\d{1,12}\.\d{1,9}):\s+(?:damon:)?damon_aggregated:\s+target_id=(?P<target>\d{1,20})"
    r"\s+nr_regions=(?P<regions>\d{1,10})\s+(?P<start>\d{1,20})-(?P<end>\d{1,20}):\s+(?P<hits>\d{1,10})(?:\s+\d{1,10})?\s*$"
)
REGION = re.compile(
    r"^\s*(?P<start>[0-9a-f]{1,16})-(?P<end>[0-9a-f]{1,16})\s*\([^()]{1,32}\):\s*(?P<hits>\d{1,10})(?:[,\s]+\d{1,10})?\s*$"
)
HEAD = re.compile(r"^\s*(?P<name>[a-z_]{1,40}):\s*(?P<value>.*?)\s*$")
TIME_PART = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*(ns|us|ms|s|m|h|d)(?=\s|$)")
UNITS_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
MOST_REGIONS = 20_000_000
MOST_TARGETS = 1000


@dataclass
class _Regions:
    """Columns of equal length: when an aggregation ended, target, stretch of pages, hits."""

    time: list[float] = field(default_factory=list)
    target: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    end: list[int] = field(default_factory=list)
    hits: list[int] = field(default_factory=list)
    targets: dict[int, int] = field(default_factory=dict)
    announced: int = 0
    """Regions that a trace says there were (0: no trace), whether or not their lines came through."""
    began: float = 0.0
    left: dict[int, tuple[int, int]] = field(default_factory=dict)
    """In the aggregation that is being read, by target: where its last region begins, and how many follow."""

    def traced(self, time: float, target: int, start: int, count: int) -> float:
        """When the aggregation of a traced region began. The kernel traces one region after the other, each
        at a time of its own, those of a target (`count`) by their addresses."""
        last, left = self.left.get(target, (-1, count))
        if start <= last or left == 0:
            self.left = {}
        if not self.left:
            self.began = time
        if target not in self.left:
            self.announced += count
            left = count
        self.left[target] = start, max(left - 1, 0)
        return self.began

    def add(self, number: int, time: float, target: int, bounds: tuple[int, int], hits: int) -> None:
        low, high = bounds
        if high <= low:
            raise BadLine(number, f"the region {low:#x}-{high:#x} ends before it begins")
        if high > MOST_ADDRESS:
            raise BadLine(number, f"the region {low:#x}-{high:#x} ends above {MOST_ADDRESS:#x}")
        if len(self.time) >= MOST_REGIONS:
            raise BadLine(number, f"more than {MOST_REGIONS} regions; cut the file")
        which = self.targets.setdefault(target, len(self.targets))
        if which >= MOST_TARGETS:
            raise BadLine(number, f"more than {MOST_TARGETS} targets; cut the file")
        self.time.append(time)
        self.target.append(which)
        self.start.append(low // PAGE_BYTES)
        self.end.append(-(-high // PAGE_BYTES))
        self.hits.append(hits)


def read_damon(path: Path, samples: int = 20, threads: int = 1) -> Sightings:
    """The regions of a file: checks of a page per aggregation (`samples`) and busy `threads` are not in it.

    Raises `InputError` with the line of what does not fit, `NothingSeen`.
    """
    import numpy as np

    regions = _Regions()
    try:
        _read(path, regions)
        most = max(regions.hits, default=0)
        if most > samples:
            number = regions.hits.index(most) + 1
            raise NothingSeen(
                f"{path}: region {number} was found accessed {most} times in {samples} checks;"
                f" give --samples {most} or more: the aggregation interval over the sampling interval"
            )
    except BadLine as error:
        raise InputError(f"{path}:{error.number}: {error}") from None
    if not regions.time:
        raise NothingSeen(f"{path} holds no region")
    time = np.array(regions.time)
    moments = np.unique(time)
    if len(moments) < 2:
        raise NothingSeen(f"{path} holds one aggregation; at least two say how long one takes")
    target = np.array(regions.target, dtype=np.int64) << PROCESS_SHIFT
    low = target | np.array(regions.start, dtype=np.int64)
    high = target | np.array(regions.end, dtype=np.int64)
    each = float(np.median(np.diff(moments)))
    elapsed = float(moments[-1] - moments[0]) + each
    stretches = _union(low, high)
    resident = every_page(stretches)
    count = min(slice_count(len(resident)), len(moments))
    which = np.minimum(np.searchsorted(moments, time) * count // len(moments), count - 1)
    hits = np.array(regions.hits, dtype=np.float64)
    rate = np.where(hits > 0, touch_rate(hits, np.full(len(hits), float(samples))), 0.0)
    columns = _by_page(resident, which, np.stack([low, high]), rate, count)
    aggregations = np.bincount(np.arange(len(moments)) * count // len(moments), minlength=count)
    return Sightings(
        program=path.name,
        sampler="DAMON",
        sees="accesses to regions; not loads and stores apart, nor how accesses depend on each other",
        threads=threads,
        areas=areas_of(stretches),
        slices=tuple(
            Slice("run", float(n) * elapsed / len(moments), float(n) * elapsed / len(moments) * threads * 1e9)
            for n in aggregations
        ),
        slice=columns[0],
        key=columns[1],
        visits=columns[2],
        resident=resident,
        parameters={
            "aggregations": str(len(moments)),
            "aggregation_s": f"{each:.6f}",
            "samples_per_aggregation": str(samples),
        },
        notes=(
            "All pages of a region are taken as alike, as DAMON takes them",
            *_lost(regions, moments, each),
        ),
    )


def _lost(regions: _Regions, moments: Any, each: float) -> list[str]:
    """What the tool that recorded did not keep up with."""
    import numpy as np

    notes = []
    missing = regions.announced - len(regions.time)
    if missing > 0:
        notes.append(
            f"{missing} of {regions.announced} regions are missing: the trace lost their lines, and their"
            " pages count as not accessed"
        )
    gaps = np.diff(moments) / each
    left_out = int(np.sum(np.rint(gaps[gaps > 1.5]) - 1))
    if left_out:
        notes.append(
            f"{left_out} of about {left_out + len(moments)} aggregations are missing; the others stand for"
            " the time between them"
        )
    return notes


def _read(path: Path, regions: _Regions) -> None:
    trace: bool | None = None
    end_s, target = None, 0
    for number, line in lines_of(path):
        if not line.strip() or line.startswith("#"):
            continue
        if "damon_aggregated:" in line and trace is not False:
            trace = True
            found = TRACE.search(line)
            if found is None:
                raise BadLine(number, f"{quoted(line)} is no region of damon_aggregated")
            bounds, target = (int(found["start"]), int(found["end"])), int(found["target"])
            time = regions.traced(float(found["time"]), target, bounds[0], int(found["regions"]))
            regions.add(number, time, target, bounds, int(found["hits"]))
            continue
        if trace:
            raise BadLine(number, f"{quoted(line)} is no line of damon_aggregated")
        trace = False
        if found := REGION.match(line):
            if end_s is None:
                raise BadLine(number, "a region stands before its monitoring_end")
            bounds = int(found["start"], 16), int(found["end"], 16)
            regions.add(number, end_s, target, bounds, int(found["hits"]))
        elif found := HEAD.match(line):
            if found["name"] == "monitoring_end":
                end_s = _seconds(number, found["value"])
            elif found["name"] == "target_id":
                if not re.fullmatch(r"\d{1,20}", found["value"]):
                    raise BadLine(number, f"target_id is {quoted(found['value'])}, it must be a number")
                target = int(found["value"])
        else:
            raise BadLine(
                number, f"{quoted(line)} is neither a region (start-end(size): accesses) nor 'name: value'"
            )


def _seconds(number: int, text: str) -> float:
    """`8 m 59.809 s` or `104.599 ms` in seconds."""
    parts = TIME_PART.findall(text.replace(",", ""))
    if not parts or TIME_PART.sub("", text.replace(",", "")).strip():
        raise BadLine(number, f"{quoted(text)} is no time such as 104.599 ms or 8 m 59.809 s")
    return sum(float(value) * UNITS_S[unit] for value, unit in parts)


def _union(low: Ints, high: Ints) -> Ints:
    """Stretches that cover the given ones, and neither touch nor overlap."""
    import numpy as np

    order = np.argsort(low, kind="stable")
    low, reach = low[order], np.maximum.accumulate(high[order])
    new = np.concatenate([[True], low[1:] > reach[:-1]])
    first = np.flatnonzero(new)
    last = np.concatenate([first[1:] - 1, [len(low) - 1]])
    return np.stack([low[first], reach[last]], axis=1)


def _by_page(resident: Ints, which: Ints, bounds: Ints, rate: Any, count: int) -> tuple[Ints, Ints, Any]:
    """Slice, page and visits, summed over the aggregations of each slice; pages without visits left out."""
    import numpy as np

    slices, keys, visits = [], [], []
    from_, to = np.searchsorted(resident, bounds[0]), np.searchsorted(resident, bounds[1])
    for number in range(count):
        mine = which == number
        steps = np.zeros(len(resident) + 1)
        np.add.at(steps, from_[mine], rate[mine])
        np.add.at(steps, to[mine], -rate[mine])
        total = np.cumsum(steps[:-1])
        # Sums of equal steps up and down leave a rounding error where there is nothing.
        seen = np.flatnonzero(total > 1e-9)
        slices.append(np.full(len(seen), number, dtype=np.int64))
        keys.append(resident[seen])
        visits.append(total[seen])
    return np.concatenate(slices), np.concatenate(keys), np.concatenate(visits)
