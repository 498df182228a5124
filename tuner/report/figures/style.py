"""One look for all figures, and matplotlib's SVG made fit for inlining.

Colours are drawn as marker values and replaced by CSS variables: one figure serves light and dark pages and
print. The palette (Okabe and Ito) keeps apart for colour-blind readers; shapes repeat what colours tell.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN = 5.6
INK, MUTED, GRID, DEFAULT, TUNED, BAD, PAPER = (f"#0a0b{shade:02x}" for shade in range(1, 8))
VARIABLES = {
    INK: "var(--ink,#1b1f24)",
    MUTED: "var(--muted,#59636e)",
    GRID: "var(--grid,#d8dee4)",
    DEFAULT: "var(--default,#b35900)",
    TUNED: "var(--tuned,#0072b2)",
    BAD: "var(--bad,#a3195b)",
    PAPER: "var(--paper,#ffffff)",
}

SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "tiertune",
    "svg.fonttype": "none",
    "font.size": 10.0,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.facecolor": "none",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.unicode_minus": False,
    "figure.facecolor": "none",
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "legend.fontsize": 9.0,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.6,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}

MARKERS = {"default": "D", "initial": "o", "random": "x", "model": "^"}
MARKER_OF_ROLE = {"default": "D", "tuned": "o"}
COLOUR_OF_ROLE = {"default": DEFAULT, "tuned": TUNED}
NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


@contextmanager
def canvas(
    height_in: float, rows: int = 1, share_x: bool = False, columns: int = 1, share_y: bool = False
) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure of the report's width and `rows` x `columns` axes, row by row, closed afterwards."""
    settings = {**cast(dict[str, Any], matplotlib.rcParamsDefault), **SETTINGS, "backend": "agg"}
    with plt.rc_context(cast(Any, settings)):
        figure, grid = plt.subplots(
            rows,
            columns,
            figsize=(WIDTH_IN, height_in),
            sharex=share_x,
            sharey=share_y,
            squeeze=False,
            layout="constrained",
        )
        try:
            yield figure, [axes for row in grid for axes in row]
        finally:
            plt.close(figure)


def to_svg(figure: Figure, name: str, title: str, description: str) -> str:
    """`figure` as an SVG element for inlining; ids start with `name`, colours are CSS variables.

    Deterministic: equal data give equal text.
    """
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata=NO_METADATA)
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\s+xmlns(:xlink)?="[^"]*"', "", svg)
    svg = _own_ids(svg, name)
    for marker, variable in VARIABLES.items():
        svg = svg.replace(marker, variable)
    svg = re.sub(r"font: ([^;\"]*?)px [^;\"]*", r"font-size: \1px", svg)
    opening = f'<svg class="figure" role="img" aria-labelledby="{name}-title {name}-desc" '
    labels = f'<title id="{name}-title">{title}</title><desc id="{name}-desc">{description}</desc>'
    svg = re.sub(r"<svg[^>]*?(viewBox=\"[^\"]*\")[^>]*>", lambda m: f"{opening}{m[1]}>{labels}", svg, count=1)
    return re.sub(r"\n\s*", "\n", svg).strip()


def _own_ids(svg: str, name: str) -> str:
    """Drops ids that nothing refers to and puts `name` before the others, so figures can share a page."""
    referred = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in referred else "", svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    return re.sub(r'(?:xlink:)?href="#([^"]+)"', rf'href="#{name}-\1"', svg)
