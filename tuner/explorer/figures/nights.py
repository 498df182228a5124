"""What nights measured, one line a series: percent against its first night, up is worse."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tiertune.tuner.explorer.look import Look
from tiertune.tuner.nightly.detection import Reading
from tiertune.tuner.nightly.history import Followed

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

SYMBOLS = ("circle", "diamond", "square", "triangle-up", "cross", "x", "star", "hexagon")


def nights(series: Mapping[str, Followed], readings: Mapping[str, Sequence[Reading]], look: Look) -> Figure:
    """Series of one kind over nights. Nights in which nothing of a series worked are left out of its line."""
    from plotly.graph_objects import Figure

    colours = (look.tuned, look.default, look.bad, look.muted)
    figure = Figure()
    for index, (key, followed) in enumerate(series.items()):
        known = [one for one in readings.get(key, ()) if one.values]
        if not known:
            continue
        means = [sum(one.values) / len(one.values) for one in known]
        figure.add_scatter(
            x=[one.night for one in known],
            y=[100 * math.expm1(mean - means[0]) for mean in means],
            name=followed.label,
            mode="lines+markers",
            line={"color": colours[index % len(colours)], "dash": "solid" if index < len(colours) else "dot"},
            marker={"symbol": SYMBOLS[index % len(SYMBOLS)], "size": 8},
            customdata=[[len(one.values), one.failed] for one in known],
            hovertemplate="%{x}: %{y:+.2f} %<br>%{customdata[0]} runs, %{customdata[1]} failed"
            "<extra>%{fullData.name}</extra>",
        )
    figure.add_hline(y=0, line={"dash": "dash", "color": look.muted, "width": 1})
    figure.update_layout(
        **look.layout(
            xaxis={"type": "category", "title": "night"},
            yaxis={"title": "change against the first night (%), up is worse"},
            margin={"t": 12},
            legend={"orientation": "h", "y": -0.3, "yanchor": "top"},
        )
    )
    return figure
