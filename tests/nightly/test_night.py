"""What a night does when there is not enough of it: budgets, windows, locks, files that change."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.figures import check_figures
from tests.cli.small import tiertune
from tests.nightly.two import night, slow_down, write_two
from tiertune.tuner import journal
from tiertune.tuner.nightly.history import History
from tiertune.tuner.nightly.lock import Busy, NightLock

ONE = "campaigns:\n  - {campaign: ./tiered.yaml%s}\npanel: {seeds: 3}\ntracking: {mlflow: false}\n"


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = write_two(tmp_path)
    path.write_text("name: two\n" + ONE % "")
    return path


def finished(results: Path, name: str) -> int:
    with closing(sqlite3.connect(results / name / "journal.sqlite")) as store:
        return int(store.execute("select count(*) from trial where status = 'ok'").fetchone()[0])


def test_a_search_goes_on_where_its_budget_ended(
    suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    suite.write_text("name: two\n" + ONE % ", trials: 30")
    results = tmp_path / "results"
    code, first = night(tmp_path, suite, "2026-11-01")
    assert (code, first["outcome"], first["done"]) == (0, "fine", [])
    assert "its budget of 30 trials a night is spent" in first["goes_on"][0]["why"]
    # Those in flight and the one that was started meanwhile end, too.
    assert 30 <= finished(results, "two-tiered-r1") <= 33
    code, second = night(tmp_path, suite, "2026-11-02")
    assert [one["why"] for one in second["done"]] == ["round 1 is complete: two-tiered-r1"]
    assert finished(results, "two-tiered-r1") == 42
    # The same night again finds nothing left to do.
    command = ("nightly", suite, "--date", "2026-11-02", "--results", results)
    page = results / "nightly/two/2026-11-02/digest.html"
    again = check_figures(command, page, tmp_path / "figures", monkeypatch)
    assert [one["why"] for one in again["done"]] == ["round 1 ended tonight"]
    assert again["figures"] == second["figures"]
    assert not (results / "two-tiered-r2").exists()


def test_a_night_that_goes_on_has_no_second_budget(suite: Path, tmp_path: Path) -> None:
    suite.write_text("name: two\n" + ONE % ", trials: 10")
    _, first = night(tmp_path, suite, "2026-11-01")
    ended = finished(tmp_path / "results", "two-tiered-r1")
    code, again = night(tmp_path, suite, "2026-11-01")
    assert finished(tmp_path / "results", "two-tiered-r1") == ended
    assert (code, again["goes_on"]) == (0, first["goes_on"])
    night(tmp_path, suite, "2026-11-02")
    assert finished(tmp_path / "results", "two-tiered-r1") >= ended + 10


def test_a_round_whose_files_changed_is_given_up(suite: Path, tmp_path: Path) -> None:
    suite.write_text("name: two\n" + ONE % ", trials: 4")
    night(tmp_path, suite, "2026-11-01")
    slow_down(tmp_path, "tiered", 0.001)
    _, second = night(tmp_path, suite, "2026-11-02")
    (told,) = second["done"]
    assert told["why"].startswith("round 1 was given up: its files changed since it began")
    assert "round 2" in second["goes_on"][0]["why"]


def test_outside_its_window_a_night_says_what_it_did_not_measure(suite: Path, tmp_path: Path) -> None:
    begin, end = (f"{datetime.now() + timedelta(hours=hours):%H:%M}" for hours in (2, 3))
    text = f'name: two\nwindow: {{begin: "{begin}", end: "{end}"}}\n' + ONE % ""
    suite.write_text(text)
    code, digest = night(tmp_path, suite, "2026-11-01")
    assert (code, digest["outcome"], digest["figures"]) == (5, "incomplete", [])
    said = {one["what"]: one["why"] for one in digest["not_measured"]}
    assert "the window closed 3 runs too early" in said["panel: tiered, skx-numa, 1:4, memtis, default"]
    assert "before its turn" in said["search"]
    suite.write_text(text + "search: false\n")
    code, anyway = night(tmp_path, suite, "2026-11-01", "--any-time")
    assert (code, anyway["outcome"]) == (0, "fine")


def test_a_campaign_that_cannot_run_does_not_cost_the_others_their_night(suite: Path, tmp_path: Path) -> None:
    suite.write_text("name: two\n" + ONE % "}\n  - {campaign: ./steady.yaml, trials: 1")
    (tmp_path / "results/two-tiered-r1").mkdir(parents=True)
    (tmp_path / "results/two-tiered-r1/journal.sqlite").write_text(
        "no journal at all, but long enough to look" * 40
    )
    code, digest = night(tmp_path, suite, "2026-11-01")
    assert (code, digest["outcome"]) == (5, "incomplete")
    (told,) = digest["not_measured"]
    assert told["campaign"] == "tiered"
    assert "not a usable journal" in told["why"]
    assert "budget of 1 trials" in digest["goes_on"][0]["why"]


def test_nights_go_forward_only(suite: Path, tmp_path: Path) -> None:
    with History(tmp_path / "results/nightly/two/history.sqlite") as history:
        history.begin("2026-11-02")
    refused = tiertune("nightly", suite, "--date", "2026-11-01", "--results", tmp_path / "results")
    assert refused.exit_code == 2
    assert "2026-11-02 was measured already; the nearest valid date is 2026-11-02" in refused.stderr
    refused = tiertune("nightly", suite, "--date", "2026-13-01")
    assert refused.exit_code == 2
    assert "--date 2026-13-01: is no date" in refused.stderr


def test_hosts_are_looked_at_before_a_night_begins(suite: Path, tmp_path: Path) -> None:
    refused = tiertune("nightly", suite, "--here", "first", "--results", tmp_path / "results")
    assert refused.exit_code == 2
    assert "is neither auto nor two memory nodes" in refused.stderr
    refused = tiertune("nightly", suite, "--container", "first", "--results", tmp_path / "results")
    assert refused.exit_code == 2
    assert "--container: 'first' is neither auto nor memory nodes" in refused.stderr
    refused = tiertune("nightly", suite, "--hosts", "no.yml", "--results", tmp_path / "results")
    assert refused.exit_code == 2


@pytest.mark.parametrize("option", ["--here", "--container"])
def test_a_campaign_that_says_nothing_of_hosts_is_not_measured_live(
    suite: Path, tmp_path: Path, option: str
) -> None:
    code, digest = night(tmp_path, suite, "2026-11-01", option, "0,1")
    assert (code, digest["outcome"]) == (5, "incomplete")
    assert {one["what"] for one in digest["not_measured"]} == {"panel", "search"}
    said = f"{option}: no workload of this campaign says how it runs on a host"
    assert all(said in one["why"] for one in digest["not_measured"])


def test_one_night_runs_at_a_time(suite: Path, tmp_path: Path) -> None:
    place = tmp_path / "results/nightly/lock"
    with NightLock(place, "other"):
        refused = tiertune("nightly", suite, "--results", tmp_path / "results")
        assert refused.exit_code == 5
        assert f"suite other, process {os.getpid()} on" in refused.stderr
        assert "one runs at a time" in refused.stderr
        with pytest.raises(Busy):
            NightLock(place, "two")
    assert place.read_text() == ""


def test_a_lock_that_was_left_is_taken_and_told(tmp_path: Path) -> None:
    place = tmp_path / "lock"
    left = {
        "suite": "old",
        "host": "elsewhere",
        "process": 7,
        "since_s": time.time() - 7500,
        "moved_s": time.time(),
    }
    place.write_text(json.dumps(left))
    with pytest.raises(Busy, match="process 7 on elsewhere, since 2 h 5 min"):
        NightLock(place, "two")
    place.write_text(json.dumps({**left, "moved_s": time.time() - 1000}))
    with NightLock(place, "two") as lock:
        assert lock.left_by is not None
        assert lock.left_by.process == 7


def test_dry_run_says_what_is_due_and_writes_nothing(suite: Path, tmp_path: Path) -> None:
    said = tiertune("nightly", suite, "--dry-run", "--json", "--results", tmp_path / "results")
    described = json.loads(said.stdout)
    assert described["campaigns"] == [
        {
            "campaign": "tiered",
            "priority": 1,
            "panel_runs": 3,
            "round": 1,
            "goes_on": False,
            "trials_a_night": None,
            "minutes_a_night": None,
        }
    ]
    assert not (tmp_path / "results").exists()


def test_what_ended_before_a_night_began_is_none_of_its_trials(tmp_path: Path) -> None:
    with History(tmp_path / "history.sqlite") as history:
        before = journal._now()
        time.sleep(0.002)  # one is of the same second, nearly always
        history.begin("2026-11-01")
        time.sleep(0.002)
        began, _ = history.times("2026-11-01")
        assert before < began < journal._now()
