"""Trials in containers of an engine that is made up: the contract, and what becomes of what goes wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.container.playing import IMAGE, PlayedEngine, program
from tests.contracts.backend import BackendContract
from tests.live.test_fitness import FIT
from tests.live.test_host_backend import SCENARIO, TRIAL, workload
from tiertune.files import InputError
from tiertune.tuner.backend import Backend, BackendLost, HostUnfit
from tiertune.tuner.cli.places import nodes_of_container, places_of
from tiertune.tuner.container.backend import ContainerBackend
from tiertune.tuner.container.confinement import STATE
from tiertune.tuner.execution import attempt
from tiertune.tuner.host.state import HostState, state_of_raw
from tiertune.tuner.live.fitness import Nodes
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.trial import Status, Trial
from tiertune.workloads.definition import Workload
from tiertune.workloads.live import ContainerPart

BARE = replace(TRIAL, system="notier", config={})
GIB = 1 << 30


def backend_in(
    folder: Path,
    made: Workload,
    nodes: Nodes = Nodes(0, 1),  # noqa: B008 (frozen)
    look: Callable[[], tuple[HostState, float]] = lambda: (FIT, 0.0),
    **played: Any,
) -> tuple[ContainerBackend, PlayedEngine]:
    engine = PlayedEngine({"tierd": str(folder / "tierd")}, **played)
    programs = {name: program(folder / "bin" / name) for name in ("tierd", "tierload")}
    inner = SimBackend(folder / "profiles", lambda name: made)
    backend = ContainerBackend(
        inner, {SCENARIO.key: made}, nodes, engine, look, lambda name: str(programs[name])
    )
    return backend, engine


class TestContainerBackend(BackendContract):
    def make(self, folder: Path) -> Backend:
        return backend_in(folder, workload(folder))[0]

    def trial(self) -> Trial:
        return TRIAL


def test_limits_are_stored_as_asked_for_and_as_the_kernel_holds_them(tmp_path: Path) -> None:
    measurement = backend_in(tmp_path, workload(tmp_path))[0].run(TRIAL)
    raw = json.loads(measurement.raw or "")
    asked, inside = raw["container"]["asked"], raw["container"]["inside"]
    assert asked["memory_bytes"] == GIB * 21 // 20 + (256 << 20)
    assert inside["memory_bytes"] == asked["memory_bytes"] // 4096 * 4096
    assert (asked["nodes"], inside["nodes"]) == ("0,1", "0,1")
    assert raw["container"]["image"] == IMAGE
    assert state_of_raw(measurement.raw, "a trial") == FIT
    assert measurement.metrics["runtime_s"] == 1.005
    assert measurement.metrics["tierd_cpu_s"] == 0.25


def test_only_a_system_that_moves_pages_gets_rights(tmp_path: Path) -> None:
    backend, engine = backend_in(tmp_path, workload(tmp_path))
    backend.run(TRIAL)
    backend.run(BARE)
    tiering, bare = (dict(order.options) for order in engine.orders)
    assert tiering["cap_add"] == ["DAC_OVERRIDE", "KILL", "SYS_PTRACE", "SYS_ADMIN", "SYS_NICE"]
    assert STATE in tiering["volumes"]
    for gained in ("cap_add", "volumes"):
        assert gained not in bare
    assert bare["security_opt"] == ["no-new-privileges:true"]
    for options in (tiering, bare):
        assert (options["cap_drop"], options["network_mode"], options["read_only"]) == (["ALL"], "none", True)


def test_limits_of_the_workloads_file_are_those_of_the_container(tmp_path: Path) -> None:
    made = workload(tmp_path)
    assert made.host is not None
    part = ContainerPart(memory=2 * GIB, cpus=1.5, processors="0-1,3", pids=64, image=f"redis@{IMAGE}")
    made = made.model_copy(update={"host": made.host.model_copy(update={"container": part})})
    backend, engine = backend_in(tmp_path, made)
    engine.programs["/tiertune/tierd"] = engine.programs["tierd"]
    engine.programs = {name.replace("/tiertune/", ""): path for name, path in engine.programs.items()}
    backend.run(BARE)
    order = engine.orders[0]
    assert (order.options["mem_limit"], order.options["nano_cpus"]) == (2 * GIB, 1_500_000_000)
    assert (order.options["cpuset_cpus"], order.options["pids_limit"]) == ("0-1,3", 64)
    # The image of somebody else gets the daemon beside the trial's files.
    assert order.image == f"redis@{IMAGE}"
    assert order.command[0] == "/tiertune/tierd"
    assert order.files["tierd"][:4] == b"\x7fELF"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"memory_bytes": None}, "memory_bytes is None and not"),
        ({"nodes": "0-1,3"}, r"nodes is \[0, 1, 3\] and not \[0, 1\]"),
        ({"capabilities": 0x3FFFFFFFFF}, "capabilities is"),
        ({"interfaces": ["lo", "eth0"]}, "eth0"),
        ({"boot": "another"}, "runs on another machine"),
    ],
)
def test_a_limit_that_is_not_held_makes_the_host_unfit(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    backend, _ = backend_in(tmp_path, workload(tmp_path), change=lambda inside: {**inside, **change})
    measurement = attempt(backend, TRIAL)
    assert measurement.status is Status.HOST_UNFIT
    with pytest.raises(HostUnfit, match=says):
        backend.run(TRIAL)


@pytest.mark.parametrize(
    ("code", "status", "says"),
    [
        ("raise SystemExit(3)", Status.CRASHED, "ended with 4"),
        ("print('nothing of the kind')", Status.NO_METRIC, "nothing in the output matches"),
        ("import time; time.sleep(60)", Status.TIMEOUT, "ended after 1 s"),
        (
            "import sys; sys.exit('x: No space left on device')",
            Status.HOST_UNFIT,
            "disk of the Docker Engine",
        ),
    ],
)
def test_whatever_goes_wrong_is_a_status(tmp_path: Path, code: str, status: Status, says: str) -> None:
    backend, _ = backend_in(
        tmp_path, workload(tmp_path, code, timeout_s="1" if status is Status.TIMEOUT else "60")
    )
    measurement = attempt(backend, TRIAL)
    assert (measurement.status, says in (measurement.error or "")) == (status, True), measurement


def test_a_run_that_succeeds_may_say_what_it_likes(tmp_path: Path) -> None:
    code = (
        "import sys; sys.stderr.write('no space left on device, so the cache is off\\n'); print('took 1.5 s')"
    )
    backend, _ = backend_in(tmp_path, workload(tmp_path, code))
    assert backend.run(BARE).metrics == {"runtime_s": 1.5}


def test_lack_of_memory_says_which_limit_it_was(tmp_path: Path) -> None:
    backend, _ = backend_in(tmp_path, workload(tmp_path, "raise SystemExit(137)"), oom=True)
    measurement = attempt(backend, BARE)
    assert measurement.status is Status.CRASHED
    assert "OutOfMemory: the kernel ended the workload" in (measurement.error or "")
    assert "container.memory" in (measurement.error or "")


def test_one_node_runs_what_moves_no_pages(tmp_path: Path) -> None:
    backend, _ = backend_in(tmp_path, workload(tmp_path), Nodes(0, 0))
    assert backend.run(BARE).metrics == {"runtime_s": 1.005}
    with pytest.raises(HostUnfit, match="hemem moves pages between two memory nodes"):
        backend.run(TRIAL)


def test_balancing_that_no_container_can_turn_off_is_said(tmp_path: Path) -> None:
    state = replace(FIT, settings={**FIT.settings, "NUMA balancing": "1"})
    backend, _ = backend_in(tmp_path, workload(tmp_path), look=lambda: (state, 0.0))
    with pytest.raises(HostUnfit, match=r"kernel\.numa_balancing=0"):
        backend.run(TRIAL)
    assert backend.run(BARE).status is Status.OK


def test_what_was_left_is_removed_and_said(tmp_path: Path) -> None:
    backend, engine = backend_in(tmp_path, workload(tmp_path))
    engine.left = 2
    said: list[str] = []
    backend.prepare(SCENARIO, said.append)
    assert said[-1] == "removed 2 container(s) that a tiertune which is gone had left"
    assert backend.facts()["container: image of tiny"] == IMAGE


def test_a_campaign_that_is_stopped_loses_no_trial(tmp_path: Path) -> None:
    backend, _ = backend_in(tmp_path, workload(tmp_path))
    backend.cancel()
    with pytest.raises(BackendLost, match="tiertune resume"):
        backend.run(TRIAL)


@pytest.mark.parametrize(
    ("text", "systems", "nodes"),
    [("0,2", ["hemem"], Nodes(0, 2)), ("3", ["notier"], Nodes(3, 3)), ("1,0", [], Nodes(1, 0))],
)
def test_nodes_of_the_command_line(text: str, systems: list[str], nodes: Nodes) -> None:
    assert nodes_of_container(text, systems) == nodes


def test_bad_nodes_are_refused_in_words() -> None:
    for text in ("x", "0,", "0,1,2", ""):
        with pytest.raises(InputError, match=r"neither auto nor memory nodes"):
            nodes_of_container(text, ["notier"])
    with pytest.raises(HostUnfit, match=r"--container 0: hemem moves pages"):
        nodes_of_container("0", ["notier", "hemem"])
    with pytest.raises(InputError, match=r"--container and --here exclude each other"):
        places_of(None, None, False, "0,1", [], "0,1")


def test_a_secret_is_in_the_containers_environment_and_in_nothing_that_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_SECRET", "open-sesame-0451")
    made = workload(tmp_path)
    assert made.host is not None
    named = made.host.model_copy(update={"secret_environment": {"DB_PASSWORD": "BENCH_SECRET"}})
    backend, engine = backend_in(tmp_path, made.model_copy(update={"host": named}))
    measurement = backend.run(TRIAL)
    (order,) = engine.orders
    assert order.secrets.variables == {"DB_PASSWORD": "open-sesame-0451"}
    assert "open-sesame" not in f"{order} {measurement}"
