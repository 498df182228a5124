"""`tierd hold` with a control group of the program's own, on the control groups of this machine's kernel."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.host.groups import GROUPS
from tests.host.programs import program

pytestmark = pytest.mark.host

MIB = 1 << 20
LIMIT_BYTES = 64 * MIB
# Says which groups it is in, takes memory, and says what its group has been charged.
INSIDE = """\
import pathlib, sys
print(pathlib.Path("/proc/self/cgroup").read_text())
held = b"x" * (16 << 20)
print(pathlib.Path(sys.argv[1]).read_text())
"""


class Hierarchy:
    """The groups that have memory in them, of whichever version."""

    def __init__(self) -> None:
        self.first = (GROUPS / "memory").is_dir()
        self.parent = GROUPS / "memory" if self.first else GROUPS
        self.group = self.parent / "tiertune-test-held"
        self.limit = self.group / ("memory.limit_in_bytes" if self.first else "memory.max")
        self.usage = self.group / ("memory.usage_in_bytes" if self.first else "memory.current")


@pytest.fixture
def groups() -> Iterator[Hierarchy]:
    """Where a group would be made; what a failed test leaves in it is ended."""
    made = Hierarchy()
    if not made.first:
        (GROUPS / "cgroup.subtree_control").write_text("+memory")
    yield made
    for pid in members(made.group):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    with suppress(FileNotFoundError):
        made.group.rmdir()


def members(group: Path) -> list[int]:
    """Processes of a group; none where it is gone."""
    try:
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]
    except FileNotFoundError:
        return []


def hold(groups: Hierarchy, folder: Path, *command: str, **options: Any) -> list[str]:
    """A command line that gives the group a limit."""
    settings = [{"path": str(options.get("path", groups.limit)), "value": LIMIT_BYTES}]
    (folder / "settings.json").write_text(json.dumps(settings))
    words = [str(program("tierd")), "hold", "--settings", str(folder / "settings.json")]
    words += ["--group", str(groups.group), "--report", str(folder / "report.json")]
    words += ["--state", str(folder / "state"), *options.get("more", [])]
    return [*words, "--", *command]


def ran(words: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=180)


def started(groups: Hierarchy, folder: Path, *more: str) -> tuple[subprocess.Popen[bytes], int]:
    """A daemon whose program sleeps in its group, and that program."""
    daemon = subprocess.Popen(hold(groups, folder, "sleep", "600", more=more), stderr=subprocess.DEVNULL)
    until = time.monotonic() + 30
    while not members(groups.group):
        assert time.monotonic() < until
        assert daemon.poll() is None
        time.sleep(0.02)
    (pid,) = members(groups.group)
    return daemon, pid


def test_a_program_is_born_in_its_group_which_is_gone_afterwards(groups: Hierarchy, tmp_path: Path) -> None:
    done = ran(hold(groups, tmp_path, "/usr/bin/python3", "-c", INSIDE, str(groups.usage)))
    assert done.returncode == 0, done.stderr
    assert f"/{groups.group.name}\n" in done.stdout
    assert int(done.stdout.split()[-1]) > 16 * MIB
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["group"] == str(groups.group)
    (limit,) = report["settings"]
    assert (limit["during"], limit["after"], limit["problem"]) == (str(LIMIT_BYTES), None, None)
    assert limit["before"] != limit["during"]
    assert not groups.group.exists()


def test_a_group_of_a_daemon_that_was_killed_is_removed_and_its_program_goes_on(
    groups: Hierarchy, tmp_path: Path
) -> None:
    daemon, pid = started(groups, tmp_path)
    daemon.kill()
    daemon.wait()
    assert members(groups.group) == [pid]
    restored = ran([str(program("tierd")), "restore", "--state", str(tmp_path / "state")])
    assert restored.returncode == 0, restored.stderr
    assert not groups.group.exists()
    assert pid in members(groups.parent)
    os.kill(pid, signal.SIGKILL)
    again = ran([str(program("tierd")), "restore", "--state", str(tmp_path / "state")])
    assert again.stdout == "nothing was left to be put back\n"


def test_the_next_start_puts_back_what_a_killed_one_left(groups: Hierarchy, tmp_path: Path) -> None:
    daemon, pid = started(groups, tmp_path)
    daemon.kill()
    daemon.wait()
    done = ran(hold(groups, tmp_path, "true"))
    os.kill(pid, signal.SIGKILL)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert [left["path"] for left in report["left_over"]] == [str(groups.limit), str(groups.group)]
    assert not groups.group.exists()


@pytest.mark.parametrize("kill_workload", [True, False])
def test_a_daemon_that_is_stopped_leaves_no_group(
    groups: Hierarchy, tmp_path: Path, kill_workload: bool
) -> None:
    daemon, pid = started(groups, tmp_path, *(["--kill-workload"] if kill_workload else []))
    daemon.terminate()
    assert daemon.wait(30) == 130
    assert not groups.group.exists()
    if not kill_workload:
        assert pid in members(groups.parent)
        os.kill(pid, signal.SIGKILL)


def test_somebody_elses_group_is_not_touched(groups: Hierarchy, tmp_path: Path) -> None:
    groups.group.mkdir()
    done = ran(hold(groups, tmp_path, "true"))
    assert done.returncode == 3
    assert f"{groups.group} is there already" in done.stderr
    assert groups.group.exists()


def test_what_the_kernel_does_not_have_in_a_group_is_named(groups: Hierarchy, tmp_path: Path) -> None:
    """No kernel of a distribution has Memtis' switch."""
    switch = groups.group / "memory.htmm_enabled"
    done = ran(hold(groups, tmp_path, "true", path=switch))
    assert done.returncode == 3
    assert f"{switch} cannot be read" in done.stderr
    assert "this kernel does not have it" in done.stderr
    assert not groups.group.exists()


def test_sampling_of_memtis_is_refused_on_another_kernel(groups: Hierarchy, tmp_path: Path) -> None:
    done = ran(hold(groups, tmp_path, "true", more=["--htmm"]))
    assert done.returncode == 3
    assert "/sys/kernel/mm/htmm is not there: this kernel is not Memtis'" in done.stderr
    assert not groups.group.exists()
    assert not (tmp_path / "state" / "settings.journal").exists()


def test_groups_are_made_below_groups_only(groups: Hierarchy, tmp_path: Path) -> None:
    words = hold(groups, tmp_path, "true")
    words[words.index("--group") + 1] = str(tmp_path / "group")
    done = ran(words)
    assert done.returncode == 2
    assert "does not lie below /sys/fs/cgroup" in done.stderr
