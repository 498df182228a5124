"""Campaigns over Dask workers: no trial is lost or made twice, and results are the same whoever goes away."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.small import CAMPAIGN, WORKLOAD
from tests.configs.corpus import ROOT
from tests.host.scheduler_file import address_in

pytestmark = pytest.mark.host

COMMAND = [sys.executable, "-c", "from tiertune.tuner.cli import main; main()"]
TRIALS = 30


class Cluster:
    """A scheduler and its workers, each a process group of its own that can be killed whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.start_scheduler(0)

    def start_scheduler(self, port: int) -> None:
        where = self.folder / f"scheduler-{time.monotonic_ns()}.json"
        call = ["--host", f"tcp://127.0.0.1:{port}", "--no-dashboard", "--scheduler-file", str(where)]
        self.scheduler = started([sys.executable, "-m", "distributed.cli.dask_scheduler", *call], self.folder)
        wait_until(lambda: address_in(where), "the scheduler writes its address")
        self.address = address_in(where)

    def add(self, name: str) -> None:
        profiles = ["--profiles", str(self.folder / "profiles")]
        call = ["worker", self.address, "--cores", "1", "--name", name, *profiles]
        self.workers[name] = started([*COMMAND, *call], self.folder)

    def kill(self, name: str) -> None:
        killed(self.workers.pop(name))

    def close(self) -> None:
        for process in [*self.workers.values(), self.scheduler]:
            killed(process)


def started(command: list[str], folder: Path) -> subprocess.Popen[bytes]:
    with (folder / "cluster.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, cwd=folder)


def killed(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(120)


def wait_until(holds: Any, what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited {seconds:g} s until {what}"
        time.sleep(0.05)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    running = Cluster(tmp_path)
    yield running
    running.close()


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    """What the campaign comes to without any scheduler."""
    folder = tmp_path_factory.mktemp("alone")
    done = campaign(folder, None).wait(timeout=240)
    assert done == 0
    return trials(folder)


def write_campaign(folder: Path) -> Path:
    """The small campaign with a search by SMAC over HeMem's log-integer knobs, three trials at a time."""
    (folder / "workloads").mkdir(exist_ok=True)
    # By name, not by path: seeds are derived from what a scenario is called.
    (folder / "workloads" / "small.yaml").write_text(WORKLOAD)
    changes = {
        "./small-workload.yaml": "small",
        "{name: random}": "{name: smac}",
        "workers: 2": "workers: 3",
        "trials: 8": f"trials: {TRIALS}",
    }
    text = CAMPAIGN
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    path = folder / "small.yaml"
    path.write_text(text)
    return path


def campaign(folder: Path, scheduler: str | None, verb: str = "tune") -> subprocess.Popen[str]:
    source = str(write_campaign(folder)) if verb == "tune" else "small"
    call = [*COMMAND, verb, source, "--results", "results"]
    call += [] if scheduler is None else ["--scheduler", scheduler]
    return subprocess.Popen(call, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def journal(folder: Path) -> Path:
    return folder / "results" / "small" / "journal.sqlite"


def trials(folder: Path) -> list[tuple[Any, ...]]:
    """Every trial with how it ended, in order; nothing that depends on when or where it ran."""
    query = "select purpose, number, config, seed, origin, status, cost from trial order by purpose, number"
    with sqlite3.connect(f"file:{journal(folder)}?mode=ro", uri=True) as db:
        return list(db.execute(query))


def finished(folder: Path) -> int:
    if not journal(folder).is_file():
        return 0
    try:
        return sum(row[5] == "ok" for row in trials(folder))
    except sqlite3.OperationalError:  # its tables are being made
        return 0


def whereabouts(folder: Path) -> set[str]:
    with sqlite3.connect(f"file:{journal(folder)}?mode=ro", uri=True) as db:
        said = db.execute("select text from decision where text like 'ran on %'")
        return {text.removeprefix("ran on ") for (text,) in said}


def test_three_workers_make_exactly_the_trials_of_one_process(
    cluster: Cluster, tmp_path: Path, alone: list[tuple[Any, ...]]
) -> None:
    for name in ("one", "two", "three"):
        cluster.add(name)
    running = campaign(tmp_path, cluster.address)
    _, said = running.communicate(timeout=240)
    assert running.returncode == 0, said
    found = trials(tmp_path)
    assert sum(row[0] == "search" for row in found) == TRIALS
    assert {row[5] for row in found} == {"ok"}
    assert found == alone
    assert whereabouts(tmp_path) == {"one", "two", "three"}


def test_workers_that_come_and_go_change_nothing_but_the_time(
    cluster: Cluster, tmp_path: Path, alone: list[tuple[Any, ...]]
) -> None:
    running = campaign(tmp_path, cluster.address)  # nobody is there yet
    cluster.add("first")
    wait_until(lambda: finished(tmp_path) >= 3, "the first worker has done something")
    cluster.kill("first")
    seen = finished(tmp_path)
    cluster.add("second")
    wait_until(lambda: finished(tmp_path) >= seen + 3, "the second worker takes over")
    cluster.add("third")
    _, said = running.communicate(timeout=240)
    assert running.returncode == 0, said
    assert trials(tmp_path) == alone
    assert {"first", "second"} <= whereabouts(tmp_path)


def test_a_lost_scheduler_stops_the_campaign_and_another_one_takes_it_up(
    cluster: Cluster, tmp_path: Path, alone: list[tuple[Any, ...]]
) -> None:
    cluster.add("first")
    running = campaign(tmp_path, cluster.address)
    wait_until(lambda: finished(tmp_path) >= 3, "some trials have ended")
    killed(cluster.scheduler)
    _, said = running.communicate(timeout=120)
    assert running.returncode == 3, said
    assert "tiertune resume" in said
    assert "Traceback" not in said
    cluster.kill("first")
    cluster.start_scheduler(0)
    cluster.add("again")
    again = campaign(tmp_path, cluster.address, "resume")
    _, said = again.communicate(timeout=240)
    assert again.returncode == 0, said
    assert trials(tmp_path) == alone


def test_an_address_where_nobody_answers_is_told_in_a_sentence(tmp_path: Path) -> None:
    running = campaign(tmp_path, "tcp://127.0.0.1:9")
    _, said = running.communicate(timeout=120)
    assert running.returncode == 3
    assert "no scheduler answers at tcp://127.0.0.1:9" in said
    assert "Traceback" not in said


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    page = (ROOT / "docs/scale.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S)
    for name in (".venv", "campaigns"):
        (tmp_path / name).symlink_to(ROOT / name)
    alone, several = ([shlex.split(line) for line in block.splitlines()] for block in blocks)
    for command in alone:
        subprocess.run(command, cwd=tmp_path, check=True, timeout=120, stdout=subprocess.DEVNULL)
    # The campaign of the page would take minutes; what of it runs elsewhere is what the other tests show.
    scheduler, worker, tune = several
    servers = [started(scheduler, tmp_path), started(worker, tmp_path)]
    try:
        log = tmp_path / "cluster.log"
        wait_until(lambda: "worker rack1-07: 2 simulated trials" in log.read_text(), "the worker is there")
        subprocess.run([*tune, "--dry-run"], cwd=tmp_path, check=True, timeout=120, stdout=subprocess.DEVNULL)
    finally:
        for server in servers:
            killed(server)
