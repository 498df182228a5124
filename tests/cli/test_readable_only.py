"""Journals in folders of somebody else: read where they may be read, and never taken for broken ones."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.small import tiertune, write_small
from tiertune.tuner.api.campaigns import is_complete
from tiertune.tuner.api.results import load_results
from tiertune.tuner.campaign import load_campaign
from tiertune.tuner.journal import Journal
from tiertune.tuner.journal_claim import JournalError
from tiertune.tuner.plan import plan_of

COMMAND = Path(sys.executable).with_name("tiertune")
# Root may read and write everything but for this.
BOUNDED = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
ELSEWHERE = "; --results or TIERTUNE_RESULTS names another folder\n"


def shell(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BOUNDED, COMMAND, *words], cwd=folder, capture_output=True, text=True, timeout=120
    )


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    """The folder of a complete campaign in `results`, which its journal is the only file of."""
    assert tiertune("tune", write_small(tmp_path), "--results", tmp_path / "results").exit_code == 0
    folder = tmp_path / "results/small"
    for path in folder.iterdir():
        if path.name != "journal.sqlite":
            path.unlink()
    return folder


def test_a_complete_campaign_is_known_where_nothing_can_be_written(tuned: Path) -> None:
    (tuned / "journal.sqlite").chmod(0o444)
    tuned.chmod(0o555)
    above = tuned.parent.parent
    shown = shell(above, "transfer", "small.yaml", "--dry-run", "--json")
    assert shown.returncode == 0, shown.stderr
    assert '"small": "tuned"' in shown.stdout
    refused = shell(above, "report", "small")  # which is written beside the journal
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == f"tiertune: results/small/report.html: permission denied{ELSEWHERE}"
    for option, begins in (("--json", "{"), ("--markdown", "# ")):
        printed = shell(above, "report", "small", option)
        assert (printed.returncode, printed.stdout[: len(begins)]) == (0, begins)
        assert printed.stderr == "tiertune: results/small/report.html was not written: permission denied\n"
    assert sorted(path.name for path in tuned.iterdir()) == ["journal.sqlite"]


def test_a_journal_that_may_not_be_read_is_not_taken_for_a_campaign_to_be_tuned(tuned: Path) -> None:
    (tuned / "journal.sqlite").chmod(0)
    above = tuned.parent.parent
    for words in (
        ["report", "small"],
        ["explain", "small.yaml", "--dry-run"],
        ["transfer", "small.yaml", "--dry-run"],
        ["gallery", "small.yaml", "--dry-run"],
        ["tune", "small.yaml", "--dry-run"],
    ):
        refused = shell(above, *words)
        assert refused.stderr == f"tiertune: results/small/journal.sqlite: permission denied{ELSEWHERE}"
        assert (refused.returncode, refused.stdout) == (2, "")
    # Of another campaign it is none of ours, neither for an estimate nor for what is remembered.
    other = shell(above, "tune", "small.yaml", "--name", "other", "--dry-run")
    assert other.returncode == 0, other.stderr


def test_trials_that_are_in_the_log_alone_are_not_left_out(tuned: Path, tmp_path: Path) -> None:
    killed = tmp_path / "killed/small"
    with Journal(tuned / "journal.sqlite") as journal:
        journal.remember("a cell", "nobody", [])
        shutil.copytree(tuned, killed)
    assert (killed / "journal.sqlite-wal").stat().st_size
    (killed / "journal.sqlite-shm").unlink()
    killed.chmod(0o555)
    refused = shell(tmp_path, "report", "small", "--results", "killed")
    assert refused.returncode == 2
    assert refused.stderr == (
        "tiertune: killed/small/journal.sqlite: journal.sqlite-wal beside it is read only where files can be"
        f" made; copy the folder to one of yours{ELSEWHERE}"
    )


def test_a_file_that_is_no_journal_is_still_to_be_moved_away(tuned: Path) -> None:
    (tuned / "journal.sqlite").write_bytes(b"this is no journal at all, whatever its name says" * 100)
    with pytest.raises(JournalError, match="move it away"):
        load_results(tuned)
    plan = plan_of(load_campaign(str(tuned.parent.parent / "small.yaml")))
    assert not is_complete(tuned, plan.document)


@pytest.mark.parametrize("foreign", [False, True])
def test_what_an_empty_or_foreign_file_is_called(foreign: bool, tuned: Path) -> None:
    path = tuned / "journal.sqlite"
    path.unlink()
    with sqlite3.connect(path) as database:
        database.execute("create table campaign (name text)" if foreign else "pragma user_version")
    path.touch()
    said = "not a journal of tiertune; move it away" if foreign else "the journal is empty"
    source, results = tuned.parent.parent / "small.yaml", ("--results", tuned.parent)
    refused = tiertune("report", "small", *results)
    assert refused.exit_code == 2, refused.stderr
    assert refused.stderr.startswith(f"tiertune: {path}: {said}")
    for command in ("tune", "explain"):
        planned = tiertune(command, source, "--dry-run", *results)
        assert planned.exit_code == (2 if foreign else 0), planned.stderr
        assert not foreign or said in planned.stderr
    shutil.copy(source, tuned / "campaign.yaml")
    shutil.copy(source.with_name("small-workload.yaml"), tuned)
    resumed = tiertune("resume", "small", *results)
    assert resumed.exit_code == (2 if foreign else 0), resumed.stderr
    assert not foreign or said in resumed.stderr
