"""The figures of a report as files for a paper: SVG, PDF, and the data behind each as CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tiertune.tuner.report.environment import Figure
from tiertune.tuner.report.figures import style
from tiertune.tuner.report.files import write_whole


def write_figures(folder: Path, draw: Callable[[], Iterable[Figure]]) -> list[Path]:
    """Writes three files for each figure that `draw` makes into `folder`, named like the CSV that the page
    hands out.

    The PDF has its fonts in it; the SVG names them, so that text stays text. Raises OSError.
    """
    with style.keeping_pdfs() as pdfs:
        figures = list(draw())
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for figure in figures:
        csv = folder / figure.file
        write_whole(csv, figure.csv)
        write_whole(csv.with_suffix(".svg"), style.standalone(figure.svg))
        csv.with_suffix(".pdf").write_bytes(pdfs[figure.name])
        paths += [csv.with_suffix(ending) for ending in (".svg", ".pdf", ".csv")]
    return paths
