"""The pages of a campaign with two objectives: neither is left out, before and after validation."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from dash import html

from tests.cli.small import tiertune
from tests.cli.test_objectives import write_two
from tests.explorer.test_pages import text_of
from tiertune.tuner.explorer.folder import Results
from tiertune.tuner.explorer.page import Page
from tiertune.tuner.explorer.routes import page_of
from tiertune.tuner.explorer.view import View
from tiertune.tuner.report.document import Cell, FrontPart, Report
from tiertune.tuner.report.figures.front import ends_of


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of one that is done."""
    folder = tmp_path_factory.mktemp("two")
    done = tiertune("tune", write_two(folder), "--results", folder / "results")
    assert done.exit_code == 0, done.stderr
    return folder / "results"


def cell_of(results: Path) -> tuple[Cell, FrontPart]:
    report = Report.model_validate_json((results / "small/report.json").read_text())
    (cell,) = report.cells
    assert cell.front is not None
    return cell, cell.front


def traces(figure: Any) -> dict[str, Any]:
    return {trace.name: trace for trace in figure.data}


def test_the_front_is_drawn_with_its_intervals_and_its_trials(results: Path) -> None:
    _, front = cell_of(results)
    page = page_of(View(Results(results)), "/campaign/small")
    drawn = traces(page.live["front"])
    points = drawn["on the front"]
    assert list(points.text) == [point.label for point in front.found]
    assert list(points.x) == pytest.approx([point.first.mean for point in front.found])
    size = 1024**3
    assert page.live["front"].layout.yaxis.title.text == "migrated (GiB), lower is better"
    assert list(points.y) == pytest.approx([point.second.mean / size for point in front.found])
    for point, above, below in zip(front.found, points.error_x.array, points.error_x.arrayminus, strict=True):
        low, high = ends_of(point.first)
        assert (above, below) == pytest.approx((high - point.first.mean, point.first.mean - low))
        assert low < high
    (default,) = [point for point in front.points if point.trial is None]
    assert list(drawn["default, validated"].x) == pytest.approx([default.first.mean])
    # The default's single run gives way to its mean.
    assert "default" not in drawn
    assert len(drawn["search trial"].x) == len(front.search) - 1
    assert "validation" not in page.live


def test_what_there_is_to_choose_from_leads_to_its_trials(results: Path) -> None:
    cell, front = cell_of(results)
    page = page_of(View(Results(results)), "/campaign/small")
    choice = text_of(page.live["choice"])
    for point in front.points:
        if point.trial is not None:
            assert f'"/campaign/small/1/trial/search/{point.trial}"' in choice
            assert point.reason in choice
    last = front.found[-1].second
    assert f"{last.ratio:.3f}x, {last.low:.3f} to {last.high:.3f}" in choice
    assert "runtime_s alone, the first of the two objectives" in text_of(page.body)
    band = [one.text for one in page.live["convergence"].layout.annotations]
    assert f"{front.name_of(cell.winner_trial)}, validated (95% interval)" in band
    gain = text_of(page_of(View(Results(results)), "/").body)
    assert f"{len(front.found)} configuration{'s' if len(front.found) > 1 else ''} to choose from" in gain
    assert f"migrated_bytes {front.found[0].second.ratio:.2f}x" in gain


def test_before_validation_both_objectives_of_the_search_are_there(results: Path, tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    path = tmp_path / "small/journal.sqlite"
    path.write_bytes((results / "small/journal.sqlite").read_bytes())
    with sqlite3.connect(path) as journal:
        journal.execute("PRAGMA foreign_keys = OFF")
        journal.execute("DELETE FROM trial WHERE purpose <> 'search'")
    view = View(Results(tmp_path))
    page = page_of(view, "/campaign/small")
    drawn = traces(page.live["front"])
    assert len(drawn["search trial"].x) == 15
    assert list(drawn["default"].x)
    assert "on the front" not in drawn
    assert "Nothing is validated yet" in text_of(page.body)
    assert set(page.live) == set(page_of(View(Results(results)), "/campaign/small").live)
    assert "in runtime_s alone in the search so far, not validated" in text_of(page_of(view, "/").body)


def test_tables_and_slices_have_the_second_metric(results: Path) -> None:
    _, front = cell_of(results)
    view = View(Results(results))
    trials = page_of(view, "/campaign/small/1/trials")
    rows = {row["id"]: row for row in trials.live["trials"]}
    for trial in front.search:
        assert rows[f"search/{trial.number}"]["second"] == trial.second
    for words in ("migrated (B)", "gain in runtime_s"):
        assert words in text_of(trials.body)
    knobs = page_of(view, "/campaign/small/1/knobs", "?y=-2")
    second = slice_of(knobs)
    assert second.layout.yaxis.title.text == "migrated (B)"
    assert slice_of(page_of(view, "/campaign/small/1/knobs")).layout.yaxis.title.text == "runtime (s)"
    labels = [one.label for one in knobs.live["coordinates"].data[0].dimensions]
    assert labels[-2:] == ["runtime_s", "migrated_bytes"]
    one = text_of(page_of(view, f"/campaign/small/1/trial/search/{front.search[0].number}").body)
    assert '"migrated_bytes"' in one
    memory = json.dumps(text_of(page_of(view, "/campaign/small/1/memory").body))
    assert "the one selected as best in runtime_s" in memory


def slice_of(page: Page) -> Any:
    return html.Div(page.body)["slice"].figure
