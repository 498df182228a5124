"""The figures of a comparison, as SVG for the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tiertune.tuner.comparison.anytime import TIME, TRIALS
from tiertune.tuner.comparison.document import Comparison, Contender, Curve, Ranks, Span
from tiertune.tuner.comparison.scores import DEFAULT, TUNED
from tiertune.tuner.report.figures import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = 3
AXES = {
    TRIALS: "search trials",
    TIME: "simulated time spent searching, in runs of all-fast",
}


def slowdowns(found: Comparison, name: str) -> str:
    """Slowdown of every system against all-fast, at default and tuned, and of the oracle."""
    rows = found.contenders
    with style.canvas(0.95 + 0.36 * len(rows)) as (figure, (axes,)):
        axes.axvline(1.0, color=style.INK, linewidth=1.2, label="all-fast")
        if found.oracle_slowdown is not None:
            axes.axvline(
                found.oracle_slowdown.value, color=style.MUTED, linestyle="--", linewidth=1.4, label="oracle"
            )
        for place, row in enumerate(rows):
            ends = row.slowdown_default.value, row.slowdown_tuned.value
            axes.plot(ends, [place, place], color=style.GRID, linewidth=4, solid_capstyle="butt", zorder=1)
            for role, span, shift in (
                ("default", row.slowdown_default, -0.14),
                ("tuned", row.slowdown_tuned, 0.14),
            ):
                colour = style.COLOUR_OF_ROLE[role]
                _bar(axes, span, place + shift, colour)
                label = role if place == 0 else "_"
                axes.plot(
                    [span.value], [place + shift], style.MARKER_OF_ROLE[role], color=colour, label=label
                )
        axes.set_yticks(range(len(rows)), [row.name for row in rows])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("slowdown against all-fast (lower is better)")
        figure.legend(loc="outside upper left", ncols=4, columnspacing=1.2, handletextpad=0.4)
        told = "; ".join(
            f"{row.name} {row.slowdown_default.value:.3f} to {row.slowdown_tuned.value:.3f}" for row in rows
        )
        return style.to_svg(figure, name, "Slowdown at default and tuned", f"{told}.")


def _bar(axes: Axes, span: Span, place: float, colour: str) -> None:
    if span.low is not None and span.high is not None:
        axes.plot([span.low, span.high], [place, place], color=colour, linewidth=1.6, alpha=0.9)


def ranks(found: Comparison, name: str) -> str:
    """Mean ranks at default and tuned; lines join systems that are not told apart."""
    shown = [one for one in found.ranks if one.stage in (DEFAULT, TUNED)]
    if not shown:
        return ""
    count = len(shown[0].order)
    with style.canvas(1.0 + 2.0 * (0.62 + 0.11 * count), rows=len(shown)) as (figure, rows):
        for axes, one in zip(rows, shown, strict=True):
            _diagram(axes, one)
        told = "; ".join(
            f"{one.stage}: "
            + ", ".join(f"{n} {r:.2f}" for n, r in zip(one.order, one.mean_ranks, strict=True))
            for one in shown
        )
        return style.to_svg(figure, name, "Mean ranks and critical differences", f"{told}.")


def _diagram(axes: Axes, one: Ranks) -> None:
    """Demsar's diagram: ranks on a line, names to the side that is nearer, bars over those not told apart."""
    count = len(one.order)
    colour = style.COLOUR_OF_ROLE[one.stage]
    half = (count + 1) // 2
    axes.set_xlim(0.5 - count * 0.28, count + 0.5 + count * 0.28)
    axes.set_ylim(-(half + 0.6 + 0.35 * len(one.joined)), 1.7)
    axes.axis("off")
    axes.plot([1, count], [0, 0], color=style.INK, linewidth=1.4)
    for tick in range(1, count + 1):
        axes.plot([tick, tick], [0, 0.18], color=style.INK, linewidth=1.0)
        axes.annotate(str(tick), (tick, 0.26), ha="center", va="bottom", fontsize=8.5, color=style.MUTED)
    start = -0.35 * len(one.joined) - 0.45
    for position, (system, rank) in enumerate(zip(one.order, one.mean_ranks, strict=True)):
        left = position < half
        height = start - 0.95 * (position if left else count - 1 - position)
        edge = 0.55 if left else count + 0.45
        axes.plot([rank, rank, edge], [0, height, height], color=colour, linewidth=1.0)
        axes.annotate(
            f"{system} {rank:.2f}" if left else f"{rank:.2f} {system}",
            (edge, height),
            xytext=(-4 if left else 4, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=9,
        )
    for level, (first, last) in enumerate(one.joined):
        below = -0.3 - 0.35 * level
        ends = one.mean_ranks[first] - 0.06, one.mean_ranks[last] + 0.06
        axes.plot(ends, [below, below], color=style.INK, linewidth=3.4, solid_capstyle="butt")
    if one.critical_difference is not None:
        reach = min(one.critical_difference, count - 1)
        axes.plot([1, 1 + reach], [1.25, 1.25], color=style.MUTED, linewidth=1.6)
        for end in (1, 1 + reach):
            axes.plot([end, end], [1.13, 1.37], color=style.MUTED, linewidth=1.6)
        axes.annotate(
            f"critical difference {one.critical_difference:.2f}",
            (1 + reach, 1.25),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=style.MUTED,
        )
    axes.annotate(
        one.stage, (0.0, 1.0), xycoords="axes fraction", ha="left", va="top", color=colour, fontweight="bold"
    )


def anytime(found: Comparison, axis: str, name: str) -> str:
    """A panel for each system: median and quartiles over searches, all others' medians behind it."""
    curves = {curve.system: curve for curve in found.curves if curve.axis == axis and curve.cost}
    order = [contender for contender in found.contenders if contender.name in curves]
    if not order:
        return ""
    rows = -(-len(order) // COLUMNS)
    highest = max(max(curve.high) for curve in curves.values())
    with style.canvas(0.6 + 1.35 * rows, rows, True, COLUMNS, True) as (figure, grid):
        for axes, contender in zip(grid, order, strict=False):
            _panel(axes, curves, contender)
        for axes in grid[len(order) :]:
            axes.set_visible(False)
        # The last first: where it stands in what most searches see, not in the first random picks.
        grid[0].set_ylim(top=min(highest, 1.25 * max(curve.median[0] for curve in curves.values())))
        figure.supxlabel(AXES[axis], fontsize=10)
        figure.supylabel("slowdown of the best so far", fontsize=10)
        told = "; ".join(f"{curve.system} ends at {curve.median[-1]:.3f}" for curve in curves.values())
        return style.to_svg(figure, name, f"Best so far over {axis}", f"{told}.")


def _panel(axes: Axes, curves: dict[str, Curve], contender: Contender) -> None:
    for curve in curves.values():
        axes.step(curve.cost, curve.median, where="post", color=style.GRID, linewidth=0.9)
    own = curves[contender.name]
    axes.fill_between(own.cost, own.low, own.high, step="post", color=style.TUNED, alpha=0.25, linewidth=0)
    axes.step(own.cost, own.median, where="post", color=style.TUNED, linewidth=1.8)
    axes.axhline(contender.slowdown_default.value, color=style.DEFAULT, linestyle="--", linewidth=1.1)
    axes.set_title(contender.name, fontsize=9.5)
    axes.tick_params(labelsize=8)


def scatter(found: Comparison, name: str) -> str:
    """Every system in every scenario: slowdown at default across, tuned up; under the diagonal it gained."""
    points = [
        (entry.slowdown_default.value, entry.slowdown_tuned.value, entry.verdict)
        for entry in found.entries
        if entry.slowdown_default is not None and entry.slowdown_tuned is not None
    ]
    if not points:
        return ""
    with style.canvas(3.6) as (figure, (axes,)):
        values = [value for point in points for value in point[:2]]
        ends = [min(values), max(values)]
        axes.plot(ends, ends, color=style.MUTED, linewidth=1.0, linestyle="--")
        _dots(axes, points, "better", "o", style.TUNED)
        _dots(axes, points, "not shown", "x", style.MUTED)
        _dots(axes, points, "worse", "v", style.BAD)
        axes.set_xlabel("slowdown at default")
        axes.set_ylabel("slowdown tuned")
        figure.legend(loc="outside upper left", ncols=3, columnspacing=1.2, handletextpad=0.4)
        counts = ", ".join(
            f"{sum(p[2] == verdict for p in points)} {verdict}"
            for verdict in ("better", "not shown", "worse")
        )
        return style.to_svg(figure, name, "Tuned against default, each scenario", f"{counts}.")


def _dots(
    axes: Axes, points: Sequence[tuple[float, float, str]], verdict: str, marker: str, colour: str
) -> None:
    some = [point for point in points if point[2] == verdict]
    if some:
        axes.plot(
            [x for x, _, _ in some],
            [y for _, y, _ in some],
            marker,
            color=colour,
            markersize=4.5,
            markerfacecolor="none",
            label=f"{verdict} ({len(some)})",
        )
