"""Live trials on a host that runs out of memory or disk while they run."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.host.groups import memory_group
from tests.live.test_fitness import FIT
from tests.live.test_host_backend import TRIAL, backend_in, workload
from tiertune.tuner.execution import attempt
from tiertune.tuner.host.state import HostState, read_state
from tiertune.tuner.trial import Status

pytestmark = pytest.mark.host

MIB = 1 << 20
GREEDY = """\
import pathlib, sys
pathlib.Path({group!r}, "cgroup.procs").write_text("0")
held = b"x" * {size}
print("took 1.0 s")
"""
TALKATIVE = """\
import sys
sys.stdout.write("x" * {size})
print("took 1.0 s")
"""


@pytest.fixture
def small_group() -> Iterator[Path]:
    """A control group with 32 MiB of memory, of either version."""
    with memory_group("small", 32 * MIB) as group:
        yield group


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk of 1 MiB, where trials have their folders."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    try:
        monkeypatch.setattr(tempfile, "tempdir", str(disk))
        yield disk
    finally:
        subprocess.run(["umount", disk], check=True)


def as_counted() -> tuple[HostState, float]:
    """A host in order, with the counters of this one."""
    return replace(FIT, counters=read_state().counters), 0.0


@pytest.mark.parametrize("system", ["hemem", "notier"])
def test_want_of_memory_is_told_from_other_ends(tmp_path: Path, small_group: Path, system: str) -> None:
    made = workload(tmp_path, GREEDY.format(group=str(small_group), size=256 * MIB))
    measurement = attempt(backend_in(tmp_path, made, as_counted), replace(TRIAL, system=system, config={}))
    assert measurement.status is Status.CRASHED
    assert "the kernel killed 1 process for want of memory" in (measurement.error or ""), measurement.error
    assert "footprint" in (measurement.error or "")


def test_what_is_killed_otherwise_is_not_said_to_want_memory(tmp_path: Path) -> None:
    made = workload(tmp_path, "import os; os.kill(os.getpid(), 9)")
    measurement = attempt(backend_in(tmp_path, made, as_counted), TRIAL)
    assert measurement.status is Status.CRASHED
    assert "want of memory" not in (measurement.error or "")


def test_a_disk_that_fills_up_makes_the_host_unfit(tmp_path: Path, small_disk: Path) -> None:
    made = workload(tmp_path, TALKATIVE.format(size=2 * MIB))
    measurement = attempt(backend_in(tmp_path, made), TRIAL)
    assert measurement.status is Status.HOST_UNFIT
    assert f"the disk of {small_disk}" in (measurement.error or ""), measurement.error
    assert list(small_disk.iterdir()) == []


def test_a_full_disk_makes_the_host_unfit(tmp_path: Path, small_disk: Path) -> None:
    backend = backend_in(tmp_path, workload(tmp_path))
    (small_disk / "ballast").write_bytes(bytes(MIB))
    measurement = attempt(backend, TRIAL)
    assert measurement.status is Status.HOST_UNFIT
    assert "TMPDIR" in (measurement.error or "")
    (small_disk / "ballast").unlink()
    assert attempt(backend, TRIAL).status is Status.OK
