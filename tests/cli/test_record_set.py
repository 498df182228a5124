"""`tiertune record` of several workloads: side by side, by name or by preset."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.small import tiertune
from tiertune import memory_limit
from tiertune.engine import EngineError
from tiertune.files import names
from tiertune.machines.definition import load_machine
from tiertune.tuner.cli.record_set import Room, _side_by_side, workloads_named
from tiertune.workloads import profile
from tiertune.workloads.definition import Workload, load_workload

NAMES = ("btree@smoke", "masim-stairs@smoke", "cachelib@smoke")


def test_several_are_recorded_and_kept(tmp_path: Path) -> None:
    results = ("--results", tmp_path)
    first = tiertune("record", *NAMES, "-m", "skx-numa", "--json", *results)
    assert first.exit_code == 0, first.stderr
    told = json.loads(first.stdout)
    assert [row["workload"] for row in told["recorded"]] == [name.replace("@", "-") for name in NAMES]
    assert "3 of 3: " in first.stderr
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "profiles").iterdir()}
    sizes = [path.stat().st_size for path in (tmp_path / "profiles").iterdir()]
    assert sorted(row["profile_bytes"] for row in told["recorded"]) == sorted(sizes)
    for name, row in zip(NAMES, told["recorded"], strict=True):
        footprint = load_workload(name).footprint_bytes
        assert abs(row["footprint_bytes"] / footprint - 1) < 0.05
    again = tiertune("record", *NAMES, "-m", "skx-numa", *results)
    assert "3 profiles in " in again.stdout
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "profiles").iterdir()} == kept


def test_a_preset_alone_is_every_workload_that_has_it_and_a_kernel() -> None:
    found = {workload.name for workload in workloads_named(["@ci"])}
    expected = {
        f"{name}-ci"
        for name in names("workloads")
        if (one := load_workload(name)).sim.record is not None and "ci" in one.presets
    }
    assert found == expected
    assert "seq-chase-ci" not in found


def test_a_mistake_is_told_before_anything_is_recorded(tmp_path: Path) -> None:
    for given, said in (
        (["@cii"], "no workload has a preset 'cii'; did you mean '@ci'?"),
        (["btree@smoke", "btree@smoek"], "did you mean 'btree@smoke'?"),
        (["btree@smoke", "seq-chase"], "seq-chase executes no kernel; there is nothing to record"),
    ):
        refused = tiertune("record", *given, "-m", "skx-numa", "--results", tmp_path)
        assert refused.exit_code == 2
        assert said in refused.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("each_bytes", "at_a_time"), [(60, 1), (40, 2)])
def test_no_more_run_side_by_side_than_fit_together(
    each_bytes: int, at_a_time: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """100 bytes are free; before memory was shared, two of 60 ran at a time."""
    changed, running, most = threading.Condition(), 0, 0

    def recorded(*_given: object, **_more: object) -> SimpleNamespace:
        nonlocal running, most
        with changed:
            running += 1
            most = max(most, running)
            changed.notify_all()
            # As many as should run do so together, however slow this machine is; one more has time to.
            changed.wait_for(lambda: most >= at_a_time, timeout=60)
        time.sleep(0.1)
        with changed:
            running -= 1
        return SimpleNamespace(footprint_bytes=1)

    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(memory_limit, "free_bytes", lambda: 100)
    monkeypatch.setattr(profile, "recording_bytes", lambda *_: each_bytes)
    monkeypatch.setattr(profile, "profile_for", recorded)
    workloads = [load_workload(name) for name in (*NAMES, "gups@smoke")]
    rows = _side_by_side(workloads, load_machine("skx-numa"), 2 << 20, None, tmp_path)
    assert [row.workload for row in rows] == [workload.name for workload in workloads]
    assert most == at_a_time


def test_one_that_fails_ends_those_that_wait_for_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    all_there, closed, close = threading.Barrier(len(NAMES)), threading.Event(), Room.close

    def sixty(*_given: object) -> int:
        all_there.wait(60)
        return 60

    def broken(workload: Workload, *_given: object, **_more: object) -> None:
        begun.append(workload.name)
        if len(begun) > 1:
            closed.wait(60)
        raise EngineError("no")

    def closing(room: Room) -> None:
        close(room)
        closed.set()

    monkeypatch.setattr("os.cpu_count", lambda: len(NAMES))
    monkeypatch.setattr(memory_limit, "free_bytes", lambda: 100)
    monkeypatch.setattr(profile, "recording_bytes", sixty)
    monkeypatch.setattr(profile, "profile_for", broken)
    monkeypatch.setattr(Room, "close", closing)
    workloads = [load_workload(name) for name in NAMES]
    with pytest.raises(EngineError, match=r"-smoke: no") as failed:
        _side_by_side(workloads, load_machine("skx-numa"), 2 << 20, None, tmp_path)
    # Which is first is for the threads. The next may get its memory before that is noticed, the last not.
    assert str(failed.value) == f"{begun[0]}: no"
    assert len(begun) <= 2


MOST_PROFILE_BYTES = 64 << 20
MOST_CPU_S = 240.0
"""Four minutes, on one core of the two that there should be: the time on the wall is that of whoever else
computes."""


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("preset", ["ci", "paper"])
def test_all_of_a_preset_are_recorded_in_minutes_and_small(preset: str, tmp_path: Path) -> None:
    began_s = time.process_time()
    done = tiertune("record", f"@{preset}", "-m", "skx-numa", "--json", "--results", tmp_path)
    assert done.exit_code == 0, done.stderr
    recorded = json.loads(done.stdout)["recorded"]
    assert len(recorded) >= 25
    sizes = {row["workload"]: row["profile_bytes"] for row in recorded}
    assert min(sizes.values()) > 0
    assert max(sizes.values()) < MOST_PROFILE_BYTES, sizes
    if preset == "ci":
        assert time.process_time() - began_s < MOST_CPU_S
