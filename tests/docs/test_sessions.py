"""The terminal sessions that the README shows: their commands run, and print what the pictures show."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from docs.pages.sessions import FOLDER, LETTER_HEIGHT, SESSIONS, Session, drawn, play, text_of
from docs.pages.terminal import COLUMNS, Screen, typed
from tests.source_tree import ROOT

QUICK = [session for session in SESSIONS if session.still is None]
LONG = [session for session in SESSIONS if session.still is not None]


def settled(lines: list[str], still: str | None) -> str:
    """The text without what is different each time: seconds, sizes of files, and how far a bar was."""
    kept = [f"<{still}>" if still is not None and f" {still} " in line else line for line in lines]
    if still is not None:
        kept = [line for line in kept if not line.startswith("  best ")]
    # Where a line goes on in the next depends on the numbers in it.
    text = "\n".join(kept) if still is None else " ".join(" ".join(kept).split())
    text = re.sub(r"recorded (\S+) in [\d.]+ s", r"recorded \1 in <time>", text)
    return re.sub(r"/profiles/\S+ \([\d.]+ MB\)", "/profiles/<file>", text)


def check(session: Session) -> None:
    drawing = drawn(play(session), session)
    now = settled(text_of(drawing), session.still)
    path = FOLDER / f"{session.name}.svg"
    shown = settled(text_of(path.read_text(encoding="utf-8")), session.still)
    if now != shown and os.environ.get("UPDATE_GOLDEN") == "1":
        path.write_text(drawing, encoding="utf-8")
        return
    assert now == shown, "not what docs/sessions shows; if it is meant, `make golden` draws it again"


@pytest.mark.parametrize("session", QUICK, ids=lambda session: session.name)
def test_a_session_prints_what_its_picture_shows(session: Session) -> None:
    check(session)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("session", LONG, ids=lambda session: session.name)
def test_a_campaign_prints_what_its_picture_shows(session: Session) -> None:
    check(session)


def test_the_readme_shows_every_session_and_no_other() -> None:
    shown = re.findall(r"!\[[^\]]+\]\(docs/sessions/(\S+)\.svg\)", (ROOT / "README.md").read_text())
    assert sorted(shown) == sorted(session.name for session in SESSIONS)
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(shown)


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_a_picture_needs_nothing_from_elsewhere_and_has_a_title(session: Session) -> None:
    text = (FOLDER / f"{session.name}.svg").read_text(encoding="utf-8")
    assert set(re.findall(r"https?://[^\"\s]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in re.sub(r"url\(#", "", text)
    title = ElementTree.fromstring(text).find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert title.text == session.title


def test_text_of_is_what_was_drawn() -> None:
    whole, path = "x" * COLUMNS, "y" * (COLUMNS - 4)
    lines = ["$ \x1b[1mone  two\x1b[0m", "", whole, f"kept in \x1b[32m{path}\x1b[0m (1 MB)", "  <&> end"]
    shown = text_of(drawn(lines, SESSIONS[0]))
    assert shown == ["$ one  two", "", whole, "kept in", f"  {path}", "  (1 MB)", "  <&> end"]


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session.name)
def test_letters_are_legible_on_a_phone(session: Session) -> None:
    """Of 390 pixels a page leaves 358 to a picture."""
    picture = ElementTree.fromstring((FOLDER / f"{session.name}.svg").read_text(encoding="utf-8"))
    width = float(picture.attrib["viewBox"].split()[2])
    assert LETTER_HEIGHT * 358 / width >= 10
    assert LETTER_HEIGHT * float(picture.attrib["width"]) / width >= 14


def test_a_terminal_shows_the_end_and_what_was_drawn_over(tmp_path: Path) -> None:
    code = """
import sys, time
from rich.console import Console
from rich.progress import Progress
assert sys.stdout.isatty()
with Progress(console=Console(), transient=True) as progress:
    task = progress.add_task("working", total=3)
    for _ in range(3):
        progress.advance(task)
        progress.refresh()
    progress.console.print("above")
    progress.refresh()
print("done")
"""
    screen = Screen().feed(typed([sys.executable, "-c", code], tmp_path, os.environ))
    assert [line for line in screen.lines if line] == ["above", "done"]
    first, bar, last, *_ = screen.with_still("working")
    assert (first, last) == ("above", "done")
    assert "working" in bar
    assert "100%" in bar
    with pytest.raises(ValueError, match="has the word 'idle'"):
        screen.with_still("idle")


def test_a_terminal_refuses_what_it_does_not_know() -> None:
    with pytest.raises(ValueError, match="does not know"):
        Screen().feed("a\x1b[5;5Hb")
    with pytest.raises(ValueError, match="over 'first'"):
        Screen().feed("first\rsecond")
