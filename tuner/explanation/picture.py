"""Figures of an explanation: from default to tuned, importance, slices, and two knobs as a heat map."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tiertune.tuner.report.figures import style
from tiertune.tuner.report.figures.heat import HeatCell, Side, heat
from tiertune.tuner.report.numbers import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Data = dict[str, Any]

LEAST_COLOUR, MOST_COLOUR = math.log(1.1), math.log(2.0)
"""The deepest colour is for the largest difference of the map, but for no less than 10 % and no more than a
factor of two: noise should look pale."""


def rollout(cell: Data, name: str) -> str:
    """Gain over the default after each step, with intervals; empty where there was no way."""
    steps = [step for step in cell["way"]["steps"] if step["ratio"] is not None]
    if len(steps) < 2:
        return ""
    with style.canvas(0.9 + 0.34 * len(steps)) as (figure, (axes,)):
        axes.axvline(1.0, color=style.DEFAULT, linestyle="--", linewidth=1.2)
        rows = range(len(steps))
        ratios = [step["ratio"] for step in steps]
        axes.plot(ratios, rows, color=style.MUTED, linewidth=1.0)
        for row, step in enumerate(steps):
            enough = cell["way"]["enough"] == step["step"]
            axes.plot([step["low"], step["high"]], [row, row], color=style.TUNED, linewidth=1.8)
            axes.plot([step["ratio"]], [row], "o", color=style.TUNED, markersize=9 if enough else 5)
        axes.set_yticks(rows, [step_name(step) for step in steps])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("performance relative to the default")
        told = "; ".join(f"{step_name(step)}: {step['ratio']:.3f}" for step in steps)
        return style.to_svg(figure, name, "Gain after each change", told)


def step_name(step: Data) -> str:
    """What a step changes, in words."""
    changes = list(step["changes"])
    if not changes:
        return "default"
    return f"+ {changes[0]}" if len(changes) == 1 else f"+ the other {len(changes)}"


def importance(cell: Data, name: str) -> str:
    """Shares of the variance by knob, with intervals; empty where nothing is said of knobs."""
    parts = cell["importance"]["knobs"]
    if not parts:
        return ""
    with style.canvas(0.8 + 0.3 * len(parts)) as (figure, (axes,)):
        axes.axvline(0.0, color=style.MUTED, linewidth=1.0)
        for row, part in enumerate(parts):
            share, low, high = (100 * part[key] for key in ("share", "low", "high"))
            colour = style.TUNED if part["shown"] else style.MUTED
            axes.plot([low, high], [row, row], color=colour, linewidth=1.8)
            axes.plot(
                [share], [row], "o", color=colour, markersize=6,
                markerfacecolor=colour if part["shown"] else "none",
            )  # fmt: skip
        axes.set_yticks(range(len(parts)), [part["knobs"][0] for part in parts])
        axes.set_ylim(len(parts) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("share of the differences between trials (%)")
        told = "; ".join(f"{part['knobs'][0]}: {100 * part['share']:.0f} %" for part in parts)
        return style.to_svg(figure, name, "Importance of knobs in the trials", told)


def slices(cell: Data, name: str) -> str:
    """One panel for each knob that was walked along; empty where none was."""
    lines = cell["lines"]
    if not lines:
        return ""
    with style.canvas(0.4 + 1.9 * len(lines), rows=len(lines), share_y=True) as (figure, panels):
        for axes, line in zip(panels, lines, strict=True):
            _panel(axes, line)
        told = "; ".join(
            f"{line['knob']}: "
            + ", ".join(f"{number(p['value'])} {p['ratio']:.2f}" for p in line["points"] if p["ratio"])
            for line in lines
        )
        return style.to_svg(figure, name, "One knob at a time", told)


def _panel(axes: Axes, line: Data) -> None:
    points = [point for point in line["points"] if point["ratio"] is not None]
    words = [point["value"] for point in line["points"]]
    at = [words.index(p["value"]) if line["words"] else p["value"] for p in points]
    axes.axhline(1.0, color=style.DEFAULT, linestyle="--", linewidth=1.2)
    axes.plot(at, [p["ratio"] for p in points], "-o", color=style.TUNED, markersize=4)
    axes.vlines(at, [p["low"] for p in points], [p["high"] for p in points], color=style.TUNED, linewidth=1.2)
    for place, point in zip(at, points, strict=True):
        if point["value"] == line["tuned"]:
            axes.plot([place], [point["ratio"]], "o", color=style.TUNED, markersize=9)
        if point["value"] == line["default"]:
            axes.plot(
                [place], [point["ratio"]], "D", color=style.DEFAULT, markersize=9, markerfacecolor="none",
                markeredgewidth=1.6,
            )  # fmt: skip
    if line["words"]:
        axes.set_xticks(range(len(words)), [number(word) for word in words])
    elif line["log"]:
        axes.set_xscale("log")
    unit = f" ({line['unit']})" if line["unit"] else ""
    axes.set_xlabel(line["knob"] + unit)
    axes.set_ylabel("relative to default")


def pair(cell: Data, name: str) -> str:
    """Two knobs together as a heat map; empty where there were no two."""
    grid = cell["grid"]
    if grid is None:
        return ""
    rows, columns = grid["rows"], grid["columns"]
    known = [abs(math.log(ratio)) for ratios in grid["ratios"] for ratio in ratios if ratio is not None]
    deepest = min(max([LEAST_COLOUR, *known]), MOST_COLOUR)

    def cell_at(row: int, column: int) -> HeatCell:
        ratio = grid["ratios"][row][column]
        tuned = [rows[row], columns[column]] == grid["tuned"]
        if ratio is None:
            return HeatCell(None, "not run", tuned)
        return HeatCell(math.log(ratio) / deepest, f"{ratio:.2f}", tuned)

    first, second = grid["knobs"]
    described = "Each cell is the performance relative to the default; all other knobs are as tuned."
    return heat(
        cell_at,
        Side([_short(value) for value in rows], first),
        Side([_short(value) for value in columns], second),
        name,
        f"{first} and {second} together",
        described,
    )


def _short(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value).lower() if isinstance(value, bool) else str(value)
    for size, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if name == 'k' else size):.3g}{name}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
