"""Results folders that earlier versions wrote still open.

`results/journal-N.sql` is the journal of one small campaign, run by the last commit whose journal had version
N (without timelines and most metrics, to keep it short); `history-N.sql` is the same of a suite's history. A
new version of either adds a file here, made by the code that it replaces.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from pathlib import Path

import pytest

from tests.cli.small import tiertune
from tiertune.files import InputError
from tiertune.tuner import journal_schema
from tiertune.tuner.nightly import history_schema
from tiertune.tuner.nightly.history import History

KEPT = Path(__file__).with_name("results")
VERDICT = "tuned is worse than default, 0.6259x its speed, 95 % interval 0.6256 to 0.6260"
TRIALS = 30


def versions(kind: str) -> list[int]:
    """Versions of which there is a file."""
    return sorted(int(path.stem.rpartition("-")[2]) for path in KEPT.glob(f"{kind}-*.sql"))


def restore(kind: str, version: int, path: Path) -> Path:
    """A database as it was written."""
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as database:
        database.executescript((KEPT / f"{kind}-{version}.sql").read_text(encoding="utf-8"))
    database.close()
    return path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with the campaign's workload."""
    (tmp_path / "workloads").mkdir()
    shutil.copy(KEPT / "small.yaml", tmp_path / "workloads")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def journal(place: Path, version: int) -> Path:
    path = restore("journal", version, place / "results/small/journal.sqlite")
    shutil.copy(KEPT / "campaign.yaml", path.parent)
    return path


def asked(path: Path, query: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as database:
        return database.execute(query).fetchall()


def test_there_is_a_file_of_every_version() -> None:
    assert versions("journal") == list(range(1, journal_schema.VERSION + 1))
    assert versions("history") == list(range(1, history_schema.VERSION + 1))


@pytest.mark.parametrize("version", versions("journal"))
def test_an_ended_campaign_is_reported_and_resumed(place: Path, version: int) -> None:
    path = journal(place, version)
    before = asked(path, "select id, config, cost, status from trial order by id")
    assert len(before) == TRIALS
    assert asked(path, "select version from schema_version") == [(version,)]
    for command in ("report", "resume"):
        done = tiertune(command, "small")
        assert done.exit_code == 0, done.stderr
        assert VERDICT in " ".join(done.stdout.split())
    assert re.search("<svg", (path.parent / "report.html").read_text(encoding="utf-8"))
    assert asked(path, "select id, config, cost, status from trial order by id") == before
    assert asked(path, "select version from schema_version") == [(journal_schema.VERSION,)]


@pytest.mark.parametrize("left", ["not begun", "interrupted"])
@pytest.mark.parametrize("origin", ["default", "winner"])
def test_a_campaign_that_an_old_version_left_unfinished_is_finished(
    place: Path, origin: str, left: str
) -> None:
    """Its default has a knob less than today's."""
    path = journal(place, 1)
    with sqlite3.connect(path) as database:
        last = f"(select max(id) from trial where origin = '{origin}')"
        database.execute(f"delete from metric where trial = {last}")
        database.execute(f"delete from decision where trial = {last}")
        if left == "interrupted":
            ended = "status = 'interrupted', cost = null, finished_at = null, wall_s = null"
            database.execute(f"update trial set {ended} where id = {last}")
        else:
            database.execute(f"delete from trial where id = {last}")
    done = tiertune("resume", "small")
    assert done.exit_code == 0, done.stderr
    assert asked(path, "select count(*), min(status), max(status) from trial") == [(TRIALS, "ok", "ok")]


@pytest.mark.parametrize("version", versions("history"))
def test_nights_go_on(tmp_path: Path, version: int) -> None:
    path = restore("history", version, tmp_path / "suite/history.sqlite")
    with History(path) as history:
        with pytest.raises(InputError, match="2026-01-05 was measured already"):
            history.begin("2026-01-04")
        history.begin("2026-01-06")
    assert asked(path, "select date from night order by date") == [("2026-01-05",), ("2026-01-06",)]
    assert asked(path, "pragma user_version") == [(history_schema.VERSION,)]


def test_a_history_of_the_future_is_refused(tmp_path: Path) -> None:
    path = restore("history", history_schema.VERSION, tmp_path / "suite/history.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("pragma user_version = 99")
    with pytest.raises(InputError, match=r"history version 99.*update tiertune"):
        History(path)
