"""Recorded terminal sessions: `python -m docs.pages.sessions` runs them and writes docs/sessions/*.svg."""

from __future__ import annotations

import html
import io
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from xml.etree import ElementTree

from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from docs.pages.terminal import COLUMNS, Screen, typed

FOLDER = Path(__file__).resolve().parents[1] / "sessions"
PROMPT = "$ "
# Rich draws letters of 20 pixels.
LETTER_HEIGHT = 20
LINE_HEIGHT = LETTER_HEIGHT * 1.22
CHARACTER_WIDTH = LETTER_HEIGHT * 0.61
# Where there is room, letters of 15 pixels are what stands around them.
SHOWN = 0.75
# Before what a line that is too long goes on with.
HANGING = "  "
# No font from elsewhere, so that the file shows the same wherever it is opened; widths are in each text.
FORMAT = """\
<svg viewBox="-12 -10 WIDTH HEIGHT" width="SHOWN_WIDE" height="SHOWN_HIGH"
 xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="{unique_id}-title">
<title id="{unique_id}-title">TITLE</title>
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
  font-size: {char_height}px;
  white-space: pre;
}}
{styles}
</style>
<defs>
{lines}
</defs>
<rect x="-12" y="-10" width="100%" height="100%" rx="8" fill="#292929"/>
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</svg>
"""


@dataclass(frozen=True)
class Session:
    """Commands that follow each other in an empty folder.

    Of what was drawn again and again, such as a bar, the last that has the word `still` is shown as well.
    """

    name: str
    title: str
    commands: tuple[str, ...]
    still: str | None = None


SESSIONS = (
    Session("first", "tiertune without arguments lists the first steps", ("tiertune",)),
    Session(
        "tune",
        "tiertune tune records a workload, searches with a progress bar, and ends with a verdict and files",
        ("tiertune tune -w bc-kron -m icx-pmem --trials 20",),
        still="searching",
    ),
    Session(
        "mistakes",
        "Mistakes in names, knobs and values are answered with the nearest valid choice",
        (
            "tiertune run hemen -w gups -m skx-numa",
            "tiertune run hemem -w gups -m skx-numa -k read_hot_treshold=2",
            "tiertune tune -w gups --ratio 1-8",
        ),
    ),
)


def play(session: Session) -> list[str]:
    """Runs the commands; what the terminal shows, line by line, with the escapes of its colours."""
    programs = str(Path(sys.executable).parent)
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("TIERTUNE_RESULTS", None)
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for command in session.commands:
            screen = Screen().feed(typed(shlex.split(command), Path(folder), environment))
            shown = screen.lines if session.still is None else screen.with_still(session.still)
            while not shown[-1]:
                shown.pop()
            lines += [f"{PROMPT}\x1b[1m{command}\x1b[0m", *shown, ""]
    return lines[:-1]


def drawn(lines: Sequence[str], session: Session) -> str:
    """The picture of a terminal with these lines; what is too long goes on in the next, between words."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), color_system="256", force_terminal=True)
    parts = [part for line in lines for part in folded(Text.from_ansi(line), console)]
    for part in parts:
        console.print(part, no_wrap=True, overflow="ignore", crop=False, highlight=False)
    places = {
        "TITLE": html.escape(session.title),
        "WIDTH": str(width := ceil(COLUMNS * CHARACTER_WIDTH) + 24),
        "HEIGHT": str(height := ceil(len(parts) * LINE_HEIGHT) + 20),
        "SHOWN_WIDE": str(round(width * SHOWN)),
        "SHOWN_HIGH": str(round(height * SHOWN)),
    }
    form = re.sub("|".join(places), lambda place: places[place[0]], FORMAT)
    svg = console.export_svg(code_format=form, theme=SVG_EXPORT_THEME, unique_id=session.name)
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)


def folded(text: Text, console: Console) -> list[Text]:
    """The lines that a line is drawn in."""
    if len(text) <= COLUMNS:
        return [text]
    first, *rest = text.wrap(console, COLUMNS - len(HANGING), no_wrap=False, overflow="fold")
    return [first, *(Text(HANGING) + part for part in rest)]


def text_of(svg: str) -> list[str]:
    """The lines that a picture shows, without colours."""
    rows: dict[int, list[tuple[int, str]]] = {}
    for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        column = round(float(element.attrib["x"]) / CHARACTER_WIDTH)
        row = round((float(element.attrib["y"]) - LETTER_HEIGHT) / LINE_HEIGHT)
        rows.setdefault(row, []).append((column, element.text or ""))
    lines = []
    for row in range(max(rows) + 1):
        line = ""
        for column, text in sorted(rows.get(row, [])):
            line = line.ljust(column) + text.replace("\xa0", " ")
        lines.append(line.rstrip())
    return lines


def main() -> None:
    """Records every session again."""
    FOLDER.mkdir(exist_ok=True)
    for session in SESSIONS:
        path = FOLDER / f"{session.name}.svg"
        path.write_text(drawn(play(session), session), encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
