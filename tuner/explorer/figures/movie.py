"""Pages over time, default beside tuned: a movie, and the whole of both runs at a glance."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tiertune.tuner.explorer.look import Look

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

FRAMES = 60
TOP_QUANTILE = 0.995
"""Bars end there: one moment of one hot page must not flatten all else."""

Map = Mapping[str, Any]


def movie(maps: Mapping[str, Map], look: Look) -> Figure:
    """`maps` as the engine returns them, by role. A run that is over stays as it ended."""
    from plotly.graph_objects import Bar, Frame
    from plotly.subplots import make_subplots

    order = hottest_first(maps)
    times = frame_times(maps)
    top = highest(maps)
    figure = make_subplots(
        rows=1, cols=len(maps), shared_yaxes=True, subplot_titles=list(maps), horizontal_spacing=0.04
    )
    for column, role in enumerate(maps, start=1):
        for name, values, colour in _bars(maps[role], order, times[0], look):
            bar = Bar(y=values, name=name, marker={"color": colour, "line": {"width": 0}}, legendgroup=name)
            figure.add_trace(bar.update(showlegend=column == 1), row=1, col=column)
    figure.frames = [
        Frame(
            name=f"{at:.4g}",
            data=[Bar(y=values) for one in maps.values() for _, values, _ in _bars(one, order, at, look)],
        )
        for at in times
    ]
    still = {"mode": "immediate", "frame": {"duration": 0, "redraw": True}, "transition": {"duration": 0}}
    moving = {"fromcurrent": True, "frame": {"duration": 120, "redraw": True}, "transition": {"duration": 0}}
    figure.update_layout(
        **look.layout(barmode="stack", bargap=0, margin={"t": 60, "b": 20}, legend={"y": 1.08}),
        updatemenus=[
            {
                "type": "buttons", "direction": "left", "x": 0, "y": -0.22, "xanchor": "left",
                "yanchor": "top", "showactive": False, "bgcolor": look.panel, "font": {"color": look.ink},
                "buttons": [
                    {"label": "play", "method": "animate", "args": [None, moving]},
                    {"label": "stop", "method": "animate", "args": [[None], still]},
                ],
            }
        ],
        sliders=[
            {
                "x": 0.16, "len": 0.84, "y": -0.12,
                "currentvalue": {"prefix": "simulated time ", "suffix": " s"},
                "steps": [
                    {"label": frame.name, "method": "animate", "args": [[frame.name], still]}
                    for frame in figure.frames
                ],
            }
        ],
    )  # fmt: skip
    axis = {"gridcolor": look.grid, "linecolor": look.grid, "zerolinecolor": look.grid}
    figure.update_xaxes(**axis, title="pages, hottest first (%)", tickvals=_ticks(len(order)), ticktext=TICKS)
    figure.update_yaxes(**axis, range=[0, top])
    figure.update_yaxes(title="reads per second", row=1, col=1)
    return figure


def whole_run(maps: Mapping[str, Map], look: Look) -> Figure:
    """The share of each bin in fast memory over simulated time."""
    from plotly.subplots import make_subplots

    order = hottest_first(maps)
    figure = make_subplots(
        rows=1, cols=len(maps), shared_yaxes=True, subplot_titles=list(maps), horizontal_spacing=0.04
    )
    for column, one in enumerate(maps.values(), start=1):
        figure.add_heatmap(
            x=one["time_s"],
            z=np.array(one["fast_share"])[:, order].T,
            zmin=0,
            zmax=1,
            colorscale=look.scale,
            showscale=column == 1,
            colorbar={"title": {"text": "in fast memory"}, "thickness": 12, "tickformat": ".0%"},
            hovertemplate="%{x:.4g} s: %{z:.0%} in fast memory<extra></extra>",
            row=1,
            col=column,
        )
    figure.update_layout(**look.layout(margin={"t": 40}))
    axis = {"gridcolor": look.grid, "linecolor": look.grid, "zerolinecolor": look.grid}
    end = max(one["time_s"][-1] for one in maps.values())
    figure.update_xaxes(**axis, title="simulated time (s)", range=[0, end])
    figure.update_yaxes(**axis, tickvals=_ticks(len(order)), ticktext=TICKS)
    figure.update_yaxes(title="pages, hottest first (%)", row=1, col=1)
    return figure


TICKS = ["0", "25", "50", "75", "100"]


def _ticks(bins: int) -> list[float]:
    return [share * bins - 0.5 for share in (0, 0.25, 0.5, 0.75, 1)]


def hottest_first(maps: Mapping[str, Map]) -> list[int]:
    """Bins by the mean of their reads over both runs: the same order on both sides."""
    heat = sum(np.array(one["reads_per_s"]).mean(axis=0) for one in maps.values())
    return [int(place) for place in np.argsort(-np.asarray(heat), kind="stable")]


def frame_times(maps: Mapping[str, Map]) -> list[float]:
    """Times of frames, evenly over the longer run."""
    end = max(one["time_s"][-1] for one in maps.values())
    start = min(one["time_s"][0] for one in maps.values())
    return [float(at) for at in np.linspace(start, end, FRAMES)]


def highest(maps: Mapping[str, Map]) -> float:
    """Where bars end."""
    return (
        max(float(np.quantile(np.array(one["reads_per_s"]), TOP_QUANTILE)) for one in maps.values()) * 1.1
        or 1.0
    )


def moment_at(one: Map, at_s: float) -> int:
    """The last moment up to a time, the first one before any."""
    return max(0, bisect_right(one["time_s"], at_s * (1 + 1e-9)) - 1)


def _bars(one: Map, order: list[int], at_s: float, look: Look) -> list[tuple[str, list[float], str]]:
    """Name, heights by bin and colour: reads of pages in fast memory, then of the others."""
    moment = moment_at(one, at_s)
    reads = np.array(one["reads_per_s"][moment])[order]
    fast = reads * np.array(one["fast_share"][moment])[order]
    return [
        ("in fast memory", _short(fast), look.tuned),
        ("in slow memory", _short(reads - fast), look.default),
    ]


def _short(values: Any) -> list[float]:
    """Four digits: what a bar of a few hundred pixels can show."""
    return [float(f"{value:.4g}") for value in values]
