"""Measurements of a host that is known exactly, as `tierload measure` would write them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiertune.machines.definition import Tier, load_machine
from tiertune.tuner.calibration.bandwidth import Peaks
from tiertune.tuner.calibration.curve import multiplier
from tiertune.tuner.calibration.fit import PREFETCHED

FILL_BUFFERS = 14.0
RANDOM_OVERLAP = 6.0
UPDATE_OVERLAP = 5.0
LOCKED_OVERLAP = 1.5
OVERLAPS = {"chase": 1.0, "read": RANDOM_OVERLAP, "update": UPDATE_OVERLAP, "locked": LOCKED_OVERLAP}
HIT_NS = 21.0
MOVE_NS = 18_000.0


def truth() -> Tier:
    """The tier that measurements are made of."""
    return load_machine("skx-cxl-emul").tiers[0]


def node_samples(
    tier: Tier, noise: float, rounds: int = 12, seed: int = 1, moves: str = "copy", drift: float = 0.0
) -> list[dict[str, Any]]:
    """Samples of a node that behaves like `tier`, each figure off by so much (standard deviation)."""
    generator = np.random.default_rng(seed)
    peaks = Peaks(tier.read_gbps, tier.write_gbps, tier.duplex, 1.0)

    def off(value: float) -> float:
        return value * float(np.exp(generator.normal(0.0, noise)))

    def loaded(read: float, write: float) -> float:
        used = float(peaks.utilisation(np.array([read]), np.array([write]))[0])
        return tier.latency_ns * multiplier(tier.curve, used)

    def most(share: float) -> float:
        if tier.duplex:
            return min(tier.read_gbps, tier.write_gbps / share if share else np.inf)
        return 1.0 / (1.0 / tier.read_gbps + share / tier.write_gbps)

    one = 20.0
    for _ in range(50):
        one = 64.0 / (loaded(one, 0.0) * (PREFETCHED / FILL_BUFFERS + 1.0 - PREFETCHED))
    samples: list[dict[str, Any]] = []
    sample: dict[str, Any]
    for number in range(rounds):
        common: dict[str, Any] = {"round": number, "slots": 40, "undisturbed": 40}
        slower = float(np.exp(drift * (2 * number / (rounds - 1) - 1)))
        idle = {"threads": 0, "write_share": 0.0, "read_gbps": 0.5, "write_gbps": 0.0}
        latency = off(slower * loaded(0.5, 0.0))
        samples.append({"measure": "loaded", **common, **idle, "latency_ns": latency})
        for share in (0.0, 0.5):
            for part in (0.01, 0.1, 0.25, 0.4, 0.55, 0.7, 0.8, 0.88, 0.95, 0.98, 1.0):
                read = most(share) * part
                latency = off(slower * loaded(read, share * read))
                sample = {"threads": 1, "write_share": share, "latency_ns": latency}
                traffic = {"read_gbps": read, "write_gbps": share * read}
                samples.append({"measure": "loaded", **common, **sample, **traffic})
        for share in (0.0, 0.5, 1.0):
            for threads, read in ((1, one), (8, most(share))):
                read = off(read)
                sample = {
                    "threads": threads,
                    "write_share": share,
                    "read_gbps": read,
                    "write_gbps": share * read,
                }
                samples.append({"measure": "stream", **common, **sample})
        samples.append(
            {"measure": "loaded", "label": "cache", **common, "threads": 0, "latency_ns": off(HIT_NS)}
        )
        for kind, overlap in OVERLAPS.items():
            sample = {"kind": kind, "ns_per_access": off(tier.latency_ns / overlap), "threads": 1}
            samples.append({"measure": "updates", "round": number, **sample})
        for page_bytes in (4096, 2 << 20):
            sample = {"page_bytes": page_bytes, "pages": 64, "way": moves}
            times = {"copy_ns": off(500.0), "replace_ns": off(2000.0)} if moves == "copy" else {}
            times |= {"move_ns": off(MOVE_NS)} if moves == "move_pages" else {}
            samples.append({"measure": "moves", "round": number, **sample, **times})
    return samples


def measurements(*tiers: Tier, noise: float = 0.01, drift: float = 0.0) -> dict[str, Any]:
    """A host with these tiers as nodes; with two, pages are moved to the second.

    With a `drift` memory gets slower from the first round to the last, by a factor of e^(2 drift).
    """
    ways = ["copy"] if len(tiers) == 1 else ["none", "move_pages"]
    nodes = [
        {
            "number": number,
            "capacity_bytes": tier.capacity_bytes,
            "processors": 8 if number == 0 else 0,
            "samples": [
                one
                for one in node_samples(tier, noise, seed=number + 1, moves=ways[number], drift=drift)
                if one["measure"] != "moves" or ways[number] != "none"
            ],
        }
        for number, tier in enumerate(tiers)
    ]
    cpu = {
        "name": "Example", "cores": 8, "clock_ghz": 2.2, "llc_bytes": 13 << 20, "inner_cache_bytes": 1 << 20,
    }  # fmt: skip
    return {"schema": 1, "cpu": cpu, "nodes": nodes, "environment": {"host": {"system": "Linux"}}}
