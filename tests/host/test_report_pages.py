"""Every kind of report in a browser: clean, legible in all modes, usable by keyboard, with its data.

Screenshots are not compared with stored ones: text is drawn with the fonts of the machine, so pictures of two
machines always differ, and a tolerance wide enough for that would also forgive a figure that is gone. What
should not change is held by texts instead: the tree that assistive technology gets (all words, names and
states of the page), and where the boxes stand, in twentieths of the window's width, which style sheets
decide and fonts do not. That a page looks the same each time is held by two screenshots of one machine.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Browser, Locator, expect

from tests.host.browser.page import PHONE, Watched, browser, page
from tests.host.report_pages import KINDS, SHARED
from tests.report.example import example_report
from tiertune import __version__

pytestmark = pytest.mark.host

__all__ = ["browser", "page"]

expect.set_options(timeout=60_000)  # on a machine that is busy
GOLDEN = Path(__file__).parent / "golden"
BOXES = """() => [
    ...document.querySelectorAll("h1, nav, main section, figure, .scroll, pre, .stats, .filter")
    ].map((element) => {
        const box = element.getBoundingClientRect(), part = innerWidth / 20;
        // Which column a figure falls into depends on heights, so on fonts: its width is all that is held.
        const left = element.tagName === "FIGURE" ? "" : ` from ${Math.round(box.left / part)}`;
        const name = element.tagName.toLowerCase() + (element.className ? "." + element.className : "");
        return `${name}${left} wide ${Math.round(box.width / part)}`;
    })"""
SORTED = """() => {
    const columns = [];
    for (const table of document.querySelectorAll("table[data-sorts]")) {
        [...table.tHead.rows[0].cells].forEach((header, place) => {
            const button = header.querySelector("button");
            if (!button) return;
            const read = () => [...table.tBodies[0].rows].map(({ cells }) =>
                (cells[place].dataset.value ?? cells[place].textContent).trim());
            const found = { name: header.innerText, states: [], values: [read()] };
            for (let click = 0; click < 3; ++click) {
                button.click();
                found.states.push(header.getAttribute("aria-sort"));
                found.values.push(read());
            }
            found.others = table.querySelectorAll("[aria-sort]").length;
            columns.push(found);
        });
    }
    return columns;
}"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """From a kind of report to the address of its page; each is made once."""
    pages: dict[str, str] = {}
    folders: dict[str, Path] = {}

    def address(kind: str) -> str:
        if kind not in pages:
            owner = SHARED.get(kind, kind)
            if owner not in folders:
                folders[owner] = tmp_path_factory.mktemp(owner.replace(" ", "-"))
            pages[kind] = KINDS[kind](folders[owner]).as_uri()
        return pages[kind]

    return address


@pytest.mark.parametrize("kind", KINDS)
def test_a_page_is_clean_in_every_mode(kind: str, made: Callable[[str], str], page: Watched) -> None:
    look = page.page
    requests: list[str] = []
    look.on("request", lambda request: requests.append(request.url))
    look.goto(made(kind))
    assert [url for url in requests if not url.startswith("data:")] == [made(kind)]

    expect(look.get_by_role("heading", level=1)).to_have_text(re.compile(r"\w+ .*\w+"))
    for section in ("What was not measured", "How to reproduce"):
        expect(look.get_by_role("region", name=section)).to_be_visible()
        expect(look.get_by_role("navigation").get_by_role("link", name=section)).to_be_visible()
    assert look.get_by_role("region", name="What was not measured").get_by_role("listitem").count() > 0
    expect(look.locator("#reproduce-block")).to_contain_text("tiertune ")
    expect(look.get_by_role("contentinfo")).to_contain_text(f"tiertune {__version__} with engine ")
    for link in look.get_by_role("navigation").get_by_role("link").all():
        assert look.locator(link.get_attribute("href") or "nowhere").count() == 1

    figures = look.locator("figure")
    assert figures.count() > 0
    for figure in figures.all():
        drawing = figure.get_by_role("img")
        expect(drawing).to_have_accessible_name(re.compile(r"\w{3}"))
        expect(drawing).to_have_accessible_description(re.compile(r"\w{3}"))
        expect(figure.get_by_role("link", name=re.compile("^Data as CSV of "))).to_be_visible()

    assert page.accessibility() == []
    look.emulate_media(color_scheme="dark")
    look.set_viewport_size(PHONE)
    assert not page.scrolls_sideways()
    assert page.accessibility() == []

    look.emulate_media(color_scheme="dark", media="print")
    for control in ("button:not(.sort)", ".filter", ".download", "nav", ".skip"):
        assert not any(one.is_visible() for one in look.locator(control).all()), control
    assert look.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    folded = look.locator("details:not([open])").count()
    look.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert look.locator("details:not([open])").count() == 0
    look.evaluate("dispatchEvent(new Event('afterprint'))")
    assert look.locator("details:not([open])").count() == folded
    assert page.complaints == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "along"])  # which has one line
def test_every_column_sorts_up_down_and_back(kind: str, made: Callable[[str], str], page: Watched) -> None:
    page.page.goto(made(kind))
    columns = page.page.evaluate(SORTED)
    assert columns
    for column in columns:
        original, up, down, back = column["values"]
        assert column["states"] == ["ascending", "descending", None]
        assert column["others"] == 0
        assert up == ordered(original, 1), column["name"]
        assert down == ordered(original, -1), column["name"]
        assert back == original
    # One line cannot change places; every other page has something to sort.
    assert any(len(set(map(tuple, column["values"]))) > 1 for column in columns)


def test_a_table_sorts_by_click_and_by_keyboard(made: Callable[[str], str], page: Watched) -> None:
    page.page.goto(made("compare"))
    table = page.page.get_by_role("table", name=re.compile("^Searches"))
    header = table.get_by_role("columnheader", name="knobs searched")
    knobs = [int(text) for text in texts(table, 1)]
    assert knobs not in (sorted(knobs), sorted(knobs, reverse=True))
    header.get_by_role("button").click()
    expect(header).to_have_attribute("aria-sort", "ascending")
    assert [int(text) for text in texts(table, 1)] == sorted(knobs)
    page.page.keyboard.press("Enter")
    expect(header).to_have_attribute("aria-sort", "descending")
    assert [int(text) for text in texts(table, 1)] == sorted(knobs, reverse=True)
    # Another column takes over, and says so.
    other = table.get_by_role("columnheader", name="system")
    page.page.keyboard.press("Shift+Tab")
    page.page.keyboard.press("Space")
    expect(other).to_have_attribute("aria-sort", "ascending")
    expect(header).not_to_have_attribute("aria-sort", re.compile("."))
    assert texts(table, 0) == sorted(texts(table, 0))


def test_sizes_are_sorted_as_numbers_and_not_as_they_are_written(
    made: Callable[[str], str], page: Watched
) -> None:
    """12.5 GB is shown as 11.64 GiB, less than a run of 61.1 s by its digits."""
    page.page.goto(made("two cells"))
    table = page.page.get_by_role("table", name=re.compile("^Metrics of")).first
    table.get_by_role("button", name="default").click()
    shown = [row.locator("th").inner_text() for row in table.locator("tbody tr").all()]
    assert shown == ["fast hit ratio", "runtime", "migrated bytes"]


def test_a_long_table_is_filtered_and_says_how_many_are_left(
    made: Callable[[str], str], page: Watched
) -> None:
    page.page.goto(made("tune"))
    box = page.page.get_by_role("searchbox", name="Filter rows of Environment")
    rows = page.page.get_by_role("group", name="Environment").locator("tbody tr")
    count = box.locator("xpath=ancestor::p").get_by_role("status")
    expect(count).to_have_text(f"{rows.count()} rows")
    box.fill("PACKAGES sc")
    expect(count).to_have_text(f"2 of {rows.count()} rows")
    assert {row.locator("th").inner_text() for row in rows.all() if row.is_visible()} == {
        "packages scikit-learn",
        "packages scipy",
    }
    box.fill("")
    assert all(row.is_visible() for row in rows.all())


@pytest.mark.parametrize("kind", ["two cells", "tune", "compare", "nightly", "sweep", "sensitivity"])
def test_everything_is_there_without_scripts(kind: str, made: Callable[[str], str], browser: Browser) -> None:
    said = []
    for scripts in (True, False):
        context = browser.new_context(java_script_enabled=scripts)
        look = context.new_page()
        look.goto(made(kind))
        if scripts:
            controls = ".filter, button[data-copies]"
            look.evaluate(
                "found => document.querySelectorAll(found).forEach((one) => one.remove())", controls
            )
        else:
            assert look.get_by_role("button").count() == 0
            assert look.get_by_role("searchbox").count() == 0
        lines = (line.strip() for line in look.locator("main").inner_text().splitlines())
        said.append([line for line in lines if line])
        context.close()
    assert said[0] == said[1]


def test_the_data_of_a_figure_is_one_click_away(made: Callable[[str], str], page: Watched) -> None:
    page.page.goto(made("two cells"))
    with page.page.expect_download() as found:
        page.page.get_by_role("link", name="Data as CSV of Default against tuned").first.click()
    assert found.value.suggested_filename == "example-c1-comparison.csv"
    rows = list(csv.DictReader(io.StringIO(Path(found.value.path()).read_text())))
    pairs = example_report(2).cells[0].validation
    assert [float(row["tuned_runtime_s"]) for row in rows] == [pair.tuned for pair in pairs]


def test_the_keyboard_reaches_everything(made: Callable[[str], str], page: Watched) -> None:
    """The first stop is the way past the navigation, it shows, and every stop has an outline."""
    look = page.page
    look.goto(made("two cells"))
    look.keyboard.press("Tab")
    skip = look.get_by_role("link", name="Skip to the report")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    look.keyboard.press("Enter")
    look.keyboard.press("Tab")
    assert look.evaluate("document.activeElement.closest('main') !== null")
    reached = set()
    for _ in range(60):
        outline = look.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", look.evaluate("document.activeElement.outerHTML.slice(0, 200)")
        reached.add(look.evaluate("document.activeElement.className || document.activeElement.tagName"))
        look.keyboard.press("Tab")
    assert {"scroll", "sort", "download", "PRE"} <= reached


def test_a_page_looks_the_same_each_time(made: Callable[[str], str], browser: Browser) -> None:
    shots = []
    for _ in range(2):
        look = browser.new_page(color_scheme="dark")
        look.goto(made("two cells"))
        shots.append(Image.open(io.BytesIO(look.screenshot(full_page=True))).convert("RGB"))
        look.close()
    assert shots[0].size == shots[1].size
    # Chromium draws a page in tiles, whose edges it smooths by a few shades, not always the same ones.
    assert max(ImageChops.difference(*shots).tobytes()) <= 8


def test_the_tree_and_the_boxes_are_as_stored(made: Callable[[str], str], page: Watched) -> None:
    """`UPDATE_GOLDEN=1` rewrites the texts; the diff is what to review."""
    look = page.page
    look.goto(made("two cells"))
    compared("two-cells.yaml", look.locator("body").aria_snapshot())
    wide = look.evaluate(BOXES)
    look.set_viewport_size(PHONE)
    lines = ["at 1280 px", *wide, "", "at 390 px", *look.evaluate(BOXES)]
    compared("two-cells-boxes.txt", "\n".join(lines))


def compared(name: str, text: str) -> None:
    text = text.replace(f"tiertune {__version__} with engine {__version__}", "tiertune VERSION") + "\n"
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; UPDATE_GOLDEN=1 rewrites it"


def texts(table: Locator, place: int) -> list[str]:
    """A column as it is shown, from top to bottom."""
    return [row.locator("th, td").nth(place).inner_text() for row in table.locator("tbody tr").all()]


def ordered(column: list[str], sign: int) -> list[str]:
    """The column sorted by this file's own means: numbers by size, texts by letter, the unknown last."""
    known = [value for value in column if value not in ("", "-")]
    unknown = [value for value in column if value in ("", "-")]
    try:
        return sorted(known, key=lambda value: sign * float(value)) + unknown
    except ValueError:
        # Equal texts stay in their order, also downwards.
        return sorted(known, key=natural, reverse=sign < 0) + unknown


def natural(text: str) -> list[tuple[int, float, str]]:
    """Digits by their size, letters whatever their case, both before what is neither."""
    parts = re.findall(r"\d+|[^\W\d_]|_|\W", text.lower())
    return [(1, float(p), "") if p.isdigit() else (2, 0.0, p) if p.isalpha() else (0, 0.0, p) for p in parts]


TEXT_HEIGHTS = """() => [...document.querySelectorAll("svg.figure")].map((drawing) => {
    const scale = drawing.getScreenCTM().a;
    const texts = [...drawing.querySelectorAll("text, tspan")];
    const sizes = texts.map((one) => parseFloat(getComputedStyle(one).fontSize));
    return Math.min(...sizes.filter((size) => size >= 8)) * scale;
})"""


@pytest.mark.parametrize("kind", KINDS)
def test_text_in_figures_is_legible_on_a_phone(kind: str, made: Callable[[str], str], page: Watched) -> None:
    look = page.page
    look.set_viewport_size(PHONE)
    look.goto(made(kind))
    heights = look.evaluate(TEXT_HEIGHTS)
    assert len(heights) == look.locator("figure").count() > 0
    assert min(heights) >= 9.9, heights
    assert not page.scrolls_sideways()
    drawing = look.locator(".drawing").first
    drawing.focus()
    look.keyboard.press("ArrowRight")
    look.wait_for_function("document.querySelector('.drawing').scrollLeft > 0")
