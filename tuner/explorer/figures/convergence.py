"""How a search goes: every trial, the best so far, and what validation says of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiertune.tuner.explorer.look import Look
from tiertune.tuner.report.document import Cell
from tiertune.tuner.report.figures.comparison import axis_label
from tiertune.tuner.report.figures.convergence import LABELS, scale_limit

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SYMBOLS = {"default": "diamond", "initial": "circle-open", "random": "x-thin-open", "model": "triangle-up"}


def convergence(cell: Cell, look: Look, short: frozenset[int] = frozenset()) -> Figure:
    """Trials by number, best so far as steps; the validated range of the tuned configuration as a band, the
    median of the default on the same seeds as a line. Values far off the rest are drawn at the edge.

    `short` numbers trials that did a share of the work: their values are of something else.
    """
    from plotly.graph_objects import Figure

    figure = Figure()
    known = [(trial, trial.value) for trial in cell.search if trial.value is not None]
    known = [(trial, value) for trial, value in known if trial.number not in short]
    sign = -1.0 if cell.metric.direction == "maximize" else 1.0
    if known:
        best = min(sign * value for _, value in known)
        default = next((value for trial, value in known if trial.origin == "default"), None)
        limit = scale_limit(
            [sign * value - best for _, value in known],
            abs(sign * (default if default is not None else best * sign) - best),
        )
        edge = sign * (best + limit)
        for origin in dict.fromkeys(trial.origin for trial, _ in known):
            some = [(trial, value) for trial, value in known if trial.origin == origin]
            figure.add_scatter(
                x=[trial.number for trial, _ in some],
                y=[value if sign * value - best <= limit else edge for _, value in some],
                customdata=[
                    [value, "" if sign * value - best <= limit else " (off the scale)"] for _, value in some
                ],
                hovertemplate="trial %{x}: %{customdata[0]:.5g}%{customdata[1]}"
                "<extra>%{fullData.name}</extra>",
                mode="markers",
                name=LABELS.get(origin, origin),
                marker={
                    "symbol": SYMBOLS.get(origin, "square-open"),
                    "size": 11 if origin == "default" else 8,
                    "color": look.default
                    if origin == "default"
                    else look.tuned
                    if origin == "model"
                    else look.muted,
                    "line": {"width": 1.5},
                },
            )
        steps = [(trial.number, trial.best_so_far) for trial in cell.search if trial.best_so_far is not None]
        figure.add_scatter(
            x=[number for number, _ in steps],
            y=[value for _, value in steps],
            mode="lines",
            line={"shape": "hv", "color": look.tuned, "width": 2.5},
            name="best so far",
            hovertemplate="best up to trial %{x}: %{y:.5g}<extra></extra>",
        )
        _judged(figure, cell, look)
    failed = [trial.number for trial in cell.search if trial.value is None and trial.status != "running"]
    if failed and known:
        figure.add_scatter(
            x=failed,
            y=[sign * best for _ in failed],
            mode="markers",
            name=f"{len(failed)} failed",
            marker={"symbol": "line-ns-open", "size": 12, "color": look.bad, "line": {"width": 2}},
            hovertemplate="trial %{x} failed<extra></extra>",
        )
    figure.update_layout(
        **look.layout(xaxis={"title": "search trial"}, yaxis={"title": axis_label(cell)}, margin={"t": 40})
    )
    return figure


def _judged(figure: Figure, cell: Cell, look: Look) -> None:
    """The validated interval in the metric's unit: the default's median, moved by that of the ratio."""
    from statistics import median

    values = [pair.default for pair in cell.validation if pair.default is not None]
    if cell.effect is None or not values:
        return
    middle = median(values)
    power = 1.0 if cell.metric.direction == "maximize" else -1.0
    low, high = sorted(middle * end**power for end in (cell.effect.low, cell.effect.high))
    figure.add_hline(y=middle, line={"dash": "dash", "color": look.default, "width": 1.5})
    figure.add_hrect(y0=low, y1=high, fillcolor=look.tuned, opacity=0.25, line={"width": 0})
    figure.add_annotation(
        x=1,
        xref="paper",
        xanchor="right",
        y=middle,
        yanchor="bottom",
        showarrow=False,
        text="default, validated",
        font={"color": look.default, "size": 12},
    )
    figure.add_annotation(
        x=1,
        xref="paper",
        xanchor="right",
        y=low if power < 0 else high,
        yanchor="top" if power < 0 else "bottom",
        showarrow=False,
        text=f"{_tuned(cell)}, validated ({cell.effect.confidence:.0%} interval)",
        font={"color": look.tuned, "size": 12},
    )


def _tuned(cell: Cell) -> str:
    return "tuned" if cell.front is None else cell.front.name_of(cell.winner_trial)


def validation(cell: Cell, look: Look) -> Figure:
    """Each validation seed as a dot, the ratio with its interval below."""
    from plotly.graph_objects import Figure

    figure = Figure()
    ratios = [(pair.seed, pair.ratio) for pair in cell.validation if pair.ratio is not None]
    figure.add_scatter(
        x=[ratio for _, ratio in ratios],
        y=["each seed"] * len(ratios),
        mode="markers",
        marker={"color": look.muted, "size": 8, "symbol": "circle-open", "line": {"width": 1.5}},
        customdata=[str(seed) for seed, _ in ratios],
        hovertemplate="seed %{customdata}: %{x:.4f}<extra></extra>",
    )
    if cell.effect is not None:
        effect = cell.effect
        figure.add_scatter(
            x=[effect.ratio],
            y=[f"{effect.confidence:.0%} interval"],
            mode="markers",
            marker={"color": look.tuned, "size": 11},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [effect.high - effect.ratio],
                "arrayminus": [effect.ratio - effect.low],
                "color": look.tuned,
                "thickness": 2.5,
                "width": 8,
            },
            hovertemplate=f"{effect.ratio:.4f}, {effect.low:.4f} to {effect.high:.4f}<extra></extra>",
        )
    figure.add_vline(x=1.0, line={"dash": "dash", "color": look.default, "width": 1.5})
    figure.update_layout(
        **look.layout(xaxis={"title": "improvement over default (1 = the same)"}, showlegend=False)
    )
    return figure
