"""Printing: tables that fit 80 columns, JSON, colour only where a person reads it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from rich.console import Console

    from tiertune.tuner.report.environment import Figure

WIDTH = 80


def console(stderr: bool = False) -> Console:
    """Standard output or error; no colour in pipes or under NO_COLOR, 80 columns without a terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else _asked_width()
    return Console(stderr=stderr, width=width, highlight=False)


def print_json(document: Any) -> None:
    """`document` as indented JSON on standard output; key order is kept."""
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def figure_files(folder: Path | None, draw: Callable[[], Iterable[Figure]]) -> list[Path]:
    """What --figures asks for: each figure that `draw` makes as files in `folder`; nothing without one."""
    from tiertune.tuner.report.figure_files import write_figures

    return [] if folder is None else write_figures(folder, draw)


def show(page: Path) -> None:
    """Opens a page in the browser; says where it is where there is none."""
    import webbrowser

    from tiertune.tuner.cli.failures import say

    if not webbrowser.open(page.resolve().as_uri()):
        say(f"no browser was found; the page is {page.resolve()}")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], numeric: Iterable[str] = ()) -> None:
    """A plain table; columns named in `numeric` are aligned to the right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    right = set(numeric)
    for index, column in enumerate(columns):
        table.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold",
            no_wrap=index == 0 or column in right,
        )
    for row in rows:
        table.add_row(*(_plain(cell) for cell in row))
    out = console()
    with out.capture() as captured:
        out.print(table)
    # Cells are padded to their column's width; in pipes and files that is only noise at the end of lines.
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def terminal_width() -> int:
    """Columns to fill."""
    return shutil.get_terminal_size((WIDTH, 24)).columns


def _asked_width() -> int:
    """What COLUMNS asks for; a shell may export it empty."""
    asked = os.environ.get("COLUMNS", "")
    return int(asked) if asked.isdecimal() and int(asked) else WIDTH


def _plain(cell: str) -> str:
    """Text with its square brackets kept from being read as markup."""
    from rich.markup import escape

    return escape(cell)
