"""Hosts from provisioning to restoring: applied, verified, applied again, trials, brought back."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from hashlib import sha256
from pathlib import Path

import pytest

from tests.host.fleet.fixture import fleet, inventory, tierload
from tests.host.fleet.hosts import Fleet, Host
from tests.host.fleet.playing import changes, played, started

pytestmark = pytest.mark.host

__all__ = ["fleet", "inventory", "tierload"]

WANTED = {
    "/sys/kernel/mm/transparent_hugepage/enabled": "never",
    "/proc/sys/kernel/numa_balancing": "0",
    "/proc/sys/kernel/perf_event_paranoid": "0",
    "/proc/sys/vm/zone_reclaim_mode": "0",
    "/sys/devices/system/cpu/intel_pstate/no_turbo": "1",
    "/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor": "performance",
}
# Half of node 0 (512 MiB) is needed: a quarter of 512 MiB and the headroom. The other half goes offline.
LIMIT = {
    "tiering_host_limit": "blocks",
    "tiering_host_footprint_bytes": 512 << 20,
    "tiering_host_ratio": "1:3",
    "tiering_host_headroom_bytes": 128 << 20,
    "tiering_host_emulated_node": "1",
}
LIMITED = {
    "/sys/devices/system/memory/memory1/state": "online",
    "/sys/devices/system/memory/memory2/state": "offline",
    "/sys/devices/system/memory/memory3/state": "offline",
    "/sys/devices/system/memory/memory4/state": "online",
    "/sys/devices/system/cpu/cpu1/online": "1",
    "/sys/devices/system/cpu/cpu2/online": "0",
    "/sys/devices/system/cpu/cpu3/online": "0",
}
GUPS = ["gups", "gups", "--table-bytes", "16MiB", "--hot-bytes", "2MiB", "--updates", "100000", "--json"]
DATA_SET = "/var/lib/graph.bin"
# One child stays in the command's session, one leaves it: both have to go with the trial.
LONG = ["sh", "-c", "sleep 3001 & setsid sleep 3002 & wait"]


def selected(files: dict[str, str]) -> dict[str, str]:
    """What each file is set to: kernels mark it with brackets, a plain file holds nothing else."""
    return {path: re.sub(r".*\[(.*)\].*", r"\1", text) for path, text in files.items()}


def sleeping(host: Host) -> list[str]:
    return [command for command in host.commands() if "sleep 300" in command]


def wait_until(holds: object, what: str, seconds: float = 60.0) -> None:
    assert callable(holds)
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited {seconds:g} s until {what}"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def found(fleet: Fleet) -> dict[str, dict[str, str]]:
    """The kernel files of each host before anything was done to it."""
    return {host.name: selected(host.kernel_files()) for host in fleet.hosts}


def test_a_look_ahead_tells_the_differences_and_changes_nothing(
    fleet: Fleet, inventory: Path, found: dict[str, dict[str, str]]
) -> None:
    output = played(fleet, inventory, "provision.yml", "--check", "--diff", "--limit", "alpha", **LIMIT)
    assert "-/proc/sys/kernel/numa_balancing: 1\n" in output
    assert "+/proc/sys/kernel/numa_balancing: 0\n" in output
    assert "+/sys/devices/system/memory/memory3/state: offline\n" in output
    alpha = fleet.hosts[0]
    assert selected(alpha.kernel_files()) == found["alpha"]
    assert not alpha.run("find", "/var/lib", "-name", "tiertune")


def test_provisioning_sets_and_installs_and_a_second_time_changes_nothing(
    fleet: Fleet, inventory: Path, found: dict[str, dict[str, str]]
) -> None:
    assert changes(played(fleet, inventory, "provision.yml", **LIMIT)) == {"alpha": 3, "beta": 3}
    for host in fleet.hosts:
        now = selected(host.kernel_files())
        assert {path: now[path] for path in (*WANTED, *LIMITED)} == {**WANTED, **LIMITED}
        untouched = [path for path in now if now[path] == found[host.name][path]]
        assert "/proc/sys/vm/swappiness" in untouched
        record = json.loads(host.run("cat", "/var/lib/tiertune/found.json"))
        for entry in record["found"]:
            assert entry["value"] == found[host.name][entry["path"]]
        # Of several blocks that may go, all are in the record before the kernel is asked.
        kept = {entry["path"] for entry in record["found"]}
        assert kept - {path for path in kept if "/memory/memory" in path} <= set(now) - set(untouched)
        assert kept >= set(now) - set(untouched)
    records = [host.run("cat", "/var/lib/tiertune/found.json") for host in fleet.hosts]
    assert changes(played(fleet, inventory, "provision.yml", **LIMIT)) == {"alpha": 0, "beta": 0}
    assert [host.run("cat", "/var/lib/tiertune/found.json") for host in fleet.hosts] == records


def test_a_trial_runs_the_installed_program(fleet: Fleet, inventory: Path) -> None:
    output = played(fleet, inventory, "trial.yml", "-v", "--limit", "beta", trial_command=["tierload", *GUPS])
    assert '"returncode": 0' in output
    assert '\\"event\\":\\"end\\",\\"runtime_s\\":' in output


def test_a_trial_that_is_cancelled_leaves_nothing_running(fleet: Fleet, inventory: Path) -> None:
    alpha, words = fleet.hosts[0], ("trial.yml", "-v", "--limit", "alpha")
    trial = started(fleet, inventory, *words, trial_command=LONG, trial_name="long")
    wait_until(lambda: len(sleeping(alpha)) >= 2, "the trial runs")
    refused = started(fleet, inventory, *words, trial_command=LONG, trial_name="second")
    output, _ = refused.communicate(timeout=180)
    assert refused.returncode == 2
    assert "trial long runs here already" in output
    played(fleet, inventory, "cancel.yml", "--limit", "alpha")
    assert sleeping(alpha) == []
    output, _ = trial.communicate(timeout=180)
    assert "asked to end by signal 15" in output


def test_a_trial_ends_with_the_connection_over_which_it_was_started(fleet: Fleet, inventory: Path) -> None:
    beta = fleet.hosts[1]
    trial = started(fleet, inventory, "trial.yml", "--limit", "beta", trial_command=LONG, trial_name="lost")
    wait_until(lambda: len(sleeping(beta)) >= 2, "the trial runs")
    # Everything that belongs to the play, and the connection that Ansible keeps open, gone without a word.
    os.killpg(trial.pid, signal.SIGKILL)
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        if b"ssh" in _read(command) and _same_network(command.parent, fleet):
            os.kill(int(command.parent.name), signal.SIGKILL)
    wait_until(lambda: sleeping(beta) == [], "the host noticed", 20)
    trial.communicate(timeout=30)


@pytest.fixture(scope="module")
def operators(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """A build of the operator's own and a data set, as variables of the inventory."""
    folder = tmp_path_factory.mktemp("builds")
    program, data = folder / "bc", folder / "graph.bin"
    program.write_text("#!/bin/sh\necho Average Time: 1\n")
    data.write_bytes(bytes(range(256)))
    digests = [sha256(path.read_bytes()).hexdigest() for path in (program, data)]
    build = {"name": "bc", "src": str(program), "sha256": digests[0], "probe": ["-n", "1"]}
    graph = {"src": str(data), "dest": DATA_SET, "sha256": digests[1]}
    return {
        **LIMIT,
        "upstream_workloads_programs": [{**build, "expect": "Average Time"}],
        "upstream_workloads_data": [graph],
    }


def test_an_operators_programs_are_put_in_place_once_and_verified(
    fleet: Fleet, inventory: Path, operators: dict[str, object]
) -> None:
    beta, installed = fleet.hosts[1], "/usr/local/lib/tiertune/workloads/bc"
    # The probe of a program that is not there yet is no reason to fail.
    played(fleet, inventory, "provision.yml", "--check", "--diff", "--limit", "beta", **operators)
    failed(fleet, inventory, "verify.yml", "run provision.yml", **operators)
    # A folder, a program, a data set.
    assert changes(played(fleet, inventory, "provision.yml", **operators)) == {"alpha": 3, "beta": 3}
    assert changes(played(fleet, inventory, "provision.yml", **operators)) == {"alpha": 0, "beta": 0}
    assert changes(played(fleet, inventory, "verify.yml", **operators)) == {"alpha": 0, "beta": 0}
    output = played(fleet, inventory, "trial.yml", "-v", "--limit", "beta", trial_command=["bc"])
    assert "Average Time: 1" in output

    beta.run("sh", "-c", f"echo '# changed' >> {installed}")
    said = failed(fleet, inventory, "verify.yml", "are missing or changed; run provision.yml", **operators)
    assert re.findall(r"^(\w+) +: .* failed=(\d)", said, re.MULTILINE) == [("alpha", "0"), ("beta", "1")]
    assert changes(played(fleet, inventory, "provision.yml", **operators)) == {"alpha": 0, "beta": 1}
    played(fleet, inventory, "verify.yml", **operators)

    programs = operators["upstream_workloads_programs"]
    assert isinstance(programs, list)
    for change, words in (({"sha256": "0" * 64, "name": "other"}, "validate"), ({"expect": "no such"}, "bc")):
        wrong = {**operators, "upstream_workloads_programs": [{**programs[0], **change}]}
        failed(fleet, inventory, "provision.yml", words, "--limit", "beta", **wrong)


def failed(
    fleet: Fleet, inventory: Path, playbook: str, words: str, *options: str, **variables: object
) -> str:
    """What a playbook prints that has to fail and to say why."""
    process = started(fleet, inventory, playbook, *options, **variables)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2, output
    assert words in output
    return output


def test_restoring_brings_both_hosts_back(
    fleet: Fleet, inventory: Path, found: dict[str, dict[str, str]], operators: dict[str, object]
) -> None:
    played(fleet, inventory, "restore.yml", **operators)
    for host in fleet.hosts:
        assert host.run("sh", "-c", f"ls {DATA_SET} 2>/dev/null || true").strip() == ""
        assert selected(host.kernel_files()) == found[host.name]
        assert not host.run("find", "/var/lib", "/usr/local/lib", "/run", "-name", "tiertune*")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _same_network(process: Path, fleet: Fleet) -> bool:
    try:
        return (process / "ns/net").readlink() == Path(f"/proc/{fleet.controller.pid}/ns/net").readlink()
    except OSError:
        return False
