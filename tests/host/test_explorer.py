"""`tiertune ui` in a browser: a finished campaign, and one that runs meanwhile."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.small import tiertune, write_small
from tests.cli.test_objectives import write_two
from tests.host.browser.page import DESKTOP, PHONE, Watched, browser, page

pytestmark = [pytest.mark.host, pytest.mark.timeout(600)]

__all__ = ["browser", "page"]

COMMAND = Path(sys.executable).with_name("tiertune")
PATIENCE_MS = 60_000
TOOLKIT = "dash-dropdown-focus-target"
"""Dash's list of choices hides an element from screen readers that the keyboard can reach: its own way of
noticing focus. Nothing else may be wrong."""


@dataclass(frozen=True)
class Explored:
    """A results folder and where its pages are."""

    results: Path
    url: str


@pytest.fixture(scope="module")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Explored]:
    """A tracked campaign and one with two objectives, tuned by the command, and the pages over them."""
    folder = tmp_path_factory.mktemp("explored")
    campaign = write_small(folder)
    campaign.write_text(campaign.read_text().replace("mlflow: false", "mlflow: true"))
    results = folder / "results"
    import mlflow  # noqa: F401 - takes longer on a busy machine than the mirror waits for it

    assert tiertune("tune", campaign, "--results", results).exit_code == 0
    (folder / "two").mkdir()
    two = write_two(folder / "two")
    two.write_text(two.read_text().replace("name: small", "name: both", 1))
    assert tiertune("tune", two, "--results", results).exit_code == 0
    with serving(results) as url:
        yield Explored(results, url)


@contextmanager
def serving(results: Path) -> Iterator[str]:
    """The address of the pages; Ctrl-C ends them without a word."""
    command = [COMMAND, "ui", "--results", results, "--port", "0", "--json"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as running:  # type: ignore[call-overload]
        yield str(json.loads(running.stdout.readline())["url"]).rstrip("/")
        running.send_signal(signal.SIGINT)
        assert running.wait(120) == 0
        assert running.stderr.read() == ""


def visit(page: Watched, address: str) -> None:
    page.page.goto(address)
    page.page.wait_for_selector("main h1", timeout=PATIENCE_MS)


@pytest.mark.parametrize(
    ("path", "title", "figures"),
    [
        ("/", "Campaigns", 0),
        ("/campaign/small", "progress · small", 2),
        ("/campaign/small/1/trials", "trials · small", 0),
        ("/campaign/small/1/knobs", "knobs · small", 2),
        ("/campaign/small/1/memory", "memory · small", 1),
        ("/campaign/small/1/trial/validation/0", "validation 0 · small", 1),
        ("/campaign/both", "progress · both", 2),
        ("/campaign/both/1/knobs?y=-2", "knobs · both", 2),
        ("/campaign/nobody", "Not shown", 0),
    ],
)
def test_pages_are_whole_on_desk_and_phone(
    explored: Explored, page: Watched, path: str, title: str, figures: int
) -> None:
    visit(page, explored.url + path)
    if figures:
        page.page.wait_for_function(
            f"document.querySelectorAll('figure .js-plotly-plot .main-svg').length >= {figures}",
            timeout=PATIENCE_MS,
        )
    if path.endswith("trials"):
        page.page.wait_for_selector(".ag-row a", timeout=PATIENCE_MS)
    assert page.page.title() == f"{title} · tiertune"
    assert page.page.locator("figure").count() >= figures
    assert [line for line in page.accessibility() if TOOLKIT not in line] == []
    for size in (DESKTOP, PHONE):
        page.page.set_viewport_size(size)
        # Figures follow the window with a delay.
        fits = "document.documentElement.scrollWidth <= document.documentElement.clientWidth + 1"
        page.page.wait_for_function(fits, timeout=PATIENCE_MS)
    assert page.complaints == []


def test_the_page_in_the_dark_can_be_read(explored: Explored, page: Watched) -> None:
    page.page.emulate_media(color_scheme="dark")
    for path in (
        "/campaign/small",
        "/campaign/small/1/trials",
        "/campaign/small/1/knobs",
        "/campaign/both",
    ):
        visit(page, explored.url + path)
        page.page.wait_for_selector(".ag-row a, .js-plotly-plot .main-svg", timeout=PATIENCE_MS)
        assert [line for line in page.accessibility() if TOOLKIT not in line] == []


def test_trials_sort_and_filter(explored: Explored, page: Watched) -> None:
    visit(page, f"{explored.url}/campaign/small/1/trials")
    grid = page.page
    grid.wait_for_selector(".ag-row a", timeout=PATIENCE_MS)

    def column(name: str) -> list[str]:
        script = """name => {
            const place = cell => Number(cell.closest('.ag-row').getAttribute('row-index'));
            const cells = [...document.querySelectorAll(`.ag-row .ag-cell[col-id="${name}"]`)];
            return cells.sort((a, b) => place(a) - place(b)).map(cell => cell.textContent);
        }"""
        return list(grid.evaluate(script, name))

    assert column("trial")[0] == "search 00"
    grid.click('.ag-header-cell[col-id="value"] .ag-header-cell-label')
    grid.wait_for_selector('.ag-header-cell[col-id="value"][aria-sort="ascending"]', timeout=PATIENCE_MS)
    values = [float(text) for text in column("value") if text]
    assert len(values) > 10
    assert values == sorted(values)
    grid.click('.ag-header-cell[col-id="origin"] .ag-header-cell-filter-button')
    grid.fill(".ag-filter input[type=text]", "winner")
    grid.wait_for_function(
        """() => [...document.querySelectorAll('.ag-row .ag-cell[col-id="origin"]')]
        .every(cell => cell.textContent === 'winner')""",
        timeout=PATIENCE_MS,
    )
    assert column("origin") == ["winner"] * 5
    assert page.complaints == []


def test_a_choice_of_knobs_is_in_the_address(explored: Explored, page: Watched) -> None:
    visit(page, f"{explored.url}/campaign/small/1/knobs?x=sampling_period")
    axis = "document.querySelector('#slice .xtitle')?.textContent"
    page.page.wait_for_function(f"{axis} === 'sampling period'", timeout=PATIENCE_MS)
    page.page.focus("#knob-x")
    page.page.keyboard.press("Enter")
    page.page.get_by_text("cooling pages", exact=True).last.click()
    page.page.wait_for_function(f"{axis} === 'cooling pages'", timeout=PATIENCE_MS)
    assert "x=cooling_pages" in page.page.url
    assert page.complaints == []


def test_a_configuration_on_the_front_leads_to_its_trial(explored: Explored, page: Watched) -> None:
    visit(page, f"{explored.url}/campaign/both")
    table = page.page.get_by_role("region", name=re.compile("^Means over the validation seeds"))
    first = table.get_by_role("row").filter(has=page.page.get_by_role("link", name="1", exact=True))
    runtime = first.get_by_role("cell").first.inner_text()
    assert re.fullmatch(r"[0-9.]+ s", runtime)
    drawn = "[...document.querySelectorAll('figure .textpoint text')].map(one => one.textContent)"
    page.page.wait_for_function(f"{drawn}.includes('1')", timeout=PATIENCE_MS)
    first.get_by_role("link").click()
    page.page.wait_for_selector("h2:has-text('Search trial')", timeout=PATIENCE_MS)
    shown = page.page.locator("dt").all_inner_texts()
    assert {"runtime_s", "migrated_bytes"} <= set(shown)
    assert page.complaints == []


def test_a_trial_leads_to_its_run(explored: Explored, page: Watched) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{explored.results / 'mlflow.sqlite'}")
    (experiment,) = [one for one in client.search_experiments() if one.name == "tiertune"]
    (run,) = [
        one
        for one in client.search_runs([experiment.experiment_id], max_results=1000)
        if one.data.tags["tiertune.key"].endswith("/search/3")
    ]
    visit(page, f"{explored.url}/campaign/small/1/trials")
    page.page.get_by_role("link", name="search 03").click()
    page.page.get_by_role("link", name="Its MLflow run").click()
    page.page.wait_for_selector("h1:has-text('MLflow run')", timeout=PATIENCE_MS)
    # Nothing serves MLflow's pages here: the page says where they would be, and what starts them.
    address = (
        f"/#/experiments/{experiment.experiment_id}/runs/{run.info.run_id}?workflowType=machine_learning"
    )
    assert page.page.get_by_role("link", name=address).count() == 1
    assert f"tiertune ui --mlflow --results {explored.results}" in page.page.content()


def test_a_campaign_that_runs_shows_more_trials(explored: Explored, page: Watched, tmp_path: Path) -> None:
    campaign = write_small(tmp_path)
    campaign.write_text(
        campaign.read_text().replace("name: small", "name: longer").replace("trials: 8", "trials: 900")
    )
    journal = explored.results / "longer" / "journal.sqlite"
    command: list[str | Path] = [COMMAND, "tune", campaign, "--results", explored.results]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as running:
        try:
            visit(page, explored.url)
            page.page.get_by_role("link", name="longer").click(timeout=PATIENCE_MS)
            page.page.wait_for_selector(".state.running", timeout=PATIENCE_MS)
            count = "parseInt([...document.querySelectorAll('dt')].find(e => e.textContent === 'trials')"
            count += ".nextSibling.textContent)"
            dots = "document.querySelectorAll('figure .points path').length"
            before = page.page.evaluate(count)
            drawn = page.page.evaluate(dots)
            page.page.wait_for_function(f"{count} > {before} && {dots} > {drawn}", timeout=PATIENCE_MS)
        finally:
            running.send_signal(signal.SIGINT)
            running.wait(120)
    page.page.wait_for_selector(".state.stopped", timeout=PATIENCE_MS)
    journal.unlink()
    page.page.wait_for_selector("text=there is no campaign 'longer'", timeout=PATIENCE_MS)
    assert page.complaints == []
