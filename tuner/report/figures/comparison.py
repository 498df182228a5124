"""Default against tuned: each validation seed as a dot, the effect with its interval."""

from __future__ import annotations

from statistics import median

from tiertune.tuner.report.document import Cell
from tiertune.tuner.report.figures import style


def comparison(cell: Cell, name: str) -> str:
    """SVG of the validation of `cell`; empty text where nothing was validated."""
    pairs = [pair for pair in cell.validation if pair.default is not None and pair.tuned is not None]
    if not pairs or cell.effect is None:
        return ""
    with style.canvas(3.3, rows=2) as (figure, (values, ratios)):
        middles: dict[str, float] = {}
        for row, role in enumerate(("tuned", "default")):
            points = [getattr(pair, role) for pair in pairs]
            colour = style.COLOUR_OF_ROLE[role]
            values.plot(
                points,
                _spread(row, len(points)),
                style.MARKER_OF_ROLE[role],
                color=colour,
                alpha=0.75,
                markersize=5,
            )
            middle = middles[role] = median(points)
            values.plot([middle, middle], [row - 0.32, row + 0.32], color=colour, linewidth=2.2)
            values.annotate(
                f"median {middle:.4g}",
                (middle, row + (0.36 if row else -0.36)),
                ha="center",
                va="bottom" if row else "top",
                color=colour,
                fontsize=9,
            )
        values.set_yticks([0, 1], ["tuned", "default"])
        values.set_ylim(-0.85, 1.85)
        values.grid(axis="y", visible=False)
        values.margins(x=0.18)
        values.set_xlabel(axis_label(cell))

        effect = cell.effect
        dots = [pair.ratio for pair in pairs if pair.ratio is not None]
        ratios.axvline(1.0, color=style.MUTED, linestyle="--", linewidth=1.2)
        ratios.plot(dots, _spread(0, len(dots)), "o", color=style.MUTED, markersize=4, alpha=0.8)
        ratios.plot(
            [effect.low, effect.high], [0.55, 0.55], color=style.TUNED, linewidth=2.6, solid_capstyle="butt"
        )
        for end in (effect.low, effect.high):
            ratios.plot([end, end], [0.45, 0.65], color=style.TUNED, linewidth=2.0)
        ratios.plot([effect.ratio], [0.55], "o", color=style.TUNED, markersize=7)
        ratios.set_yticks([0, 0.55], ["each seed", f"{effect.confidence:.0%} interval"])
        ratios.set_ylim(-0.4, 0.9)
        ratios.grid(axis="y", visible=False)
        ratios.margins(x=0.18)
        ratios.set_xlabel("improvement over default (1 = the same)")
        title = "Default against tuned on validation seeds"
        return style.to_svg(
            figure,
            name,
            title,
            f"{len(pairs)} paired seeds. Median {metric_words(cell.metric.name, cell.metric.unit)}:"
            f" default {middles['default']:.4g}, tuned {middles['tuned']:.4g}."
            f" Improvement {effect.ratio:.3f},"
            f" {effect.confidence:.0%} interval {effect.low:.3f} to {effect.high:.3f}.",
        )


def axis_label(cell: Cell) -> str:
    """Metric, unit and which way is better."""
    better = {"minimize": "lower is better", "maximize": "higher is better", "": ""}[cell.metric.direction]
    name = metric_words(cell.metric.name, cell.metric.unit)
    return f"{name}, {better}" if better else name


UNIT_ENDINGS = {"s": "s", "ns": "ns", "mops": "1e6 op/s", "gbps": "1e9 B/s", "bytes": "B"}


def metric_words(name: str, unit: str) -> str:
    """`runtime_s`, `s` -> `runtime (s)`: the unit leaves the name and goes where readers look for it."""
    stem, _, ending = name.rpartition("_")
    words = (stem if stem and UNIT_ENDINGS.get(ending) == unit else name).replace("_", " ")
    return f"{words} ({unit})" if unit else words


def _spread(row: int, count: int) -> list[float]:
    """Vertical places of `count` dots around `row`, in seed order, so that none hides another."""
    return [row + 0.22 * ((index * 2 / max(1, count - 1)) - 1 if count > 1 else 0) for index in range(count)]
