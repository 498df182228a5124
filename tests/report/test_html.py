"""The HTML: one file, nothing from elsewhere, every figure with its data, usable without sight or colour."""

from __future__ import annotations

import base64
import csv
import io
import math
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.report.example import example_report
from tests.report.journal_example import write_journal
from tiertune.tuner.report.document import HostPart, Report
from tiertune.tuner.report.environment import Figure
from tiertune.tuner.report.figure_files import write_figures
from tiertune.tuner.report.figures import style
from tiertune.tuner.report.files import write_report
from tiertune.tuner.report.html import DRAWINGS, cell_names, figures_of, on_page, render_html

VOID = {"meta", "link", "br", "hr", "img", "input", "area", "base", "col", "embed", "source", "track", "wbr"}
IDREFS = {"aria-labelledby", "aria-describedby", "for", "data-copies"}


class Page(HTMLParser):
    """Tags in order, ids, references and text; complains about tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        opened = self.open.pop()
        assert opened == tag, f"<{opened}> is closed by </{tag}>"

    def handle_data(self, data: str) -> None:
        self.text.append(data)

    def having(self, attribute: str) -> list[str]:
        return [value for _, attributes in self.tags if (value := attributes.get(attribute)) is not None]


@pytest.fixture(
    scope="module", params=[(1, False), (2, False), (2, True)], ids=["one cell", "two cells", "a front"]
)
def made(request: pytest.FixtureRequest) -> tuple[Report, str]:
    cells, front = request.param
    report = example_report(cells, front=front)
    return report, render_html(report)


@pytest.fixture(scope="module")
def page(made: tuple[Report, str]) -> Page:
    return Page(made[1])


def test_every_tag_is_closed(page: Page) -> None:
    assert page.open == []


def test_nothing_comes_from_elsewhere(made: tuple[Report, str], page: Page) -> None:
    for attribute in ("src", "href", "action", "data", "poster", "srcset", "xlink:href"):
        for address in page.having(attribute):
            assert address.startswith(("#", "data:")), address
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\((?!#)", made[1])


def test_ids_are_unique_and_references_hold(made: tuple[Report, str], page: Page) -> None:
    ids = page.having("id")
    assert len(ids) == len(set(ids))
    references = {name for attribute in IDREFS for value in page.having(attribute) for name in value.split()}
    references |= {address[1:] for address in page.having("href") if address.startswith("#")}
    references |= set(re.findall(r"url\(#([^)]+)\)", made[1]))
    assert references <= set(ids)


def test_equal_reports_give_equal_bytes(made: tuple[Report, str]) -> None:
    assert render_html(made[0]) == made[1]


def test_every_figure_has_words_and_its_data(made: tuple[Report, str], page: Page) -> None:
    report, text = made
    figures = re.findall(r'<figure id="([^"]+)">(.*?)</figure>', text, flags=re.DOTALL)
    without = sum(cell.front is None for cell in report.cells)
    assert len(figures) == len(DRAWINGS) * len(report.cells) - without
    for name, figure in figures:
        assert re.search(r"<title [^>]*>[^<]{10,}</title>", figure), name
        assert re.search(r"<desc [^>]*>[^<]{20,}</desc>", figure), name
        assert "<figcaption>" in figure
        address = re.search(r'href="data:text/csv;base64,([^"]+)"', figure)
        assert address is not None, name
        rows = list(csv.reader(io.StringIO(base64.b64decode(address[1]).decode())))
        assert len(rows) > 5
        assert len({len(row) for row in rows}) == 1
    assert page.having("download")


def test_the_data_of_a_figure_is_that_of_the_report(made: tuple[Report, str]) -> None:
    report, text = made
    (first,) = re.findall(r'download="example-c1-comparison.csv" href="data:text/csv;base64,([^"]+)"', text)
    rows = list(csv.DictReader(io.StringIO(base64.b64decode(first).decode())))
    assert [int(row["seed"]) for row in rows] == [pair.seed for pair in report.cells[0].validation]
    assert [float(row["tuned_runtime_s"]) for row in rows] == [
        pair.tuned for pair in report.cells[0].validation
    ]


def test_words_from_files_cannot_become_markup(made: tuple[Report, str]) -> None:
    assert "the engine refused: &lt;page&gt; &amp; tier" in made[1]
    assert "&lt;paper input&gt;" in made[1]


def test_headings_descend_one_level_at_a_time_and_landmarks_are_there(page: Page) -> None:
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for landmark in ("header", "main", "footer"):
        assert sum(tag == landmark for tag, _ in page.tags) == 1
    assert ("html", {"lang": "en"}) in page.tags


def test_no_colour_is_drawn_that_a_dark_page_would_hide(made: tuple[Report, str]) -> None:
    for svg in re.findall(r"<svg class=\"figure\".*?</svg>", made[1], flags=re.DOTALL):
        plain = re.sub(r"var\(--[a-z]+,#[0-9a-f]{6}\)", "", svg)
        assert set(re.findall(r"#[0-9a-f]{6}\b", plain)) <= {"#000000"}
        # Matplotlib's defaults (black text and lines) would not follow the page.
        assert "stroke: #000000" not in plain


def test_a_report_without_validation_still_renders(tmp_path: Path) -> None:
    write_journal(tmp_path, until="search")
    report, (html, json, *configs) = write_report(tmp_path)
    assert configs == []
    assert not report.complete
    text = html.read_text()
    Page(text)
    assert "This campaign has not finished" in text
    assert Report.model_validate_json(json.read_text()) == report


def test_a_page_of_many_cells_has_figures_of_the_first_search_of_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others say where theirs are."""
    monkeypatch.setattr("tiertune.tuner.report.html.MOST_DRAWN", 2)
    report = example_report()
    (cell,) = report.cells
    ids = ["one", "one#2", "other", "other#2"]
    many = report.model_copy(update={"cells": [cell.model_copy(update={"id": name}) for name in ids]})
    assert on_page(many.cells) == {"one", "other"}
    page = render_html(many)
    assert page.count("figures of 2 cells, and this is not one of them") == 2
    drawn = set(re.findall(r'<figure id="(c\d)-', page))
    assert drawn == {"c1", "c3"}


@pytest.mark.parametrize("live", [True, False])
def test_runs_on_hosts_are_not_called_simulated(live: bool) -> None:
    report = example_report()
    where = HostPart(live=live, runs=[], gains=[], between_pct=None, within_pct=None, note="")
    cells = [cell.model_copy(update={"hosts": where}) for cell in report.cells]
    drawn = figures_of(report.model_copy(update={"cells": cells}))
    (figure,) = (one for some in drawn.values() for one in some if one.name.endswith("timeline"))
    said = f"{figure.title} {figure.caption} {figure.svg}"
    assert ("simulated" in said, "the model" in said) == (not live, not live)
    assert figure.title in {"Memory over time", "Memory over simulated time"}


def test_writing_leaves_no_parts_behind(tmp_path: Path) -> None:
    write_journal(tmp_path)
    write_report(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} <= {
        "journal.sqlite",
        "journal.sqlite.lock",
        "journal.sqlite-wal",
        "journal.sqlite-shm",
        "report.html",
        "report.json",
        "tuned",
    }
    assert [path.suffix for path in (tmp_path / "tuned").iterdir()] == [".yaml"]


def test_cells_are_called_by_no_more_than_tells_them_apart() -> None:
    cell = example_report(1).cells[0]

    def names(*changes: dict[str, object]) -> list[str]:
        cells = [cell.model_copy(update={"id": f"{n}", **change}) for n, change in enumerate(changes)]
        return list(cell_names(cells).values())

    assert names({}) == ["hemem on bc-kron"]
    assert names({"ratio": "1:8"}, {"ratio": "1:4"}) == ["hemem on bc-kron, 1:8", "hemem on bc-kron, 1:4"]
    assert names({"id": "a"}, {"id": "a#2"}) == ["hemem on bc-kron", "hemem on bc-kron, search 2"]
    assert names({"threads": 4}, {"system": "tpp"}) == ["hemem on bc-kron", "tpp on bc-kron"]
    # Nothing that a reader knows tells them apart.
    assert names({}, {}) == ["hemem on bc-kron, cell 1", "hemem on bc-kron, cell 2"]


def test_figures_are_written_for_a_paper(tmp_path: Path) -> None:
    report = example_report(1, front=True)

    def drawn() -> list[Figure]:
        return [figure for some in figures_of(report).values() for figure in some]

    paths = write_figures(tmp_path / "new/figures", drawn)
    assert len(paths) == 3 * len(DRAWINGS)
    for path in paths:
        data = path.read_bytes()
        # What stands for a colour while a figure is drawn is nowhere left.
        assert not re.search(rb"#0a0b0[1-7]|0\.0392156863\s+0\.0431372549|var\(", data), path
        if path.suffix == ".svg":
            tree = ElementTree.fromstring(data)
            assert tree.tag == "{http://www.w3.org/2000/svg}svg"
            assert "#0067a3" in data.decode()
        if path.suffix == ".pdf":
            assert data.startswith(b"%PDF-")
            start = int(data[data.rindex(b"startxref") + 9 :].split()[0])
            assert data[start:].startswith(b"xref"), "the places of its parts are still true"
            assert b"0 0.4039215686 0.6392156863" in data
    again = write_figures(tmp_path / "again", drawn)
    assert [path.read_bytes() for path in again] == [path.read_bytes() for path in paths]


def test_a_drawing_says_how_wide_its_text_can_be_read() -> None:
    with style.canvas(1.0) as (figure, (axes, *_)):
        axes.set_title("small", fontsize=8.0)
        svg = style.to_svg(figure, "one", "A drawing", "of nothing")
    width = float(re.findall(r'viewBox="0 0 ([\d.]+) ', svg)[0])
    assert f"--legible:{math.ceil(width * style.LEGIBLE_PX / 8.0)}px" in svg
    assert "legible" not in style.standalone(svg)
