"""Every kernel's workload runs on a host as our own program: the command line that a trial would run is what
tierload takes, at every size, and a run at the smallest says the workload's metric."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.host.programs import program
from tiertune.files import names
from tiertune.workloads.definition import Workload, load_workload

SIZES = [
    f"{name}@{preset}" if preset else name
    for name in names("workloads")
    for preset in ("", *load_workload(name).presets)
    if load_workload(name).sim.record is not None
]
BY_KERNEL = {
    record.kernel: f"{name.partition('@')[0]}@smoke"
    for name in SIZES
    if (record := load_workload(name).sim.record) is not None and not name.partition("@")[0].endswith("-ci")
}
"""A workload of each kernel, at its smallest."""


@pytest.fixture(scope="module")
def tierload() -> Path:
    return program("tierload")


def ran(tierload: Path, workload: Workload, threads: int, *more: str) -> str:
    part = workload.on_host
    assert part is not None
    assert part.command[0] == "tierload"
    words = [str(tierload), *part.words(threads, 7)[1:], *more]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", SIZES)
def test_the_command_of_every_size_is_taken(name: str, tierload: Path) -> None:
    workload = load_workload(name)
    begun = json.loads(ran(tierload, workload, workload.threads, "--dry-run"))
    record = workload.sim.record
    assert record is not None
    assert (begun["event"], begun["kernel"], begun["threads"]) == (
        "begin",
        record.kernel,
        workload.threads,
    )
    assert begun["footprint_bytes"] == workload.footprint_bytes
    asked = {**record.model_dump(mode="json"), **workload.sim.carry.model_dump(mode="json")}
    same = [key for key in begun["parameters"] if key in asked and asked[key] is not None]
    grows = {"updates", "operations", "transactions", "lookups", "prompt", "generated", "seed", "hot_bytes"}
    for key in same:
        if key not in grows:
            assert begun["parameters"][key] == asked[key], key


@pytest.mark.parametrize("name", BY_KERNEL.values(), ids=BY_KERNEL)
def test_a_small_run_says_the_metric(name: str, tierload: Path) -> None:
    workload = load_workload(name)
    part = workload.on_host
    assert part is not None
    found = part.read(ran(tierload, workload, 2))
    assert found[workload.metric.name] > 0
