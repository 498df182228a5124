"""What is written last is looked at first: before any work, and without leaving anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.small import tiertune, write_small
from tests.nightly.two import write_two
from tests.sweep.small import write_sweep
from tests.transfer.few import write_few
from tiertune.files import InputError
from tiertune.tuner.api.explaining import explain
from tiertune.tuner.api.transferring import transfer
from tiertune.tuner.cli.writable import check_file, check_folder

NOWHERE = Path("/proc/nothing")
"""Where not even root makes a file or a folder."""


def asked(name: str, folder: Path) -> tuple[str | Path, ...]:
    """A command that would be at work for a while."""
    if name == "nightly":
        return ("nightly", write_two(folder), "--any-time")
    if name == "sensitivity":
        return ("sensitivity", write_sweep(folder), "--claim", "hemem beats notier")
    if name == "sweep":
        return ("sweep", write_sweep(folder))
    if name == "reproduce":
        return ("reproduce", "--id", "SA-02")
    return (name, write_few(folder) if name == "transfer" else write_small(folder))


@pytest.mark.parametrize(
    "name", ["compare", "explain", "nightly", "reproduce", "sensitivity", "sweep", "transfer"]
)
def test_figures_that_cannot_be_written_are_refused_first(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    results = tmp_path / "results"
    refused = tiertune(*asked(name, tmp_path), "--results", results, "--figures", NOWHERE)
    assert refused.exit_code == 2, refused.stderr
    assert refused.stderr.startswith(f"tiertune: --figures: {NOWHERE} cannot be written (")
    assert not results.exists()


def test_a_config_that_cannot_be_written_is_refused_first(tmp_path: Path) -> None:
    path, results = write_small(tmp_path), tmp_path / "results"
    for option in (tmp_path / "absent/few.yaml", NOWHERE / "few.yaml", Path("/proc/few.yaml")):
        refused = tiertune("explain", path, "--results", results, "--write", option)
        assert refused.exit_code == 2, refused.stderr
        assert refused.stderr.startswith(f"tiertune: --write: {option} cannot be written (")
    assert {entry.name for entry in tmp_path.iterdir()} == {"small.yaml", "small-workload.yaml"}


def test_a_recording_that_could_not_be_kept_is_not_begun(tmp_path: Path) -> None:
    program = [sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"]
    for where in (["-o", NOWHERE / "a.parquet"], ["-o", "/proc/a.parquet"], ["--results", NOWHERE]):
        refused = tiertune("record", *where, "--", *program)
        assert refused.exit_code == 2, refused.stderr
        assert "cannot be written (" in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_cells_and_contexts_are_checked_before_anything_runs(tmp_path: Path) -> None:
    few, results = write_few(tmp_path), tmp_path / "results"
    walk = ("--along", "ratio", "--from", "1:2", "--to", "1:4", "--context", "4")
    for dry in ((), ("--dry-run",)):
        for command, said in (
            (("explain", few, "--cell", "4"), "--cell 4: few has 3; the largest is 3"),
            (("explain", few, "--write", tmp_path / "few-changes.yaml"), "few has 3 cells; pick one"),
            (("transfer", few, *walk), "--context 4: there are 3; the largest is 3"),
        ):
            refused = tiertune(*command, "--results", results, *dry)
            assert refused.exit_code == 2, refused.stderr
            assert said in refused.stderr
    with pytest.raises(InputError, match="the largest is 3"):
        explain(few, cells=[4], results=results)
    with pytest.raises(InputError, match="the largest is 3"):
        transfer(few, along="ratio", first="1:2", last="1:4", contexts=[4], results=results)
    assert not results.exists()


def test_searches_of_a_context_are_one_context(tmp_path: Path) -> None:
    few = write_few(tmp_path)
    few.write_text(few.read_text() + "searches: 2\n")
    planned = tiertune("transfer", few, "--dry-run", "--results", tmp_path / "results")
    assert "3 contexts, 6 transfers at most" in planned.stdout


def test_looking_leaves_nothing(tmp_path: Path) -> None:
    check_folder("--figures", tmp_path / "a/b")
    check_file("--out", tmp_path / "a/b.parquet", makes_folders=True)
    check_file("--write", tmp_path / "b.yaml")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    for folder in (tmp_path / "file", tmp_path / "file/below", tmp_path / "link"):
        with pytest.raises(InputError, match="cannot be written"):
            check_folder("--figures", folder)
    with pytest.raises(InputError, match="is a directory"):
        check_file("--write", tmp_path)
    check_file("--write", tmp_path / "file")
    assert (tmp_path / "file").read_text() == "kept"
