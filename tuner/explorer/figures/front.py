"""Two objectives against each other: search trials, and what validation says of default and front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tiertune.tuner.explorer.look import Look
from tiertune.tuner.journal import Row
from tiertune.tuner.report.document import FrontPart, FrontPoint, Metric
from tiertune.tuner.report.figures.convergence import LABELS
from tiertune.tuner.report.figures.front import Span, ends_of, label_of, spans_of, unit_of
from tiertune.tuner.search.objectives import Objectives

if TYPE_CHECKING:
    from plotly.graph_objects import Figure


def trade(
    rows: Sequence[Row],
    objectives: Objectives,
    metrics: tuple[Metric, Metric],
    part: FrontPart | None,
    look: Look,
) -> Figure:
    """`rows` are search trials that worked; `part` is None before validation.

    Once there is a front the window is around it, as in the report; a double click shows everything.
    """
    from plotly.graph_objects import Figure

    known = [(row, values) for row in rows if (values := objectives.values(row.metrics)) is not None]
    first, second = ([pair[k] for _, pair in known] for k in (0, 1))
    spans: tuple[Span, Span] = ((0.0, max(first, default=1.0)), (0.0, max(second, default=1.0)))
    if part is not None:
        spans = spans_of(part)
    (wide, across), (high, up) = (unit_of(metric, span) for metric, span in zip(metrics, spans, strict=True))
    figure = Figure()
    for role in ("default", "search trial"):
        some = [(row, pair) for row, pair in known if (row.trial.origin == "default") == (role == "default")]
        if role == "default" and part is not None:
            continue  # the same configuration, on one seed: validation has it better
        figure.add_scatter(
            x=[pair[0] / wide for _, pair in some],
            y=[pair[1] / high for _, pair in some],
            customdata=[
                [row.trial.number, LABELS.get(row.trial.origin, row.trial.origin)] for row, _ in some
            ],
            hovertemplate="trial %{customdata[0]}, %{customdata[1]}: %{x:.5g}, %{y:.5g}<extra></extra>",
            mode="markers",
            name=role,
            marker={
                "symbol": "diamond" if role == "default" else "circle-open",
                "size": 11 if role == "default" else 7,
                "color": look.default if role == "default" else look.muted,
            },
        )
    for name, symbol, colour, points in _judged(part, look):
        if points:
            _points(figure, name, symbol, colour, points, (wide, high))
    axes: dict[str, Any] = {
        "xaxis": {"title": label_of(metrics[0], across)},
        "yaxis": {"title": label_of(metrics[1], up)},
    }
    if part is not None:
        axes["xaxis"]["range"] = [end / wide for end in spans[0]]
        axes["yaxis"]["range"] = [end / high for end in spans[1]]
    figure.update_layout(**look.layout(**axes, margin={"t": 40}))
    return figure


def _judged(part: FrontPart | None, look: Look) -> list[tuple[str, str, str, list[FrontPoint]]]:
    points = part.points if part is not None else []
    found = part.found if part is not None else []
    return [
        ("beaten", "square", look.muted, [p for p in points if not p.on_front and p.trial is not None]),
        ("default, validated", "diamond", look.default, [p for p in points if p.trial is None]),
        ("on the front", "circle", look.tuned, found),
    ]


def _points(
    figure: Figure,
    name: str,
    symbol: str,
    colour: str,
    points: Sequence[FrontPoint],
    scale: tuple[float, float],
) -> None:
    errors: list[dict[str, Any]] = []
    for size, shares in zip(scale, ([p.first for p in points], [p.second for p in points]), strict=True):
        ends = [ends_of(share) for share in shares]
        errors.append(
            {
                "type": "data",
                "symmetric": False,
                "array": [(high - share.mean) / size for share, (_, high) in zip(shares, ends, strict=True)],
                "arrayminus": [
                    (share.mean - low) / size for share, (low, _) in zip(shares, ends, strict=True)
                ],
                "color": colour,
                "thickness": 2,
            }
        )
    numbered = name == "on the front"
    figure.add_scatter(
        x=[point.first.mean / scale[0] for point in points],
        y=[point.second.mean / scale[1] for point in points],
        error_x=errors[0],
        error_y=errors[1],
        text=[point.label or f"trial {point.trial}" for point in points],
        mode="markers+text" if numbered else "markers",
        textposition="top right",
        textfont={"color": colour},
        name=name,
        marker={"symbol": symbol, "size": 11, "color": colour},
        hovertemplate="%{text}: %{x:.5g}, %{y:.5g}<extra>%{fullData.name}</extra>",
    )
