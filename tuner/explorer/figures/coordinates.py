"""Parallel coordinates: one line a trial over all searched knobs, coloured by what it measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tiertune.spaces.definition import Axis
from tiertune.tuner.explanation.scale import WORD_TYPES
from tiertune.tuner.explorer.look import Look
from tiertune.tuner.explorer.trials import knob_value, values_of
from tiertune.tuner.journal import Row
from tiertune.tuner.report.figures.convergence import scale_limit
from tiertune.tuner.report.metrics import metric_of
from tiertune.tuner.report.numbers import exact
from tiertune.tuner.trial import Objective, Value
from tiertune.units import is_bytes

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

TICKS = 5
UNUSED = "not in use"
"""Label of the place for trials in which a knob does not act, below the knob's range."""


def coordinates(
    rows: Sequence[Row],
    axes: Sequence[Axis],
    objective: Objective,
    look: Look,
    second: Objective | None = None,
) -> Figure:
    """`rows` are search trials that worked. Disasters all have the last colour. The colour is by the first
    objective; a second one has an axis."""
    from plotly.graph_objects import Figure

    known = values_of(rows, objective)
    if second is not None:
        whole = {row.trial.number for row, _ in values_of(rows, second)}
        known = [(row, value) for row, value in known if row.trial.number in whole]
    rows, values = [row for row, _ in known], [value for _, value in known]
    figure = Figure()
    if values:
        low, high = colour_range(values, objective)
        figure.add_parcoords(
            dimensions=[
                *(_dimension(axis, rows) for axis in axes),
                {
                    "label": objective.metric,
                    "values": [min(max(value, low), high) for value in values],
                    "range": [low, high],
                },
                *(_metric(rows, one) for one in (second,) if one is not None),
            ],
            line={
                "color": values,
                "cmin": low,
                "cmax": high,
                "colorscale": look.scale,
                "reversescale": objective.direction == "minimize",
                "showscale": False,
            },
            labelangle=-18,
            labelside="top",
            labelfont={"size": 12},
            tickfont={"size": 11},
            rangefont={"size": 1, "color": "rgba(0,0,0,0)"},
        )
    figure.update_layout(**look.layout(margin={"l": 110, "r": 60, "t": 100, "b": 20}))
    return figure


def colour_range(values: Sequence[float], objective: Objective) -> tuple[float, float]:
    """Smallest and largest value that have colours of their own; the best is one of them."""
    sign = -1.0 if objective.direction == "maximize" else 1.0
    best = min(sign * value for value in values)
    distances = [sign * value - best for value in values]
    limit = min(scale_limit(distances, distances[0]), max(distances)) or abs(best) * 0.01 or 1.0
    low, high = sorted((sign * best, sign * (best + limit)))
    return low, high


def _metric(rows: Sequence[Row], objective: Objective) -> dict[str, Any]:
    values = [value for _, value in values_of(rows, objective)]
    low, high = colour_range(values, objective)
    shown = [min(max(value, low), high) for value in values]
    dimension: dict[str, Any] = {"label": objective.metric, "values": shown, "range": [low, high]}
    if is_bytes(metric_of(objective).unit):
        dimension["tickformat"] = "~s"  # the default's letter for 1e9 is B, which reads as bytes
    return dimension


def _dimension(axis: Axis, rows: Sequence[Row]) -> dict[str, Any]:
    values = [knob_value(axis, row) for row in rows]
    label = axis.name.replace("_", " ")
    if axis.type in WORD_TYPES:
        words = [exact(choice) for choice in axis.choices]
        places: list[float] = [-1 if value is None else axis.choices.index(value) for value in values]
        ticks, texts = list(range(len(words))), words
        span, gap = float(len(words) - 1), 1.0
        low = 0.0
    else:
        low, high = place(axis, axis.minimum), place(axis, axis.maximum)
        span = high - low or 1.0
        gap = span / 6
        places = [low - gap if value is None else place(axis, value) for value in values]
        ticks = [low + span * step / (TICKS - 1) for step in range(TICKS)]  # type: ignore[misc]
        texts = [_short(10**tick if axis.log else tick) for tick in ticks]
        special = [one for one in places if one > high or one < low - gap]
        low, span = min([low, *special]), max([high, *special]) - min([low, *special]) or 1.0
    unused = any(value is None for value in values)
    return {
        "label": label if not axis.log else f"{label} (log)",
        "values": places,
        "range": [low - gap if unused else low, low + span],
        "tickvals": [low - gap, *ticks] if unused else ticks,
        "ticktext": [UNUSED, *texts] if unused else texts,
    }


def place(axis: Axis, value: Value) -> float:
    """Where a number stands: its logarithm where ratios matter; special values outside a range stay there."""
    number = float(value)
    if not axis.log:
        return number
    return math.log10(number) if number > 0 else math.log10(axis.minimum) - 0.5


def _short(number: float) -> str:
    return f"{number:,.0f}".replace(",", "\u202f") if abs(number) >= 1000 else f"{number:.3g}"
