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
from tiertune.workloads.kernels import work_parameter
from tiertune.workloads.live import events_of

SIZES = [
    f"{name}@{preset}" if preset else name
    for name in names("workloads")
    for preset in ("", *load_workload(name).presets)
    if load_workload(name).sim.profile is None
]
BY_KERNEL = {
    record.kernel: f"{name.partition('@')[0]}@smoke"
    for name in SIZES
    if (record := load_workload(name).sim.record) is not None and not name.partition("@")[0].endswith("-ci")
}
"""A workload of each kernel, at its smallest."""

GROWS = {"updates", "operations", "transactions", "lookups", "prompt", "generated", "seed", "hot_bytes"}
"""Parameters that grow with what is carried, and what a trial chooses."""


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
    record = workload.sim.record or workload.native
    assert record is not None
    assert (begun["event"], begun["kernel"], begun["threads"]) == (
        "begin",
        record.kernel,
        workload.threads,
    )
    assert begun["footprint_bytes"] == workload.footprint_bytes
    asked = {**record.model_dump(mode="json"), **workload.sim.carry.model_dump(mode="json")}
    same = [key for key in begun["parameters"] if key in asked and asked[key] is not None]
    work = work_parameter(record.kernel)
    for key in same:
        if key == work and key not in GROWS:
            assert begun["parameters"][key] == asked[key] * workload.sim.carry.runs
        elif key not in GROWS or workload.native is not None:
            assert begun["parameters"][key] == asked[key], key


def test_a_kernel_goes_on_as_often_as_the_simulation_repeats_it(tierload: Path) -> None:
    """Also where work grows with the input first; what is beyond a kernel's bounds is refused."""
    btree = load_workload("btree@ci")
    single = btree.sim.carry.model_copy(update={"runs": 1})
    once = btree.model_copy(update={"sim": btree.sim.model_copy(update={"carry": single})})
    begun = [json.loads(ran(tierload, workload, 2, "--dry-run")) for workload in (btree, once)]
    lookups = [one["parameters"]["lookups"] for one in begun]
    assert lookups[0] == lookups[1] * btree.sim.carry.runs
    assert begun[0]["footprint_bytes"] == begun[1]["footprint_bytes"]
    words = [str(tierload), "graph500", "bfs500", "--graph=kron", "--scale=10", "--roots=64", "--runs=2"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "tierload: --roots is 128, it must be from 1 to 64; the nearest is 64\n",
    )


@pytest.mark.parametrize("name", ["seq-chase", "chase-seq", "seq-beside-chase", "gups-replaced"])
def test_a_kernel_runs_in_the_place_of_streams(name: str, tierload: Path) -> None:
    """At a small size, with the phases that the streams have."""
    part = load_workload(name).on_host
    assert part is not None
    small = {
        "buffer-bytes": "1MiB",
        "hops": 20_000,
        "table-bytes": "6MiB",
        "hot-bytes": "2MiB",
        "updates": 50_000,
    }
    words = [str(tierload), *part.words(2, 7)[1:]]
    for option, value in small.items():
        words = [f"--{option}={value}" if word.startswith(f"--{option}=") else word for word in words]
    done = subprocess.run([*words, "--verify"], capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    found = part.read(done.stdout)
    if name == "gups-replaced":
        ops = [event["ops"] for event in events_of(done.stdout) if event["event"] == "phase_end"]
        assert ops == [8_000, 42_000]
        assert found["phase.random_1_s"] + found["phase.random_2_s"] == pytest.approx(found["runtime_s"])
    else:
        assert found["phase.both_s"] == pytest.approx(found["runtime_s"])
        touched = [event["name"] for event in events_of(done.stdout) if event["event"] == "object"]
        streams = load_workload(name).sim.streams
        assert streams is not None
        assert touched == [entry.name for entry in streams.objects]


@pytest.mark.parametrize("name", BY_KERNEL.values(), ids=BY_KERNEL)
def test_a_small_run_says_the_metric(name: str, tierload: Path) -> None:
    workload = load_workload(name)
    part = workload.on_host
    assert part is not None
    found = part.read(ran(tierload, workload, 2))
    assert found[workload.metric.name] > 0
