"""A heat map: cells on one scale from worse (orange) to better (purple), each with its figure in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tiertune.tuner.report.figures import style
from tiertune.tuner.report.palette import HEAT, UNKNOWN

DARK_INK, LIGHT_INK = "#1b1f24", "#ffffff"
DARK = 0.45
"""Grounds of less luminance than this have light text."""
LONG = 5
"""Texts of so many letters and more are smaller, so that they stay within their cell."""
LONG_LINE = 56
"""Names of columns that would fill so many letters with the longest for each are slanted."""
WIDE_FROM = 10
"""With more columns than this a map becomes wider, so that cells keep their size."""


class HeatCell(NamedTuple):
    """`value` is a place on the scale: -1 the worst, 0 neither, 1 the best; None has the colour of what is
    not known. `framed` sets a cell apart from the others of its row or column."""

    value: float | None
    text: str
    framed: bool = False


class Side(NamedTuple):
    """What stands along a side: the names of its rows or columns, and what they are names of."""

    names: Sequence[str]
    label: str


def heat(
    cell_at: Callable[[int, int], HeatCell],
    rows: Side,
    columns: Side,
    name: str,
    title: str,
    description: str,
    columns_on_top: bool = False,
) -> str:
    """SVG of the map; `cell_at` is asked for each row and column."""
    import matplotlib
    from matplotlib.patches import Rectangle

    shades = matplotlib.colormaps[HEAT]
    height_in = 1.0 + 0.36 * len(rows.names)
    with style.canvas(height_in) as (figure, (axes,)):
        figure.set_size_inches(style.WIDTH_IN * max(1.0, len(columns.names) / WIDE_FROM), height_in)
        for row in range(len(rows.names)):
            for column in range(len(columns.names)):
                cell = cell_at(row, column)
                back, ink = UNKNOWN, DARK_INK
                if cell.value is not None:
                    shade = shades(0.5 + 0.5 * max(-1.0, min(1.0, cell.value)))
                    back = matplotlib.colors.to_hex(shade)
                    ink = LIGHT_INK if _luminance(shade) < DARK else DARK_INK
                axes.add_patch(
                    Rectangle((column + 0.05, row + 0.05), 0.9, 0.9, facecolor=back, edgecolor="none")
                )
                if cell.framed:
                    # In the colour of the text, which stands out from the cell on light pages and dark ones.
                    frame = Rectangle((column + 0.08, row + 0.1), 0.84, 0.8, fill=False)
                    frame.set(edgecolor=ink, linewidth=1.8)
                    axes.add_patch(frame)
                axes.text(
                    column + 0.5, row + 0.52, cell.text, ha="center", va="center", color=ink,
                    fontsize=8.5 if len(cell.text) < LONG else 7.0,
                )  # fmt: skip
        axes.set_xlim(0, len(columns.names))
        axes.set_ylim(len(rows.names), 0)
        axes.grid(visible=False)
        axes.tick_params(length=0)
        for spine in axes.spines.values():
            spine.set_visible(False)
        if columns_on_top:
            axes.xaxis.tick_top()
            axes.xaxis.set_label_position("top")
        slanted = len(columns.names) * max(map(len, columns.names), default=0) > LONG_LINE
        turned: dict[str, Any] = {"rotation": 30, "rotation_mode": "anchor"} if slanted else {}
        if slanted:
            turned["ha"] = "left" if columns_on_top else "right"
        axes.set_xticks([place + 0.5 for place in range(len(columns.names))], list(columns.names), **turned)
        axes.set_yticks([place + 0.5 for place in range(len(rows.names))], list(rows.names))
        axes.set_xlabel(columns.label)
        axes.set_ylabel(rows.label)
        return style.to_svg(figure, name, title, description)


def _luminance(shade: Sequence[float]) -> float:
    red, green, blue = shade[:3]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
