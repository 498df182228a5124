"""From a journal to a report: what it says, and the golden texts. `UPDATE_GOLDEN=1` rewrites those."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from pathlib import Path

import pytest
import yaml

from tests.cli.small import tiertune
from tests.report.example import example_report
from tests.report.journal_example import KEY, SEARCH_TRIALS, VALIDATION_SEEDS, runtime_s, write_journal
from tiertune import __version__
from tiertune.tuner.journal import Journal
from tiertune.tuner.report.data import build_report
from tiertune.tuner.report.document import Report
from tiertune.tuner.report.figures.convergence import convergence
from tiertune.tuner.report.files import write_configs
from tiertune.tuner.report.html import render_html
from tiertune.tuner.report.text import render_json, render_markdown
from tiertune.tuner.trial import Purpose

GOLDEN = Path(__file__).parents[1] / "golden"


def report_of(path: Path) -> Report:
    with Journal(path, writer=False) as journal:
        return build_report(journal)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return report_of(write_journal(tmp_path_factory.mktemp("finished")))


def check_golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    golden = path.read_text(encoding="utf-8")
    assert text == golden, f"{path} differs; UPDATE_GOLDEN=1 rewrites it"


def without_declarations(text: str) -> str:
    """Without versions and meanings, which change with releases and with the engine's declarations."""
    text = re.sub(r'"meaning": ".*?(?<!\\)"', '"meaning": "as declared"', text)
    return text.replace(f'"value": "{__version__}"', '"value": "VERSION"')


def test_json_is_golden(report: Report) -> None:
    check_golden("report.json", without_declarations(render_json(report)))


def test_markdown_is_golden(report: Report) -> None:
    check_golden("report.md", render_markdown(report))


def test_schema_is_golden() -> None:
    check_golden("report.schema.json", json.dumps(Report.model_json_schema(), indent=1) + "\n")


def test_json_is_read_back_as_the_same_report(report: Report) -> None:
    assert Report.model_validate_json(render_json(report)) == report


def test_equal_journals_give_equal_reports(tmp_path: Path, report: Report) -> None:
    assert report_of(write_journal(tmp_path)) == report


def test_the_verdict_is_that_of_validation(report: Report) -> None:
    (cell,) = report.cells
    assert report.complete
    assert cell.outcome == "improved"
    assert cell.effect is not None
    assert cell.effect.ratio == pytest.approx(1.25, rel=0.01)
    assert report.verdict == f"hemem on made-up: {cell.verdict}"
    assert "faster than default" in cell.verdict
    assert len(cell.validation) == VALIDATION_SEEDS
    assert {pair.seed for pair in cell.validation}.isdisjoint(trial.seed for trial in cell.search)
    for pair in cell.validation:
        assert pair.default is not None
        assert pair.tuned is not None
        assert pair.ratio == pytest.approx(pair.default / pair.tuned)


def test_no_gain_is_reported_as_none(tmp_path: Path) -> None:
    report = report_of(write_journal(tmp_path, gain=1.0))
    assert report.cells[0].outcome == "no-improvement"
    assert "no improvement found" in report.verdict
    assert report.cells[0].native_block
    assert "Best candidate, not an improvement" in render_markdown(report)
    assert "Best candidate, not an improvement" in render_html(report)
    assert "Paste into" not in render_html(report)


def test_a_campaign_that_is_still_running_says_so(tmp_path: Path) -> None:
    report = report_of(write_journal(tmp_path, until="search"))
    assert not report.complete
    (cell,) = report.cells
    assert cell.outcome == "not-validated"
    assert cell.effect is None
    assert cell.knobs == []
    assert cell.native_block == ""
    assert "has not finished" in render_markdown(report)


def test_every_trial_is_there_failed_ones_too(report: Report) -> None:
    (cell,) = report.cells
    assert [trial.number for trial in cell.search] == list(range(SEARCH_TRIALS))
    assert {trial.number: trial.status for trial in cell.search if trial.value is None} == {
        3: "crashed",
        7: "timeout",
    }
    assert cell.statuses == {"ok": 10 + 24 + 10, "crashed": 1, "timeout": 1}
    for trial in cell.search:
        if trial.value is not None:
            assert trial.value == pytest.approx(runtime_s(trial.config, trial.seed, 1.25))


def test_best_so_far_only_falls_when_less_is_better(report: Report) -> None:
    best = [trial.best_so_far for trial in report.cells[0].search]
    values = [trial.value for trial in report.cells[0].search]
    for number, so_far in enumerate(best):
        known = [value for value in values[: number + 1] if value is not None]
        assert so_far == pytest.approx(min(known))


def test_knobs_show_default_tuned_and_native_name(report: Report) -> None:
    (cell,) = report.cells
    by_name = {knob.name: knob for knob in cell.knobs}
    assert [knob.name for knob in cell.knobs if knob.searched] == [
        "read_hot_threshold",
        "migration_period_ms",
    ]
    hot = by_name["read_hot_threshold"]
    assert (hot.default, hot.tuned, hot.changed, hot.native_name) == (8, 2, True, "HOT_READ_THRESHOLD")
    assert hot.tuned_position == pytest.approx(1 / 6)
    assert "#define HOT_READ_THRESHOLD        (2UL)" in cell.native_block
    assert not by_name["sampling_period"].changed


def test_notes_and_environment_come_from_the_journal(report: Report) -> None:
    (cell,) = report.cells
    assert cell.id == KEY
    assert cell.workload_notes == ["scaled by 2", "assumed <nothing>"]
    facts = {fact.name: fact.value for fact in report.environment}
    assert facts["host name"] == "testhost"
    assert facts["git commit"] == "0123abcd"
    assert facts["git modified"] == "no"
    assert not any("notes of" in name for name in facts)
    assert report.reproduce[0] == "git checkout 0123abcd"


def test_both_timelines_are_of_the_same_seed(report: Report) -> None:
    runs = report.cells[0].timelines
    assert [run.role for run in runs] == ["default", "tuned"]
    assert len({run.seed for run in runs}) == 1


def test_the_winner_is_a_config_file_and_no_winner_is_none(tmp_path: Path) -> None:
    report = example_report(2)
    (tmp_path / "tuned").mkdir()
    (tmp_path / "tuned/stale.yaml").write_text("read_hot_threshold: 3\n")
    (written,) = write_configs(tmp_path, report)
    assert list((tmp_path / "tuned").iterdir()) == [written]
    text = written.read_text()
    assert text.startswith(f"# {report.cells[0].verdict}\n# Campaign example: hemem for bc-kron on ")
    assert "\nread_hot_threshold: 1  # default 8\n" in text
    assert "\ncooling_threshold: 18\n" in text
    # The example has a knob that no system has; `--config` would refuse it.
    given = yaml.safe_load(text)
    assert given == {knob.name: knob.tuned for knob in report.cells[0].knobs}


def test_the_search_is_drawn_from_whole_runs(report: Report) -> None:
    cell = report.cells[0]
    best = min(trial.value for trial in cell.search if trial.value is not None)
    short = cell.search[-1].model_copy(update={"value": best / 10, "status": "ok", "fidelity": 0.25})
    drawn = convergence(cell.model_copy(update={"search": [*cell.search[:-1], short]}), "part")
    assert "Not drawn: 1 of a part of the workload only." in drawn
    assert f"{best / 10:.4g}" not in drawn
    whole = short.model_copy(update={"fidelity": 1.0})
    drawn = convergence(cell.model_copy(update={"search": [*cell.search[:-1], whole]}), "whole")
    assert f"{best / 10:.4g}" in drawn


@pytest.mark.parametrize(
    ("done", "said"),
    [
        (0, "searching: 0 of 12 trials so far"),
        (1, "searching: 1 of 12 trials so far"),
        (7, "searching: 7 of 12 trials so far"),
        (12, "not validated: 0 of 24 selection runs have ended so far"),
    ],
)
def test_a_search_that_goes_on_has_no_verdict(tmp_path: Path, done: int, said: str) -> None:
    path = write_journal(tmp_path, until="search")
    with sqlite3.connect(path) as database:
        database.execute(
            "delete from decision where trial in (select id from trial where number > ?)", (done,)
        )
        database.execute("delete from trial where number > ?", (done,))
        database.execute("update trial set status = 'running', cost = null where number = ?", (done,))
    report = report_of(path)
    assert report.verdict == f"hemem on made-up: {said}"
    assert report.cells[0].outcome == "not-validated"
    assert not report.complete


def test_a_report_before_the_end_says_so(tmp_path: Path) -> None:
    cases: tuple[tuple[Purpose, bool], ...] = (("search", True), ("validation", False))
    for until, wanted in cases:
        write_journal(tmp_path / until, until=until)
        said = tiertune("report", until, "--results", tmp_path).stdout
        assert ("not finished: this is what its journal holds so far" in said) == wanted
