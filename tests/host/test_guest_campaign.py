"""In a virtual machine with two memory tiers: campaigns of live trials, by the command that users have."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.configs.corpus import ROOT
from tests.host.guest import campaign, inside, machine
from tests.host.programs import program

pytestmark = [pytest.mark.host, pytest.mark.timeout(2400)]

BALANCING = "/proc/sys/kernel/numa_balancing"
MONITOR = "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds"
RESERVED = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"


@pytest.fixture(scope="module")
def boot(tmp_path_factory: pytest.TempPathFactory) -> machine.Boot:
    """A boot in which campaigns run one after the other."""
    binaries = {program(name).parent for name in ("tierd", "tierload")}
    assert binaries == {Path(sys.executable).parent}
    scenario = f"/usr/bin/python3 -B -m tests.host.guest.campaign {Path(sys.executable).parent} {ROOT}"
    return machine.boot(f"cd {ROOT} && {scenario}\n", tmp_path_factory.mktemp("campaigns"), 2000)


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
    result = found(boot, system)
    assert result["code"] == 130, result["said"]
    done = [trial for trial in result["trials"] if trial["status"] == "ok"]
    assert done, result["trials"]
    settings = {setting["path"]: setting for setting in done[0]["settings"]}
    assert settings[switch]["before"] == settings[switch]["after"] != "2"
    assert settings[switch]["during"] == "2"
    assert int(settings[RESERVED]["during"]) * (2 * inside.MIB) > (machine.FAST_MIB // 4) * inside.MIB
    assert all(setting["problem"] is None for setting in settings.values())
    assert result["changed"] == {}
