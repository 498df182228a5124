"""One look for all figures, and matplotlib's SVG made fit for inlining.

Colours are drawn as marker values and replaced by CSS variables: one figure serves light and dark pages and
print. The palette keeps apart for colour-blind readers; shapes repeat what colours tell.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot as plt

from tiertune.tuner.report.palette import PALETTE, variable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH_IN = 5.6
INK, MUTED, GRID, DEFAULT, TUNED, BAD, PAPER = MARKED = tuple(f"#0a0b{shade:02x}" for shade in range(1, 8))
NAMES = dict(zip(MARKED, ("ink", "muted", "grid", "default", "tuned", "bad", "paper"), strict=True))
"""The colour of the palette that each marker value stands for."""

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
LINE_COLOURS = (TUNED, DEFAULT, BAD, INK, MUTED)
LINE_MARKERS, LINE_DASHES = "o^sDvPX", ("-", "--", "-.", ":")
LEAST_APART = 1.35
"""Ticks of a logarithmic axis are further apart than this factor, so that their texts do not meet."""
LEGIBLE_PX = 10.0
EXPONENT_PT = 8.0
"""Text that is smaller than this, such as the exponent of a power, need not be as high as other text."""
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


class LineLook(NamedTuple):
    """What tells a line apart from others: colour, shape, and dashes."""

    colour: str
    marker: str
    dash: str


def line_look(number: int) -> LineLook:
    """The look of the line of this number; colours repeat after five, with other shapes and dashes."""
    return LineLook(
        LINE_COLOURS[number % len(LINE_COLOURS)],
        LINE_MARKERS[number % len(LINE_MARKERS)],
        LINE_DASHES[number // len(LINE_COLOURS) % len(LINE_DASHES)],
    )


def ticks_apart(ticks: Iterable[tuple[float, str]]) -> list[tuple[float, str]]:
    """Ticks of a logarithmic axis that do not overlap: the ends, and what is far enough from those kept."""
    found = sorted(set(ticks))
    kept = sorted({found[0], found[-1]}) if found else []
    for value, text in found:
        if all(max(value / other, other / value) > LEAST_APART for other, _ in kept):
            kept.append((value, text))
    return sorted(kept)


_PDFS: ContextVar[dict[str, bytes] | None] = ContextVar("pdfs", default=None)


@contextmanager
def keeping_pdfs() -> Iterator[dict[str, bytes]]:
    """Meanwhile, each figure that becomes SVG is also kept as a PDF, by its name."""
    kept: dict[str, bytes] = {}
    token = _PDFS.set(kept)
    try:
        yield kept
    finally:
        _PDFS.reset(token)


def _pdf(figure: Figure) -> bytes:
    """`figure` as PDF with its fonts in it, in the colours of light paper; equal data give equal bytes."""
    stream = io.BytesIO()
    with plt.rc_context({"pdf.fonttype": 42, "pdf.compression": 0}):
        figure.savefig(
            stream, format="pdf", metadata={"CreationDate": None, "Producer": None, "Creator": None}
        )
    pdf = stream.getvalue()
    # Marker values become colours in place, filled up with spaces: a PDF tells its parts' places in bytes.
    for marker, name in NAMES.items():
        there = rb"\s+".join(re.escape(number) for number in _numbers(marker))
        colour = b" ".join(_numbers(PALETTE[name].light))
        pdf = re.sub(there, partial(_in_place, colour), pdf)
    return pdf


def _in_place(colour: bytes, found: re.Match[bytes]) -> bytes:
    return colour.ljust(len(found[0]))


def _numbers(colour: str) -> list[bytes]:
    """The parts of `#rrggbb` as a PDF of matplotlib has them, none longer than one of a marker value."""
    shades = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return [f"{shade:.10f}".rstrip("0").rstrip(".").encode() for shade in shades]


def standalone(svg: str) -> str:
    """An inlined figure as a file of its own, in the colours of light paper."""
    svg = re.sub(r"var\(--[a-z-]+,(#[0-9a-f]{6})\)", r"\1", svg)
    svg = re.sub(r' style="--legible:\d+px"', "", svg)
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    return svg.replace("<svg ", f'<svg {names} font-family="DejaVu Sans, sans-serif" ', 1) + "\n"


def _legible_px(svg: str, width: float) -> int:
    """How wide a drawing has to be for its text to be `LEGIBLE_PX` high."""
    sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", svg)]
    return math.ceil(width * LEGIBLE_PX / max(min(sizes, default=LEGIBLE_PX), EXPONENT_PT))


def to_svg(figure: Figure, name: str, title: str, description: str) -> str:
    """`figure` as an SVG element for inlining; ids start with `name`, colours are CSS variables.

    Deterministic: equal data give equal text.
    """
    kept = _PDFS.get()
    if kept is not None:
        kept[name] = _pdf(figure)
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata=NO_METADATA)
    svg = stream.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\s+xmlns(:xlink)?="[^"]*"', "", svg)
    svg = _own_ids(svg, name)
    for marker, colour in NAMES.items():
        svg = svg.replace(marker, variable(colour))
    svg = re.sub(r"font: ([^;\"]*?)px [^;\"]*", r"font-size: \1px", svg)
    opening = f'<svg class="figure" role="img" aria-labelledby="{name}-title" aria-describedby="{name}-desc" '
    labels = f'<title id="{name}-title">{title}</title><desc id="{name}-desc">{description}</desc>'
    legible = f'style="--legible:{_legible_px(svg, 72 * figure.get_figwidth())}px" '
    svg = re.sub(
        r"<svg[^>]*?(viewBox=\"[^\"]*\")[^>]*>", lambda m: f"{opening}{legible}{m[1]}>{labels}", svg, count=1
    )
    # Title and description speak for the figure; ticks and labels without their places would only be noise.
    svg = re.sub(r"<g>|<g (?!aria)", lambda m: m[0].replace("<g", '<g aria-hidden="true"', 1), svg, count=1)
    return re.sub(r"\n\s*", "\n", svg).strip()


def _own_ids(svg: str, name: str) -> str:
    """Drops ids that nothing refers to and puts `name` before the others, so figures can share a page."""
    referred = set(re.findall(r'(?:url\(#|href="#)([^)"]+)', svg))
    svg = re.sub(r' id="([^"]+)"', lambda m: f' id="{name}-{m[1]}"' if m[1] in referred else "", svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", svg)
    return re.sub(r'(?:xlink:)?href="#([^"]+)"', rf'href="#{name}-\1"', svg)
