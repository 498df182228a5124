"""What memory did over the time of a run, default and tuned on the same seed."""

from __future__ import annotations

from typing import NamedTuple

from tiertune.tuner.report.document import Cell, Timeline
from tiertune.tuner.report.figures import style


class Panel(NamedTuple):
    """One row of the figure: summed `columns` per line, one line style per tier."""

    label: str
    lines: tuple[tuple[str, tuple[str, ...], str], ...]


PANELS = (
    Panel("fast-tier hits", (("", ("fast_hit_ratio",), "-"),)),
    Panel("migrations (1/s)", (("", ("promotions_per_s", "demotions_per_s"), "-"),)),
    Panel(
        "latency (ns)", (("slow tier", ("slow_latency_ns",), "-"), ("fast tier", ("fast_latency_ns",), ":"))
    ),
)
LINE_OF_ROLE = {"default": 1.3, "tuned": 1.9}


def timeline_title(cell: Cell) -> str:
    """What the figure is called: a run on a host has time that passed."""
    return f"Memory over {_time(cell)}"


def _time(cell: Cell) -> str:
    return "time" if cell.live else "simulated time"


def timeline(cell: Cell, name: str) -> str:
    """SVG of hit ratio, migrations and latency per tier over time; empty text without timelines."""
    if not cell.timelines:
        return ""
    panels = [
        panel
        for panel in PANELS
        if any(_values(run, cols) for run in cell.timelines for _, cols, _ in panel.lines)
    ]
    if not panels:
        return ""
    with style.canvas(0.7 + 1.55 * len(panels), rows=len(panels), share_x=True) as (figure, rows):
        for axes, panel in zip(rows, panels, strict=True):
            for run in cell.timelines:
                for label, columns, dashes in panel.lines:
                    values = _values(run, columns)
                    if values:
                        axes.plot(
                            run.columns["time_s"],
                            values,
                            dashes,
                            color=style.COLOUR_OF_ROLE[run.role],
                            linewidth=LINE_OF_ROLE[run.role],
                            label=f"{run.role}, {label}" if label else run.role,
                        )
            axes.set_ylabel(panel.label)
            axes.margins(x=0.01)
            if "hits" in panel.label:
                axes.set_ylim(-0.03, 1.03)
            else:
                axes.set_ylim(bottom=0)
        figure.align_ylabels(rows)
        rows[-1].set_xlabel(f"{_time(cell)} (s)")
        handles, labels = rows[-1].get_legend_handles_labels()
        if not any("latency" in panel.label for panel in panels):
            handles, labels = rows[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left", ncols=2, columnspacing=1.2)
        ends = "; ".join(
            f"{run.role} ran {run.columns['time_s'][-1]:.3g} s on seed {run.seed}" for run in cell.timelines
        )
        return style.to_svg(
            figure,
            name,
            timeline_title(cell),
            f"Rows: {', '.join(panel.label for panel in panels)}. {ends}.",
        )


def _values(run: Timeline, columns: tuple[str, ...]) -> list[float]:
    """The sum of `columns`, empty where the run does not have them all."""
    if not run.columns.get("time_s") or not all(column in run.columns for column in columns):
        return []
    return [sum(row) for row in zip(*(run.columns[column] for column in columns), strict=True)]
