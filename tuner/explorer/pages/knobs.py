"""Knobs of a cell: parallel coordinates, slices over one and two of them, and what `explain` measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tiertune.tuner.explorer.figures.coordinates import coordinates
from tiertune.tuner.explorer.figures.slices import measured_line, measured_plane, plane_of, slice_of
from tiertune.tuner.explorer.page import Page, Parts, figure_box
from tiertune.tuner.explorer.pages.cell import head, title_of
from tiertune.tuner.explorer.trials import axes_of, measured
from tiertune.tuner.explorer.view import View, opened

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

AXIS_PX = 80
"""Room that an axis needs for its numbers."""
ONE = "-"
"""Instead of a second knob: the metric."""
TWO = "-2"
"""The same with the metric of the second objective."""


def knobs_page(view: View, campaign: str, number: str, asked: Mapping[str, str]) -> Page:
    """`asked` may name knobs as x and y, as the page's own address does. Raises InputError."""
    from dash import dcc, html

    parts = Parts()
    with opened(view.results, campaign, number) as cell:
        axes = axes_of(cell.contents)
        rows = measured(cell.rows("search"))
        objective, second = cell.objective, cell.second
        body, title = head(cell, "knobs"), title_of(cell, "knobs")
        key = cell.key
    names = [axis.name for axis in axes]
    x = asked.get("x") if asked.get("x") in names else names[0]
    y = asked.get("y") if asked.get("y") in (*names, *([TWO] if second else [])) else ONE
    better = f"{view.look.stands_out} is better{f' in {objective.metric}' if second else ''}"
    body.append(
        parts.figure(
            "coordinates",
            coordinates(rows, axes, objective, view.look, second),
            "All knobs at once",
            f"One line for each of {len(rows)} search trials that worked; {better}."
            " Drag along an axis to keep only the lines that pass there, drag a name to move an axis.",
            460,
            AXIS_PX * (len(axes) + (3 if second else 2)),
        )
    )
    options = [{"label": name.replace("_", " "), "value": name} for name in names]
    against = [{"label": objective.metric, "value": ONE}]
    against += [{"label": second.metric, "value": TWO}] if second else []
    body.append(html.H2("Slices"))
    body.append(
        html.Div(
            [
                html.Div(
                    [
                        html.Label("knob", htmlFor="knob-x"),
                        dcc.Dropdown(options, x, id="knob-x", clearable=False, searchable=False),
                    ]
                ),
                html.Div(
                    [
                        html.Label("against", htmlFor="knob-y"),
                        dcc.Dropdown(
                            [*against, *options],
                            y,
                            id="knob-y",
                            clearable=False,
                            searchable=False,
                        ),
                    ]
                ),
            ],
            className="choices",
        )
    )
    body.append(
        figure_box(
            slice_figure(view, campaign, number, str(x), str(y)),
            "Search trials over these knobs",
            "Trials differ in all other knobs, too:"
            " this is where the search looked, not what a knob does alone.",
            420,
            "slice",
        )
    )
    body.append(parts.text("explained", _explained(view, campaign, key)))
    return Page(title, body, parts.live)


def slice_figure(view: View, campaign: str, number: str, x: str, y: str) -> Figure:
    """One knob against the metric, or against another knob. Raises InputError."""
    with opened(view.results, campaign, number) as cell:
        axes = {axis.name: axis for axis in axes_of(cell.contents)}
        rows = measured(cell.rows("search"))
        if y in axes and y != x:
            return plane_of(rows, axes[x], axes[y], cell.objective, view.look)
        second = cell.second
        return slice_of(rows, axes[x], second if second and y == TWO else cell.objective, view.look)


def _explained(view: View, campaign: str, key: str) -> list[Any]:
    from dash import html

    document = view.results.explanation(campaign)
    found: dict[str, Any] | None = next(
        (one for one in (document or {}).get("cells", ()) if one["cell"] == key), None
    )
    if found is None:
        return [
            html.P(
                ["What each knob does alone is measured by ", html.Code(f"tiertune explain {campaign}"), "."]
            )
        ]
    body: list[Any] = [html.H2("Measured around the tuned configuration"), html.P(found["verdict"])]
    body += [
        figure_box(
            measured_line(line, view.look),
            line["knob"].replace("_", " "),
            "All else as tuned, on seeds that no search saw.",
            300,
        )
        for line in found["lines"]
    ]
    if found["grid"] is not None:
        body.append(
            figure_box(
                measured_plane(found["grid"], view.look),
                "The two that matter most together",
                "Improvement over the default; all else as tuned.",
            )
        )
    return body
