"""What a trial costs: wall time of the run, and CPU time of the optimiser before it."""

from __future__ import annotations

from statistics import median

from tiertune.tuner.report.document import Cell
from tiertune.tuner.report.figures import style


def cost(cell: Cell, name: str) -> str:
    """SVG of seconds per trial; empty text where no times were kept."""
    run = [(trial.number, trial.run_wall_s) for trial in cell.search if trial.run_wall_s is not None]
    ask = [
        (trial.number, trial.optimiser_cpu_s) for trial in cell.search if trial.optimiser_cpu_s is not None
    ]
    if not run and not ask:
        return ""
    with style.canvas(2.6) as (figure, (axes,)):
        for points, marker, colour, label in (
            (run, "o", style.MUTED, "run, wall time"),
            (ask, "^", style.TUNED, "optimiser, CPU time"),
        ):
            positive = [(n, seconds) for n, seconds in points if seconds > 0]
            axes.plot(
                [n for n, _ in positive],
                [seconds for _, seconds in positive],
                marker,
                color=colour,
                markersize=4,
                alpha=0.8,
                label=label,
            )
        if any(seconds > 0 for _, seconds in run + ask):
            axes.set_yscale("log")
        axes.set_xlabel("search trial")
        axes.set_ylabel("seconds")
        figure.legend(loc="outside upper left", ncols=2)
        described = "; ".join(
            f"median {label} {median([seconds for _, seconds in points]):.3g} s"
            for points, label in ((run, "run"), (ask, "optimiser"))
            if points
        )
        return style.to_svg(figure, name, "Seconds per trial", f"{described}.")
