"""Whether a host is in order for a trial: each thing that is not, with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tiertune.tuner.host.aspects import THROTTLED
from tiertune.tuner.host.state import HostState

GIB = 1 << 30
HUGE_BYTES = 2 << 20
MOST_OTHER_LOAD = 0.1
"""Share of the processors that others may use while nothing of ours runs."""
MOST_THROTTLED = 0.01
"""Share of a trial in which processors may run slower than asked, on average over all of them."""
SWAPPED = ("pswpin", "pswpout")
"""Counters of the kernel that stand still on a host that does not swap."""
HEADROOM = 1.05
"""Free memory over the footprint: page tables, the daemon, the program itself."""


@dataclass(frozen=True)
class Nodes:
    """Memory nodes of the fast and of the slow tier."""

    fast: int
    slow: int


@dataclass(frozen=True)
class Unfitness:
    """What is not in order, in words, and a command or an instruction that mends it; `about` is one word."""

    about: Literal["nodes", "memory", "swap", "THP", "load", "clock"]
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}; {self.remedy}"


def unfitness(
    state: HostState,
    nodes: Nodes,
    page_bytes: int,
    footprint_bytes: int,
    busy_share: float,
    one_node: bool = False,
) -> list[Unfitness]:
    """All that is wrong with a host in this state, the gravest first; empty where trials may run.

    `busy_share` is the share of all processors that was in use just now, 0 to 1. `one_node` says that both
    tiers may be the same node, where nothing is moved between them.
    """
    tiers = list(_tiers(state, nodes, one_node))
    # Of nodes that are wrong, their free memory says nothing more.
    memory = [] if tiers else _memory(state, nodes, footprint_bytes)
    return [*tiers, *memory, *_settings(state, page_bytes), *_others(state, busy_share)]


def throttling(before: HostState, after: HostState, wall_s: float, processors: int) -> Unfitness | None:
    """What is wrong where processors were throttled while a trial of `wall_s` ran, for more than a hundredth
    of the time; None where they were not, or where the host does not say (AMD, most virtual machines)."""
    grown = after.since(before)
    share = max(grown.get(name, 0) / 1000 / (wall_s * processors) for name in THROTTLED)
    if share <= MOST_THROTTLED:
        return None
    return Unfitness(
        "clock",
        f"processors were throttled for {share * 100:.0f} % of the time while the trial ran",
        "see to cooling and power limits (turbostat), or fix a clock that they keep: cpupower frequency-set"
        " --max, and echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo",
    )


def disturbance(
    before: HostState, after: HostState, wall_s: float, processors: int, busy_share: float = 0.0
) -> Unfitness | None:
    """What disturbed a trial of `wall_s`, the gravest first; None where nothing is known to have.

    `busy_share` is the share of all processors that others used right after it.
    """
    grown = after.since(before)
    swapped = sum(grown.get(name, 0) for name in SWAPPED)
    if swapped:
        return Unfitness(
            "swap",
            f"{swapped:,} pages were swapped while the trial ran, so that it measured the disk as well",
            "swapoff -a",
        )
    busy = next(_others(after, busy_share), None)
    if busy is not None:
        return Unfitness("load", f"right after the trial {busy.problem}", busy.remedy)
    return throttling(before, after, wall_s, processors)


def two_nodes(root: Path = Path("/")) -> Nodes | None:
    """The nodes that a trial would use where nobody says: the first with processors, the first without; None
    where this host has one tier."""
    places = sorted(
        (root / "sys/devices/system/node").glob("node[0-9]*"), key=lambda place: int(place.name[4:])
    )
    computing = [place for place in places if _processors(place)]
    others = [place for place in places if place not in computing] or computing[1:]
    if not computing or not others:
        return None
    return Nodes(int(computing[0].name[4:]), int(others[0].name[4:]))


def _processors(node: Path) -> bool:
    try:
        return bool((node / "cpulist").read_text(encoding="utf-8").strip())
    except OSError:
        return False


def _tiers(state: HostState, nodes: Nodes, one_node: bool) -> Iterator[Unfitness]:
    if nodes.fast == nodes.slow and not one_node:
        yield Unfitness(
            "nodes", f"node {nodes.fast} cannot be both tiers", "name two memory nodes, such as 0,1"
        )
    for node in dict.fromkeys((nodes.fast, nodes.slow)):
        if not state.quantities.get(f"node memory (kB) of node{node}"):
            known = [
                name.rpartition("node")[2] for name in state.quantities if name.startswith("node memory")
            ]
            yield Unfitness(
                "nodes",
                f"memory node {node} has no memory",
                f"nodes with memory are {', '.join(known) or 'none'}; a CXL device becomes a node once it is"
                " online as system RAM (docs/fleet.md)",
            )


def _memory(state: HostState, nodes: Nodes, footprint_bytes: int) -> Iterator[Unfitness]:
    free = sum(
        1024 * state.quantities.get(f"node free memory (kB) of node{node}", 0.0)
        for node in {nodes.fast, nodes.slow}
    )
    if free < HEADROOM * footprint_bytes:
        where = "the two nodes" if nodes.fast != nodes.slow else f"node {nodes.fast}"
        yield Unfitness(
            "memory",
            f"{free / GIB:.1f} GiB of {where} are free, the workload takes {footprint_bytes / GIB:.1f}",
            "end what uses memory, drop the page cache (echo 1 > /proc/sys/vm/drop_caches), or take a smaller"
            " input",
        )
    swapped = state.quantities.get("swap used (kB)", 0.0)
    if swapped:
        yield Unfitness(
            "swap",
            f"{swapped:,.0f} kB are swapped out, and a trial that meets them measures the disk",
            "swapoff -a",
        )


def _settings(state: HostState, page_bytes: int) -> Iterator[Unfitness]:
    if page_bytes == HUGE_BYTES and state.settings.get("THP", "never") == "never":
        yield Unfitness(
            "THP",
            "the scenario has pages of 2 MiB and transparent huge pages are off",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, or page_size: 4KiB",
        )
    if page_bytes < HUGE_BYTES and state.settings.get("THP") == "always":
        yield Unfitness(
            "THP",
            "the scenario has pages of 4 KiB and the kernel makes all memory huge (THP is always)",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, or page_size: 2MiB",
        )


def _others(state: HostState, busy_share: float) -> Iterator[Unfitness]:
    if busy_share > MOST_OTHER_LOAD:
        yield Unfitness(
            "load",
            f"others use {busy_share * 100:.0f} % of the processors"
            f" (load {state.quantities.get('load', 0.0):g})",
            "see `top`, end them, or run the trial where nobody else computes",
        )
