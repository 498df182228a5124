"""What a results folder holds, and how pages notice changes without ever touching a campaign."""

from __future__ import annotations

import fcntl
import sqlite3
from pathlib import Path

import pytest

from tests.explorer.made import NAME, campaign, made
from tiertune.files import InputError
from tiertune.tuner.explorer.campaign import campaign_state
from tiertune.tuner.explorer.folder import JOURNAL, stamp
from tiertune.tuner.explorer.running import is_running
from tiertune.tuner.journal import Journal


def test_everything_is_found_by_name(tmp_path: Path) -> None:
    results = made(tmp_path).results
    assert results.campaigns() == [NAME]
    assert results.comparisons() == [NAME]
    assert results.transfers() == [NAME, f"{NAME}/along-ratio"]
    assert results.transfer(f"{NAME}/along-ratio")["studies"] == []
    assert results.suites() == []
    assert results.explanation(NAME) is None
    with pytest.raises(InputError, match=f"did you mean '{NAME}'"):
        results.journal("made-upp")


@pytest.mark.parametrize("name", ["..", "../made-up", "/etc", ".", ""])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    inner = tmp_path / "inner"
    results = made(inner).results
    campaign(tmp_path)
    campaign(tmp_path / "made-up")
    for ask in (results.journal, results.comparison, results.transfer, results.history):
        with pytest.raises(InputError):
            ask(name)


def test_a_stamp_changes_with_every_trial(tmp_path: Path) -> None:
    path = campaign(tmp_path / NAME)
    before = stamp(path)
    assert stamp(path) == before
    seen = [before]
    with Journal(path) as journal:
        for number in range(20):  # faster than the file system's clock ticks
            journal.environment({"number": number})
            seen.append(stamp(path))
    assert len(set(seen)) == 21


def test_a_campaign_runs_while_its_lock_is_held_and_looking_takes_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = campaign(tmp_path / NAME)
    assert not is_running(path)
    with Journal(path):
        # As the campaign's second start would find out: by trying. A page must not.
        monkeypatch.setattr(fcntl, "flock", lambda *_: pytest.fail("the page tried the lock"))
        assert is_running(path)
        assert campaign_state(path.parent).state == "running"
    assert not is_running(path)
    assert not is_running(tmp_path / "gone" / JOURNAL)


def test_a_lock_of_another_file_with_that_number_is_not_ours(tmp_path: Path) -> None:
    path = campaign(tmp_path / NAME)
    lock = path.with_name(path.name + ".lock")
    lock.write_text("process 41\n")
    table = tmp_path / "locks"
    line = f"1: FLOCK  ADVISORY  WRITE 41 00:2e:{lock.stat().st_ino} 0 EOF\n"
    table.write_text(line)
    assert is_running(path, table)
    table.write_text(line.replace(" 41 ", " 42 "))
    assert not is_running(path, table)
    table.write_text(line.replace("FLOCK", "POSIX"))
    assert not is_running(path, table)


def test_states(tmp_path: Path) -> None:
    whole = campaign(tmp_path / "whole")
    assert campaign_state(whole.parent).state == "complete"
    (cell,) = campaign_state(whole.parent).cells
    assert (cell.done, cell.planned, cell.failed) == (46, 46, 2)
    assert (cell.system, cell.workload, cell.ratio, cell.phase) == ("hemem", "made-up", "1:8", "judged")
    assert cell.effect is not None
    assert cell.effect.improved
    searching = campaign_state(campaign(tmp_path / "half", until="search").parent)
    assert searching.state == "stopped"
    assert (searching.done, searching.planned) == (12, 12 + 4 * 6 + 2 * 5)
    assert searching.cells[0].phase == "selection"
    assert searching.cells[0].found == pytest.approx(1.25, rel=0.02)


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "gone", "no campaign", "other form"])
def test_a_journal_that_cannot_be_read_is_a_sentence(tmp_path: Path, damage: str) -> None:
    path = campaign(tmp_path / NAME)
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "text":
        path.write_text("not a journal" * 100)
    elif damage == "cut":
        path.write_bytes(path.read_bytes()[:6000])
    elif damage == "gone":
        path.unlink()
    elif damage == "no campaign":
        path.unlink()
        Journal(path).close()
    else:
        with sqlite3.connect(path) as database:
            database.execute("update campaign set document = '{}'")
    state = campaign_state(path.parent)
    assert state.state == "unreadable"
    assert str(path.parent) in state.problem
    assert (damage == "gone") == (not path.exists()), "looking made a file"
