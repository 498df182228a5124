"""Regret curves as SVG, and the numbers behind them as CSV."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np

from tests.bench.search.summary import Curve, interval

COLOURS = ("#222222", "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ("-", "--", "-", "-", "-.", ":", "--")


def draw(curves: dict[str, Curve], labels: dict[str, str], goals: dict[str, int], path: Path) -> None:
    """Median regret over cells with its 95 % interval, against trials; goals are drawn as marks on the
    reference's final level."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.4), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    for place, (name, curve) in enumerate(curves.items()):
        cells = 100.0 * curve.median()
        middle = np.median(cells, axis=0)
        low, high = interval(cells)
        trials = np.arange(1, len(middle) + 1)
        colour = COLOURS[place % len(COLOURS)]
        axes.plot(
            trials, middle, DASHES[place % len(DASHES)], color=colour, label=labels[name], linewidth=1.6
        )
        axes.fill_between(trials, low, high, color=colour, alpha=0.10, linewidth=0)
    for name, goal in goals.items():
        if name in curves and "study" in curves:
            level = 100.0 * float(np.median(curves["study"].median()[:, -1]))
            axes.plot([goal], [level], "v", color="#a3195b", markersize=8)
            axes.annotate(
                f"target {goal}", (goal, level), xytext=(4, 6), textcoords="offset points", fontsize=8
            )
    axes.set_yscale("log")
    axes.set_xscale("log")
    axes.set_xlim(3, 100)
    axes.set_xticks([3, 5, 10, 15, 20, 40, 60, 100], ["3", "5", "10", "15", "20", "40", "60", "100"])
    axes.set_yticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"])
    axes.minorticks_off()
    axes.set_xlabel("trials, repeats included")
    axes.set_ylabel("regret of the config handed over, % (median over cells)")
    axes.grid(True, linewidth=0.4, color="#d8dee4")
    axes.legend(fontsize=8, frameon=False)
    out = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": "tiertune"}):
        figure.savefig(out, format="svg", metadata={"Date": None})
    path.write_text(out.getvalue())


def write_csv(curves: dict[str, Curve], path: Path) -> None:
    """A line for each variant, cell, search and trial."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["variant", "cell", "search", "trial", "regret_pct"])
        for name, curve in curves.items():
            for cell, searches in zip(curve.cells, curve.regrets, strict=True):
                for search, regrets in enumerate(searches):
                    for trial, regret in enumerate(regrets, 1):
                        writer.writerow([name, cell, search, trial, f"{100 * regret:.3f}"])
