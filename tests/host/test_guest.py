"""In a virtual machine with two memory tiers: what sources see of a known hot set; hosts are left as found.

Guests are booted once for each file of scenarios; a test asserts on what its scenario wrote down. Nothing is
about time.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.configs.corpus import ROOT
from tests.host.guest import inside, machine, policies, sources

pytestmark = pytest.mark.host

# Debian's own, which is not where Python packages of the checkout are: scenarios need none.
PYTHON = "/usr/bin/python3 -B -m"
PLAN: dict[str, Any] = json.loads(policies.PLAN.read_text())
# Capabilities by their numbers: DAC_OVERRIDE, KILL, SYS_PTRACE, SYS_ADMIN, SYS_NICE, PERFMON.
KEPT = (1, 5, 19, 21, 23, 38)
SETUID = 7
# Those that a live host has to be able to run.
POLICIES = ["alto+nbt", "colloid+hemem", "hemem", "memtis", "mru", "nbt", "pact", "tpp"]


@pytest.fixture(scope="module")
def programs() -> Path:
    """Where the programs that scenarios run are, built here."""
    build = ["cargo", "build", "--quiet", "--release", "--locked", "--package"]
    for wanted in (["tierd", "--bin", "tierd"], ["tiertune-host", "--examples"]):
        subprocess.run([*build, *wanted], cwd=ROOT / "engine", check=True, timeout=1200)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "engine/target")) / "release"


def found(boot: machine.Boot, **wanted: str) -> dict[str, Any]:
    """The one result with these values."""
    matching = [result for result in boot.results if wanted.items() <= result.items()]
    assert len(matching) == 1, (wanted, boot.console[-2000:])
    return matching[0]


@pytest.fixture(scope="module")
def watched(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> machine.Boot:
    """A boot in which sources watch a process, daemons are killed, and the kernel's own systems run."""
    scenarios = [f"sources {programs}/examples", f"safety {programs}", f"systems {programs}"]
    steps = [f"cd {ROOT}", *(f"{PYTHON} tests.host.guest.{scenario}" for scenario in scenarios)]
    return machine.boot(" && ".join(steps), tmp_path_factory.mktemp("watched"), 900)


@pytest.fixture(scope="module")
def managed(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> machine.Boot:
    """A boot in which each policy manages a process."""
    start = f"cd {ROOT} && {PYTHON} tests.host.guest.policies {programs}\n"
    return machine.boot(start, tmp_path_factory.mktemp("managed"), 1200)


def shares(result: dict[str, Any]) -> tuple[float, float]:
    """Mean of what was seen in hot buckets and in those that are far from them."""
    buckets = result["found"]["buckets"]
    width = sources.SIZE_BYTES // len(buckets)
    first, last = sources.HOT_AT // width, (sources.HOT_AT + sources.HOT_BYTES) // width
    # A region may reach over the border of the hot set by some.
    far = [*buckets[: first - 4], *buckets[last + 4 :]]
    return sum(buckets[first:last]) / (last - first), sum(far) / len(far)


@pytest.mark.timeout(2400)
@pytest.mark.parametrize("source", sorted(sources.SECONDS))
def test_sources_find_the_hot_set(source: str, watched: machine.Boot) -> None:
    result = found(watched, scenario="source", source=source)
    assert result["code"] == 0, result["said"]
    hot, far = shares(result)
    assert hot > 3 * far, result["found"]
    assert result["found"]["lost"] == 0


def test_hint_faults_are_those_that_the_kernel_counts(watched: machine.Boot) -> None:
    """Every fault that is reported is one, few are not seen, and the kernel moves nothing itself."""
    result = found(watched, scenario="source", source="hint-faults")
    counted = result["counters"]["numa_hint_faults"]
    # Pages of its libraries and its stack fault, too, and are nobody's areas here.
    assert 0.9 * counted <= result["found"]["seen"] <= counted
    assert result["counters"]["pgpromote_success"] == result["counters"]["pgmigrate_success"] == 0


@pytest.mark.parametrize("source", sorted(sources.SECONDS))
def test_sources_leave_settings_as_found(source: str, watched: machine.Boot) -> None:
    result = found(watched, scenario="source", source=source)
    assert result["found"]["restored"] > 0
    assert result["found"]["problems"] == 0
    assert result["changed"] == {}


@pytest.mark.parametrize("source", sorted(sources.SECONDS))
def test_settings_come_back_after_kill_9(source: str, watched: machine.Boot) -> None:
    result = found(watched, scenario="source killed", source=source)
    assert result["left"], "it had changed nothing when it was killed"
    assert result["code"] == 0, result["said"]
    assert result["changed"] == {}


def test_a_daemon_that_was_killed_leaves_the_workload_and_a_journal(watched: machine.Boot) -> None:
    result = found(watched, scenario="killed")
    assert result["outlived"]
    # It had changed balancing's settings and set up monitors, all of which are undone by `tierd restore`.
    assert "/proc/sys/kernel/numa_balancing" in result["left"]
    assert result["monitors_left"]
    assert result["restored"]["code"] == 0, result["restored"]
    assert result["changed"] == {}


def test_one_daemon_at_a_time(watched: machine.Boot) -> None:
    second = found(watched, scenario="killed")["second"]
    assert second["code"] == 3
    assert "another tierd runs" in second["said"]


def test_a_running_process_is_taken_over_and_let_go(watched: machine.Boot) -> None:
    result = found(watched, scenario="attached")
    assert result["moved"] >= policies.ENOUGH, result
    assert result["code"] == 130, result["said"]
    assert result["outlived"]
    assert result["changed"] == {}


@pytest.mark.parametrize("name", ["monitor", "balancing", "balancing for a policy without hint faults"])
def test_what_somebody_else_uses_is_left_alone(name: str, watched: machine.Boot) -> None:
    result = found(watched, scenario="others", name=name)
    assert result["refused"]["code"] == 3, result["refused"]
    assert "somebody" in result["refused"]["said"]
    assert result["changed"] == {}


@pytest.mark.parametrize(
    ("name", "counter"), [("balancing", "pgpromote_success"), ("damon", "pgmigrate_success")]
)
def test_systems_of_the_kernel_are_held_and_move_the_hot_set(
    name: str, counter: str, watched: machine.Boot
) -> None:
    result = found(watched, scenario="system", name=name)
    assert "broke" not in result, result["broke"]
    assert result["moved"] >= policies.ENOUGH, result["said"]
    assert result["code"] == 0, result["said"]
    moved_bytes = result["report"]["counters"][counter] * inside.PAGE_BYTES
    assert moved_bytes >= policies.ENOUGH * policies.HOT_BYTES
    assert result["changed"] == {}
    assert all(setting["problem"] is None for setting in result["report"]["settings"])


def test_the_plan_has_the_policies_that_hosts_must_run() -> None:
    assert sorted(PLAN) == POLICIES


@pytest.mark.timeout(2400)
@pytest.mark.parametrize("policy", POLICIES)
def test_policies_move_a_known_hot_set_and_follow_it(policy: str, managed: machine.Boot) -> None:
    result = found(managed, scenario="policy", policy=policy)
    assert "broke" not in result, result["broke"]
    for moment in ("first", "second", "after"):
        assert result[moment] >= policies.ENOUGH, (moment, result[moment], result["said"])
    report = result["report"]
    assert report["signals"]["sources"] == PLAN[policy]["sampler"].split(",")
    # As much as was hot at first and then elsewhere was moved, whichever way.
    assert report["migrations"]["promoted_bytes"] >= policies.HOT_BYTES
    assert report["counts"]["samples"] + report["counts"]["hint_faults"] > 0


@pytest.mark.parametrize("policy", POLICIES)
def test_rights_that_are_not_needed_are_given_up(policy: str, managed: machine.Boot) -> None:
    """By the daemon, for good, and by no means by the workload."""
    rights = found(managed, scenario="policy", policy=policy)["rights"]
    kept = sum(1 << number for number in KEPT)
    assert {int(rights["tierd"][name], 16) for name in ("CapEff", "CapPrm")} == {kept}
    assert rights["tierd"]["NoNewPrivs"] == "1"
    assert int(rights["workload"]["CapEff"], 16) & (1 << SETUID), "it has what it was started with"
    assert rights["workload"]["NoNewPrivs"] == "0"


@pytest.mark.parametrize("policy", POLICIES)
def test_the_daemon_may_open_more_files_and_the_workload_as_many_as_before(
    policy: str, managed: machine.Boot
) -> None:
    result = found(managed, scenario="policy", policy=policy)
    soft, hard = result["files_here"]
    assert soft < hard, "otherwise there is nothing to be raised"
    assert result["files"] == {"tierd": [hard, hard], "workload": [soft, hard]}


@pytest.mark.parametrize("policy", POLICIES)
def test_the_cap_is_kept_while_memory_comes_and_pages_move(policy: str, managed: machine.Boot) -> None:
    """By the kernel's page tables, at every look before the process forks."""
    result = found(managed, scenario="policy", policy=policy)
    before = [seen_bytes for at_s, seen_bytes in result["cap"]["looks"] if at_s < result["steps_s"]["fork"]]
    assert len(before) >= 5
    assert max(before) <= policies.CAP_BYTES, (result["steps_s"], result["cap"])


@pytest.mark.parametrize("policy", POLICIES)
def test_the_cap_is_kept_through_a_fork(policy: str, managed: machine.Boot) -> None:
    """At every look, while a child comes, writes to what it shares, and goes."""
    result = found(managed, scenario="policy", policy=policy)
    assert result["cap"]["most_bytes"] <= policies.CAP_BYTES, (result["steps_s"], result["cap"])


@pytest.mark.parametrize("policy", POLICIES)
def test_the_cap_is_back_after_a_fork(policy: str, managed: machine.Boot) -> None:
    """At the last look, with the child gone; it was one process, and never taken for another as it ended."""
    result = found(managed, scenario="policy", policy=policy)
    at_s, last_bytes = result["cap"]["looks"][-1]
    assert at_s > result["steps_s"]["reap"]
    assert last_bytes <= policies.CAP_BYTES, (result["steps_s"], result["cap"])
    assert result["report"]["counts"]["processes"] == 2


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_ends_with_the_program_and_leaves_the_host_as_found(policy: str, managed: machine.Boot) -> None:
    result = found(managed, scenario="policy", policy=policy)
    assert result["report"]["status"] == "workload-failed"
    assert result["report"]["workload"]["exit_code"] == policies.EXIT_CODE
    assert result["code"] == 4
    assert result["changed"] == {}
    assert all(setting["problem"] is None for setting in result["report"]["settings"])
