"""The report of a transfer test: one HTML page, JSON, and a CSV file for each table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiertune.tuner.report.environment import Figure, report_environment
from tiertune.tuner.report.files import write_whole
from tiertune.tuner.report.plain import csv_text, json_text
from tiertune.tuner.transfer.table import tables_of

Data = dict[str, Any]
FOLDER = "transfer"

NOT_MEASURED = (
    "Real hardware: every number comes from the modelled machine; its file has the source of each figure.",
    "Other contexts than those above. What is left out above says how far to trust a choice in a new one.",
    (
        "Intervals are of each cell by itself: of a hundred cells, about five are off by chance. How many"
        " transfers are better or worse than the default is counted at 5 % after Holm's adjustment over all"
        " of them, by 1 % or more."
    ),
    "The luck of the search: another search seed finds other winners, which may carry over better or worse.",
)


_DRAWINGS = (
    (
        "matrix",
        "matrix",
        "Relative to each context's default",
        "matrix_of_ratios",
        "matrix",
        (
            "Rows: where a config was tuned. Columns: where it runs. Above 1 (purple) it is better than the"
            " default there, below 1 (orange) worse. Framed: where it was tuned. Grey: a run failed, or"
            " nothing better than the default was found there to carry elsewhere."
        ),
    ),
    (
        "matrix",
        "shares",
        "Share of each context's own gain, %",
        "matrix_of_shares",
        "matrix",
        (
            "Of what the config tuned there gains (its column's framed cell is 100), how much one from"
            " elsewhere keeps. Below 0 it is worse than the default. Grey: no gain was shown there."
        ),
    ),
    (
        "features",
        "features",
        "What a difference costs",
        "features",
        "features",
        (
            "Lines are 95 % intervals; filled: shown, at a chance below 5 %. Right of 0, more is lost the"
            " further contexts are apart."
        ),
    ),
    (
        "ways",
        "ways",
        "One for all against one for each",
        "ways",
        "robust",
        (
            "On the seeds of judgement, with 95 % intervals over them. All contexts had a part in choosing;"
            " the last table below has those that had none."
        ),
    ),
)
"""Where a figure stands, its name, its title, the function of `picture` that draws it, the table behind it,
and its caption."""


def folder_of(results: Path, campaigns: Sequence[str]) -> Path:
    """Where the test of these campaigns is written."""
    return results / "+".join(campaigns) / FOLDER


def write_files(folder: Path, document: Data) -> list[Path]:
    """Writes transfer.json, report.html and the tables, each whole or not at all."""
    texts = {"report.html": render_html(document), "transfer.json": json_text(document)}
    for study in document["studies"]:
        prefix = "" if len(document["studies"]) == 1 else f"{study['system']}-{study['space']}-"
        for name, rows in tables_of(study).items():
            texts[f"{prefix}{name}.csv"] = csv_text(rows)
    for along in document["along"]:
        texts[f"along-{along['axis']}.csv"] = csv_text(along_rows(along))
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_whole(folder / name, text)
    return [folder / name for name in texts]


def along_rows(along: Data) -> list[list[object]]:
    """The points of a walk along an axis, heads first."""
    names = ("value", "ratio", "low", "high", "state", "reason")
    points = [(line["label"], point) for line in along["lines"] for point in line["points"]]
    return [["tuned_for", *names], *([label, *(point[n] for n in names)] for label, point in points)]


def render_html(document: Data) -> str:
    """The report as HTML text; equal documents give equal text."""
    figures, alongs = _by_study(document), [[_along_figure(along)] for along in document["along"]]
    template = report_environment().get_template("transfer.html.j2")
    return template.render(
        **{**document, "alongs": document["along"], "figures": figures, "along_figures": alongs}
    )


def figures_of(document: Data) -> list[Figure]:
    """All figures of the page."""
    studies = [one for places in _by_study(document) for some in places.values() for one in some]
    return [*studies, *(_along_figure(along) for along in document["along"])]


def _by_study(document: Data) -> list[dict[str, list[Figure]]]:
    return [_figures(study, f"s{number}") for number, study in enumerate(document["studies"], start=1)]


def _figures(study: Data, prefix: str) -> dict[str, list[Figure]]:
    """Figures by the part of the page in which they stand."""
    from markupsafe import Markup

    from tiertune.tuner.transfer import picture

    tables = tables_of(study)
    made: dict[str, list[Figure]] = {place: [] for place, *_ in _DRAWINGS}
    for place, name, title, draw, table, caption in _DRAWINGS:
        name = f"{prefix}-{name}"
        svg = getattr(picture, draw)(study, name)
        if svg:
            figure = Figure(
                name, title, caption, Markup(svg), csv_text(tables[table]), f"transfer-{name}.csv"
            )
            made[place].append(figure)
    return made


def _along_figure(along: Data) -> Figure:
    from markupsafe import Markup

    from tiertune.tuner.transfer.along_picture import walk

    name = f"along-{along['axis']}"
    caption = (
        "Each line is a config tuned at its hollow mark and run along the axis against the default there;"
        " bars are 95 % intervals over seeds. Where a line crosses the dashed one is a breakpoint."
    )
    text = csv_text(along_rows(along))
    title, svg = f"Gain along {along['axis']}", Markup(walk(along, name))
    return Figure(name, title, caption, svg, text, f"transfer-{name}.csv")
