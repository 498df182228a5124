"""Profiles of real processes: from how often pages were found touched to lines read, by page and slice.

A sampler or another tool says which pages were touched, rarely how much memory traffic that was, and never
how accesses depend on each other. What is not seen is declared, written into the profile and told with every
replay.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Ints = np.ndarray[Any, np.dtype[np.int64]]
    Floats = np.ndarray[Any, np.dtype[np.float64]]

FORMAT_VERSION = 1
PAGE_BYTES = 4096
SLICES = 64
"""Slices of about equal work that a measured run is cut into."""

MOST_ROWS = 2**22
"""Rows of a profile, so that it stays small: of large processes fewer slices are kept."""

SMALL_AREA_PAGES = 2048
"""Areas below 8 MiB are one object together, as replayed pages are large."""

PROCESS_SHIFT = 44
"""Keys of pages: number of the process above the number of the page."""

ENGINE_CLASSES = ("chase", "random", "gather", "update", "stream", "lookup")

DECLARED = {"dependent": "chase", "independent": "random", "sequential": "stream"}
"""What users declare, and the engine's access class for it."""

LOCAL_NS = 90.0
"""Unloaded latency of local memory on current servers, from which `LINE_NS` follows."""

LINE_NS = {
    "chase": LOCAL_NS,
    "random": LOCAL_NS / 8,
    "update": LOCAL_NS / 8,
    "gather": LOCAL_NS / 4,
    "lookup": LOCAL_NS,
    # One miss for each page of 64 lines, the rest at 10e9 B/s per core.
    "stream": LOCAL_NS / 64 + 6.4,
}
"""Nanoseconds that a line from local memory holds up its thread, by class (see docs/model.md)."""

STALLED_SHARE = 0.5
"""Share of processor time taken as waiting for memory where nothing measured says so."""

MOST_STALLED_SHARE = 0.95
MOST_COUNT = 2**32 - 1


@dataclass(frozen=True)
class Area:
    """A stretch of a process's addresses."""

    process: int
    start: int
    """First page."""
    end: int
    """The page after the last."""
    label: str


@dataclass(frozen=True)
class Declaration:
    """How accesses to a part of the memory depend on each other, as the user knows."""

    name: str
    """Key of `DECLARED`."""
    label: str | None = None
    """Area by its name; None: all, or those of `pages`."""
    pages: tuple[int, int] | None = None
    """Pages by their number: first, and the one after the last."""


@dataclass(frozen=True)
class Slice:
    """A stretch of work."""

    phase: str
    elapsed_s: float
    cpu_ns: float
    """Processor time of all threads."""
    lines: float | None = None
    """Lines read from memory in it, where that was measured."""


@dataclass(frozen=True)
class Sightings:
    """What was seen, whoever saw it.

    `slice`, `key` and `visits` are columns of equal length: slice number, page (see `PROCESS_SHIFT`), and how
    often that page was visited in relation to the others of the slice. `resident` holds all pages, sorted.
    """

    program: str
    sampler: str
    sees: str
    threads: int
    areas: tuple[Area, ...]
    slices: tuple[Slice, ...]
    slice: Ints
    key: Ints
    visits: Floats
    resident: Ints
    stores_only: bool = False
    stores: Floats | None = None
    """Retired stores, where they were counted: as many as there are visits."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class NothingSeen(Exception):
    """There is nothing to make a profile of; the sentence says why."""


def this_machine() -> dict[str, str]:
    """The machine that a profile was made on."""
    import os

    uname = platform.uname()
    return {
        "system": f"{uname.system} {uname.release}",
        "architecture": uname.machine,
        "cores": str(os.cpu_count() or 1),
    }


def slice_count(pages: int) -> int:
    """Slices into which a run over so many pages is cut."""
    return max(1, min(SLICES, MOST_ROWS // max(pages, 1)))


def key_of(process: int, page: int) -> int:
    """A page among those of all processes."""
    return (process << PROCESS_SHIFT) | page


def touch_rate(hits: Floats, looks: Floats) -> Floats:
    """Visits per look of pages that were found touched in `hits` of `looks`, for arrivals at random times.

    A page that was touched whenever it was looked at was touched at least that often: half a look counts as
    a miss, so that the rate stays finite.
    """
    import numpy as np

    share = np.minimum(hits / looks, 1 - 0.5 / looks)
    rate: Floats = -np.log1p(-np.clip(share, 0.0, 1.0))
    return rate


def profile_of(
    seen: Sightings, declared: Sequence[Declaration] = (), stalled_share: float = STALLED_SHARE
) -> tuple[dict[str, np.ndarray[Any, Any]], str]:
    """Columns and metadata as `write_profile` takes them; raises `NothingSeen`."""
    import numpy as np

    if len(seen.key) == 0 or float(seen.visits.sum()) <= 0:
        raise NothingSeen("no page was seen touched: nothing to make a profile of")
    owner, names = _objects(seen)
    kept = owner >= 0
    resident, owner = seen.resident[kept], owner[kept]
    order = np.argsort(owner, kind="stable")
    sizes = np.bincount(owner, minlength=len(names))
    first = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    page = np.empty(len(owner), dtype=np.int64)
    page[order] = np.arange(len(owner)) - first[owner[order]]
    classes = _classes(seen, resident, declared)
    place = np.searchsorted(resident, seen.key)
    known = (place < len(resident)) & (resident[np.minimum(place, len(resident) - 1)] == seen.key)
    place, slices, visits = place[known], seen.slice[known], seen.visits[known]
    if len(place) == 0:
        raise NothingSeen("no page that was seen touched lies in an area of data")
    rows = np.lexsort((page[place], classes[place], owner[place], slices))
    place, slices, visits = place[rows], slices[rows], visits[rows]
    same = np.flatnonzero(np.concatenate([[True], (np.diff(slices) != 0) | (np.diff(place) != 0)]))
    stores = np.zeros_like(visits) if seen.stores is None else seen.stores[known][rows]
    stores = np.rint(np.add.reduceat(stores, same)).astype(np.int64)
    visits = np.add.reduceat(visits, same)
    place, slices = place[same], slices[same]
    line_ns = np.array([LINE_NS[name] for name in ENGINE_CLASSES])[classes[place]]
    reads, told = _lines(seen, slices, visits, line_ns, stalled_share)
    # Slices in which nobody worked are left out.
    works = np.array([info["ops"] > 0 for info in told])
    number = np.cumsum(works) - 1
    rows = works[slices] & ((reads > 0) | (stores > 0))
    place, reads, stores, slices = place[rows], reads[rows], stores[rows], number[slices[rows]]
    if len(place) == 0:
        raise NothingSeen("what was seen comes to less than one line read from memory; sample for longer")
    stream = classes[place] == ENGINE_CLASSES.index("stream")
    count = {
        "reads": reads,
        "prefetched": np.where(stream, reads * 63 // 64, 0),
        "writebacks": reads if seen.stores_only else np.zeros_like(reads),
        "stores": reads if seen.stores_only else stores,
        "touches": reads,
    }
    columns = {
        "slice": slices.astype(np.uint32),
        "object": owner[place].astype(np.uint16),
        "class": classes[place].astype(np.uint8),
        "page": page[place].astype(np.uint32),
        **{name: np.minimum(values, MOST_COUNT).astype(np.uint32) for name, values in count.items()},
    }
    first_touch = np.full(len(names), len(told), dtype=np.int64)
    np.minimum.at(first_touch, owner[place], slices)
    rank = np.argsort(np.argsort(first_touch, kind="stable"), kind="stable")
    objects = [
        {
            "name": name,
            "bytes": int(size) * PAGE_BYTES,
            "element_bytes": 64,
            "layout": "positional",
            "sweeps": False,
            "touch_order": int(turn),
            "line_cv2": None,
            "skew_growth": 1.0,
        }
        for name, size, turn in zip(names, sizes, rank, strict=True)
    ]
    measured = any(part.lines is not None for part in seen.slices)
    scaling = {"lines_are_measured": float(measured)}
    scaling |= {f"line_ns_{name}": LINE_NS[name] for name in sorted(set(DECLARED.values()) | {"update"})}
    notes = list(seen.notes)
    if not measured:
        scaling["stalled_share"] = stalled_share
        notes.append(
            f"Assumed, not measured: threads wait for memory {stalled_share:.0%} of their time in every"
            " slice; that sets how many lines are read, the sampler says where"
        )
    if not seen.stores_only:
        notes.append("Write-backs are left out, because loads and stores were not told apart")
    notes.append(_told_classes(declared))
    metadata = {
        "format_version": FORMAT_VERSION,
        "measured": {
            "program": seen.program,
            "sampler": seen.sampler,
            "sees": seen.sees,
            "operation": "a microsecond of processor time",
            "threads": max(1, seen.threads),
            "parameters": dict(seen.parameters),
            "machine": dict(seen.machine),
            "scaling": scaling,
            "notes": notes,
        },
        "objects": objects,
        "slices": [info for info in told if info["ops"] > 0],
    }
    return columns, json.dumps(metadata)


def _objects(seen: Sightings) -> tuple[Ints, list[str]]:
    """For each resident page the number of its object (-1: none), and the objects' names."""
    import numpy as np

    areas = sorted(seen.areas, key=lambda area: (area.process, area.start))
    starts = np.array([key_of(area.process, area.start) for area in areas], dtype=np.int64)
    ends = np.array([key_of(area.process, area.end) for area in areas], dtype=np.int64)
    if len(areas) == 0:
        raise NothingSeen("the process has no area of data")
    area_of = np.searchsorted(starts, seen.resident, side="right") - 1
    inside = (area_of >= 0) & (seen.resident < ends[np.maximum(area_of, 0)])
    area_of = np.where(inside, area_of, -1)
    sizes = np.bincount(area_of[inside], minlength=len(areas))
    number = np.full(len(areas) + 1, -1, dtype=np.int64)
    names: list[str] = []
    for place in np.flatnonzero(sizes >= SMALL_AREA_PAGES):
        number[place] = len(names)
        names.append(_unlike(areas[place].label, names))
    small = (sizes > 0) & (sizes < SMALL_AREA_PAGES)
    if small.any():
        number[:-1][small] = len(names)
        names.append(_unlike("small areas" if names else "all areas", names))
    owner: Ints = number[area_of]
    return owner, names


def _unlike(name: str, taken: Sequence[str]) -> str:
    candidate, turn = name, 1
    while candidate in taken:
        turn += 1
        candidate = f"{name} {turn}"
    return candidate


def _classes(seen: Sightings, resident: Ints, declared: Sequence[Declaration]) -> Ints:
    """The access class of each resident page, as its number in the engine; later declarations win."""
    import numpy as np

    usual = "update" if seen.stores_only else "random"
    classes = np.full(len(resident), ENGINE_CLASSES.index(usual), dtype=np.int64)
    pages = resident & ((1 << PROCESS_SHIFT) - 1)
    for entry in declared:
        name = DECLARED[entry.name]
        number = ENGINE_CLASSES.index(usual if name == "random" else name)
        if entry.label is not None:
            for area in (area for area in seen.areas if area.label == entry.label):
                low, high = key_of(area.process, area.start), key_of(area.process, area.end)
                classes[(resident >= low) & (resident < high)] = number
        elif entry.pages is not None:
            classes[(pages >= entry.pages[0]) & (pages < entry.pages[1])] = number
        else:
            classes[:] = number
    return classes


def _told_classes(declared: Sequence[Declaration]) -> str:
    if not declared:
        return "How accesses depend on each other was not declared; all are taken as independent"
    parts = []
    for entry in declared:
        where = entry.label or (entry.pages and f"{entry.pages[0]:#x}-{entry.pages[1]:#x} (pages)") or "all"
        parts.append(f"{where}: {entry.name}")
    return f"Access classes as declared: {'; '.join(parts)}"


def _lines(
    seen: Sightings, slices: Ints, visits: Floats, line_ns: Floats, stalled_share: float
) -> tuple[Ints, list[dict[str, Any]]]:
    """Lines read of each row, and the slices as the profile describes them."""
    import numpy as np

    number = len(seen.slices)
    total = np.bincount(slices, weights=visits, minlength=number)
    held = np.bincount(slices, weights=visits * line_ns, minlength=number)
    lines = np.zeros(number)
    told = []
    for place, part in enumerate(seen.slices):
        mean_ns = held[place] / total[place] if total[place] > 0 else 0.0
        if mean_ns == 0:
            stalled = 0.0
        elif part.lines is None:
            stalled = stalled_share
            lines[place] = part.cpu_ns * stalled / mean_ns
        else:
            lines[place] = part.lines
            stalled = min(part.lines * mean_ns / max(part.cpu_ns, 1.0), MOST_STALLED_SHARE)
        told.append(
            {
                "phase": part.phase,
                "unit": "operations",
                "ops": int(part.cpu_ns // 1000),
                "cpu_ns_per_op": 1000.0 * (1.0 - stalled),
                "accesses": round(lines[place]),
            }
        )
    share = visits / np.maximum(total[slices], 1e-300)
    # Whole numbers whose sums are right: what rounding takes from one row goes to the next.
    sums = np.floor(np.cumsum(share * lines[slices]) + 0.5)
    reads: Ints = np.diff(np.concatenate([[0.0], sums])).astype(np.int64)
    return reads, told


def default_name(path: Path) -> str:
    """A workload's name from a file's."""
    import re

    return re.sub(r"[^a-z0-9.]+", "-", path.stem.lower()).strip("-.")[:64].strip("-.") or "profile"
