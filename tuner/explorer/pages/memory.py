"""What memory did over time: default beside tuned."""

from __future__ import annotations

from typing import Any

from tiertune.engine import EngineError
from tiertune.tuner.explorer.figures.timeline import over_time, timelines
from tiertune.tuner.explorer.page import Page, Parts, figure_box
from tiertune.tuner.explorer.page_maps import NOBODY_SEES, page_maps
from tiertune.tuner.explorer.pages.cell import head, title_of
from tiertune.tuner.explorer.problem import UNREADABLE, sentence_of
from tiertune.tuner.explorer.view import OpenCell, View, opened
from tiertune.tuner.report.cell import timelines as kept_timelines
from tiertune.tuner.validation import outcome

NOT_YET = (
    "There is nothing to see before validation: its first seed keeps what memory did in each slice of time."
)


def memory_page(view: View, campaign: str, number: str) -> Page:
    """Raises InputError where there is no such cell."""
    from dash import dcc, html

    parts = Parts()
    with opened(view.results, campaign, number) as cell:
        body, title = head(cell, "memory"), title_of(cell, "memory")
        runs, live = _runs(cell), cell.live
        tuned = "the tuned configuration"
        if cell.objectives is not None:
            tuned = f"the one selected as best in {cell.objective.metric}"
    if not runs:
        body.append(html.P(NOT_YET))
        return Page(title, body)
    body.append(
        parts.figure(
            "timelines",
            timelines(runs, view.look, live=live),
            over_time(live),
            f"One validation run with the default and one with {tuned}, on the same seed.",
        )
    )
    if live:
        return Page(title, [*body, html.P(NOBODY_SEES)], parts.live)
    body += [
        html.H2("Pages, default beside tuned"),
        dcc.Store(id="movie-of", data=[campaign, number]),
        dcc.Loading(html.Div(html.P("The two runs are simulated again …"), id="movie"), delay_show=300),
    ]
    return Page(title, body, parts.live)


def movie_of(view: View, campaign: str, number: str) -> Any:
    """What pages were hot and which were in fast memory; a sentence where that cannot be shown."""
    from dash import html

    from tiertune.tuner.explorer.figures.movie import movie, whole_run

    try:
        maps = page_maps(view.results, campaign, number)
    except (EngineError, *UNREADABLE) as error:
        said = sentence_of(error, f"/campaign/{campaign}/{number}/memory")
        return html.P(said, className="problem")
    return [
        figure_box(
            movie(maps, view.look),
            "Reads by page",
            "Each bar is a share of all pages, the hottest over both runs on the left; its height is how"
            " often they are read at that moment, its colour where they are. The runs of the first validation"
            " seed, simulated again.",
            480,
            width_px=720,
        ),
        figure_box(
            whole_run(maps, view.look),
            "Where pages are, all of both runs",
            f"The same pages, the hottest at the bottom; {view.look.stands_out} is more in fast memory.",
            420,
            width_px=720,
        ),
    ]


def _runs(cell: OpenCell) -> dict[str, dict[str, list[float]]]:
    if not cell.begun:
        return {}
    judged = outcome(cell.journal, cell.key, cell.objective, cell.claim.generation)
    found: dict[str, Any] = {one.role: one.columns for one in kept_timelines(cell.journal, judged)}
    return found
