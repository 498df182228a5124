"""Settings that follow from arithmetic: what of a node has to go, and how."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Entries = list[dict[str, Any]]

HUGE_PAGE_BYTES = 2 << 20
NODES = "/sys/devices/system/node"
CPUS = "/sys/devices/system/cpu"


def fast_bytes(footprint_bytes: int, ratio: str) -> int:
    """Bytes of a footprint that are fast at a ratio such as `1:8`. Raises ValueError for another text."""
    fast, colon, slow = str(ratio).partition(":")
    if not colon or not fast.isdigit() or not slow.isdigit() or int(fast) + int(slow) == 0:
        raise ValueError(f"tiering_host_ratio: {ratio} is no ratio; write it as 1:8, in quotes")
    return int(footprint_bytes) * int(fast) // (int(fast) + int(slow))


def surplus_bytes(facts: Mapping[str, Any], node: str, wanted_bytes: int, headroom_bytes: int) -> int:
    """What a node holds beyond the workload's part and the rest of the host. Raises ValueError where it holds
    less."""
    total = int(_node(facts, node)["total_bytes"])
    surplus = total - int(wanted_bytes) - int(headroom_bytes)
    if surplus < 0:
        raise ValueError(
            f"tiering_host_footprint_bytes: node {node} holds {total} bytes, less than the {wanted_bytes}"
            f" that the ratio makes fast and the {headroom_bytes} of tiering_host_headroom_bytes"
        )
    return surplus


def limit_settings(surplus: int, method: str, facts: Mapping[str, Any], node: str) -> Entries:
    """Settings that take `surplus` bytes of a node away. Raises ValueError for an unknown method."""
    if method in ("none", "memmap"):
        return []
    if method == "hugepages":
        path = f"{NODES}/node{node}/hugepages/hugepages-2048kB/nr_hugepages"
        return [{"path": path, "value": str(int(surplus) // HUGE_PAGE_BYTES)}]
    if method == "blocks":
        count = int(surplus) // max(int(facts["memory_block_bytes"]), 1)
        # The last ones first: the first blocks of a node hold what cannot be moved.
        blocks: Sequence[int] = _node(facts, node)["blocks"]
        paths = [f"/sys/devices/system/memory/memory{block}/state" for block in reversed(blocks)]
        return [{"paths": paths, "count": count, "value": "offline"}] if count else []
    raise ValueError(f"tiering_host_limit: {method} is not one of none, hugepages, blocks, memmap")


def memmap_argument(surplus: int, facts: Mapping[str, Any], node: str) -> str:
    """What the kernel command line needs instead: `memmap=SIZE!START` at the end of the node's memory."""
    block_bytes, blocks = int(facts["memory_block_bytes"]), _node(facts, node)["blocks"]
    if not block_bytes or not blocks:
        raise ValueError(
            f"tiering_host_limit: memmap needs the memory blocks of node {node}, which are not told"
        )
    end = (blocks[-1] + 1) * block_bytes
    size = int(surplus) // block_bytes * block_bytes
    return f"memmap={size:#x}${end - size:#x}"


def far_settings(facts: Mapping[str, Any], node: str, uncore_max_khz: str, uncore_msr: str) -> Entries:
    """Settings that make a node of processors a far one: all of them offline, its uncore clock lowered."""
    if node == "":
        return []
    cpus: Sequence[int] = _node(facts, node)["cpus"]
    if 0 in cpus:
        raise ValueError(f"tiering_host_emulated_node: node {node} has processor 0, which cannot go offline")
    entries: Entries = []
    if uncore_max_khz:
        # Before the processors go: the clock's file goes with the last one of its package on some kernels.
        pattern = f"{CPUS}/intel_uncore_frequency/package_{int(node):02d}_die_*/max_freq_khz"
        entries.append({"path": pattern, "value": str(uncore_max_khz), "optional": True})
    if uncore_msr and cpus:
        entries.append({"msr": "0x620", "cpu": str(cpus[0]), "value": str(uncore_msr), "optional": True})
    return entries + [{"path": f"{CPUS}/cpu{cpu}/online", "value": "0"} for cpu in cpus]


def interrupt_settings(cpus: str) -> Entries:
    """Settings that keep interrupts on some processors, where the kernel lets them be moved."""
    return (
        [] if cpus == "" else [{"path": "/proc/irq/[0-9]*/smp_affinity_list", "value": cpus, "movable": True}]
    )


def quiet_settings(units: Sequence[str]) -> Entries:
    """Settings that stop services, where they are installed."""
    return [{"service": unit, "value": "stopped", "optional": True} for unit in units]


def unit_words(words: Sequence[str]) -> str:
    """A command as the line of a systemd unit has it, where blanks part words and `%` and `$` stand for
    others."""
    return " ".join(_unit_word(str(word)) for word in words)


def _unit_word(word: str) -> str:
    told = word.replace("%", "%%").replace("$", "$$")
    if re.fullmatch(r"[^\s\"'\\;]+", word):
        return told
    escaped = told.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _node(facts: Mapping[str, Any], node: str) -> Mapping[str, Any]:
    for found in facts["nodes"]:
        if int(found["number"]) == int(node):
            return dict(found)
    numbers = ", ".join(str(found["number"]) for found in facts["nodes"])
    raise ValueError(f"node {node}: this host has the nodes {numbers}")


class FilterModule:
    """What templates may use."""

    def filters(self) -> dict[str, Any]:
        """Filters by name."""
        return {
            "fast_bytes": fast_bytes,
            "surplus_bytes": surplus_bytes,
            "limit_settings": limit_settings,
            "memmap_argument": memmap_argument,
            "far_settings": far_settings,
            "interrupt_settings": interrupt_settings,
            "quiet_settings": quiet_settings,
            "unit_words": unit_words,
        }
