"""What memory did over time: the columns that runs of the first validation seed keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tiertune.tuner.explorer.look import Look

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

PANELS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("fast-tier hits", ("fast_hit_ratio",)),
    ("migrations (1/s)", ("promotions_per_s", "demotions_per_s")),
    ("slow-tier latency (ns)", ("slow_latency_ns",)),
)
"""Title of a panel, and the columns whose sum it shows."""


def over_time(live: bool) -> str:
    """The title of such a figure."""
    return "Over the run" if live else "Over simulated time"


def timelines(runs: Mapping[str, Mapping[str, list[float]]], look: Look, *, live: bool = False) -> Figure:
    """Columns by name of each run by its role (default, tuned, or another word), one panel below another.
    `live` runs were on a host."""
    from plotly.subplots import make_subplots

    panels = [
        (title, names)
        for title, names in PANELS
        if any(all(n in run for n in names) for run in runs.values())
    ]
    figure = make_subplots(rows=max(1, len(panels)), shared_xaxes=True, vertical_spacing=0.05)
    colours = {"default": look.default}
    for row, (title, names) in enumerate(panels, start=1):
        for role, columns in runs.items():
            if not all(name in columns for name in names):
                continue
            figure.add_scatter(
                x=columns["time_s"],
                y=[sum(parts) for parts in zip(*(columns[name] for name in names), strict=True)],
                mode="lines",
                name=role,
                legendgroup=role,
                showlegend=row == 1,
                line={
                    "color": colours.get(role, look.tuned),
                    "width": 2,
                    "dash": "dash" if role == "default" else "solid",
                },
                row=row,
                col=1,
            )
        figure.update_yaxes(title=title, row=row, col=1)
    figure.update_layout(**look.layout(height=160 + 170 * len(panels), margin={"t": 40}))
    axis = {"gridcolor": look.grid, "linecolor": look.grid, "zerolinecolor": look.grid}
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    figure.update_xaxes(title="time (s)" if live else "simulated time (s)", row=max(1, len(panels)), col=1)
    return figure
