"""The journal keeps the store contract; its schema and its refusals."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contracts.store import CELL, StoreContract, ok, start, trial
from tests.report.journal_example import write_journal
from tiertune.tuner import journal_schema
from tiertune.tuner.journal import Journal
from tiertune.tuner.journal_claim import JournalError, differences, settings_changed
from tiertune.tuner.journal_lock import is_held
from tiertune.tuner.trial import Status


class TestJournal(StoreContract):
    store = Journal


def test_every_store_has_a_contract_test() -> None:
    stores = {Journal, *Journal.__subclasses__()}
    assert {suite.store for suite in StoreContract.__subclasses__()} == stores


def test_a_finished_trial_survives_a_power_cut(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.sqlite") as journal:
        mode = journal._db.execute("pragma journal_mode").fetchone()[0]
        synchronous = journal._db.execute("pragma synchronous").fetchone()[0]
    assert (mode, synchronous) == ("wal", 2)  # 2 is FULL: the log is on the disk before commit returns


@pytest.mark.parametrize("version", range(journal_schema.VERSION))
def test_a_journal_of_every_older_version_is_brought_up_to_date(tmp_path: Path, version: int) -> None:
    path = tmp_path / "journal.sqlite"
    old = sqlite3.connect(path, isolation_level=None)
    steps, journal_schema.STEPS = journal_schema.STEPS, journal_schema.STEPS[:version]
    try:
        if version:
            journal_schema.migrate(old)
    finally:
        journal_schema.STEPS = steps
    old.close()
    with Journal(path) as journal:
        start(journal, trial(0))
        journal.finish(trial(0), ok(), 0.7)
        assert journal_schema.version_of(journal._db) == journal_schema.VERSION


def test_a_failed_migration_leaves_the_old_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.sqlite"
    Journal(path).close()
    broken = ("create table extra (id integer)", "this is no statement")
    monkeypatch.setattr(journal_schema, "STEPS", (*journal_schema.STEPS, broken))
    monkeypatch.setattr(journal_schema, "VERSION", journal_schema.VERSION + 1)
    with pytest.raises(JournalError, match="not a usable journal"):
        Journal(path)
    monkeypatch.undo()
    with Journal(path) as journal:
        assert journal_schema.version_of(journal._db) == journal_schema.VERSION
        assert journal._all("select 1 from sqlite_master where name = 'extra'") == []


def test_a_step_is_applied_to_a_journal_with_trials_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "journal.sqlite"
    with Journal(path) as journal:
        start(journal, trial(0))
        journal.finish(trial(0), ok(), 0.7)
    step = ("alter table trial add column note text not null default 'old'",)
    monkeypatch.setattr(journal_schema, "STEPS", (*journal_schema.STEPS, step))
    monkeypatch.setattr(journal_schema, "VERSION", journal_schema.VERSION + 1)
    with Journal(path, writer=False) as journal:
        assert [row["note"] for row in journal._all("select note from trial")] == ["old"]
    with sqlite3.connect(path) as database:  # a reader changes nothing
        assert journal_schema.version_of(database) == journal_schema.VERSION - 1
    with Journal(path) as journal:
        assert [row["note"] for row in journal._all("select note from trial")] == ["old"]
        assert journal.rows(CELL)[0].trial == trial(0)


def test_a_journal_of_the_future_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    Journal(path).close()
    with sqlite3.connect(path) as database:
        database.execute("update schema_version set version = 99")
    for writer in (True, False):
        with pytest.raises(JournalError, match=r"version 99.*update tiertune"):
            Journal(path, writer=writer)


def test_a_lock_says_whether_somebody_writes(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    assert not is_held(path)
    with Journal(path):
        assert is_held(path)
    assert not is_held(path)


def test_differences_name_every_leaf() -> None:
    before = {"a": 1, "b": {"c": [1, 2], "d": "x"}, "gone": True}
    after = {"a": 1, "b": {"c": [1, 3], "d": "x"}, "new": {"e": 2.5}}
    assert [str(change) for change in differences(before, after)] == [
        "b.c[1]: 2 -> 3",
        "gone: true -> nothing",
        "new.e: nothing -> 2.5",
    ]


GROUP = "workload.sim.streams.blocks[0].phases[0].groups[0].locked_per_op"


def cell(**parts: object) -> dict[str, object]:
    """A campaign document of one cell whose key has dots."""
    return {"cells": {"a/skx-numa/1:4.5/hemem": parts}}


def streams(**group: float) -> dict[str, object]:
    """A workload of one group."""
    return {"sim": {"streams": {"blocks": [{"phases": [{"groups": [{"ops": 1.0, **group}]}]}]}}}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (cell(default={"a": 1}), cell(default={"a": 1, "cooling_ends_at_newest": False}), []),
        (cell(default={"a": 1, "gone": 2}), cell(default={"a": 1}), []),
        (cell(default={"a": 1}), cell(default={"a": 2}), ["default.a: 1 -> 2"]),
        (cell(workload=streams()), cell(workload=streams(locked_per_op=0.0)), []),
        (cell(workload=streams(locked_per_op=0.0)), cell(workload=streams()), []),
        (
            cell(workload=streams()),
            cell(workload=streams(locked_per_op=0.5)),
            [f"{GROUP}: nothing -> 0.5"],
        ),
        (
            cell(space={"knobs": {"a": {"min": None}}}),
            cell(space={"knobs": {"a": {"min": None}, "b": {"min": None}}}),
            ['space.knobs (names): "a" -> "a b"'],
        ),
    ],
    ids=["new knob", "knob gone", "other default", "new key", "key gone", "key set", "knob searched"],
)
def test_what_only_one_version_knows_is_no_change(
    before: dict[str, object], after: dict[str, object], said: list[str]
) -> None:
    changes = settings_changed(before, after)
    assert [str(change).removeprefix("cells.a/skx-numa/1:4.5/hemem.") for change in changes] == said


def test_an_interrupted_trial_may_have_a_knob_more_only_at_its_default(tmp_path: Path) -> None:
    """As one has that a version with fewer knobs began."""
    began = trial(0, config={"read_hot_threshold": 8})
    fewer, same, other = (
        replace(began, system="hemem", config={**began.config, **more})
        for more in ({}, {"cooling_ends_at_newest": False}, {"cooling_ends_at_newest": True})
    )
    with Journal(tmp_path / "journal.sqlite") as journal:
        start(journal, fewer)
    with Journal(tmp_path / "journal.sqlite") as journal:
        with pytest.raises(ValueError, match="already interrupted"):
            start(journal, other)
        start(journal, same)
        (row,) = journal.rows()
        assert (row.status, row.attempt, row.trial) == (Status.RUNNING, 2, same)


def test_a_journal_damaged_inside_is_refused_in_words(tmp_path: Path) -> None:
    path = write_journal(tmp_path)
    with sqlite3.connect(path) as database:
        database.execute("pragma wal_checkpoint(truncate)")
        page_bytes = database.execute("pragma page_size").fetchone()[0]
    size = path.stat().st_size
    with path.open("r+b") as file:  # all but the schema
        file.seek(page_bytes)
        file.write(b"\xff" * (size - page_bytes))
    with pytest.raises(JournalError, match=rf"{path}.*move it away"), Journal(path, writer=False) as journal:
        journal.rows()


def test_an_empty_file_is_an_empty_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    path.touch()
    with pytest.raises(JournalError, match=rf"{path}: the journal is empty; .*fills it"):
        Journal(path, writer=False)
    with Journal(path) as journal, pytest.raises(JournalError, match="the journal is empty"):
        journal.claimed()


@pytest.mark.parametrize("table", ["campaign (name text)", "schema_version (version integer)"])
def test_a_database_of_others_is_no_journal_and_is_left_alone(tmp_path: Path, table: str) -> None:
    path = tmp_path / "journal.sqlite"
    with sqlite3.connect(path) as database:
        database.execute(f"create table {table}")
    before = path.read_bytes()
    for writer in (False, True):
        with pytest.raises(JournalError, match=rf"{path}: not a journal of tiertune; move it away"):
            Journal(path, writer=writer)
    assert path.read_bytes() == before


def test_a_journal_without_a_table_is_damaged(tmp_path: Path) -> None:
    path = write_journal(tmp_path)
    with sqlite3.connect(path) as database:
        database.execute("drop table stopped")
    with Journal(path, writer=False) as journal, pytest.raises(JournalError, match="the journal is damaged"):
        journal.stopped("a cell", 0)
