"""A command on a terminal of 56 columns: what stands there at the end, and what stood there meanwhile."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

# As many as are legible on a phone, where a picture of them is 360 pixels wide.
COLUMNS = 56
ROWS = 50
ESCAPE = "\x1b"
TOKEN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]|[^\r\n\x1b]+|\x1b")


def typed(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> str:
    """Everything that `command` sends to its terminal, as it is. It has to end by itself."""
    ours, its = os.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    # COLUMNS and the like would tell it more than the terminal does.
    hidden = {"COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE"}
    kept = {name: value for name, value in environment.items() if name not in hidden}
    with subprocess.Popen(
        command, cwd=folder, env={**kept, "TERM": "xterm-256color"}, stdin=its, stdout=its, stderr=its
    ):
        os.close(its)
        parts = []
        try:
            while part := os.read(ours, 65536):
                parts.append(part)
        except OSError:
            pass  # how Linux says that the other end is closed
        finally:
            os.close(ours)
    return b"".join(parts).decode()


class Screen:
    """The lines of a terminal, colours kept as they were sent. Knows what our commands send, no more: a bar
    that is drawn again from its first line; anything else is an error rather than a wrong picture."""

    def __init__(self) -> None:
        self.lines = [""]
        self.frames: list[list[str]] = []
        """The lines whenever something was about to be drawn again."""
        self._row = 0
        self._returned = False

    def feed(self, text: str) -> Screen:
        """Takes what a command sent."""
        for token in TOKEN.findall(text):
            self._take(token)
        return self

    def _take(self, token: str) -> None:
        if token == "\n":
            self._row += 1
            self.lines += [""] * (self._row + 1 - len(self.lines))
        elif token == "\r":
            self._returned = True
            return
        elif token.endswith("m") and token.startswith(ESCAPE):
            self.lines[self._row] += token
        elif re.fullmatch(r"\x1b\[\d*A", token):
            self._row -= int(token[2:-1] or 1)
        elif token == "\x1b[2K":
            if self._row == len(self.lines) - 1 and self.lines[self._row]:
                self.frames.append(list(self.lines))
            self.lines[self._row] = ""
            return
        elif re.fullmatch(r"\x1b\[\?25[hl]", token):
            return
        elif token.startswith(ESCAPE):
            raise ValueError(f"a command sent {token!r}, which this terminal does not know")
        elif self._returned and self.lines[self._row]:
            raise ValueError(f"a command wrote {token!r} over {self.lines[self._row]!r}")
        else:
            self.lines[self._row] += token
        self._returned = False

    def with_still(self, word: str) -> list[str]:
        """The lines, with what was drawn over where it stood, as it was when `word` was last in it."""
        for frame in reversed(self.frames):
            pairs = zip(frame, self.lines, strict=False)
            at = next((row for row, (was, now) in enumerate(pairs) if was != now), len(self.lines))
            gone = frame[at:]
            if any(word in line for line in gone):
                return [*self.lines[:at], *gone, *self.lines[at:]]
        raise ValueError(f"nothing that was drawn over has the word '{word}'")
