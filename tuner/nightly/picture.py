"""Trends over nights, one small figure a series."""

from __future__ import annotations

from html import escape

from tiertune.tuner.nightly.digest import Trend
from tiertune.tuner.nightly.text import percent
from tiertune.tuner.report.figures import style

MOST_LABELS = 6
LEAST_SPAN = 2.0
"""The scale shows no less than that many percent each way, so that noise looks like noise."""


def trend(one: Trend, name: str) -> str:
    """SVG of a figure over nights: percent against the first night shown, up is worse."""
    values = [percent(point.value) for point in one.points]
    errors = [100 * 2 * point.error for point in one.points]
    places = range(len(values))
    with style.canvas(1.9) as (figure, (axes,)):
        axes.axhline(0.0, color=style.DEFAULT, linestyle="--", linewidth=1.0)
        axes.errorbar(
            places,
            values,
            yerr=errors,
            color=style.TUNED,
            marker="o",
            markersize=4,
            linewidth=1.4,
            elinewidth=1.0,
            capsize=0,
        )
        for place, point in zip(places, one.points, strict=True):
            if point.night in one.steps:
                axes.axvline(place - 0.5, color=style.BAD, linewidth=1.2)
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, -LEAST_SPAN), max(high, LEAST_SPAN))
        stride = max(1, -(-len(values) // MOST_LABELS))
        shown = list(places)[::-1][::stride][::-1]
        axes.set_xticks(shown, [one.points[place].night[5:] for place in shown])
        axes.set_ylabel("change (%)\nup is worse")
        told = f"{len(values)} nights, the last {values[-1]:+.1f} % against the first."
        return style.to_svg(figure, name, escape(one.label), told)
