"""One or two knobs against the metric, from trials; and what `explain` measured along a knob."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiertune.spaces.definition import Axis
from tiertune.spaces.value import Value
from tiertune.tuner.explanation.scale import WORD_TYPES
from tiertune.tuner.explorer.figures.coordinates import UNUSED, colour_range
from tiertune.tuner.explorer.look import Look
from tiertune.tuner.explorer.trials import knob_value, values_of
from tiertune.tuner.journal import Row
from tiertune.tuner.report.figures.comparison import metric_words
from tiertune.tuner.report.metrics import metric_of
from tiertune.tuner.report.numbers import exact
from tiertune.tuner.trial import Objective
from tiertune.units import is_bytes

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def slice_of(rows: Sequence[Row], axis: Axis, objective: Objective, look: Look) -> Figure:
    """The metric over one knob, later trials stand out: where the search went, and what it saw there."""
    from plotly.graph_objects import Figure

    shown = values_of(rows, objective)
    values = [value for _, value in shown]
    figure = Figure()
    if shown:
        low, high = colour_range(values, objective)
        numbers = [row.trial.number for row, _ in shown]
        figure.add_scatter(
            x=[_at(axis, knob_value(axis, row)) for row, _ in shown],
            y=[min(max(value, low), high) for value in values],
            mode="markers",
            marker={
                "size": 10,
                "color": numbers,
                "colorscale": look.scale,
                "line": {"width": 1, "color": look.muted},
                "colorbar": {"title": {"text": "trial"}, "thickness": 12},
            },
            customdata=list(zip(numbers, values, strict=True)),
            hovertemplate="trial %{customdata[0]}: %{customdata[1]:.5g} at %{x}<extra></extra>",
        )
    figure.update_layout(**look.layout(xaxis=_axis(axis, rows), yaxis=_metric(objective)))
    return figure


def _metric(objective: Objective) -> dict[str, Any]:
    """The axis of a metric. Plotly's own letter for 1e9 is B, which reads as bytes."""
    metric = metric_of(objective)
    title = metric_words(metric.name, metric.unit)
    return {"title": title, **({"exponentformat": "SI"} if is_bytes(metric.unit) else {})}


def plane_of(rows: Sequence[Row], across: Axis, up: Axis, objective: Objective, look: Look) -> Figure:
    """Two knobs, coloured by the metric."""
    from plotly.graph_objects import Figure

    shown = values_of(rows, objective)
    values = [value for _, value in shown]
    figure = Figure()
    if shown:
        low, high = colour_range(values, objective)
        figure.add_scatter(
            x=[_at(across, knob_value(across, row)) for row, _ in shown],
            y=[_at(up, knob_value(up, row)) for row, _ in shown],
            mode="markers",
            marker={
                "size": 12,
                "color": values,
                "cmin": low,
                "cmax": high,
                "colorscale": look.scale,
                "reversescale": objective.direction == "minimize",
                "line": {"width": 1, "color": look.muted},
                "colorbar": {"title": {"text": objective.metric}, "thickness": 12},
            },
            customdata=[row.trial.number for row, _ in shown],
            hovertemplate="trial %{customdata}: %{marker.color:.5g} at %{x}, %{y}<extra></extra>",
        )
    figure.update_layout(**look.layout(xaxis=_axis(across, rows), yaxis=_axis(up, rows)))
    return figure


def measured_line(line: Mapping[str, Any], look: Look) -> Figure:
    """What `explain` measured on fresh seeds along one knob, all else tuned: ratio to default, interval."""
    from plotly.graph_objects import Figure

    points = [point for point in line["points"] if point["ratio"] is not None]
    words = bool(line["words"])
    logarithmic = bool(line["log"]) and not words
    figure = Figure()
    figure.add_scatter(
        x=[exact(point["value"]) if words else point["value"] for point in points],
        y=[point["ratio"] for point in points],
        error_y={
            "type": "data",
            "symmetric": False,
            "color": look.muted,
            "array": [point["high"] - point["ratio"] for point in points],
            "arrayminus": [point["ratio"] - point["low"] for point in points],
        },
        mode="markers" if words else "lines+markers",
        line={"color": look.tuned},
        marker={"size": 9},
        name="measured on fresh seeds",
    )
    for role, colour in (("tuned", look.tuned), ("default", look.default)):
        if words or (logarithmic and line[role] <= 0):
            continue  # a special value has no place on the axis
        figure.add_vline(x=line[role], line={"dash": "dot", "color": colour})
        # Plotly places lines by the value and words by its logarithm.
        place = math.log10(line[role]) if logarithmic else line[role]
        figure.add_annotation(
            x=place, y=1, yref="paper", text=role, xanchor="left", yanchor="top", showarrow=False,
            font={"color": colour},
        )  # fmt: skip
    title = line["knob"].replace("_", " ") + (f" ({line['unit']})" if line["unit"] else "")
    figure.update_layout(
        **look.layout(
            xaxis={"title": title, "type": "log" if logarithmic else None},
            yaxis={"title": "improvement over default"},
        )
    )
    return figure


def measured_plane(grid: Mapping[str, Any], look: Look) -> Figure:
    """What `explain` measured over two knobs: ratio to default."""
    from plotly.graph_objects import Figure

    rows, columns = ([exact(value) for value in grid[name]] for name in ("rows", "columns"))
    figure = Figure()
    figure.add_heatmap(
        z=grid["ratios"],
        x=columns,
        y=rows,
        colorscale=look.scale,
        texttemplate="%{z:.2f}",
        colorbar={"title": {"text": "ratio"}, "thickness": 12},
        hovertemplate="%{y}, %{x}: %{z:.4f}<extra></extra>",
    )
    up, across = (name.replace("_", " ") for name in grid["knobs"])
    figure.update_layout(
        **look.layout(xaxis={"title": across, "type": "category"}, yaxis={"title": up, "type": "category"})
    )
    return figure


def _at(axis: Axis, value: Value | None) -> float | str | None:
    """A number where the scale is one; words and what does not act are categories."""
    if axis.type in WORD_TYPES:
        return UNUSED if value is None else exact(value)
    return None if value is None else float(value)


def _axis(axis: Axis, rows: Sequence[Row]) -> dict[str, Any]:
    title = axis.name.replace("_", " ")
    if axis.type in WORD_TYPES:
        words = [exact(choice) for choice in axis.choices]
        return {
            "title": title,
            "type": "category",
            "categoryorder": "array",
            "categoryarray": [*words, UNUSED],
        }
    unused = sum(knob_value(axis, row) is None for row in rows)
    if unused:
        title += f" ({unused} trials do not use it)"
    special = sum(knob_value(axis, row) in axis.specials for row in rows)
    if special and axis.log:
        title += f" ({special} trials at {exact(axis.specials[0])} are off the scale)"
    return {"title": title, "type": "log"} if axis.log else {"title": title}
