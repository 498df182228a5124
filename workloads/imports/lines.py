"""Text files line by line, with the line in every complaint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tiertune.files import InputError, shown

MOST_LINE_BYTES = 4096
"""No tool that is read writes longer lines, and what is longer is not looked at."""


class BadLine(Exception):
    """A line that does not fit; the sentence says why."""

    def __init__(self, number: int, sentence: str) -> None:
        super().__init__(sentence)
        self.number = number


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Numbers from 1 and lines without their ends; raises `InputError` for what is no text, `BadLine`."""
    number = 0
    try:
        with path.open("rb") as file:
            while line := file.readline(MOST_LINE_BYTES + 1):
                number += 1
                if len(line) > MOST_LINE_BYTES:
                    raise BadLine(number, f"the line is longer than {MOST_LINE_BYTES} bytes")
                try:
                    yield number, line.decode("utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise BadLine(number, f"not text in UTF-8 (byte {error.start} of the line)") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from error


def quoted(line: str) -> str:
    """A line in a sentence, shortened."""
    line = line.strip()
    return shown(line if len(line) <= 48 else line[:45] + "...")
