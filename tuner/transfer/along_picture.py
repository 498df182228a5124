"""The figure of a walk along an axis: gains with their intervals, and where each config was tuned."""

from __future__ import annotations

from typing import Any

from tiertune.tuner.report.figures import style

Data = dict[str, Any]


def walk(along: Data, name: str) -> str:
    """A line for each tuned config."""
    lines = along["lines"]
    rows = (len(lines) + 1) // 2
    with style.canvas(3.4 + 0.22 * rows) as (figure, (axes,)):
        limit = 1 + along["least_pct"] / 100
        axes.axhline(limit, color=style.MUTED, linestyle="--", linewidth=1.2)
        for number, line in enumerate(lines):
            colour, shape, dash = style.line_look(number)
            known = [point for point in line["points"] if point["ratio"] is not None]
            at = [point["value"] for point in known]
            axes.plot(
                at, [point["ratio"] for point in known], dash + shape, color=colour, markersize=4,
                linewidth=1.3, label=line["label"],
            )  # fmt: skip
            axes.vlines(
                at, [point["low"] for point in known], [point["high"] for point in known], color=colour,
                linewidth=1.0,
            )  # fmt: skip
            if known:
                near = min(known, key=lambda point: abs(point["value"] - line["own"]))
                inside = min(at) <= line["own"] <= max(at)
                if inside:
                    axes.plot(
                        [line["own"]], [near["ratio"]], shape, color=colour, markersize=11,
                        markerfacecolor="none", markeredgewidth=1.4,
                    )  # fmt: skip
        axes.set_xscale("log")
        first = list(lines[0]["points"]) if lines else []
        shown = style.ticks_apart((point["value"], point["text"]) for point in first)
        axes.minorticks_off()
        axes.set_xticks([value for value, _ in shown], [text for _, text in shown])
        if first and first[0]["value"] > first[-1]["value"]:
            axes.invert_xaxis()
        axes.set_xlabel(along["axis"].replace("-", " "))
        axes.set_ylabel("performance relative to default")
        figure.legend(loc="outside upper left", ncols=2, columnspacing=1.2, handletextpad=0.4)
        told = "; ".join(f"{line['label']}: {line['told']}" for line in lines)
        return style.to_svg(figure, name, f"Gain along {along['axis']}", told)
