"""Errors that say that a disk takes no more: no bug of ours, and nothing is wrong with a file."""

from __future__ import annotations

import errno
import sqlite3

REFUSALS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
NOT_WRITABLE = (errno.EACCES, errno.EPERM, *REFUSALS)
"""How a folder answers in which nothing can be written, whatever the reason."""
SQLITE_REFUSALS = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: "the disk fails or is full",
    sqlite3.SQLITE_READONLY: "they are only to be read",
}
"""By the primary code of an error."""


def primary_code(error: sqlite3.Error) -> int:
    """What kind of error it is, without the details; 0 where Python found it, not SQLite."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def disk_trouble(error: BaseException) -> str | None:
    """What is wrong with a disk, in words; None where `error` is of something else."""
    if isinstance(error, OSError) and error.errno in REFUSALS:
        # What is written to an open file, or to a pipe's end, does not say its name.
        said = (error.strerror or str(error)).lower()
        return f"{error.filename}: {said}" if error.filename is not None else f"the disk is full ({said})"
    if isinstance(error, sqlite3.Error):
        what = SQLITE_REFUSALS.get(primary_code(error))
        return f"results cannot be stored or read: {what} ({error})" if what else None
    return None
