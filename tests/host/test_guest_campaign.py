"""In a virtual machine with two memory tiers: campaigns of live trials, by the command that users have."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.configs.corpus import ROOT
from tests.host.guest import campaign, containers, inside, machine
from tests.host.programs import program
from tiertune.units import parse_size

pytestmark = [pytest.mark.host, pytest.mark.long, pytest.mark.timeout(2400)]

BALANCING = "/proc/sys/kernel/numa_balancing"
MONITOR = "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds"
RESERVED = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"


@pytest.fixture(scope="module")
def boot(tmp_path_factory: pytest.TempPathFactory) -> machine.Boot:
    """A boot in which campaigns run one after the other."""
    binaries = {program(name).parent for name in ("tierd", "tierload")}
    assert binaries == {Path(sys.executable).parent}
    scenario = f"/usr/bin/python3 -B -m tests.host.guest.campaign {Path(sys.executable).parent} {ROOT}"
    # Nothing here goes by where pages end up: accessed bits need not be right, which takes a quarter more.
    folder = tmp_path_factory.mktemp("campaigns")
    return machine.boot(f"cd {ROOT} && {scenario}\n", folder, 2000, kernel=["pti=off"])


def found(boot: machine.Boot, name: str) -> dict[str, Any]:
    matching = [result for result in boot.results if result["name"] == name]
    assert len(matching) == 1, boot.console[-3000:]
    return matching[0]


def test_a_campaign_of_five_live_trials_ends_with_a_report(boot: machine.Boot) -> None:
    result = found(boot, "live")
    assert result["code"] == 0, result["said"]
    trials = result["trials"]
    assert {trial["status"] for trial in trials} == {"ok"}, trials
    assert sum(trial["purpose"] == "search" for trial in trials) == campaign.TRIALS
    assert {trial["purpose"] for trial in trials} == {"search", "selection", "validation"}
    assert all(trial["host_state"] for trial in trials)
    assert result["page"]
    assert "hemem on tiny" in result["said"]
    assert result["changed"] == {}


@pytest.mark.parametrize(("system", "switch"), [("nbt", BALANCING), ("hmsdk", MONITOR)])
def test_what_the_kernel_runs_is_a_system_of_a_campaign(boot: machine.Boot, system: str, switch: str) -> None:
    """It is on while the program runs, and the fast node is cut down to what the ratio grants."""
    result = found(boot, "kernel")
    assert result["code"] == 130, result["said"]
    done = [trial for trial in result["trials"] if trial["status"] == "ok" and trial["system"] == system]
    assert done, result["trials"]
    settings = {setting["path"]: setting for setting in done[0]["settings"]}
    assert settings[switch]["before"] == settings[switch]["after"] != "2"
    assert settings[switch]["during"] == "2"
    assert int(settings[RESERVED]["during"]) * (2 * inside.MIB) > (machine.FAST_MIB // 4) * inside.MIB
    assert all(setting["problem"] is None for setting in settings.values())
    assert result["changed"] == {}


@pytest.fixture(scope="module")
def contained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A boot with a Docker Engine, in which a campaign runs in containers until a trial is done."""
    binaries = program("tierd").parent
    python = f"PYTHONPATH={ROOT}/engine/python:{ROOT} {binaries}/python -B -m"
    scenario = f"{python} tests.host.guest.containers {binaries} {ROOT}"
    booted = machine.boot(f"cd {ROOT} && {scenario}\n", tmp_path_factory.mktemp("containers"), 2000)
    (result,) = booted.results or [{}]
    assert result, booted.console[-3000:]
    return result


def test_a_container_has_both_nodes_and_its_limits(contained: dict[str, Any]) -> None:
    """As the workload's process found them, beside what was asked for."""
    assert contained["code"] == 130, contained["said"]
    done = [trial for trial in contained["trials"] if trial["status"] == "ok"]
    assert done, (contained["trials"], contained["engine"], contained["said"])
    asked, inside_it = done[0]["container"]["asked"], done[0]["container"]["inside"]
    assert (asked["nodes"], inside_it["nodes"]) == ("0,1", "0-1")
    limits = {name: containers.LIMITS[name] for name in ("cpus", "pids", "processors")}
    for limit, value in {**limits, "memory_bytes": parse_size(str(containers.LIMITS["memory"]))}.items():
        assert asked[limit] == inside_it[limit] == value, limit
    assert contained["left"] == []
    assert contained["changed"] == {}


def test_the_daemon_in_a_container_moves_pages_and_keeps_the_cap(contained: dict[str, Any]) -> None:
    """Of 32 MiB, born in the slow node, the policy places in the fast one what that may hold, half."""
    trial = next(trial for trial in contained["trials"] if trial["status"] == "ok")
    fast, slow = trial["tiers"]
    assert (fast["node"], fast["bytes"], slow["node"]) == (inside.FAST, 16 * inside.MIB, inside.SLOW)
    counts, moved = trial["counts"], trial["migrations"]
    assert counts["most_present_bytes"] > fast["bytes"]
    assert counts["samples"] > 0
    assert moved["promoted_bytes"] >= 8 * inside.MIB, moved
    assert 8 * inside.MIB <= counts["most_fast_bytes"] <= fast["bytes"], counts
    assert counts["most_over_cap_bytes"] == 0
