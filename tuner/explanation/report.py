"""The report of an explanation: one HTML page, JSON, a CSV file for each table, and configs to roll out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tiertune.tuner.explanation.table import names_of, tables_of
from tiertune.tuner.report.environment import Figure, report_environment
from tiertune.tuner.report.files import write_whole
from tiertune.tuner.report.plain import csv_text, json_text

Data = dict[str, Any]
FOLDER = "explain"

NOT_MEASURED = (
    "Real hardware: every number comes from the modelled machine; its file has the source of each figure.",
    (
        "All sets of changes: the smallest is the smaller of what two greedy searches found, one from the"
        " default and one from tuned. A smaller one may exist."
    ),
    (
        "How many steps are enough is read off the seeds of judgement: it is the first step that reached the"
        " mark there. Its interval says how sure that is."
    ),
    (
        "Importance is of the trials that the search made, which crowd where it found good configurations;"
        " slices and neighbours are of one configuration alone. They need not agree."
    ),
    "Intervals are of each figure by itself: of a hundred, about five are off by chance.",
)

_DRAWINGS = (
    (
        "changes",
        "rollout",
        "Gain after each change",
        (
            "Each point has all changes above it. Bars are 95 % intervals over the seeds of judgement, dashed"
            " is the default; the large point is the first step with enough of the gain."
        ),
    ),
    (
        "changes",
        "importance",
        "Importance of knobs in the trials",
        (
            "What a forest grown from the trials loses when a knob is shuffled, on trials it was not grown"
            " from. Bars are 95 % intervals over resamples of the trials; hollow: not told from nothing."
        ),
    ),
    (
        "around",
        "slices",
        "One knob at a time, measured",
        (
            "All other knobs as tuned, or as by default where nothing better was found. Dot: tuned; diamond:"
            " this knob at its default; dashed: all knobs at their default. Bars are 95 % intervals over"
            " held-back seeds."
        ),
    ),
    (
        "around",
        "pair",
        "Two knobs together, measured",
        (
            "Relative to the default; all other knobs as tuned, which is framed. Purple is better than the"
            " default, orange worse, deepest at the largest difference; means over held-back seeds."
        ),
    ),
)
"""Where a figure stands; the function of `picture` that draws it, also the name of the table behind it;
title and caption."""


def folder_of(results: Path, campaign: str) -> Path:
    """Where the explanation of a campaign is written."""
    return results / campaign / FOLDER


def write_files(folder: Path, document: Data) -> list[Path]:
    """Writes report.html, explain.json, the tables and the configs, each whole or not at all. With several
    cells, their names begin with the number of the cell. What an earlier call left of other cells goes."""
    texts = {"report.html": render_html(document), "explain.json": json_text(document)}
    for cell in document["cells"]:
        prefix = "" if document["cells_in_all"] == 1 else f"{cell['number']}-"
        if cell["way"]["config"]:
            texts[f"{prefix}smallest.yaml"] = config_text(cell)
        for name, rows in tables_of(cell).items():
            texts[f"{prefix}{name}.csv"] = csv_text(rows)
    folder.mkdir(parents=True, exist_ok=True)
    kinds = ["smallest.yaml", *(f"{name}.csv" for cell in document["cells"][:1] for name in names_of(cell))]
    for old in folder.iterdir():
        if old.name not in texts and re.sub(r"^[0-9]+-", "", old.name) in kinds:
            old.unlink()
    for name, text in texts.items():
        write_whole(folder / name, text)
    return [folder / name for name in texts]


def config_text(cell: Data) -> str:
    """The smallest set as a file for `tiertune run --config`, in the order in which to change the knobs."""
    import yaml

    lines = [
        f"# {cell['system']} on {cell['workload']}, {cell['machine']}, {cell['ratio']}: {cell['verdict']}"
    ]
    lines += ["# Knobs that are not here stay at their defaults."]
    return "\n".join(lines) + "\n" + yaml.safe_dump(cell["way"]["config"], sort_keys=False, width=1000)


def render_html(document: Data) -> str:
    """The report as HTML text; equal documents give equal text."""
    from tiertune.tuner.explanation.picture import step_name

    environment = report_environment()
    environment.filters["step_name"] = step_name
    figures = [_figures(cell) for cell in document["cells"]]
    return environment.get_template("explanation.html.j2").render(**document, figures=figures)


def figures_of(document: Data) -> list[Figure]:
    """All figures of the page."""
    return [one for cell in document["cells"] for some in _figures(cell).values() for one in some]


def _figures(cell: Data) -> dict[str, list[Figure]]:
    """Figures by the part of the page in which they stand."""
    from markupsafe import Markup

    from tiertune.tuner.explanation import picture

    tables = tables_of(cell)
    made: dict[str, list[Figure]] = {place: [] for place, *_ in _DRAWINGS}
    for place, draw, title, caption in _DRAWINGS:
        name = f"c{cell['number']}-{draw}"
        svg = getattr(picture, draw)(cell, name)
        if svg:
            figure = Figure(name, title, caption, Markup(svg), csv_text(tables[draw]), f"explain-{name}.csv")
            made[place].append(figure)
    return made
