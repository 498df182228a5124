"""Campaigns over hosts: every trial names its host, a dead host costs time alone, nothing is left running."""

from __future__ import annotations

import json
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.configs.corpus import ROOT
from tests.host.fleet.campaign import tiertune, write_campaign
from tests.host.fleet.fixture import fleet, inventory, tierload
from tests.host.fleet.hosts import NETWORK, Fleet, Host
from tests.host.fleet.playing import changes, environment, played, started
from tests.host.scheduler_file import address_in

pytestmark = pytest.mark.host

__all__ = ["fleet", "inventory", "tierload"]

LIVE_TRIALS = 2 + 2 * 4 + 2 * 5
"""Search, selection of one finalist beside the default, validation."""


@pytest.fixture(scope="module", autouse=True)
def provisioned(fleet: Fleet, inventory: Path) -> None:
    """Both hosts have the agent."""
    played(fleet, inventory, "provision.yml")


def rows(folder: Path, live: bool = True) -> list[dict[str, Any]]:
    """All trials of the live cell, or of the simulated one."""
    with sqlite3.connect(folder / "results/rack/journal.sqlite") as database:
        database.row_factory = sqlite3.Row
        found = [dict(row) for row in database.execute("select * from trial order by purpose, number")]
    return [row for row in found if ("live.yaml" in row["cell"]) == live]


def finished(folder: Path) -> int:
    try:
        return sum(row["status"] == "ok" for row in rows(folder))
    except sqlite3.Error:
        return 0


def ran_on(folder: Path, host: str) -> int:
    try:
        return sum(row["status"] == "ok" and row["worker"] == host for row in rows(folder))
    except sqlite3.Error:
        return 0


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[Any], what: str) -> None:
    deadline = time.monotonic() + 240.0
    while not holds():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, f"waited 240 s until {what}"
        time.sleep(0.1)


def running(fleet: Fleet) -> list[str]:
    return [command for host in fleet.hosts for command in host.commands() if "tierload" in command]


def test_hosts_that_differ_are_refused_before_the_first_trial(
    fleet: Fleet, inventory: Path, tmp_path: Path
) -> None:
    version = fleet.hosts[1].sys / "devices/virtual/dmi/id/bios_version"
    usual = version.read_text()
    version.write_text("F13\n")
    words = ["--hosts", str(inventory), "--results", "results"]
    output, _ = (
        process := tiertune(fleet, tmp_path, "tune", str(write_campaign(tmp_path)), *words)
    ).communicate()
    version.write_text(usual)
    assert process.returncode == 3, output
    assert "firmware: F12 on alpha; F13 on beta" in output
    assert "--mixed-hosts" in output
    assert rows(tmp_path) == []


def test_a_host_with_another_program_gets_no_trial(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    _, beta = fleet.hosts
    program = "/usr/local/lib/tiertune/tierload"
    other = "#!/bin/sh\\necho older\\n"
    script = f"mv {program} {program}.real && printf '{other}' > {program} && chmod 755 {program}"
    beta.run("sh", "-c", script)
    campaign = write_campaign(tmp_path, updates=2_000_000_000)
    (tmp_path / "live.yaml").write_text(
        (tmp_path / "live.yaml").read_text() + "  probe: {arguments: [--help], expect: '^Usage: tierload'}\n"
    )
    words = ["--hosts", str(inventory), "--results", "results"]
    process = tiertune(fleet, tmp_path, "tune", str(campaign), *words)
    wait_until(lambda: any("--updates" in one for one in running(fleet)), process, "a trial runs")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=180)
    beta.run("sh", "-c", f"mv {program}.real {program}")
    assert process.returncode == 130, output
    said = " ".join(output.split())
    assert "beta is set aside: tierload is not the program of the workload's file" in said
    assert "`tierload --help` says 'older'" in said
    assert "alpha is set aside" not in output
    assert not any("--updates" in command for command in beta.commands())


def test_a_campaign_that_is_stopped_leaves_nothing_running_and_goes_on(
    fleet: Fleet, inventory: Path, tmp_path: Path
) -> None:
    secret = "correct-horse-battery-staple"
    planted = tmp_path / "inventory"
    planted.mkdir()
    (planted / "hosts.yml").write_text(inventory.read_text())
    # The workload is given a password, and prints all that it is given.
    (planted / "group_vars").mkdir()
    vaulted = planted / "group_vars" / "tier_hosts.yml"
    vaulted.write_text(f"trial_secrets: {{DATABASE_PASSWORD: {secret}}}\n")
    key = tmp_path / "vault-key"
    key.write_text("a key of this test\n")
    vault = [
        str(Path(sys.executable).with_name("ansible-vault")),
        "encrypt",
        "--vault-password-file",
        str(key),
    ]
    subprocess.run([*vault, str(vaulted)], env=environment(), check=True, capture_output=True)
    assert secret not in vaulted.read_text()
    campaign = write_campaign(tmp_path, mlflow=True, updates=2_000_000_000, talkative=True)
    words = ["--hosts", str(planted), "--results", "results"]
    given = {"TRACKING_TOKEN": secret, "ANSIBLE_VAULT_PASSWORD_FILE": str(key)}
    process = tiertune(fleet, tmp_path, "tune", str(campaign), *words, **given)
    wait_until(lambda: len(running(fleet)) >= 2, process, "both hosts run a trial")
    shown = fleet.hosts[0].run("sh", "-c", "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'")
    assert f"DATABASE_PASSWORD={secret}" in shown, "the workload has what it needs"
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=180)
    assert process.returncode == 130, output
    assert "tiertune resume rack" in output
    deadline = time.monotonic() + 60
    while running(fleet):
        assert time.monotonic() < deadline, running(fleet)
        time.sleep(0.1)
    assert {row["status"] for row in rows(tmp_path)} == {"running"}

    stored = tmp_path / "results/rack/campaign.yaml"
    assert "live.yaml" in stored.read_text()
    other = tiertune(fleet, tmp_path, "tune", str(campaign), "--results", "results")
    refused, _ = other.communicate(timeout=180)
    assert other.returncode == 2
    assert "live" in refused

    spoken = [path for path in tmp_path.rglob("*") if path.is_file() and planted not in path.parents]
    assert stored in spoken
    for path in spoken:
        assert secret.encode() not in path.read_bytes(), path
    assert secret not in output + refused


@pytest.fixture
def scheduler(fleet: Fleet, tmp_path: Path) -> Iterator[str]:
    """The address of a scheduler where the hosts can reach it."""
    told, log = tmp_path / "scheduler.json", (tmp_path / "scheduler.log").open("wb")
    call = ["-m", "distributed.cli.dask_scheduler", "--host", f"tcp://{NETWORK}.1:0", "--no-dashboard"]
    command = fleet.command(sys.executable, *call, "--scheduler-file", str(told))
    with subprocess.Popen(command, stdout=log, stderr=log) as process:
        wait_until(lambda: address_in(told) != "", process, "the scheduler writes its address")
        yield address_in(told)
        process.terminate()


def workers(fleet: Fleet) -> dict[str, list[str]]:
    """Command lines of workers by host."""
    return {
        host.name: [command for command in host.commands() if "worker tcp://" in command]
        for host in fleet.hosts
    }


@pytest.mark.timeout(600)
def test_hosts_join_a_scheduler_for_simulated_trials_beside_live_ones(
    fleet: Fleet, inventory: Path, scheduler: str, tmp_path: Path
) -> None:
    for host in fleet.hosts:
        # Some folders of a host are its own, and the checkout may lie in one of them.
        host.see(ROOT, Path(sys.prefix).resolve(), Path(sys.base_prefix))
    command = [sys.executable, "-c", "from tiertune.tuner.cli import main; main()"]
    variables = {"dask_worker_scheduler": scheduler, "dask_worker_command": command}
    joined = played(fleet, inventory, "workers.yml", **variables)
    assert changes(joined) == {"alpha": 2, "beta": 2}, "a folder and a worker"
    said = fleet.hosts[0].run("sh", "-c", "tail -n 20 /run/tiertune-worker.*")
    assert [len(calls) for calls in workers(fleet).values()] == [1, 1], said
    again = played(fleet, inventory, "workers.yml", **variables)
    assert changes(again) == {"alpha": 0, "beta": 0}, again + said
    assert changes(played(fleet, inventory, "verify.yml", **variables)) == {"alpha": 0, "beta": 0}

    campaign = write_campaign(tmp_path, simulated=True)
    words = ["--hosts", str(inventory), "--scheduler", scheduler, "--results", "results", "--json"]
    process = tiertune(fleet, tmp_path, "tune", str(campaign), *words)
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 0, output
    assert '"complete": true' in output
    for live in (True, False):
        found = rows(tmp_path, live)
        assert {row["status"] for row in found} == {"ok"}
        assert {row["worker"] for row in found} == {"alpha", "beta"}, (live, found)

    # One worker a host, whatever it was told before.
    command.append("--no-such-option")
    process = started(fleet, inventory, "verify.yml", **variables)
    output, _ = process.communicate(timeout=120)
    assert (process.returncode, "not as asked for; run workers.yml" in output) == (2, True), output
    assert changes(played(fleet, inventory, "workers.yml", **variables)) == {"alpha": 1, "beta": 1}
    assert all("--no-such-option" in call for calls in workers(fleet).values() for call in calls)
    played(fleet, inventory, "restore.yml")
    assert workers(fleet) == {"alpha": [], "beta": []}
    left = fleet.hosts[0].run("sh", "-c", "ls /run/tiertune-worker.* /var/lib/tiertune 2>/dev/null || true")
    assert left.strip() == ""
    played(fleet, inventory, "provision.yml")


def slower_memory(host: Host) -> None:
    """From now on measurements of the host's memory say that it is a hundred times as slow."""
    program = "/usr/local/lib/tiertune/tierload"
    lines = [
        "#!/usr/bin/python3",
        "import json, subprocess, sys",
        f"done = subprocess.run([{program + '.real'!r}, *sys.argv[1:]], stdout=subprocess.PIPE, text=True)",
        "for line in done.stdout.splitlines():",
        "    said = json.loads(line) if sys.argv[1] == 'measure' else {}",
        "    if 'latency_ns' in said:",
        "        said['latency_ns'] *= 100",
        "    print(json.dumps(said) if said else line)",
        "sys.exit(done.returncode)",
    ]
    script = "mv {0} {0}.real && printf '%s\\n' {1} > {0} && chmod 755 {0}"
    host.run("sh", "-c", script.format(program, " ".join(map(shlex.quote, lines))))


@pytest.mark.timeout(900)
def test_a_cable_is_pulled_and_memory_drifts_until_no_host_is_left(fleet: Fleet, tmp_path: Path) -> None:
    alpha, beta = fleet.hosts
    # A busy machine is no drift, a hundred times the latency is.
    variables = {"tiertune_drift_limit": "20"}
    mine = fleet.write_inventory(tmp_path / "inventory.yml", variables)
    campaign = write_campaign(tmp_path, updates=20_000_000)
    words = ["--hosts", str(mine), "--results", "results"]
    process = tiertune(fleet, tmp_path, "tune", str(campaign), *words)
    # Three measurements say what a host is like.
    wait_until(lambda: ran_on(tmp_path, "alpha") >= 3, process, "alpha is known")
    wait_until(lambda: any("--updates" in command for command in beta.commands()), process, "beta has one")
    fleet.unplug(beta)
    slower_memory(alpha)
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 3, output
    assert "beta is set aside: " in output
    assert "alpha is set aside: its memory drifts: a latency of" in output
    assert "`tiertune resume` goes on" in output
    done = finished(tmp_path)
    assert 3 <= done < LIVE_TRIALS

    fleet.plug_in(beta)
    process = tiertune(fleet, tmp_path, "resume", "rack", *words)
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 0, output
    found = rows(tmp_path)
    assert len(found) == LIVE_TRIALS
    assert {row["status"] for row in found} == {"ok"}
    # What was begun when the host was lost has ended there.
    assert running(fleet) == []


@pytest.mark.timeout(600)
def test_every_trial_names_its_host_and_one_that_dies_costs_nothing_but_time(
    fleet: Fleet, inventory: Path, tmp_path: Path
) -> None:
    secret = "open-sesame-0451"
    variables = {"trial_secrets": f"{{DATABASE_PASSWORD: {secret}}}", "tiertune_drift_limit": "100"}
    mine = fleet.write_inventory(tmp_path / "inventory.yml", variables)
    campaign = write_campaign(tmp_path, simulated=True, mlflow=True, talkative=True, updates=20_000_000)
    words = ["--hosts", str(mine), "--results", "results", "--json"]
    process = tiertune(fleet, tmp_path, "tune", str(campaign), *words)
    beta = fleet.hosts[1]
    wait_until(lambda: finished(tmp_path) >= 12, process, "its winner is being validated")
    wait_until(lambda: any("--updates" in command for command in beta.commands()), process, "beta has one")
    beta.kill()
    output, _ = process.communicate(timeout=400)
    assert process.returncode == 0, output
    assert "beta is set aside: " in output
    assert '"complete": true' in output

    found = rows(tmp_path)
    assert len(found) == LIVE_TRIALS
    assert {row["status"] for row in found} == {"ok"}
    assert {row["attempt"] for row in found} == {1}, "a trial that moved is the same trial"
    blocks: dict[int, set[str]] = {}
    for row in found:
        if row["purpose"] == "selection":
            blocks.setdefault(row["seed"], set()).add(row["worker"])
    assert all(len(names) == 1 for names in blocks.values()), "a block is compared on one host"
    assert set.union(*blocks.values()) == {"alpha", "beta"}, "blocks are spread over hosts"
    assert {row["worker"] for row in rows(tmp_path, live=False)} == {None}

    report = json.loads((tmp_path / "results/rack/report.json").read_text())
    live, simulated = report["cells"]
    assert "hosts" not in simulated
    ran = {(run["purpose"], run["number"], run["host"]) for run in live["hosts"]["runs"]}
    assert ran == {(row["purpose"], row["number"], row["worker"]) for row in found}
    assert "Every trial and its host" in (tmp_path / "results/rack/report.html").read_text()

    raw = json.loads(found[0]["raw"])
    assert "DATABASE_PASSWORD=" in raw["output"], "the workload did print its environment"
    for path in [path for path in (tmp_path / "results").rglob("*") if path.is_file()]:
        assert secret.encode() not in path.read_bytes(), path
    assert secret not in output
