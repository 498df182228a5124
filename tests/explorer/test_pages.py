"""Every address is a page; what cannot be shown is a sentence."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.explorer.made import NAME, campaign, made
from tests.report import journal_example
from tiertune.tuner.explorer.folder import Results
from tiertune.tuner.explorer.page import Page
from tiertune.tuner.explorer.routes import page_of, stamp_of
from tiertune.tuner.explorer.server import make_app
from tiertune.tuner.explorer.view import View
from tiertune.tuner.nightly.history import Followed, History
from tiertune.tuner.trial import Measurement, Status


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> View:
    """Read only."""
    return made(tmp_path_factory.mktemp("explored"))


def text_of(body: Any) -> str:
    """The page as the browser gets it."""
    from plotly.utils import PlotlyJSONEncoder

    return json.dumps(body, cls=PlotlyJSONEncoder, ensure_ascii=False)


@pytest.mark.parametrize(
    ("path", "title", "words"),
    [
        ("/", "Campaigns", [NAME, "complete", "46 of 46"]),
        (
            f"/campaign/{NAME}",
            f"progress · {NAME}",
            ["tuned is 1.2", "read_hot_threshold", "12 of 12 trials, 2 failed"],
        ),
        (f"/campaign/{NAME}/1/trials", f"trials · {NAME}", ["timeout", "knob read_hot_threshold"]),
        (f"/campaign/{NAME}/1/knobs", f"knobs · {NAME}", ["parcoords", f"tiertune explain {NAME}"]),
        (f"/campaign/{NAME}/1/memory", f"memory · {NAME}", ["fast-tier hits", "tuned"]),
        (
            f"/campaign/{NAME}/1/trial/search/3",
            f"search 3 · {NAME}",
            ["said <crashed> & stopped", "by formula"],
        ),
        (
            f"/campaign/{NAME}/1/trial/validation/0",
            f"validation 0 · {NAME}",
            ["Over simulated time", "default"],
        ),
        (f"/comparison/{NAME}", f"Comparison {NAME}", ["hemem ranks first", "heatmap"]),
        (f"/transfer/{NAME}", f"Transfer test {NAME}", ["it carries", "heatmap"]),
        (f"/transfer/{NAME}/along-ratio", f"Transfer test {NAME}/along-ratio", ["1:2 to 1:16"]),
    ],
)
def test_pages(view: View, path: str, title: str, words: list[str]) -> None:
    page = page_of(view, path)
    assert page.title == title, text_of(page.body)
    shown = text_of(page.body)
    for word in words:
        assert word in shown


@pytest.mark.parametrize("last", ["memory", "trial/validation/0"])
def test_runs_on_hosts_are_not_called_simulated(tmp_path: Path, last: str) -> None:
    path = campaign(tmp_path / NAME)
    with closing(sqlite3.connect(path)) as database, database:
        (text,) = database.execute("select document from campaign").fetchone()
        document = json.loads(text)
        document["campaign"]["live"] = list(document["cells"])
        database.execute("update campaign set document = ?", (json.dumps(document),))
    shown = text_of(page_of(View(Results(tmp_path)), f"/campaign/{NAME}/1/{last}").body)
    assert "Over the run" in shown
    assert '"time (s)"' in shown
    assert "simulated" not in shown


def test_knobs_of_an_address_are_shown(view: View) -> None:
    two = page_of(view, f"/campaign/{NAME}/1/knobs", "?x=migration_period_ms&y=read_hot_threshold")
    one = page_of(view, f"/campaign/{NAME}/1/knobs", "?x=no-such-knob")
    assert axes(two) == ("migration period ms", "read hot threshold")
    assert axes(one)[0] in ("read hot threshold", "migration period ms")
    assert axes(one)[1] == "runtime (s)"


def axes(page: Page) -> tuple[str, str]:
    """What the slice is over."""
    from dash import html

    layout = html.Div(page.body)["slice"].figure.layout
    return layout.xaxis.title.text, layout.yaxis.title.text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/campaign/nobody", "there is no campaign 'nobody'"),
        ("/campaign/made-upp", f"did you mean '{NAME}'"),
        (f"/campaign/{NAME}/2", "has no cell 2; they are 1 to 1"),
        (f"/campaign/{NAME}/x", "has no cell x"),
        (f"/campaign/{NAME}/1/trial/search/99", "no search trial 99"),
        (f"/campaign/{NAME}/1/trial/guess/0", "is no trial"),
        (f"/campaign/{NAME}/1/trial/search/{'9' * 30}", "is no trial"),
        (f"/campaign/{NAME}/1/trial/search/٣", "is no trial"),
        (f"/campaign/{NAME}/1/nothing", "there is no page"),
        ("/comparison/nobody", "there is no comparison"),
        ("/nights/nobody", "no nights of a suite"),
        ("/campaign/..%2f..%2fetc", "there is no campaign"),
    ],
)
def test_addresses_that_lead_nowhere_say_so(view: View, path: str, words: str) -> None:
    page = page_of(view, path)
    assert page.title == "Not shown"
    assert words in text_of(page.body)


def test_an_empty_folder_says_what_to_do(tmp_path: Path) -> None:
    assert "tiertune demo" in text_of(page_of(View(Results(tmp_path)), "/").body)


def test_a_campaign_that_grows_changes_its_stamp_and_its_parts(tmp_path: Path) -> None:
    view = View(Results(tmp_path))
    campaign(tmp_path / NAME, until="search")
    path = f"/campaign/{NAME}"
    stamps = {address: stamp_of(view, address) for address in ("/", path)}
    before = page_of(view, path).live
    (tmp_path / NAME / "journal.sqlite").unlink()
    campaign(tmp_path / NAME)
    after = page_of(view, path).live
    assert set(before) == set(after)
    assert "nothing" not in text_of(after["verdict"])
    assert text_of(before["verdict"]) != text_of(after["verdict"])
    assert len(before["validation"].data[0].x) < len(after["validation"].data[0].x)
    for address, stamp in stamps.items():
        assert stamp_of(view, address) != stamp
    (tmp_path / NAME / "journal.sqlite").unlink()
    assert page_of(view, path).title == "Not shown"


def test_an_explanation_that_is_made_meanwhile_is_shown(tmp_path: Path) -> None:
    view = made(tmp_path)
    path = f"/campaign/{NAME}/1/knobs"
    before, stamp = page_of(view, path), stamp_of(view, path)
    assert f"tiertune explain {NAME}" in text_of(before.live["explained"])
    cell: dict[str, Any] = {
        "cell": journal_example.KEY,
        "verdict": "one knob is enough",
        "lines": [],
        "grid": None,
    }
    (tmp_path / NAME / "explain").mkdir()
    (tmp_path / NAME / "explain" / "explain.json").write_text(json.dumps({"cells": [cell]}))
    assert stamp_of(view, path) != stamp
    after = page_of(view, path)
    assert set(after.live) == set(before.live)
    assert "one knob is enough" in text_of(after.live["explained"])


def test_nights_show_their_series(tmp_path: Path) -> None:
    path = tmp_path / "nightly" / "mine" / "history.sqlite"
    with History(path) as history:
        history.follow(Followed("k", "performance", "w", "c", "default of w", "runtime_s", "minimize"))
        for night, cost in (("2026-01-01", 0.0), ("2026-01-02", 0.1)):
            history.begin(night)
            history.add_run(night, "k", 1, Measurement(Status.OK, {"runtime_s": 1.0}), cost)
    before = path.read_bytes()
    view = View(Results(tmp_path))
    shown = text_of(page_of(view, "/nights/mine").body)
    assert "default of w" in shown
    assert "2 nights" in shown
    # A page that is open shows it, too: the list is a part that follows the folder.
    assert "/nights/mine" in text_of(page_of(view, "/").live["links"])
    assert path.read_bytes() == before


def test_files_of_another_form_are_a_sentence(tmp_path: Path) -> None:
    view = made(tmp_path)
    (tmp_path / NAME / "comparison.json").write_text('{"verdict": "cut')
    assert "makes it again" in text_of(page_of(view, f"/comparison/{NAME}").body)
    (tmp_path / NAME / "comparison.json").write_text("{}")
    assert "another form" in text_of(page_of(view, f"/comparison/{NAME}").body)


def test_the_application_loads_nothing_from_elsewhere(view: View) -> None:
    client = make_app(view.results).server.test_client()
    index = client.get("/").text
    assert '<html lang="en">' in index
    sources = [part.split('"')[0] for mark in ('src="', 'href="') for part in index.split(mark)[1:]]
    assert len(sources) > 5
    assert all(source.startswith("/") for source in sources), sources
    assert client.get("/assets/explorer.css").status_code == 200


def test_pages_answer_to_names_of_this_machine_alone(view: View) -> None:
    client = make_app(view.results).server.test_client()
    for host in ("127.0.0.1:8050", "localhost:8050", "[::1]:8050", "localhost"):
        assert client.get("/", headers={"Host": host}).status_code == 200, host
    for host in ("evil.example", "[::2]:8050", "127.0.0.1.evil.example:8050", "localhost.evil.example"):
        for path in ("/", "/assets/explorer.css", f"/mlflow/{NAME}/1/search/0"):
            assert client.get(path, headers={"Host": host}).status_code == 400, (host, path)
        asked = client.post("/_dash-update-component", json={}, headers={"Host": host})
        assert asked.status_code == 400
    open_to_all = make_app(view.results, local=False).server.test_client()
    assert open_to_all.get("/", headers={"Host": "rack7.example:8050"}).status_code == 200


def test_the_page_has_the_colours_of_reports_before_its_sheet(view: View) -> None:
    client = make_app(view.results).server.test_client()
    sheet = client.get("/assets/explorer.css").text
    used = set(re.findall(r"var\(--([a-z-]+)", sheet))
    for page in (client.get("/").text, client.get(f"/mlflow/{NAME}/1/search/0").text):
        assert used <= set(re.findall(r"--([a-z-]+): ?#", page[: page.index("/assets/explorer.css")]))


def test_trials_that_are_not_tracked_say_so(view: View) -> None:
    client = make_app(view.results).server.test_client()
    answer = client.get(f"/mlflow/{NAME}/1/search/0")
    assert answer.status_code == 404
    assert "is not tracked" in answer.text
    assert "no search trial 9999" in client.get(f"/mlflow/{NAME}/1/search/{'9' * 30}").text
    assert "no cell 7" in client.get(f"/mlflow/{NAME}/7/search/0").text
    assert "&lt;" in client.get("/mlflow/<script>/1/search/0").text
