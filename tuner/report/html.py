"""The report as one HTML file: no scripts from elsewhere, no fonts, no network."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from tiertune.tuner.report import numbers
from tiertune.tuner.report.document import Cell, Report
from tiertune.tuner.report.environment import Figure, report_environment
from tiertune.tuner.report.figures.comparison import comparison, metric_words
from tiertune.tuner.report.figures.convergence import convergence
from tiertune.tuner.report.figures.cost import cost
from tiertune.tuner.report.figures.front import front, outside
from tiertune.tuner.report.figures.timeline import timeline, timeline_title
from tiertune.tuner.report.front import front_rows
from tiertune.tuner.report.plain import csv_text

MOST_DRAWN = 30
"""Cells whose figures are on the page. Each takes most of a second and a quarter of a megabyte: hundreds take
minutes, and no browser shows them."""


class Drawing(NamedTuple):
    """How one figure of a cell is made; `rows` are the data behind it, heads first."""

    name: str
    title: str | Callable[[Cell], str]
    draw: Callable[[Cell, str], str]
    caption: Callable[[Cell], str]
    rows: Callable[[Cell], Iterable[Sequence[object]]]


def render_html(report: Report) -> str:
    """The report as HTML text; equal reports give equal text."""
    environment = report_environment()
    environment.filters.update(
        search_words=search_words,
        metric_words=lambda metric: metric_words(metric.name, metric.unit),
        metric_name=lambda metric: metric_words(metric.name, metric.unit).removesuffix(f" ({metric.unit})"),
    )
    environment.globals.update(pair=numbers.pair, change=numbers.change)
    figures = figures_of(report, on_page(report.cells))
    return environment.get_template("report.html.j2").render(
        report=report,
        names=cell_names(report.cells),
        figures=figures,
        measured_by={fact.value for fact in report.environment if fact.name == "backend engine"},
        not_measured=report.not_measured,
        reproduce=report.reproduce,
    )


def cell_names(cells: Sequence[Cell]) -> dict[str, str]:
    """What each cell is called on the page, by its id: no longer than it takes to tell it from the others."""
    ways: tuple[Callable[[Cell], str], ...] = (
        lambda cell: search_words(cell.id),
        lambda cell: f", {cell.machine}",
        lambda cell: f", {cell.ratio}",
        lambda cell: f", {cell.threads} threads",
        lambda cell: f", {numbers.quantity(cell.page_bytes, 'bytes')} pages",
    )
    names = [f"{cell.system} on {cell.workload}" for cell in cells]
    for way in ways:
        longer = [name + way(cell) for name, cell in zip(names, cells, strict=True)]
        if len(set(longer)) > len(set(names)):
            names = longer
    twice = {name for name in names if names.count(name) > 1}
    names = [f"{name}, cell {n}" if name in twice else name for n, name in enumerate(names, start=1)]
    return {cell.id: name for name, cell in zip(names, cells, strict=True)}


def search_words(cell: str) -> str:
    """`, search 2` of a cell that was searched more than once; the first search is named like the cell."""
    _, _, number = cell.rpartition("#")
    return f", search {number}" if "#" in cell and number.isdigit() else ""


def on_page(cells: Sequence[Cell]) -> set[str]:
    """The ids of the cells whose figures are on the page: `MOST_DRAWN` at most, first searches first."""
    ordered = sorted(cells, key=lambda cell: bool(search_words(cell.id)))
    return {cell.id for cell in ordered[:MOST_DRAWN]}


def figures_of(report: Report, of: Collection[str] | None = None) -> dict[str, list[Figure]]:
    """The figures of a report by the id of their cell, of all cells where none are named."""
    return {
        cell.id: _figures(report, cell, f"c{index}")
        for index, cell in enumerate(report.cells, start=1)
        if of is None or cell.id in of
    }


def _figures(report: Report, cell: Cell, prefix: str) -> list[Figure]:
    made = []
    for drawing in DRAWINGS:
        name = f"{prefix}-{drawing.name}"
        svg = drawing.draw(cell, name)
        if svg:
            text, file = csv_text(drawing.rows(cell)), f"{report.campaign}-{name}.csv"
            title = drawing.title if isinstance(drawing.title, str) else drawing.title(cell)
            made.append(Figure(name, title, drawing.caption(cell), Markup(svg), text, file))
    return made


def _comparison_rows(cell: Cell) -> list[list[Any]]:
    head = ["seed", f"default_{cell.metric.name}", f"tuned_{cell.metric.name}", "improvement"]
    return [head, *([pair.seed, pair.default, pair.tuned, pair.ratio] for pair in cell.validation)]


def _search_rows(cell: Cell) -> list[list[Any]]:
    knobs = sorted({knob for trial in cell.search for knob in trial.config})
    head = [
        "trial",
        "origin",
        "status",
        cell.metric.name,
        "best_so_far",
        "run_wall_s",
        "optimiser_cpu_s",
        "fidelity",
        *knobs,
    ]
    return [
        head,
        *(
            [
                t.number,
                t.origin,
                t.status,
                t.value,
                t.best_so_far,
                t.run_wall_s,
                t.optimiser_cpu_s,
                t.fidelity,
            ]
            + [t.config.get(knob) for knob in knobs]
            for t in cell.search
        ),
    ]


def _timeline_rows(cell: Cell) -> list[list[Any]]:
    columns = list(cell.timelines[0].columns)
    rows: list[list[Any]] = [["config", "seed", *columns]]
    for run in cell.timelines:
        shared = [run.columns.get(column, []) for column in columns]
        rows += [[run.role, run.seed, *values] for values in zip(*shared, strict=False)]
    return rows


def _comparison_caption(cell: Cell) -> str:
    return (
        f"Each dot is one of {len(cell.validation)} seeds that the search never saw; default and tuned ran on"
        " the same seeds. Upper bars are medians. Below, the improvement seed by seed, and its interval."
    )


def _convergence_caption(cell: Cell) -> str:
    short = sum(trial.fidelity < 1.0 for trial in cell.search)
    left_out = f" Of {short} trials that ran a part of the workload only none is drawn." if short else ""
    return (
        "Every search trial, by where its configuration came from. The dashed line is the default in the"
        f" search.{left_out} Single runs flatter the best of them; the verdict rests on the validation seeds"
        " alone."
    )


def _timeline_caption(cell: Cell) -> str:
    text = (
        f"Default and tuned on the same validation seed ({cell.timelines[0].seed}). Migrations are promotions"
        " plus demotions"
    )
    if cell.live:
        return f"{text}, as the daemon counts them."
    return f"{text}; latency is that of a loaded access as the model resolves it, per tier."


def _cost_caption(cell: Cell) -> str:
    run = sum(trial.run_wall_s or 0 for trial in cell.search)
    ask = sum(trial.optimiser_cpu_s or 0 for trial in cell.search)
    return (
        f"All search trials took {run:.3g} s of wall time, choosing their configurations took {ask:.3g} s of"
        " CPU time."
    )


def _front_caption(cell: Cell) -> str:
    assert cell.front is not None
    out = outside(cell.front)
    left_out = f" {out} search trials lie outside." if out else ""
    return (
        f"Numbered points are on the front: means over {cell.front.seeds} seeds that the search never saw,"
        f" with the {cell.front.confidence:.0%} intervals of their ratios to the default. Small circles are"
        f" single runs of the search.{left_out}"
    )


DRAWINGS = (
    Drawing("front", "One objective against the other", front, _front_caption, front_rows),
    Drawing("comparison", "Default against tuned", comparison, _comparison_caption, _comparison_rows),
    Drawing("convergence", "The search", convergence, _convergence_caption, _search_rows),
    Drawing("timeline", timeline_title, timeline, _timeline_caption, _timeline_rows),
    Drawing("cost", "Cost of a trial", cost, _cost_caption, _search_rows),
)
