"""Results of runs by content address, shared by all sweeps of a results folder.

One SQLite file that survives `kill -9`: a result is there whole or not at all. What is stored under a key
never changes, so several sweeps may use it at once. Crashes are not stored: they are tried again.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Self

from tiertune.files import InputError
from tiertune.tuner.disk_trouble import disk_trouble, primary_code
from tiertune.tuner.sweep.row import NOT_APPLICABLE, Result
from tiertune.tuner.trial import Status

STORED = (Status.OK.value, Status.NO_METRIC.value, NOT_APPLICABLE)
"""Statuses that the same run would end with again."""

_SCHEMA = """create table if not exists result (
    key text primary key, document text not null, timeline blob
) without rowid"""
_AT_ONCE = 500
WAIT_S = 30.0
HELD = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Cache:
    """The cache at `path`, made where it is missing. Raises `InputError` where the file is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        with self._usable():
            self._db = sqlite3.connect(path, isolation_level=None, timeout=WAIT_S)
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = normal")
            self._db.execute(_SCHEMA)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def read(self, keys: Iterable[str], timelines: bool) -> dict[str, Result]:
        """What is stored of `keys`; with `timelines` only what has its time series, and these with it."""
        wanted = list(dict.fromkeys(keys))
        found: dict[str, Result] = {}
        column = "timeline" if timelines else "null"
        for start in range(0, len(wanted), _AT_ONCE):
            some = wanted[start : start + _AT_ONCE]
            marks = ", ".join("?" * len(some))
            query = f"select key, document, {column} from result where key in ({marks})"
            with self._usable():
                for key, document, blob in self._db.execute(query, some):
                    result = Result(**json.loads(document))
                    if timelines and result.status == Status.OK:
                        if blob is None:
                            continue
                        result = replace(result, timeline=json.loads(zlib.decompress(blob)))
                    found[key] = result
        return found

    def write(self, key: str, result: Result, timelines: bool) -> None:
        """Stores a result, and its time series on request; what was there before is replaced."""
        if result.status not in STORED:
            return
        document = json.dumps(asdict(replace(result, timeline={})))
        blob = zlib.compress(json.dumps(result.timeline).encode()) if timelines else None
        with self._usable():
            self._db.execute("insert or replace into result values (?, ?, ?)", (key, document, blob))

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Says it where the file is none, was damaged, or is held; a disk's trouble is said elsewhere."""
        try:
            yield
        except (sqlite3.DatabaseError, zlib.error, ValueError) as error:
            if disk_trouble(error) is not None:
                raise
            what = f"not a usable cache of sweeps ({error}); delete it to start afresh"
            if isinstance(error, sqlite3.Error) and primary_code(error) in HELD:
                what = f"another process has held it for {WAIT_S:g} s; try again when that is done"
            raise InputError(f"{self.path}: {what}") from error
