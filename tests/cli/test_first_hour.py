"""What a small or closed machine is told: little memory, folders of somebody else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet
import pytest

from tests.cli.small import WORKLOAD, tiertune, write_small
from tests.sweep.small import SWEEP, write_sweep
from tiertune.memory_limit import free_bytes
from tiertune.tuner import memory_need
from tiertune.tuner.memory_need import BYTES_PER_PAGE, SMALLER
from tiertune.tuner.simulation import SimBackend

COMMAND = Path(sys.executable).with_name("tiertune")
PAGES = 2 * 2**30 // 4096
"""Of the small workload, at 4 KiB."""
SWEPT_PAGES = 2 * 2**30 // 2**21
"""Of the same at 2 MiB."""


def with_free(monkeypatch: pytest.MonkeyPatch, free_bytes: int) -> None:
    memory = psutil.virtual_memory()._replace(available=free_bytes)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)


def run_small(folder: Path, *options: str) -> Any:
    path = folder / "small-workload.yaml"
    path.write_text(WORKLOAD)
    return tiertune("run", "notier", "-w", path, "-m", "skx-numa", "--results", folder / "results", *options)


def test_a_run_that_memory_cannot_hold_says_how_to_go_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_free(monkeypatch, PAGES * BYTES_PER_PAGE)
    assert run_small(tmp_path, "--page-size", "4KiB").exit_code == 0
    refused = run_small(tmp_path, "--page-size", "4KiB", "--seeds", "1-3")
    assert refused.exit_code == 3
    assert refused.stdout == ""
    assert refused.stderr == (
        "tiertune: 2 runs at a time of 524,288 pages of 4 KiB: about 40 MiB of memory are needed,"
        f" 20 MiB are free; {SMALLER}\n"
    )
    assert run_small(tmp_path, "--seeds", "1-3").exit_code == 0, "as the sentence says"


def test_a_campaign_that_memory_cannot_hold_starts_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_small(tmp_path)
    with_free(monkeypatch, 1000)
    refused = tiertune("tune", path, "--results", tmp_path / "results")
    assert refused.exit_code == 3
    assert "a campaign: about 272 MiB of memory are needed beside its runs, 1000 B are free" in refused.stderr
    monkeypatch.setattr(memory_need, "CAMPAIGN_BYTES", 0)
    refused = tiertune("tune", path, "--results", tmp_path / "results")
    assert refused.exit_code == 3
    assert SMALLER in refused.stderr
    with_free(monkeypatch, 2**30)
    assert tiertune("tune", path, "--results", tmp_path / "results").exit_code == 0


def test_a_sweep_that_memory_cannot_hold_goes_on_with_fewer_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "sweep", write_sweep(tmp_path), "--results", tmp_path / "results"
    with_free(monkeypatch, int(SWEPT_PAGES * BYTES_PER_PAGE * 1.5))
    refused = tiertune(*words, "--jobs", "2")
    assert refused.exit_code == 3
    assert refused.stderr.splitlines()[-1].startswith("tiertune: 2 runs at a time of 1,024 pages of 2 MiB: ")
    assert SMALLER in refused.stderr
    assert tiertune(*words, "--jobs", "1").exit_code == 0, "as the sentence says"


def test_a_sweep_of_which_one_run_is_left_needs_memory_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = SWEEP.replace("[1, 2]", "[1]").replace("  - {name: eager", "  # - {name: eager")
    words = "--results", tmp_path / "results", "--jobs", "2"
    first = few.replace("[hemem, notier]", "[notier]")
    assert tiertune("sweep", write_sweep(tmp_path, first), *words).exit_code == 0
    with_free(monkeypatch, int(SWEPT_PAGES * BYTES_PER_PAGE * 1.5))
    done = tiertune("sweep", write_sweep(tmp_path, few), *words)
    assert done.exit_code == 0, done.stderr


def test_a_recording_that_memory_cannot_hold_says_how_to_go_smaller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_free(monkeypatch, 100 * 2**20)
    for command in (
        ["record", "bc-kron", "-m", "skx-numa"],
        ["run", "hemem", "-w", "bc-kron", "-m", "skx-numa"],
    ):
        refused = tiertune(*command, "--results", tmp_path)
        assert refused.exit_code == 3
        assert re.search(
            r"recording bc-kron: about [0-9.]+ MiB of memory are needed, 100 MiB are free; write a smaller"
            r" sim\.record\.scale \(it is 18\)",
            refused.stderr,
        )


def test_memory_that_ran_out_is_no_bug_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(SimBackend, "prepare", full)
    refused = tiertune("tune", write_small(tmp_path), "--results", tmp_path / "results")
    assert refused.exit_code == 3
    assert refused.stderr.startswith(f"tiertune: memory ran out; {SMALLER}")


def test_a_profile_is_not_damaged_because_memory_ran_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise pyarrow.lib.ArrowMemoryError("malloc of size 12109760 failed")

    command = ("record", "tc-kron", "-m", "skx-numa", "--results", tmp_path)
    assert tiertune(*command).exit_code == 0
    monkeypatch.setattr(pyarrow.parquet, "read_table", full)
    refused = tiertune(*command)
    assert refused.exit_code == 3
    assert "recording it again" not in refused.stderr


@pytest.mark.parametrize("command", [["show", "hemem"], ["tune", "small.yaml"]])
def test_an_engine_that_is_missing_is_said_to_be(command: list[str], tmp_path: Path) -> None:
    """Also where what tells mistakes reads the engine itself."""
    write_small(tmp_path)
    (tmp_path / "tiertune_engine.py").write_text("raise ImportError('no engine')\n")
    done = subprocess.run(
        [COMMAND, *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == (
        "tiertune: the native module tiertune_engine is not installed (no engine); run `make setup` in the"
        " checkout\n"
    )


@pytest.mark.parametrize("command", [["tune", "small.yaml"], ["sweep", "all-systems", "--seeds", "1"]])
def test_a_folder_that_is_closed_is_answered_with_the_option(command: list[str], tmp_path: Path) -> None:
    write_small(tmp_path)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    # Root may write everywhere but for this.
    bounded = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*bounded, COMMAND, *command, "--results", closed / "results"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"tiertune: {closed / 'results'}: permission denied;"
        " --results or TIERTUNE_RESULTS names another folder\n"
    )


def groups(root: Path, kind: str, files: dict[str, dict[str, str]]) -> Path:
    """A machine whose process is in `/a/b`, with these files of control groups."""
    made = {
        "first": ("4:memory:/a/b\n9:name=systemd:/\n", "memory", "cgroup group rw,memory"),
        "second": ("0::/a/b\n", "", "cgroup2 group rw"),
    }
    of_process, below, system = made[kind]
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(of_process)
    mounts = ["1 0 0:1 / / rw - ext4 disk rw", f"2 1 0:2 / /sys/fs/cgroup/{below} rw - {system}"]
    (root / "proc/self/mountinfo").write_text("\n".join(mounts))
    for group, contents in files.items():
        folder = root / "sys/fs/cgroup" / below / group
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in contents.items():
            (folder / name).write_text(text)
    return root


def first(limit: int, used: int) -> dict[str, str]:
    stat = "cache 0\ntotal_inactive_file 20\ntotal_active_file 10\n"
    return {"memory.limit_in_bytes": f"{limit}\n", "memory.usage_in_bytes": f"{used}\n", "memory.stat": stat}


def second(limit: int | str, used: int) -> dict[str, str]:
    stat = "anon 1\ninactive_file 20\nactive_file 10\n"
    return {"memory.max": f"{limit}\n", "memory.current": f"{used}\n", "memory.stat": stat}


@pytest.mark.parametrize(
    ("kind", "files", "left"),
    [
        ("first", {"": first(2**63 - 4096, 500), "a": first(300, 130), "a/b": first(1000, 130)}, 200),
        ("first", {"": first(900, 500), "a": first(2**63 - 4096, 9), "a/b": first(100, 130)}, 0),
        ("second", {"a": second(300, 130), "a/b": second("max", 130)}, 200),
        ("second", {"a": second("max", 130), "a/b": second(1000, 530)}, 500),
        ("second", {"a": second("max", 130)}, None),
    ],
)
def test_a_group_with_less_than_the_machine_is_what_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, files: dict[str, Any], left: int | None
) -> None:
    with_free(monkeypatch, 10**6)
    assert free_bytes(groups(tmp_path, kind, files)) == (10**6 if left is None else left)


def test_a_container_sees_its_own_group_as_the_top_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_free(monkeypatch, 10**6)
    root = groups(tmp_path, "first", {"": first(300, 130)})
    mounts = root / "proc/self/mountinfo"
    mounts.write_text(mounts.read_text().replace("0:2 / ", "0:2 /a/b "))
    assert free_bytes(root) == 200
    (root / "proc/self/mountinfo").unlink()
    assert free_bytes(root) == 10**6
