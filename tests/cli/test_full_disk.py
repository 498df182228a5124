"""A disk that takes no more is no bug of ours: exit code 3, and a sentence."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.small import tiertune, write_small
from tests.nightly.two import write_two
from tests.report.journal_example import write_journal
from tiertune.tuner.journal import Journal
from tiertune.tuner.nightly.night import Night

COMMAND = Path(sys.executable).with_name("tiertune")
ELSEWHERE = "; --results or TIERTUNE_RESULTS names another folder"
STORED = f"results cannot be stored or read: the disk is full (database or disk is full){ELSEWHERE}"


@pytest.mark.parametrize("pages", [2, 20])
def test_a_journal_that_cannot_grow_ends_a_campaign_which_goes_on_later(
    pages: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Journal._open

    def small(journal: Journal, writer: bool) -> None:
        if writer:
            journal._db.execute(f"pragma max_page_count = {pages}")
        whole(journal, writer)

    words = "tune", write_small(tmp_path), "--results", tmp_path / "results"
    monkeypatch.setattr(Journal, "_open", small)
    refused = tiertune(*words)
    assert refused.exit_code == 3
    assert refused.stderr.splitlines()[-1] == f"tiertune: {STORED}"
    monkeypatch.undo()
    assert tiertune(*words).exit_code == 0


def test_a_report_that_cannot_be_written_names_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_journal(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")  # as of `write`, which knows no name

    monkeypatch.setattr(Path, "write_text", full)
    refused = tiertune("report", path.parent.name, "--results", path.parent.parent)
    assert refused.exit_code == 3
    assert refused.stderr == (
        f"tiertune: {path.parent / 'report.html'}: no space left on device{ELSEWHERE}\n"
    )
    printed = tiertune("report", path.parent.name, "--results", path.parent.parent, "--markdown")
    assert (printed.exit_code, printed.stdout[:2]) == (0, "# ")
    said = f"tiertune: {path.parent / 'report.html'} was not written: no space left on device\n"
    assert printed.stderr == said


def test_a_night_takes_a_full_disk_for_no_bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Night, "_panel", full)
    monkeypatch.setattr(Night, "_search", full)
    done = tiertune("nightly", write_two(tmp_path), "--results", tmp_path / "results", "--json")
    assert done.exit_code == 5, done.stderr
    told = json.loads(done.stdout)["not_measured"]
    assert told
    assert {one["why"] for one in told} == {"the disk is full (no space left on device)"}


@pytest.mark.parametrize("words", [[], ["--help"], ["list", "systems"], ["show", "hemem", "--json"]])
def test_output_that_cannot_be_written_is_told(words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([COMMAND, *words], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 3
    assert done.stderr == "tiertune: the disk is full (no space left on device)\n"


def test_a_bug_of_ours_is_told_where_its_traceback_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a wheel came off")

    monkeypatch.setattr("tiertune.engine.systems", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    done = tiertune("list", "systems")
    assert done.exit_code == 1
    assert "a bug of ours, sorry: RuntimeError: a wheel came off (TIERTUNE_DEBUG=1 shows" in done.stderr
