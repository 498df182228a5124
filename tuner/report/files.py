"""report.html and report.json of a results folder, written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from tiertune.tuner.journal import Journal
from tiertune.tuner.report.data import build_report
from tiertune.tuner.report.document import Report
from tiertune.tuner.report.robustness import read_robustness, with_robustness
from tiertune.tuner.report.text import render_json


def write_report(folder: Path) -> tuple[Report, list[Path]]:
    """Reads `folder/journal.sqlite` (also while a campaign writes it) and writes both files beside it."""
    from tiertune.tuner.report.html import render_html

    with Journal(folder / "journal.sqlite", writer=False) as journal:
        report = with_robustness(build_report(journal), read_robustness(folder))
    texts = {folder / "report.html": render_html(report), folder / "report.json": render_json(report)}
    for path, text in texts.items():
        write_whole(path, text)
    return report, list(texts)


def write_whole(path: Path, text: str) -> None:
    """Writes `path` so that nobody ever sees half of it."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
