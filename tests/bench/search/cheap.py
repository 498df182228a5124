"""What cheap runs say of whole ones: `python -m tests.bench.search.cheap [CELL ...]` prints a line of JSON
for each cell and form.

Random configurations run whole, whole again, shortened, on a smaller footprint at the same ratio of fast to
slow memory, and in larger pages; each form has seeds of its own. `rank` is Spearman's correlation with the
whole runs, `cost` the CPU time as a share of theirs.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from tests.bench.search.cells import HERE
from tiertune.spaces.configspace import config_of, to_configspace
from tiertune.spaces.definition import load_space
from tiertune.tuner.backend import TrialTimeout
from tiertune.tuner.optimiser.base import Settings
from tiertune.tuner.optimiser.random import RandomOptimiser
from tiertune.tuner.search.fidelity import CannotShorten, shortened
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.trial import Config, Objective, Scenario, Trial, derive_seed
from tiertune.workloads.definition import Workload, load_workload

CONFIGS = 32
LARGE, SMALL = 2 * 2**20, 4 * 2**10
LOST = 99.0
"""Cost of a run that was given up: above all others, which is all that ranks need."""
SIZES = ("records", "keys", "table_bytes", "hot_bytes")
STREAMS = (
    ("sparse", "skx-numa", "1:8", LARGE, "memtis"),
    ("moving", "clx-optane", "1:3", LARGE, "hemem"),
    ("moving", "clx-optane", "1:3", LARGE, "arms"),
    ("mix", "spr-cxl", "1:3", LARGE, "arms"),
    ("mix", "spr-cxl", "1:3", LARGE, "nbt"),
    ("write", "clx-optane", "1:4", LARGE, "autonuma"),
    ("scan", "icx-upi", "1:3", LARGE, "tpp"),
    ("burst", "icx-upi", "1:5", LARGE, "memtis"),
    ("sparse", "skx-numa", "1:8", SMALL, "memtis"),
    ("mix", "spr-cxl", "1:3", SMALL, "nbt"),
    ("moving", "clx-optane", "1:3", SMALL, "tpp"),
    ("write", "clx-optane", "1:4", SMALL, "autonuma"),
)
RECORDED = (
    ("bc-kron", "icx-pmem", "1:8", LARGE, "hemem"),
    ("gups", "skx-numa", "1:8", LARGE, "memtis"),
    ("gups", "skx-numa", "1:8", LARGE, "hemem"),
    ("bc-kron", "icx-pmem", "1:8", LARGE, "nbt"),
    ("bfs-kron", "skx-numa", "1:8", LARGE, "memtis"),
    ("cc-kron", "icx-pmem", "1:8", LARGE, "hemem"),
    ("bc-urand", "spr-cxl", "1:8", LARGE, "memtis"),
)


def main(wanted: Sequence[str], configs: int = CONFIGS) -> None:
    """Measures the cells whose names hold one of the words `wanted`, all where there is none."""
    with tempfile.TemporaryDirectory() as folder:
        for name, machine, ratio, page_bytes, system in (*STREAMS, *RECORDED):
            path = HERE / "workloads" / f"{name}.yaml"
            place = str(path) if path.exists() else name
            scenario = Scenario(place, machine, ratio, page_bytes=page_bytes)
            cell = f"{name}/{system}{'/4KiB' if page_bytes == SMALL else ''}"
            if not wanted or any(word in cell for word in wanted):
                for found in measured(scenario, system, configs, Path(folder)):
                    print(json.dumps({"cell": cell, **found}), flush=True)


def measured(scenario: Scenario, system: str, count: int, profiles: Path) -> Iterator[dict[str, Any]]:
    """A line for each form of the cell."""
    workload = load_workload(scenario.workload)
    space = load_space(system)
    optimiser = RandomOptimiser(
        to_configspace(space, 7),
        Settings(derive_seed("fid", workload.name, system), 1),
        lambda configuration: config_of(space, configuration),
    )
    configs = [optimiser.ask(0, []).config, *(optimiser.random(n, []).config for n in range(1, count))]
    whole = None
    for form, (name, place, definition) in enumerate(forms(scenario, workload)):
        costs, cpu_s = run(place, definition, system, configs, form, profiles)
        if whole is None:
            whole = costs, cpu_s
            continue
        rank = float(spearmanr(whole[0], costs).statistic)
        yield {"form": name, "rank": round(rank, 2), "cost": round(cpu_s / whole[1], 2)}


def forms(scenario: Scenario, workload: Workload) -> Iterator[tuple[str, Scenario, Workload]]:
    """The whole run twice, then whatever is cheaper."""
    yield "whole", scenario, workload
    yield "again", scenario, workload
    with suppress(CannotShorten):  # a recorded run that is not repeated
        yield "a quarter of the run", scenario, shortened(workload, 0.25)
    if workload.sim.streams is not None:
        small = of_streams(workload, 0.25)
        yield "all of the run, a quarter of the footprint", scenario, small
        yield "a quarter of footprint and run", scenario, shortened(small, 0.25)
    else:
        yield "a quarter of footprint and run", scenario, of_recorded(workload, 0.25)
        yield "half of footprint and run", scenario, of_recorded(workload, 0.5)
    if scenario.page_bytes == SMALL:
        yield "2 MiB pages", replace(scenario, page_bytes=LARGE), workload


def of_streams(workload: Workload, share: float) -> Workload:
    """Objects of a share of their size, in whole pages."""
    streams = workload.sim.streams
    assert streams is not None
    objects = [
        one.model_copy(update={"bytes": max(LARGE, int(one.bytes * share) // LARGE * LARGE)})
        for one in streams.objects
    ]
    smaller = streams.model_copy(update={"objects": objects})
    sim = workload.sim.model_copy(update={"streams": smaller})
    return workload.model_copy(update={"sim": sim})


def of_recorded(workload: Workload, share: float) -> Workload:
    """The recorded run carried to a share of the size; the work shrinks with it."""
    carry = workload.sim.carry
    changes = {key: int(size * share) for key in SIZES if (size := getattr(carry, key)) is not None}
    if carry.scale is not None:
        changes["scale"] = carry.scale + round(float(np.log2(share)))
    sim = workload.sim.model_copy(update={"carry": carry.model_copy(update=changes)})
    return workload.model_copy(update={"sim": sim})


def run(
    scenario: Scenario, workload: Workload, system: str, configs: Sequence[Config], form: int, profiles: Path
) -> tuple[list[float], float]:
    """Costs of all configurations, and the CPU seconds that they took."""
    objective = Objective(workload.metric.name, workload.metric.direction)
    backend = SimBackend(profiles, lambda _: workload)
    backend.prepare(scenario, lambda _: None)
    costs = []
    began = time.thread_time()
    for number, config in enumerate(configs):
        trial = Trial("cheap", "", number, scenario, system, config, derive_seed("fid", form, number))
        try:
            cost = objective.cost(backend.run(trial).metrics)
        except TrialTimeout:
            cost = LOST
        costs.append(LOST if cost is None else cost)
    return costs, time.thread_time() - began


if __name__ == "__main__":
    main(sys.argv[1:])
