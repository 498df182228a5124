"""Trials in containers of a real Docker Engine, which is started for them: limits from inside, and each thing
that goes wrong."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.host.container.running import Running, running, tiertune
from tests.host.programs import program
from tests.tuner.test_backends import TINY
from tiertune.tuner.backend import HostUnfit
from tiertune.tuner.container.backend import ContainerBackend
from tiertune.tuner.container.confinement import FOLDER, RIGHTS, create_options, limits_of
from tiertune.tuner.container.engine import DockerEngine, Order
from tiertune.tuner.container.image import own_image
from tiertune.tuner.container.owner import LABEL
from tiertune.tuner.execution import attempt
from tiertune.tuner.live.backend import look_here
from tiertune.tuner.live.fitness import Nodes
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.trial import Measurement, Scenario, Status, Trial
from tiertune.workloads.definition import load_workload

# The first test waits for programs to be linked.
pytestmark = [pytest.mark.host, pytest.mark.timeout(900)]

MIB = 1 << 20
SCENARIO = Scenario("tiny", "skx-numa", "1:8", 1, 4096)
TRIAL = Trial("c", "cell", 1, SCENARIO, "notier", {}, 5)
NODE = Nodes(0, 0)
GUPS = "tierload, gups, gups, --table-bytes, {table}, --hot-bytes, 2MiB, --updates, '{updates}'"
HOST = f"""\
host:
  command: [{GUPS}, --seed, '{{{{seed}}}}', --threads, '1', --json]
  footprint: 16MiB
  timeout_s: {{timeout}}
  container: {{{{memory: {{memory}}, cpus: 1.5, processors: '0', pids: 64}}}}
"""
LONG = 10**11


@pytest.fixture(scope="module")
def programs() -> Path:
    """A folder with what an image is made of."""
    program("tierload")
    return program("tierd").parent


@pytest.fixture(scope="module")
def engine() -> Iterator[Running]:
    with running() as made:
        yield made


def backend_of(
    engine: Running,
    programs: Path,
    folder: Path,
    *,
    table: str = "16MiB",
    updates: int = 1_000_000,
    timeout: float = 60,
    memory: str = "96MiB",
) -> ContainerBackend:
    host = HOST.format(table=table, updates=updates, timeout=timeout, memory=memory)
    (folder / "tiny.yaml").write_text(TINY + host)
    made = load_workload(str(folder / "tiny.yaml"))
    inner = SimBackend(folder / "profiles", lambda name: made)
    return ContainerBackend(
        inner,
        {SCENARIO.key: made},
        NODE,
        DockerEngine(engine.address),
        # Others compute while tests run, which is no matter here.
        lambda: (look_here()[0], 0.0),
        lambda name: str(programs / name),
    )


def containers(engine: Running) -> list[Any]:
    return list(engine.client.containers.list(all=True, ignore_removed=True))


def wait_until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 180.0
    while not holds():
        assert time.monotonic() < deadline, f"waited 60 s until {what}"
        time.sleep(0.05)


def workload_runs(engine: Running) -> bool:
    return bool(engine.client.containers.list(filters={"status": "running"}, ignore_removed=True))


def test_limits_are_those_that_the_kernel_holds(engine: Running, programs: Path, tmp_path: Path) -> None:
    backend = backend_of(engine, programs, tmp_path)
    measurement = backend.run(TRIAL)
    assert measurement.metrics["throughput_mops"] > 0.0
    raw = json.loads(measurement.raw or "")
    inside = raw["container"]["inside"]
    assert inside["memory_bytes"] == 96 * MIB
    assert (inside["cpus"], inside["pids"]) == (1.5, 64)
    assert (inside["processors"], inside["nodes"]) == ("0", "0")
    assert inside["capabilities"] == 0
    assert inside["no_new_privileges"]
    assert inside["seccomp"]
    assert inside["read_only"]
    assert containers(engine) == []
    assert engine.client.volumes.list() == []


def test_what_is_not_held_makes_the_host_unfit(
    engine: Running, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that ignores two limits, as some do that run without root."""

    def ignoring(*asked: Any) -> dict[str, Any]:
        return {**create_options(*asked), "pids_limit": None, "network_mode": "host"}

    monkeypatch.setattr("tiertune.tuner.container.backend.create_options", ignoring)
    measurement = attempt(backend_of(engine, programs, tmp_path), TRIAL)
    assert measurement.status is Status.HOST_UNFIT
    assert "inside the container pids is None and not 64" in (measurement.error or "")
    assert "interfaces is" in (measurement.error or "")


def test_tierd_can_work_below_its_filter(engine: Running, programs: Path, tmp_path: Path) -> None:
    """Its sources are those that work outside, apart from settings of the host, which are read-only."""
    workload = backend_of(engine, programs, tmp_path)._workloads[SCENARIO.key]
    assert workload.host is not None
    client = DockerEngine(engine.address)
    image = client.own(own_image({name: programs / name for name in ("tierd", "tierload")}))
    report = f"{FOLDER}/limits.json"
    words = ["tierd", "limits", "--report", report, "--", "tierd", "probe", "--json"]
    options = create_options(limits_of(workload.host, NODE), True)
    ran = client.run(Order(image, words, {}, ["limits.json"], options), 60.0)
    inside = json.loads(ran.fetched["limits.json"])
    assert inside["capabilities"] == sum(1 << number for number in RIGHTS.values())
    outside = subprocess.run(
        [programs / "tierd", "probe", "--json"], capture_output=True, text=True, check=False
    )
    seen = [
        {source["name"] for source in json.loads(text)["sources"] if source["problem"] is None}
        for text in (ran.ended.output, outside.stdout)
    ]
    assert seen[0] == seen[1] - {"hint-faults", "damon"}
    assert seen[0]
    # On one node it refuses to work, and says why.
    words = [
        *("tierd", "limits", "--report", report, "--", "tierd", "run", "--policy", "hemem", "--fast", "0"),
        *("--slow", "1", "--fast-bytes", "4MiB", "--", "tierload", "--version"),
    ]
    ran = client.run(Order(image, words, {}, ["limits.json"], options), 60.0)
    assert ran.ended.returncode == 3
    assert "two memory nodes are needed" in ran.ended.errors


def test_lack_of_memory_is_told_from_other_ends(engine: Running, programs: Path, tmp_path: Path) -> None:
    measurement = attempt(backend_of(engine, programs, tmp_path, table="256MiB", memory="64MiB"), TRIAL)
    assert measurement.status is Status.CRASHED
    assert "used its 64MiB of memory" in (measurement.error or ""), measurement.error
    assert containers(engine) == []


def test_a_run_that_does_not_end_is_ended(engine: Running, programs: Path, tmp_path: Path) -> None:
    measurement = attempt(backend_of(engine, programs, tmp_path, updates=LONG, timeout=1.5), TRIAL)
    assert (measurement.status, measurement.error) == (
        Status.TIMEOUT,
        "ended after 1.5 s, the timeout_s of the workload's host part",
    )
    assert containers(engine) == []


def test_a_missing_image_is_said(engine: Running, programs: Path, tmp_path: Path) -> None:
    name = f"redis@sha256:{'a' * 64}"
    backend = backend_of(engine, programs, tmp_path)
    path = tmp_path / "tiny.yaml"
    path.write_text(path.read_text().replace("{memory:", f"{{image: '{name}', memory:"))
    backend._workloads = {SCENARIO.key: load_workload(str(path))}
    measurement = attempt(backend, TRIAL)
    assert (measurement.status, measurement.error) == (
        Status.HOST_UNFIT,
        f"image {name} is not here; docker pull {name}",
    )


def test_an_engine_that_is_killed_fails_the_trial_and_is_swept_when_it_is_back(
    programs: Path, tmp_path: Path
) -> None:
    with running() as own:
        backend = backend_of(own, programs, tmp_path, updates=LONG)
        ended: list[Measurement] = []
        trial = threading.Thread(target=lambda: ended.append(attempt(backend, TRIAL)))
        trial.start()
        wait_until(lambda: workload_runs(own), "the workload runs")
        own.kill()
        trial.join(60)
        assert ended[0].status is Status.HOST_UNFIT
        assert "no Docker Engine answers" in (ended[0].error or "")
        own.start()
        assert len(containers(own)) == 1
        # The next trial runs, and what the last one left is gone.
        path = tmp_path / "tiny.yaml"
        path.write_text(path.read_text().replace(str(LONG), "1000000"))
        again = backend_of(own, programs, tmp_path)
        again.prepare(SCENARIO, lambda sentence: None)
        assert attempt(again, TRIAL).status is Status.OK
        assert containers(own) == []


def test_a_full_disk_is_said(programs: Path, tmp_path: Path) -> None:
    image = own_image({name: programs / name for name in ("tierd", "tierload")})
    # The image fits, its container's copy of it does not.
    with running(small_data_bytes=len(image.archive) * 5 // 2) as own:
        measurement = attempt(backend_of(own, programs, tmp_path), TRIAL)
    assert measurement.status is Status.HOST_UNFIT
    assert "the disk of the Docker Engine's data is full" in (measurement.error or ""), measurement.error
    assert "docker system prune" in (measurement.error or "")


CAMPAIGN = """\
name: boxed
seed: 3
scenarios: [{workload: ./tiny.yaml, machine: skx-numa, ratio: "1:8", threads: 1, page_size: 4KiB}]
systems: [{system: notier, space: ./reserve.yaml}]
budget: {trials: 3, initial: 1}
optimiser: {name: random}
validation: {seeds: 5}
tracking: {mlflow: false}
"""
SPACE = "{name: reserve, description: a space for tests, system: notier, knobs: {reserve_pct: {}}}\n"


def rows(folder: Path) -> list[dict[str, Any]]:
    with sqlite3.connect(folder / "results/boxed/journal.sqlite") as database:
        database.row_factory = sqlite3.Row
        return [dict(row) for row in database.execute("select * from trial")]


def test_a_campaign_survives_kill_9_and_leaves_nothing(
    engine: Running, programs: Path, tmp_path: Path
) -> None:
    backend_of(engine, programs, tmp_path)
    for name, text in {"boxed.yaml": CAMPAIGN, "reserve.yaml": SPACE}.items():
        (tmp_path / name).write_text(text)
    words = ("--container", "0", "--results", "results")
    first = tiertune(engine, programs, tmp_path, "tune", "boxed.yaml", *words)

    def a_trial_runs() -> bool:
        assert first.poll() is None, first.communicate()[0]
        return workload_runs(engine)

    wait_until(a_trial_runs, "a trial runs")
    first.kill()
    said = first.communicate()[0]
    left = containers(engine)
    assert [container.labels.keys() & {LABEL} for container in left] == [{LABEL}], said
    second = tiertune(engine, programs, tmp_path, "resume", "boxed", *words)
    said = second.communicate(timeout=270)[0]
    assert second.returncode == 0, said
    assert "removed 1 container(s) that a tiertune which is gone had left" in said
    assert containers(engine) == []
    found = rows(tmp_path)
    assert sum(row["purpose"] == "search" for row in found) == 3
    assert {row["status"] for row in found} == {"ok"}
    assert all("inside" in json.loads(row["raw"])["container"] for row in found)
    assert (tmp_path / "results/boxed/report.html").is_file()


def test_tiering_on_one_node_is_refused_in_words(engine: Running, programs: Path, tmp_path: Path) -> None:
    backend = backend_of(engine, programs, tmp_path)
    with pytest.raises(HostUnfit, match="hemem moves pages between two memory nodes"):
        backend.run(replace(TRIAL, system="hemem"))
    (tmp_path / "boxed.yaml").write_text(
        CAMPAIGN.replace("system: notier, space: ./reserve.yaml", "system: hemem, space: hemem")
    )
    process = tiertune(engine, programs, tmp_path, "tune", "boxed.yaml", "--container", "auto")
    said = process.communicate(timeout=180)[0]
    assert process.returncode == 3
    assert "hemem moves pages between two memory nodes" in said
    assert not (tmp_path / "results").exists()
