"""report.html, report.json and tuned configs of a results folder, each written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tiertune.tuner.events import Doing, Listener, silent
from tiertune.tuner.journal import Journal
from tiertune.tuner.report.data import build_report
from tiertune.tuner.report.document import Report
from tiertune.tuner.report.front import front_rows
from tiertune.tuner.report.plain import csv_text
from tiertune.tuner.report.robustness import read_robustness, with_robustness
from tiertune.tuner.report.text import render_json

FRONT = "front.csv"
"""What was validated for two objectives, beside the report."""

FEW_CELLS = 2
"""So many are read and drawn in two seconds."""

TUNED = "tuned"
"""The folder of tuned configs in a campaign's folder."""


def read_report(folder: Path, listener: Listener = silent) -> Report:
    """What `folder/journal.sqlite` says, also while a campaign writes it. The listener hears of what takes
    long to read and to draw."""
    with Journal(folder / "journal.sqlite", writer=False) as journal:
        if len(journal.claimed().document["cells"]) > FEW_CELLS:
            listener(Doing("writing the report"))
        return with_robustness(build_report(journal), read_robustness(folder))


def write_report(folder: Path, report: Report | None = None) -> tuple[Report, list[Path]]:
    """Writes beside the journal of `folder` what it says (or `report`, which was read from it): page, data, a
    config for each cell that got better, and the fronts of two objectives as a table."""
    from tiertune.tuner.report.html import render_html

    report = report or read_report(folder)
    texts = {folder / "report.html": render_html(report), folder / "report.json": render_json(report)}
    for path, text in texts.items():
        write_whole(path, text)
    paths = [*texts, *write_configs(folder, report)]
    if fronts := {cell.id: front_rows(cell) for cell in report.cells if cell.front is not None}:
        write_whole(folder / FRONT, csv_text(_together(fronts)))
        paths.append(folder / FRONT)
    return report, paths


def _together(tables: Mapping[str, list[list[object]]]) -> list[list[object]]:
    """Tables of several cells as one, with a column for each head of any."""
    heads = list(dict.fromkeys(head for table in tables.values() for head in table[0]))
    rows: list[list[object]] = [["cell", *heads]]
    for cell, (head, *lines) in tables.items():
        for line in lines:
            named = dict(zip(head, line, strict=True))
            rows.append([cell, *(named.get(name) for name in heads)])
    return rows


def write_configs(folder: Path, report: Report) -> list[Path]:
    """Writes them below `folder`; what an earlier report left there and is tuned no more goes."""
    from tiertune.tuner.report.configs import config_files

    texts = config_files(report)
    home = folder / TUNED
    for old in home.glob("*.yaml"):
        if old.name not in texts:
            old.unlink()
    if texts:
        home.mkdir(exist_ok=True)
    for name, text in texts.items():
        write_whole(home / name, text)
    return [home / name for name in texts]


def write_whole(path: Path, text: str) -> None:
    """Writes `path` so that nobody ever sees half of it."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        error.filename = str(path)  # which the error of a full disk lacks
        raise
    finally:
        part.unlink(missing_ok=True)
