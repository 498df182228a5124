"""The report of an explanation: one HTML page, JSON, a CSV file for each table, and configs to roll out."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, NamedTuple

from tiertune.tuner.explanation.table import tables_of
from tiertune.tuner.report.files import write_whole
from tiertune.tuner.transfer.table import csv_text

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
        "rollout",
        "Gain after each change",
        (
            "Each point has all changes above it. Bars are 95 % intervals over the seeds of judgement, dashed"
            " is the default; the large point is the first step with enough of the gain."
        ),
    ),
    (
        "importance",
        "Importance of knobs in the trials",
        (
            "What a forest grown from the trials loses when a knob is shuffled, on trials it was not grown"
            " from. Bars are 95 % intervals over resamples of the trials; hollow: not told from nothing."
        ),
    ),
    (
        "slices",
        "One knob at a time, measured",
        (
            "All other knobs as tuned, or as by default where nothing better was found. Dot: tuned; diamond:"
            " this knob at its default; dashed: all knobs at their default. Bars are 95 % intervals over"
            " held-back seeds."
        ),
    ),
    (
        "pair",
        "Two knobs together, measured",
        (
            "Relative to the default; all other knobs as tuned, which is framed. Purple is better than the"
            " default, orange worse, deepest at the largest difference; means over held-back seeds."
        ),
    ),
)
"""The function of `picture` that draws a figure, also the name of the table behind it; title and caption."""


class Figure(NamedTuple):
    """A figure with the data behind it as a `data:` address."""

    place: str
    name: str
    title: str
    caption: str
    svg: Any
    csv_address: str


def folder_of(results: Path, campaign: str) -> Path:
    """Where the explanation of a campaign is written."""
    return results / campaign / FOLDER


def write_files(folder: Path, document: Data) -> list[Path]:
    """Writes report.html, explain.json, the tables and the configs, each whole or not at all. With several
    cells, their names begin with the number of the cell."""
    texts = {"report.html": render_html(document), "explain.json": json_text(document)}
    for cell in document["cells"]:
        prefix = "" if document["cells_in_all"] == 1 else f"{cell['number']}-"
        if cell["way"]["config"]:
            texts[f"{prefix}smallest.yaml"] = config_text(cell)
        for name, rows in tables_of(cell).items():
            texts[f"{prefix}{name}.csv"] = csv_text(rows)
    folder.mkdir(parents=True, exist_ok=True)
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


def json_text(document: Data) -> str:
    """The document as JSON; what is not known is null."""
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def render_html(document: Data) -> str:
    """The report as HTML text; equal documents give equal text."""
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    from tiertune.tuner.explanation.picture import step_name
    from tiertune.tuner.report import numbers

    environment = Environment(
        loader=PackageLoader("tiertune.tuner.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(exact=numbers.exact, step_name=step_name)
    shell = environment.from_string(
        '<figure id="{{ f.name }}"><h3>{{ f.title }}</h3>{{ f.svg }}<figcaption>{{ f.caption }}'
        ' <a class="download" download="{{ f.name }}.csv" href="{{ f.csv_address }}">Data as CSV</a>'
        "</figcaption></figure>"
    )
    environment.globals["drawn"] = lambda figure: Markup(shell.render(f=figure))
    figures = [_figures(cell) for cell in document["cells"]]
    return environment.get_template("explanation.html.j2").render(**document, figures=figures)


def _figures(cell: Data) -> dict[str, Figure]:
    from markupsafe import Markup

    from tiertune.tuner.explanation import picture

    tables = tables_of(cell)
    made = {}
    for place, title, caption in _DRAWINGS:
        name = f"c{cell['number']}-{place}"
        svg = getattr(picture, place)(cell, name)
        if svg:
            address = "data:text/csv;base64," + base64.b64encode(csv_text(tables[place]).encode()).decode()
            made[place] = Figure(place, name, title, caption, Markup(svg), address)
    return made
