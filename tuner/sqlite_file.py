"""Files of SQLite as commands open them: to write, or to read wherever they lie."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

from tiertune.tuner.disk_trouble import primary_code

UNREACHABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def opened(path: Path, writer: bool) -> sqlite3.Connection:
    """The database at `path`, made where a writer finds none.

    A reader needs no right to write, neither to the file nor to its folder. Raises OSError where it may not
    be opened, and sqlite3.DatabaseError where it is none.
    """
    try:
        # A reader makes no file where one has just gone.
        return _connected(path, "mode=rwc" if writer else "mode=rw")
    except sqlite3.OperationalError as error:
        if primary_code(error) not in UNREACHABLE:
            raise
        with path.open("r+b" if writer else "rb"):  # raises what is wrong with the file itself
            pass
        if writer:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path.parent)) from error
        log = path.with_name(f"{path.name}-wal")
        if log.is_file() and log.stat().st_size:
            said = (
                f"{log.name} beside it is read only where files can be made; copy the folder to one of yours"
            )
            raise PermissionError(errno.EACCES, said, str(path)) from error
    # SQLite wants to share memory with writers by a file beside it; without a log there is none.
    return _connected(path, "mode=ro&immutable=1")


def _connected(path: Path, mode: str) -> sqlite3.Connection:
    place = f"{path.resolve().as_uri()}?{mode}"
    database = sqlite3.connect(place, isolation_level=None, check_same_thread=False, timeout=30.0, uri=True)
    try:
        database.execute("select 1 from sqlite_master").fetchone()  # nothing is opened before it is read
    except sqlite3.Error:
        database.close()
        raise
    return database
