"""How the search went: every trial, and the best so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tiertune.tuner.report.document import Cell, SearchTrial
from tiertune.tuner.report.figures import style
from tiertune.tuner.report.figures.comparison import axis_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {
    "default": "default",
    "preset": "preset",
    "initial": "initial design",
    "random": "random pick",
    "model": "model's proposal",
}
COLOURS = {"default": style.DEFAULT, "initial": style.MUTED, "random": style.MUTED, "model": style.TUNED}
NEAR = 4.0
"""Drawn in place: values at most this many times as far from the best as the default, and half of all."""


def convergence(cell: Cell, name: str) -> str:
    """SVG of the search of `cell`; empty text where no trial succeeded."""
    whole = [trial for trial in cell.search if trial.fidelity == 1.0]
    measured = [(trial, trial.value) for trial in whole if trial.value is not None]
    if not measured:
        return ""
    values = [value for _, value in measured]
    sign = -1.0 if cell.metric.direction == "maximize" else 1.0
    best = min(sign * value for value in values)
    default = next((value for trial, value in measured if trial.origin == "default"), None)
    limit = scale_limit(
        [sign * value - best for value in values], abs(sign * (default or best * sign) - best)
    )
    on_scale = [(trial, value) for trial, value in measured if sign * value - best <= limit]
    far = [trial.number for trial, value in measured if sign * value - best > limit]
    failed = [trial.number for trial in cell.search if trial.value is None]
    with style.canvas(3.6) as (figure, (axes,)):
        _dots(axes, on_scale)
        steps = [(trial.number, trial.best_so_far) for trial in cell.search if trial.best_so_far is not None]
        axes.step(
            [number for number, _ in steps],
            [value for _, value in steps],
            where="post",
            color=style.TUNED,
            linewidth=2,
            label="best so far",
        )
        if default is not None:
            axes.axhline(default, color=style.DEFAULT, linestyle="--", linewidth=1.2, zorder=2)
        worse, better = (0.98, 0.02) if sign > 0 else (0.02, 0.98)
        _edge(axes, far, worse, "^" if sign > 0 else "v", style.MUTED, f"{len(far)} off the scale, worse")
        _edge(axes, failed, better, "|", style.BAD, f"{len(failed)} failed")
        axes.margins(y=0.1)
        axes.set_xlabel("search trial")
        axes.set_ylabel(axis_label(cell))
        figure.legend(loc="outside upper left", ncols=3, columnspacing=1.2, handletextpad=0.4)
        reached = min(trial.number for trial, value in measured if sign * value == best)
        described = f"{len(cell.search)} search trials, {len(failed)} failed."
        if short := len(cell.search) - len(whole):
            described += f" Not drawn: {short} of a part of the workload only."
        if default is not None:
            described += f" The default measured {default:.4g} {cell.metric.unit};"
        described += f" the best trial, number {reached}, {sign * best:.4g} {cell.metric.unit}."
        return style.to_svg(figure, name, "Convergence of the search", described)


def scale_limit(distances: Sequence[float], default_distance: float) -> float:
    """How far from the best a value may be to be drawn in place: disasters must not flatten the rest."""
    ordered = sorted(distances)
    return max(NEAR * default_distance, 1.5 * ordered[len(ordered) // 2])


def _dots(axes: Axes, points: Sequence[tuple[SearchTrial, float]]) -> None:
    for origin in dict.fromkeys(trial.origin for trial, _ in points):
        some = [(trial.number, value) for trial, value in points if trial.origin == origin]
        default = origin == "default"
        axes.plot(
            [number for number, _ in some],
            [value for _, value in some],
            style.MARKERS.get(origin, "s"),
            color=COLOURS.get(origin, style.MUTED),
            markersize=6.5 if default else 4.5,
            markerfacecolor=None if origin in {"default", "model"} else "none",
            alpha=1.0 if default else 0.75,
            label=LABELS.get(origin, origin),
            zorder=4 if default else 3,
        )


def _edge(axes: Axes, numbers: Sequence[int], height: float, marker: str, colour: str, label: str) -> None:
    """Marks at an edge of the axes for trials that have no place on the scale."""
    if numbers:
        axes.plot(
            numbers,
            [height] * len(numbers),
            marker,
            color=colour,
            markersize=5 if marker != "|" else 9,
            markerfacecolor="none",
            markeredgewidth=1.0 if marker != "|" else 1.8,
            transform=axes.get_xaxis_transform(),
            label=label,
            clip_on=False,
        )
