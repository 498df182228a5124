"""Two objectives against each other: the default, the front with its intervals, and what was searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tiertune.tuner.report.document import Cell, FrontPart, FrontPoint, FrontShare, Metric
from tiertune.tuner.report.figures import style
from tiertune.tuner.report.figures.comparison import metric_words
from tiertune.units import binary_unit, is_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Span = tuple[float, float]
ROOM = 0.35
"""How far the axes reach beyond what was validated, as a share of its width."""


def front(cell: Cell, name: str) -> str:
    """SVG of the front of `cell`; empty text where there is one objective."""
    part = cell.front
    if part is None:
        return ""
    spans = spans_of(part)
    (x_scale, x_words), (y_scale, y_words) = unit_of(part.first, spans[0]), unit_of(part.second, spans[1])
    with style.canvas(4.2) as (figure, (axes,)):
        trials = [(t.first, t.second) for t in part.search]
        drawn = [t for t in trials if _inside(t, spans)]
        _dots(axes, drawn, (x_scale, y_scale), "o", style.MUTED, "search trial", size=3.5)
        groups = (
            ([p for p in part.points if not p.on_front and p.trial is not None], "s", style.MUTED, "beaten"),
            ([p for p in part.points if p.trial is None], "D", style.DEFAULT, "default"),
            (part.found, "o", style.TUNED, "on the front"),
        )
        for points, marker, colour, label in groups:
            places = [(p.first.mean, p.second.mean) for p in points]
            _dots(axes, places, (x_scale, y_scale), marker, colour, label, size=7)
            for point in points:
                _cross(axes, point, (x_scale, y_scale), colour)
        for point in part.found:
            axes.annotate(
                point.label,
                (point.first.mean / x_scale, point.second.mean / y_scale),
                # Towards what is better in both, where nothing else can be.
                xytext=_towards_better(part),
                textcoords="offset points",
                ha="center",
                va="center",
                color=style.TUNED,
            )
        axes.set_xlim(spans[0][0] / x_scale, spans[0][1] / x_scale)
        axes.set_ylim(spans[1][0] / y_scale, spans[1][1] / y_scale)
        axes.set_xlabel(label_of(part.first, x_words))
        axes.set_ylabel(label_of(part.second, y_words))
        figure.legend(loc="outside upper left", ncols=4, columnspacing=1.2, handletextpad=0.4)
        told = "; ".join(
            f"{p.label or f'trial {p.trial}'} {p.first.mean / x_scale:.4g}, {p.second.mean / y_scale:.4g}"
            for p in part.points
        )
        return style.to_svg(figure, name, f"{x_words} against {y_words}", f"Means: {told}.")


def outside(part: FrontPart) -> int:
    """How many search trials of a front lie outside its figure."""
    spans = spans_of(part)
    return sum(not _inside((t.first, t.second), spans) for t in part.search)


def spans_of(part: FrontPart) -> tuple[Span, Span]:
    """What of both axes is shown: all that was validated, and some room around it."""
    return (
        _span([end for point in part.points for end in ends_of(point.first)]),
        _span([end for point in part.points for end in ends_of(point.second)]),
    )


def _span(values: list[float]) -> Span:
    low, high = min(values), max(values)
    room = ROOM * (high - low or abs(high) or 1.0)
    return max(low - room, -0.06 * (high + room)), high + room


def _inside(values: tuple[float, float], spans: tuple[Span, Span]) -> bool:
    return all(low <= value <= high for value, (low, high) in zip(values, spans, strict=True))


def ends_of(share: FrontShare) -> Span:
    """The interval in the metric's unit; the mean twice where there is none."""
    if not share.ratio or share.low is None or share.high is None:
        return share.mean, share.mean
    return share.mean * share.low / share.ratio, share.mean * share.high / share.ratio


def unit_of(metric: Metric, span: Span) -> tuple[float, str]:
    """What values are divided by, and what the axis is called."""
    words = metric_words(metric.name, metric.unit)
    if not is_bytes(metric.unit):
        return 1.0, words
    size, unit = binary_unit(span[1])
    return float(size), words.replace(f"({metric.unit})", f"({unit})")


def _towards_better(part: FrontPart) -> tuple[float, float]:
    """Where the number of a point stands, in points of a font."""
    x, y = (-9.0 if metric.direction == "minimize" else 9.0 for metric in (part.first, part.second))
    return x, y


def label_of(metric: Metric, words: str) -> str:
    """The title of an axis."""
    return f"{words}, {'lower' if metric.direction == 'minimize' else 'higher'} is better"


def _dots(
    axes: Axes,
    points: list[tuple[float, float]],
    scale: tuple[float, float],
    marker: str,
    colour: str,
    label: str,
    *,
    size: float,
) -> None:
    if points:
        axes.plot(
            [x / scale[0] for x, _ in points],
            [y / scale[1] for _, y in points],
            marker,
            color=colour,
            markersize=size,
            markerfacecolor="none" if colour == style.MUTED else None,
            label=label,
            zorder=4 if colour != style.MUTED else 2,
        )


def _cross(axes: Axes, point: FrontPoint, scale: tuple[float, float], colour: str) -> None:
    """Both intervals of a point."""
    x, y = point.first.mean / scale[0], point.second.mean / scale[1]
    axes.plot([end / scale[0] for end in ends_of(point.first)], [y, y], color=colour, linewidth=1.6, zorder=3)
    axes.plot(
        [x, x], [end / scale[1] for end in ends_of(point.second)], color=colour, linewidth=1.6, zorder=3
    )
