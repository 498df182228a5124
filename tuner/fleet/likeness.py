"""Whether hosts are alike enough to stand for one another, and in what they are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tiertune.tuner.trial import canonical
from tiertune.units import format_size

Facts = Mapping[str, Any]

CAPACITY_STEP = 1 << 28
"""Kernels that are alike keep up to some hundred MiB of a node for themselves, here more and there less."""


def traits(facts: Facts, fast_node: int, slow_node: int) -> dict[str, str]:
    """What of a host decides its results, in words. `facts` are those of the module tiering_facts."""
    found = {
        "kernel": facts["kernel"],
        "firmware": facts["firmware"],
        "processor": facts["processor"],
        "microcode": facts["microcode"],
        "memory speed": ", ".join(facts["memory_speed"]),
        "memory tiers": " > ".join(str(tier) for tier in facts["tiers"]),
    }
    nodes = {node["number"]: node for node in facts["nodes"]}
    for role, number in (("fast", fast_node), ("slow", slow_node)):
        node = nodes.get(number)
        if node is None:
            found[f"{role} node"] = f"there is no node {number}"
            continue
        capacity = round(node["total_bytes"] / CAPACITY_STEP) * CAPACITY_STEP
        found[f"{role} node"] = f"{format_size(capacity)}, {len(node['cpus'])} processors"
        found[f"{role} node distances"] = " ".join(str(value) for value in node["distances"])
        figures = [f"{name} {value}" for name, value in sorted(node["access"].items())]
        found[f"{role} node figures"] = ", ".join(figures)
    return {name: value or "not told" for name, value in found.items()}


def differences(by_host: Mapping[str, Mapping[str, str]]) -> list[str]:
    """A sentence for each trait in which hosts differ: who has what, the most common first."""
    sentences = []
    names = dict.fromkeys(name for found in by_host.values() for name in found)
    for name in names:
        values = Counter(found.get(name, "not told") for found in by_host.values())
        if len(values) < 2:
            continue
        parts = []
        for value, _ in sorted(values.items(), key=lambda entry: (-entry[1], entry[0])):
            owners = sorted(host for host, found in by_host.items() if found.get(name, "not told") == value)
            parts.append(f"{value} on {', '.join(owners)}")
        sentences.append(f"{name}: {'; '.join(parts)}")
    return sentences


def digest(by_host: Mapping[str, Mapping[str, str]]) -> str:
    """One text for hosts that are what they were."""
    return canonical({host: dict(found) for host, found in sorted(by_host.items())})
