"""The history of a suite: what every night measured, one SQLite file that survives `kill -9`.

Alarms are decided from these rows; the tracking store and digests are made from them and may be lost.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from tiertune.files import InputError
from tiertune.tuner.disk_trouble import disk_trouble
from tiertune.tuner.nightly.alarms import Alarm, Member, Watch
from tiertune.tuner.nightly.detection import Reading
from tiertune.tuner.nightly.history_schema import STEPS, VERSION
from tiertune.tuner.sqlite_file import opened
from tiertune.tuner.trial import Config, Measurement, canonical


@dataclass(frozen=True)
class Followed:
    """What is followed over nights. `figure` names its kind (`performance`, or a figure of the tuner),
    `subject` what an alarm would be about, `unit` and `direction` what its metric is."""

    key: str
    figure: str
    subject: str
    campaign: str
    label: str
    metric: str
    direction: str
    unit: str = ""


@dataclass(frozen=True)
class Round:
    """A search of a campaign from start to end. `name` is that of its results folder."""

    campaign: str
    number: int
    name: str
    seed: int
    began: str
    ended: str | None = None
    note: str | None = None


@dataclass(frozen=True)
class Work:
    """What became of a campaign, or of its panel, in a night. `due`: it should have been done and was not."""

    campaign: str
    what: str
    why: str
    undone: bool
    due: bool


@dataclass(frozen=True)
class Notice:
    """A message that is owed, or was sent."""

    id: int
    night: str
    event: str
    recipient: str
    attempts: int
    error: str | None
    sent_at: str | None


class History:
    """The history in one file; a suite's lock makes sure that one process writes it.

    `writer=False` opens an existing one for reading, also while a night writes it. Raises InputError where
    the file is no history, or newer than this program.
    """

    def __init__(self, path: Path, *, writer: bool = True) -> None:
        self.path = path
        if writer:
            path.parent.mkdir(parents=True, exist_ok=True)
        elif not path.is_file():
            raise InputError(f"{path}: no such history; `tiertune nightly run SUITE` makes one")
        try:
            self._db = opened(path, writer)
            self._db.row_factory = sqlite3.Row
            if writer:
                self._db.execute("pragma journal_mode = wal")
                self._db.execute("pragma synchronous = full")
                self._db.execute("pragma foreign_keys = on")
            else:
                self._db.execute("pragma query_only = on")
            version = int(self._db.execute("pragma user_version").fetchone()[0])
        except sqlite3.DatabaseError as error:
            if disk_trouble(error) is not None:
                raise
            raise InputError(
                f"{path}: not a usable history ({error}); move it away to start afresh"
            ) from error
        if version > VERSION:
            raise InputError(
                f"{path}: history version {version}, this tiertune knows {VERSION}; update tiertune"
            )
        if not writer:
            if version < VERSION:
                raise InputError(f"{path}: history version {version}; the next night brings it up to date")
            return
        for number, step in enumerate(STEPS[version:], start=version + 1):
            with self._transaction():
                for statement in step:
                    self._db.execute(statement)
                self._db.execute(f"pragma user_version = {number}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    # --- nights

    def begin(self, date: str) -> None:
        """A night starts, or goes on. Raises InputError where later nights were measured already."""
        last = self._one("select max(date) as date from night")["date"]
        if last is not None and last > date:
            raise InputError(f"--date {date}: {last} was measured already; the nearest valid date is {last}")
        self._db.execute(
            """insert into night (date, began_at, state) values (?, ?, 'running')
               on conflict (date) do update set state = 'running', ended_at = null""",
            (date, _now()),
        )
        self._db.execute("delete from work where night = ?", (date,))

    def record_environment(self, date: str, facts: Mapping[str, str]) -> None:
        """Facts in words; what differs between nights is named beside an alarm."""
        self._db.execute("update night set environment = ? where date = ?", (canonical(dict(facts)), date))

    def end(self, date: str, state: str) -> None:
        """`judged` once its alarms are decided, `closed` once its digest is written."""
        self._db.execute("update night set state = ?, ended_at = ? where date = ?", (state, _now(), date))

    def nights(self) -> list[str]:
        """All dates, oldest first."""
        return [row["date"] for row in self._all("select date from night order by date")]

    def unjudged(self) -> list[str]:
        """Nights whose alarms are not decided, such as one that was killed; oldest first."""
        return [
            row["date"] for row in self._all("select date from night where state = 'running' order by date")
        ]

    def times(self, date: str) -> tuple[str, str | None]:
        """When a night began and ended, in UTC; compares as text with the times of a journal."""
        row = self._one("select began_at, ended_at from night where date = ?", (date,))
        return row["began_at"], row["ended_at"]

    def environment(self, date: str) -> dict[str, str]:
        """The facts of a night, empty where it got nowhere."""
        row = self._one("select environment from night where date = ?", (date,))
        facts: dict[str, str] = json.loads(row["environment"]) if row else {}
        return facts

    # --- what was measured

    def follow(self, followed: Followed) -> None:
        """Name a series; a second time changes nothing but the words."""
        self._db.execute(
            """insert into series (key, document) values (?, ?)
               on conflict (key) do update set document = excluded.document""",
            (followed.key, canonical(asdict(followed))),
        )

    def followed(self) -> dict[str, Followed]:
        """All series by key."""
        rows = self._all("select key, document from series order by key")
        return {row["key"]: Followed(**json.loads(row["document"])) for row in rows}

    def add_run(self, date: str, series: str, seed: int, measured: Measurement, cost: float | None) -> None:
        """One run of the panel, whole or not at all."""
        finite = {name: value for name, value in measured.metrics.items() if math.isfinite(value)}
        values = (
            date,
            series,
            seed,
            measured.status,
            cost,
            measured.error,
            measured.wall_s,
            canonical(finite),
        )
        self._db.execute(
            """insert or replace into run (night, series, seed, status, cost, error, wall_s, metrics)
               values (?, ?, ?, ?, ?, ?, ?, ?)""",
            values,
        )

    def seeds_run(self, date: str, series: str) -> set[int]:
        """Seeds that a night measured already."""
        rows = self._all("select seed from run where night = ? and series = ?", (date, series))
        return {row["seed"] for row in rows}

    def add_figure(self, date: str, series: str, value: float | None, failed: int = 0, runs: int = 0) -> None:
        """A figure of the tuner: a value (natural log, higher is worse), or how many of its trials failed."""
        self._db.execute(
            "insert or replace into figure (night, series, value, failed, runs) values (?, ?, ?, ?, ?)",
            (date, series, value, failed, runs),
        )

    def readings(self, last: str | None = None) -> dict[str, list[Reading]]:
        """Each series over its nights up to `last`, oldest first."""
        until = last or "9999"
        found: dict[str, dict[str, tuple[list[float], int]]] = {}
        for row in self._all(
            "select night, series, cost from run where night <= ? order by series, night, seed", (until,)
        ):
            values, failed = found.setdefault(row["series"], {}).get(row["night"], ([], 0))
            if row["cost"] is None:
                failed += 1
            else:
                values.append(row["cost"])
            found[row["series"]][row["night"]] = (values, failed)
        history = {
            key: [Reading(night, tuple(values), failed) for night, (values, failed) in nights.items()]
            for key, nights in found.items()
        }
        for row in self._all("select * from figure where night <= ? order by series, night", (until,)):
            # A share of failed trials has no value of its own: all of its trials count, as worked or failed.
            worked = (0.0,) * (row["runs"] - row["failed"])
            own = worked if row["value"] is None else (row["value"],)
            history.setdefault(row["series"], []).append(Reading(row["night"], own, row["failed"]))
        return history

    def errors(self, date: str) -> dict[str, list[str]]:
        """What failed runs of a night said, by series."""
        said: dict[str, list[str]] = {}
        for row in self._all(
            "select series, status, error from run where night = ? and cost is null", (date,)
        ):
            said.setdefault(row["series"], []).append(row["error"] or row["status"])
        return said

    # --- alarms

    def watch(self) -> Watch:
        """Levels and alarms as they are."""
        levels = {row["series"]: row["since"] for row in self._all("select * from level")}
        alarms = self._all("select document from alarm order by number")
        return Watch(levels, tuple(_alarm(json.loads(row["document"])) for row in alarms))

    def keep_watch(
        self,
        watch: Watch,
        judged: str | None = None,
        said: str = "",
        improvements: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        """Store levels and alarms, and that a night is judged, all or nothing. What is better is stored with
        the night that says so."""
        with self._transaction():
            self._db.executemany(
                "insert or replace into level (series, since) values (?, ?)", list(watch.levels.items())
            )
            self._db.executemany(
                "insert or replace into alarm (number, document) values (?, ?)",
                [(alarm.number, canonical(asdict(alarm))) for alarm in watch.alarms],
            )
            if judged is not None:
                self._db.executemany(
                    "insert into improvement (night, document) values (?, ?)",
                    [(said, canonical(dict(entry))) for entry in improvements],
                )
                self._db.execute("update night set state = 'judged' where date = ?", (judged,))

    def add_improvement(self, date: str, document: Mapping[str, Any]) -> None:
        """Something that is better since a night."""
        self._db.execute(
            "insert into improvement (night, document) values (?, ?)", (date, canonical(dict(document)))
        )

    def improvements(self, date: str) -> list[dict[str, Any]]:
        """What is better since a night."""
        rows = self._all("select document from improvement where night = ? order by id", (date,))
        return [json.loads(row["document"]) for row in rows]

    # --- configurations and rounds

    def incumbent(self, cell: str) -> tuple[Config, str] | None:
        """The tuned configuration that nights measure and where it is from, None where there is none yet."""
        query = "select config, source from incumbent where cell = ? order by night desc limit 1"
        row = self._one(query, (cell,))
        return (json.loads(row["config"]), row["source"]) if row else None

    def promote(self, cell: str, date: str, config: Config, source: str, document: Mapping[str, Any]) -> None:
        """A winner takes over, and that is said, or neither."""
        with self._transaction():
            self._db.execute(
                "insert or replace into incumbent (cell, night, config, source) values (?, ?, ?, ?)",
                (cell, date, canonical(config), source),
            )
            self.add_improvement(date, document)

    def sources(self) -> set[str]:
        """Names of the rounds that the configurations in use come from."""
        query = """select source from incumbent i where night =
                   (select max(night) from incumbent where cell = i.cell)"""
        return {row["source"] for row in self._all(query)}

    def rounds(self, campaign: str) -> list[Round]:
        """All rounds of a campaign, oldest first."""
        rows = self._all("select * from round where campaign = ? order by number", (campaign,))
        return [Round(**dict(row)) for row in rows]

    def begin_round(self, entry: Round) -> None:
        """A new search."""
        values = (entry.campaign, entry.number, entry.name, entry.seed, entry.began)
        self._db.execute(
            "insert into round (campaign, number, name, seed, began) values (?, ?, ?, ?, ?)", values
        )

    def end_round(self, entry: Round, date: str, note: str) -> None:
        """A search is over: complete, or given up for a reason."""
        self._db.execute(
            "update round set ended = ?, note = ? where campaign = ? and number = ?",
            (date, note, entry.campaign, entry.number),
        )

    def note_work(self, date: str, work: Work) -> None:
        """What became of a campaign in a night."""
        values = (date, work.campaign, work.what, work.why, work.undone, work.due)
        self._db.execute(
            "insert into work (night, campaign, what, why, undone, due) values (?, ?, ?, ?, ?, ?)", values
        )

    def work(self, date: str) -> list[Work]:
        """The same, in order."""
        rows = self._all("select * from work where night = ? order by id", (date,))
        return [
            Work(row["campaign"], row["what"], row["why"], bool(row["undone"]), bool(row["due"]))
            for row in rows
        ]

    # --- what is owed to others

    def owe(self, date: str, event: str, recipient: str) -> None:
        """A message that has to be sent; a second time changes nothing."""
        self._db.execute(
            "insert or ignore into notice (night, event, recipient) values (?, ?, ?)",
            (date, event, recipient),
        )

    def owed(self) -> list[Notice]:
        """Messages that were not delivered yet, oldest first."""
        rows = self._all("select * from notice where sent_at is null order by id")
        return [Notice(**dict(row)) for row in rows]

    def tried(self, notice: Notice, error: str | None) -> None:
        """A message was delivered (no error), or has to be tried again."""
        self._db.execute(
            "update notice set attempts = attempts + 1, error = ?, sent_at = ? where id = ?",
            (error, None if error else _now(), notice.id),
        )

    def untracked(self) -> list[str]:
        """Nights that the tracking store lacks."""
        rows = self._all("select date from night where sent_at is null and state != 'running' order by date")
        return [row["date"] for row in rows]

    def tracked(self, date: str) -> None:
        """The tracking store has this night."""
        self._db.execute("update night set sent_at = ? where date = ?", (_now(), date))

    # --- inside

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("begin immediate")
        try:
            yield
            self._db.execute("commit")
        except BaseException:
            if self._db.in_transaction:  # SQLite has rolled back by itself where the disk is full
                self._db.execute("rollback")
            raise

    def _all(self, query: str, arguments: tuple[Any, ...] = ()) -> list[sqlite3.Row]:
        return self._db.execute(query, arguments).fetchall()

    def _one(self, query: str, arguments: tuple[Any, ...] = ()) -> Any:
        return self._db.execute(query, arguments).fetchone()


def _alarm(document: Mapping[str, Any]) -> Alarm:
    return Alarm(**{**document, "members": tuple(Member(**member) for member in document["members"])})


def _now() -> str:
    # As finely as a journal's trials, with which they are compared.
    return datetime.now(UTC).isoformat(timespec="milliseconds")
