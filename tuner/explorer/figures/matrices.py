"""Matrices: systems over scenarios of a comparison, and configurations over contexts of a transfer test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tiertune.tuner.explorer.look import Look
from tiertune.tuner.explorer.span import span_words

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

ROW_PX = 34
"""Height of a row: a line of text and some air."""


def comparison_matrix(document: Mapping[str, Any], figure_of: str, look: Look) -> Figure:
    """Scenarios x systems; `figure_of` is slowdown_default, slowdown_tuned or gain."""
    systems = [one["name"] for one in document["contenders"]]
    scenarios = list(document["setting"]["scenarios"])
    cells = {(entry["scenario"], entry["system"]): entry for entry in document["entries"]}
    values: list[list[float | None]] = []
    told: list[list[str]] = []
    for scenario in scenarios:
        spans = [cells.get((scenario, system), {}).get(figure_of) for system in systems]
        values.append([None if span is None else span["value"] for span in spans])
        told.append([span_words(span) for span in spans])
    better = "high" if figure_of == "gain" else "low"
    return heat(values, told, systems, scenarios, look, better=better, span=_ends(document, figure_of))


def _ends(document: Mapping[str, Any], figure_of: str) -> tuple[float, float]:
    """Ends of the colours: slowdowns at default and tuned share them, so that the two can be compared."""
    names = ("gain",) if figure_of == "gain" else ("slowdown_default", "slowdown_tuned")
    spans = [entry[name] for entry in document["entries"] for name in names if entry[name] is not None]
    values = [span["value"] for span in spans] or [1.0]
    return min(values), max(values)


def transfer_matrix(study: Mapping[str, Any], figure_of: str, look: Look) -> Figure:
    """Tuned in (rows) x run in (columns); `figure_of` is ratio (to the default there) or share (of what
    tuning there gains)."""
    names = [f"{context['number']} {context['label']}" for context in study["contexts"]]
    count = len(names)
    values: list[list[float | None]] = [[None] * count for _ in names]
    told = [[""] * count for _ in names]
    for cell in study["matrix"]:
        row, column = cell["from"] - 1, cell["to"] - 1
        values[row][column] = cell[figure_of]
        if cell[figure_of] is None:
            told[row][column] = str(cell.get("reason") or cell["status"])
        else:
            ends = ("low", "high") if figure_of == "ratio" else ("share_low", "share_high")
            told[row][column] = f"{cell[figure_of]:.4g}, {cell[ends[0]]:.4g} to {cell[ends[1]]:.4g}"
    made = heat(values, told, names, names, look, better="high")
    made.update_layout(xaxis_title="run in", yaxis_title="tuned in")
    return made


def heat(
    values: Sequence[Sequence[float | None]],
    told: Sequence[Sequence[str]],
    columns: Sequence[str],
    rows: Sequence[str],
    look: Look,
    *,
    better: str,
    span: tuple[float | None, float | None] = (None, None),
) -> Figure:
    """A matrix with its numbers written in the cells; what was not measured stays empty."""
    from plotly.graph_objects import Figure

    figure = Figure()
    figure.add_heatmap(
        z=values,
        x=list(columns),
        y=list(rows),
        zmin=span[0],
        zmax=span[1],
        colorscale=look.scale,
        reversescale=better == "low",
        texttemplate="%{z:.3f}",
        hovertext=told,
        hovertemplate="%{y}<br>%{x}<br>%{hovertext}<extra></extra>",
        colorbar={"thickness": 12},
        xgap=2,
        ygap=2,
        hoverongaps=False,
    )
    figure.update_layout(
        **look.layout(
            xaxis={"type": "category", "showgrid": False, "side": "bottom"},
            yaxis={"type": "category", "autorange": "reversed", "showgrid": False},
            height=140 + ROW_PX * len(rows),
        )
    )
    return figure
