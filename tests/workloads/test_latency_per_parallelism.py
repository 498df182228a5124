"""AOL of computations as they really run lies where the paper that defines it has seen it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tiertune import engine
from tiertune.machines.definition import load_machine
from tiertune.workloads.definition import Workload
from tiertune.workloads.profile import profile_for

PUBLISHED_CYCLES = (30.0, 140.0)
"""A1/A3 over programs from streams to pointer chases on a Skylake server without co-runners (OSDI'25, section
6.10)."""

RECORDED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "bc-urand": ({"kernel": "bc", "graph": "uniform", "scale": 16, "degree": 16}, {"scale": 23}),
    "bc-kron": ({"kernel": "bc", "graph": "kron", "scale": 16, "degree": 16}, {"scale": 23}),
    "gups": (
        {"kernel": "gups", "table_bytes": 32 << 20, "hot_bytes": 4 << 20, "updates": 2_000_000},
        {"table_bytes": 8 << 30},
    ),
}
"""Kernel as recorded small, and to what it is carried."""


@pytest.mark.parametrize("name", RECORDED)
def test_latency_per_parallelism_is_as_published(name: str, tmp_path: Path) -> None:
    record, carry = RECORDED[name]
    machine = load_machine("skx-cxl-emul")
    workload = Workload.model_validate(
        {
            "name": "aol",
            "version": 1,
            "description": f"{name}, recorded small",
            "source": "none",
            "metric": {"name": "runtime_s", "direction": "minimize"},
            "threads": 8,
            "sim": {"record": record, "carry": carry},
        }
    )
    loaded = profile_for(workload, machine, None, tmp_path, lambda sentence: None)
    request = {
        "machine": machine.document(),
        "system": "soar",
        "config": {},
        "page_bytes": 2 << 20,
        "fast_bytes": loaded.footprint_bytes // 2 // (2 << 20) * (2 << 20),
        "seed": 1,
    }
    cycles = engine.run(loaded, request)["gauges"]["profile_aol_cycles"]
    low, high = PUBLISHED_CYCLES
    assert low <= cycles <= high
