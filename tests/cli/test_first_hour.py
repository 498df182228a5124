"""What a small or closed machine is told: little memory, folders of somebody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet
import pytest

from tests.cli.small import WORKLOAD, tiertune, write_small
from tests.sweep.small import SWEEP, write_sweep
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
