"""A small recording predicts a larger one: of configs at one carried footprint, both scales choose alike, and
rank alike what differs; for one or more workloads of every family of accesses."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tiertune import engine
from tiertune.machines.definition import load_machine
from tiertune.workloads.definition import Workload
from tiertune.workloads.profile import profile_for

CONFIGS: list[dict[str, Any]] = [
    {},
    {"read_hot_threshold": 2},
    {"read_hot_threshold": 20},
    {"sampling_period": 50000},
    {"migration_period_ms": 1000},
    {"cooling_threshold": 40},
]
"""Of HeMem: as shipped, promoting sooner, later, sampling less, migrating seldom, forgetting later."""

ALL_OBJECTS = {"mmap_filter_size_bytes": 0}
"""HeMem leaves objects below 1 GiB in fast memory, and many are smaller at the footprint of these runs."""

FAMILIES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    # Sources differ by up to three times in how many edges lead one level further, by which BC's time goes.
    # Of seeds to 12 these two have the sources nearest to the mean (17.3 %) at their scale: 19.6 and 19.1 %.
    "bc": (
        {"kernel": "bc", "graph": "kron", "scale": 13, "sources": 1, "seed": 5},
        {"scale": 15, "seed": 9},
        {"scale": 24, "runs": 4},
    ),
    "pr": (
        {"kernel": "pr", "graph": "kron", "scale": 13, "iterations": 6},
        {"scale": 15},
        {"scale": 25},
    ),
    "ycsb": (
        {
            "kernel": "ycsb",
            "records": 50_000,
            "operations": 100_000,
            "workload": "c",
            "distribution": "zipf",
            "theta": 0.5,
        },
        {"records": 100_000, "operations": 200_000},
        {"records": 20_000_000},
    ),
    "tpcc": (
        {"kernel": "tpcc", "warehouses": 1, "transactions": 20_000},
        {"warehouses": 2, "transactions": 40_000},
        {"warehouses": 300},
    ),
    "btree": (
        {"kernel": "btree", "keys": 20_000, "lookups": 60_000},
        {"keys": 60_000, "lookups": 180_000},
        {"keys": 20_000_000},
    ),
    "cachelib": (
        {"kernel": "cachelib", "keys": 3_000, "operations": 60_000},
        {"keys": 6_000, "operations": 120_000},
        {"keys": 1_000_000},
    ),
    "gups": (
        {"kernel": "gups", "table_bytes": 32 << 20, "hot_bytes": 4 << 20, "updates": 2_000_000},
        {"table_bytes": 64 << 20, "hot_bytes": 8 << 20, "updates": 4_000_000},
        {"table_bytes": 8 << 30},
    ),
    "npb_lu": (
        {"kernel": "npb_lu", "edge": 32, "iterations": 4},
        {"edge": 48},
        {"edge": 600, "runs": 4},
    ),
    "liblinear": (
        {"kernel": "liblinear", "solver": "coordinate", "rows": 10_000, "features": 4_000, "iterations": 4},
        {"rows": 20_000, "features": 8_000},
        {"rows": 8_000_000, "features": 3_200_000},
    ),
}
"""Kernel as recorded small, what the larger recording changes, and to what both are carried: graphs,
databases, a cache, updates at random, sweeps, and sparse rows. Not Redis and XSBench, to which no setting
makes a difference of a hundredth."""

DIFFERENT = 0.01
"""Configs whose runtimes differ by less than this share are alike, and in any order."""


def runtimes(record: dict[str, Any], carry: dict[str, Any], folder: Path) -> list[float]:
    """Run time of every config on a recording carried to this size."""
    machine = load_machine("skx-numa")
    workload = Workload.model_validate(
        {
            "name": "two-scales",
            "version": 1,
            "description": "one of two scales",
            "source": "none",
            "metric": {"name": "runtime_s", "direction": "minimize"},
            "threads": 8,
            "sim": {"record": record, "carry": carry},
        }
    )
    loaded = profile_for(workload, machine, None, folder, lambda sentence: None)
    fast = loaded.footprint_bytes // 9
    requests = [
        {
            "machine": machine.document(),
            "system": "hemem",
            "config": engine.check_config("hemem", {**ALL_OBJECTS, **config}),
            "page_bytes": 2 << 20,
            "fast_bytes": fast // (2 << 20) * (2 << 20),
            "seed": 1,
        }
        for config in CONFIGS
    ]
    return [float(engine.run(loaded, request)["metrics"]["runtime_s"]) for request in requests]


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_both_scales_choose_alike(family: str, tmp_path: Path) -> None:
    record, larger, carry = FAMILIES[family]
    small = runtimes(record, carry, tmp_path)
    large = runtimes({**record, **larger}, carry, tmp_path)
    best, worst = min(large), max(large)
    # The configs differ, or there would be nothing to choose.
    assert worst > 1.02 * best, large
    # What the small recording chooses loses next to nothing of what there is to gain on the large one.
    assert large[small.index(min(small))] - best <= 0.2 * (worst - best), (small, large)
    apart = [
        (one, other)
        for one, other in combinations(range(len(CONFIGS)), 2)
        if abs(large[one] / large[other] - 1) > DIFFERENT
    ]
    alike = sum((small[one] < small[other]) == (large[one] < large[other]) for one, other in apart)
    assert len(apart) >= 4
    assert alike >= 0.8 * len(apart), (small, large)
