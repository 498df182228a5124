"""One writing process per journal."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from tiertune.tuner.journal_claim import JournalError


class ProcessLock:
    """An exclusive lock beside `path`. Raises JournalError where another process (or this one) holds it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = lock_file(path).open("a+", encoding="utf-8")
        try:
            # The kernel drops this lock with the process, however it dies: no stale lock to clean up.
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._handle.seek(0)
            holder = self._handle.read().strip() or "another process"
            self._handle.close()
            raise JournalError(
                f"{path}: this campaign is running already ({holder}); wait for it or stop it"
            ) from error
        self._handle.seek(0)
        self._handle.truncate()
        self._handle.write(f"process {os.getpid()}\n")
        self._handle.flush()

    def release(self) -> None:
        """Give the lock up. Idempotent."""
        self._handle.close()


def lock_file(path: Path) -> Path:
    """The lock of the journal at `path`."""
    return path.with_name(path.name + ".lock")


def is_held(path: Path) -> bool:
    """Whether some process writes the journal at `path` now."""
    if not lock_file(path).is_file():
        return False
    with lock_file(path).open("a+", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
    return False
