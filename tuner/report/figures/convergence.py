"""How the search went: every trial, and the best so far."""

from __future__ import annotations

from tiertune.tuner.report.document import Cell
from tiertune.tuner.report.figures import style
from tiertune.tuner.report.figures.comparison import axis_label

LABELS = {
    "default": "default",
    "initial": "initial design",
    "random": "random pick",
    "model": "model's proposal",
}
COLOURS = {"default": style.DEFAULT, "initial": style.MUTED, "random": style.MUTED, "model": style.TUNED}


def convergence(cell: Cell, name: str) -> str:
    """SVG of the search of `cell`; empty text where no trial succeeded."""
    measured = [trial for trial in cell.search if trial.value is not None]
    if not measured:
        return ""
    with style.canvas(3.6) as (figure, (axes,)):
        for origin in dict.fromkeys(trial.origin for trial in measured):
            some = [trial for trial in measured if trial.origin == origin]
            marker = style.MARKERS.get(origin, "s")
            filled = origin in {"default", "model"}
            axes.plot(
                [trial.number for trial in some],
                [trial.value for trial in some if trial.value is not None],
                marker,
                color=COLOURS.get(origin, style.MUTED),
                markersize=6.5 if origin == "default" else 4.5,
                markerfacecolor=None if filled else "none",
                alpha=1.0 if origin == "default" else 0.75,
                label=LABELS.get(origin, origin),
                zorder=4 if origin == "default" else 3,
            )
        best = [(trial.number, trial.best_so_far) for trial in cell.search if trial.best_so_far is not None]
        axes.step(
            [n for n, _ in best],
            [v for _, v in best],
            where="post",
            color=style.TUNED,
            linewidth=2,
            label="best so far",
        )
        baseline = next((trial.value for trial in measured if trial.origin == "default"), None)
        if baseline is not None:
            axes.axhline(baseline, color=style.DEFAULT, linestyle="--", linewidth=1.2, zorder=2)
        failed = [trial.number for trial in cell.search if trial.value is None]
        if failed:
            axes.plot(
                failed,
                [0.02] * len(failed),
                "|",
                color=style.BAD,
                markersize=9,
                markeredgewidth=1.8,
                transform=axes.get_xaxis_transform(),
                label="failed",
                clip_on=False,
            )
        values = [trial.value for trial in measured if trial.value is not None]
        if min(values) > 0 and max(values) > 8 * min(values):
            axes.set_yscale("log")
        axes.set_xlabel("search trial")
        axes.set_ylabel(axis_label(cell))
        figure.legend(loc="outside upper left", ncols=3, columnspacing=1.2, handletextpad=0.4)
        last = best[-1][1] if best else None
        reached = next((n for n, v in best if v == last), None)
        described = f"{len(cell.search)} search trials, {len(failed)} failed."
        if baseline is not None and last is not None:
            described += (
                f" The default measured {baseline:.4g} {cell.metric.unit};"
                f" the best trial, number {reached}, {last:.4g} {cell.metric.unit}."
            )
        return style.to_svg(figure, name, "Convergence of the search", described)
