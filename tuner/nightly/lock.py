"""One night at a time in a results folder: a lock that says whose it is, since when, and when it last
moved.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

QUIET_S = 900.0
"""An owner on another host that did not move for so long is gone: file locks may not reach over hosts."""


@dataclass(frozen=True)
class Owner:
    """Who holds a lock, or held it."""

    suite: str
    host: str
    process: int
    since_s: float
    moved_s: float

    def words(self, now_s: float) -> str:
        """`suite nightly, process 123 on rack4, since 2 h 5 min`."""
        return (
            f"suite {self.suite}, process {self.process} on {self.host}, since {_age(now_s - self.since_s)}"
        )


class Busy(Exception):
    """Another night is running; the sentence says whose."""


class NightLock:
    """The lock of a results folder. Raises Busy while another night holds it.

    `left_by` is the owner that a killed night left in the file, None where the last one ended in order.
    """

    def __init__(self, path: Path, suite: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = path.open("a+", encoding="utf-8")
        found = _read(self._handle.name)
        try:
            # The kernel drops this with the process, however it dies: a lock file alone stops nobody.
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._handle.close()
            raise Busy(_busy(path, found)) from error
        elsewhere = found is not None and found.host != platform.node()
        if found is not None and elsewhere and time.time() - found.moved_s < QUIET_S:
            self._handle.close()
            raise Busy(_busy(path, found))
        self.left_by = found
        now_s = time.time()
        self._owner = Owner(suite, platform.node(), os.getpid(), now_s, now_s)
        self._write()

    def beat(self) -> None:
        """The night moves; called as trials end."""
        if time.time() - self._owner.moved_s > QUIET_S / 10:
            self._owner = Owner(**{**asdict(self._owner), "moved_s": time.time()})
            self._write()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handle.seek(0)
        self._handle.truncate()
        self._handle.close()

    def _write(self) -> None:
        self._handle.seek(0)
        self._handle.truncate()
        self._handle.write(json.dumps(asdict(self._owner)))
        self._handle.flush()


def _read(path: str) -> Owner | None:
    try:
        return Owner(**json.loads(Path(path).read_text(encoding="utf-8")))
    except (ValueError, TypeError):
        return None


def _busy(path: Path, owner: Owner | None) -> str:
    who = owner.words(time.time()) if owner else "another process"
    return f"{path}: a night is running already ({who}); one runs at a time"


def _age(seconds: float) -> str:
    minutes = int(seconds // 60)
    if minutes < 1:
        return f"{int(seconds)} s"
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"
