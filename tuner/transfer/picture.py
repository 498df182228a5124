"""Figures of a transfer test. Orange is worse than the default, purple better: told apart by all readers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tiertune.tuner.report.figures import style
from tiertune.tuner.report.figures.heat import HeatCell, Side, heat

Data = dict[str, Any]

MOST_COLOUR = math.log(2.0)
"""Ratios from a half to two have colours of their own; beyond, the deepest one."""


def matrix_of_ratios(study: Data, name: str) -> str:
    """Each tuned config in each context, relative to that context's default."""
    described = (
        "Rows: where tuned. Columns: where run. Each cell is the performance relative to the default there."
    )
    return _heat(
        study,
        name,
        "Performance relative to each context's default",
        described,
        lambda cell: None if cell["ratio"] is None else math.log(cell["ratio"]) / MOST_COLOUR,
        lambda cell: f"{cell['ratio']:.2f}",
    )


def matrix_of_shares(study: Data, name: str) -> str:
    """The share of each column's own gain that is kept, in percent."""
    described = "Rows: where tuned. Columns: where run. Each cell is the share of the column's own gain kept."
    return _heat(
        study,
        name,
        "Share of each context's own tuned gain that is kept, in percent",
        described,
        lambda cell: cell["share"],
        lambda cell: f"{100 * cell['share']:.0f}",
    )


def _heat(
    study: Data,
    name: str,
    title: str,
    described: str,
    colour: Callable[[Data], float | None],
    text: Callable[[Data], str],
) -> str:
    cells = {(cell["from"] - 1, cell["to"] - 1): cell for cell in study["matrix"]}

    def cell_at(row: int, column: int) -> HeatCell:
        cell = cells[row, column]
        value = colour(cell)
        shown = "failed" if cell["status"] == "failed" else text(cell) if value is not None else "-"
        return HeatCell(value, shown, framed=row == column)

    contexts = study["contexts"]
    rows = Side([f"{one['number']}  {one['label']}" for one in contexts], "tuned in")
    columns = Side([str(one["number"]) for one in contexts], "run in")
    return heat(cell_at, rows, columns, name, title, described, columns_on_top=True)


def ways(study: Data, name: str) -> str:
    """Each context's own tuned config beside one for all and the portfolio, with intervals."""
    robust = next(one for one in study["robust"] if one["aim"] == study["portfolio"]["aim"])
    series = [
        ("tuned here", [context["native"] for context in study["contexts"]], "o", style.TUNED),
        ("one for all", robust["contexts"], "s", style.INK),
    ]
    if study["portfolio"]["size"] > 1:
        shown = study["portfolio"]["with_the_rule"]["contexts"]
        series.append((f"{study['portfolio']['size']} with a rule", shown, "^", style.BAD))
    count = len(study["contexts"])
    with style.canvas(0.9 + 0.42 * count) as (figure, (axes,)):
        axes.axvline(1.0, color=style.DEFAULT, linestyle="--", linewidth=1.2)
        for place, (label, cells, shape, colour) in enumerate(series):
            known = [(row, cell) for row, cell in enumerate(cells) if cell["ratio"] is not None]
            heights = [row + 0.24 * (place - (len(series) - 1) / 2) for row, _ in known]
            axes.hlines(
                heights, [cell["low"] for _, cell in known], [cell["high"] for _, cell in known],
                color=colour, linewidth=1.6,
            )  # fmt: skip
            axes.plot(
                [cell["ratio"] for _, cell in known], heights, shape, color=colour, markersize=5, label=label
            )
        axes.set_yticks(range(count), [f"{c['number']}  {c['label']}" for c in study["contexts"]])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("performance relative to the default")
        figure.legend(loc="outside upper left", ncols=3)
        told = "; ".join(
            f"{label}: " + ", ".join("failed" if c["ratio"] is None else f"{c['ratio']:.3f}" for c in cells)
            for label, cells, _, _ in series
        )
        return style.to_svg(figure, name, "One configuration for all against one for each", told)


def features(study: Data, name: str) -> str:
    """What each difference between contexts costs, with intervals; empty where none was worked out."""
    known = [one for one in study["prediction"]["features"] if one["loss"] is not None]
    if not known:
        return ""
    with style.canvas(0.8 + 0.42 * len(known)) as (figure, (axes,)):
        axes.axvline(0.0, color=style.DEFAULT, linestyle="--", linewidth=1.2)
        for row, one in enumerate(known):
            loss, low, high = (100 * (one[key] - 1) for key in ("loss", "low", "high"))
            shown = one["verdict"] != "not shown"
            colour = style.TUNED if shown else style.MUTED
            axes.plot([low, high], [row, row], color=colour, linewidth=1.8)
            axes.plot(
                [loss], [row], "o", color=colour, markersize=6, markerfacecolor=None if shown else "none"
            )
        axes.set_yticks(range(len(known)), [one["feature"] for one in known])
        axes.set_ylim(len(known) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("more lost (%) for each unit of difference")
        told = "; ".join(f"{one['feature']}: {100 * (one['loss'] - 1):+.2f} %" for one in known)
        return style.to_svg(figure, name, "What a difference between contexts costs", told)
