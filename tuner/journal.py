"""The trial journal: the truth of a campaign, one SQLite file that survives `kill -9` at any moment.

A trial is a row from the moment it starts. Optimisers are rebuilt from these rows, the tracking mirror is fed
from them, and reports are drawn from them; nothing else remembers anything.
"""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from tiertune.tuner import journal_schema
from tiertune.tuner.disk_trouble import disk_trouble, primary_code
from tiertune.tuner.journal_claim import (
    Change,
    Claim,
    EmptyJournal,
    JournalError,
    refusal,
    settings_changed,
)
from tiertune.tuner.journal_lock import ProcessLock
from tiertune.tuner.sqlite_file import opened
from tiertune.tuner.trial import Measurement, Purpose, Scenario, Status, Trial, canonical, fingerprint


@dataclass(frozen=True)
class Row:
    """A trial as stored. `cost` is None unless the status is ok; `metrics` may hold NaN where a backend said
    so."""

    id: int
    trial: Trial
    status: Status
    metrics: dict[str, float] = field(default_factory=dict)
    cost: float | None = None
    error: str | None = None
    raw: str | None = None
    wall_s: float | None = None
    ask_cpu_s: float = 0.0
    attempt: int = 1
    started_at: str = ""
    finished_at: str | None = None
    environment: int | None = None
    worker: str | None = None


class Journal:
    """One campaign's journal. Safe to use from several threads; one writing process at a time, held by a file
    lock.

    `writer=False` opens an existing journal for reading, also while a campaign is writing it, one of any
    older version, and one that lies where nothing can be written.
    Raises JournalError where the file is missing, newer than this program, no journal, or locked by another
    process, and OSError where it may not be opened.
    """

    def __init__(self, path: Path, *, writer: bool = True) -> None:
        self.path = Path(path)
        self._mutex = threading.RLock()
        self._parsed: tuple[str, dict[str, Any]] = ("", {})
        self._lock = ProcessLock(self.path) if writer else None
        if not writer and not self.path.is_file():
            raise JournalError(f"{self.path}: no such journal; `tiertune tune CAMPAIGN` makes one")
        try:
            self._db = opened(self.path, writer)
            self._open(writer)
        except sqlite3.DatabaseError as error:
            self._unlock()
            if disk_trouble(error) is not None:
                raise
            raise JournalError(
                f"{self.path}: not a usable journal ({error}); move it away to start afresh"
            ) from error
        except JournalError:
            self._db.close()
            self._unlock()
            raise
        except OSError:
            self._unlock()
            raise
        if writer:
            self._sweep()

    def _open(self, writer: bool) -> None:
        version = journal_schema.version_of(self._db)
        if version > journal_schema.VERSION:
            raise JournalError(
                f"{self.path}: journal version {version}, but this tiertune knows up to"
                f" {journal_schema.VERSION}; update tiertune"
            )
        if version == 0 and self._db.execute("select 1 from sqlite_master").fetchone():
            raise JournalError(f"{self.path}: not a journal of tiertune; move it away to start afresh")
        if writer:
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = full")  # a finished trial survives a power cut, too
            self._db.execute("pragma foreign_keys = on")
            journal_schema.migrate(self._db)
            return
        if version == 0:
            raise self._empty()
        if version < journal_schema.VERSION:
            # Readers bring a copy up to date: the file is not theirs.
            copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            self._db.backup(copy)
            self._db.close()
            self._db = copy
            journal_schema.migrate(self._db)
        self._db.execute("pragma query_only = on")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file and give up the lock. Idempotent."""
        with self._mutex:
            self._db.close()
            self._unlock()

    # --- the campaign

    def claim(self, name: str, document: Mapping[str, Any], lag: int = 0, *, extend: bool = False) -> Claim:
        """Say which campaign this journal is of.

        A first call stores `document` and `lag`; later ones must bring the same document, and get the stored
        lag back. With `extend`, the numbers in EXTENDABLE may grow. Raises JournalError with the differences
        otherwise.
        """
        text = canonical(document)
        with self._transaction():
            row = self._db.execute("select * from campaign").fetchone()
            if row is None:
                values = (uuid.uuid4().hex, name, text, lag, _now())
                self._db.execute(
                    """insert into campaign (id, identity, name, document, lag, created_at)
                       values (1, ?, ?, ?, ?, ?)""",
                    values,
                )
            elif not self._db.execute("select 1 from trial").fetchone():
                # Nothing was made from the settings before: whoever corrects a campaign that did not fit may.
                self._db.execute("update campaign set name = ?, document = ?, lag = ?", (name, text, lag))
            elif row["document"] != text:
                grown = 1 if self._changes(row, name, document, extend) else 0
                self._db.execute(
                    "update campaign set document = ?, generation = generation + ?", (text, grown)
                )
        return self.claimed()

    def check(self, name: str, document: Mapping[str, Any], *, extend: bool = False) -> None:
        """Raises JournalError where `claim` would refuse this campaign; stores nothing."""
        row = self._one("select * from campaign")
        if row is not None and self._one("select 1 from trial") is not None:
            self._changes(row, name, document, extend)

    def _changes(
        self, row: sqlite3.Row, name: str, document: Mapping[str, Any], extend: bool
    ) -> list[Change]:
        changes = settings_changed(json.loads(row["document"]), document)
        if changes and not (extend and all(change.extends for change in changes)):
            raise JournalError(refusal(self.path, name, changes, extend))
        return changes

    def claimed(self) -> Claim:
        """The campaign of this journal. Raises JournalError where none was claimed yet."""
        row = self._one("select * from campaign")
        if row is None:
            raise self._empty()
        # A campaign of hundreds of cells has a megabyte of document, which is asked for with each verdict.
        text, document = self._parsed
        if text != row["document"]:
            document = json.loads(row["document"])
            self._parsed = row["document"], document
        return Claim(row["identity"], row["name"], document, row["lag"], row["generation"], row["created_at"])

    def environment(self, document: Mapping[str, Any]) -> int:
        """The id of this environment (versions, commit, host facts), stored once however often it is seen."""
        with self._transaction():
            values = (fingerprint(document), canonical(document), _now())
            self._db.execute(
                "insert or ignore into environment (fingerprint, document, recorded_at) values (?, ?, ?)",
                values,
            )
            found = self._db.execute(
                "select id from environment where fingerprint = ?", values[:1]
            ).fetchone()
            return int(found["id"])

    def environments(self) -> dict[int, dict[str, Any]]:
        """All environments of this journal by id."""
        return {
            row["id"]: json.loads(row["document"])
            for row in self._all("select id, document from environment")
        }

    # --- trials

    def start(self, trial: Trial, *, ask_cpu_s: float, environment: int | None, decision: str) -> None:
        """Store a trial as running, before anything of it runs. A re-run of an interrupted one counts its
        attempt.

        Raises ValueError where this trial is running or finished already, or was interrupted with another
        proposal: both would be bugs of ours, and the journal is where they must not pass.
        """
        with self._transaction():
            before = self._db.execute(
                "select * from trial where cell = ? and purpose = ? and number = ?", _identity(trial)
            ).fetchone()
            if before is not None:
                if before["status"] != Status.INTERRUPTED or not _same_proposal(_trial(before), trial):
                    raise ValueError(
                        f"{trial.key} is already {before['status']} with config {before['config']}"
                    )
                self._db.execute(
                    """update trial set status = ?, attempt = attempt + 1, started_at = ?, environment = ?,
                       config = ? where id = ?""",
                    (Status.RUNNING, _now(), environment, canonical(trial.config), before["id"]),
                )
                identity = before["id"]
            else:
                names, values = zip(*_columns(trial, ask_cpu_s, environment).items(), strict=True)
                marks = ", ".join("?" * len(names))
                cursor = self._db.execute(f"insert into trial ({', '.join(names)}) values ({marks})", values)
                identity = cursor.lastrowid
            self._db.execute(
                "insert into decision (trial, at, text) values (?, ?, ?)", (identity, _now(), decision)
            )

    def finish(self, trial: Trial, measurement: Measurement, cost: float | None) -> None:
        """Store how a running trial ended, all of it or nothing. Raises ValueError where it is not
        running."""
        with self._transaction():
            row = self._db.execute(
                "select id, status from trial where cell = ? and purpose = ? and number = ?", _identity(trial)
            ).fetchone()
            if row is None or row["status"] != Status.RUNNING:
                raise ValueError(f"{trial.key} is {row['status'] if row else 'unknown'}, so it cannot finish")
            m = measurement
            self._db.execute(
                """update trial set status = ?, cost = ?, error = ?, raw = ?, wall_s = ?, worker = ?,
                   finished_at = ? where id = ?""",
                (m.status, cost, m.error, m.raw, m.wall_s, m.worker, _now(), row["id"]),
            )
            # SQLite has no NaN: it becomes null, and null is read back as NaN.
            metrics = [(row["id"], name, float(value)) for name, value in m.metrics.items()]
            self._db.executemany("insert into metric (trial, name, value) values (?, ?, ?)", metrics)
            if m.timeline:
                columns = json.dumps(m.timeline)
                self._db.execute("insert into timeline (trial, columns) values (?, ?)", (row["id"], columns))
            if m.worker is not None:
                self._db.execute(
                    "insert into decision (trial, at, text) values (?, ?, ?)",
                    (row["id"], _now(), f"ran on {m.worker}"),
                )
            self._queue(f"trial:{row['id']}")
            self._queue("campaign")

    def rows(
        self,
        cell: str | None = None,
        purpose: Purpose | None = None,
        *,
        before: int | None = None,
        at_least: int = 0,
    ) -> list[Row]:
        """Stored trials by cell, purpose and number, `at_least` <= number < `before`, in that order."""
        # Only what is asked for: "is null or" would keep SQLite from its index, so that it reads every trial.
        asked = {"cell = ?": cell, "purpose = ?": purpose, "number < ?": before, "number >= ?": at_least}
        given = {test: value for test, value in asked.items() if value is not None}
        where, arguments = " and ".join(given), tuple(given.values())
        with self._mutex:
            trials = self._all(f"select * from trial where {where} order by cell, purpose, number", arguments)
            metrics: dict[int, dict[str, float]] = {}
            query = f"select m.* from metric m join trial t on t.id = m.trial where {where} order by 1, 2"
            for entry in self._all(query, arguments):
                value = math.nan if entry["value"] is None else entry["value"]
                metrics.setdefault(entry["trial"], {})[entry["name"]] = value
        return [_row(entry, metrics.get(entry["id"], {})) for entry in trials]

    def row(self, cell: str, purpose: Purpose, number: int) -> Row | None:
        """One stored trial, None where it never started."""
        found = self.rows(cell, purpose, before=number + 1, at_least=number)
        return found[0] if found else None

    def timeline(self, trial: Trial) -> dict[str, list[float]]:
        """The stored timeline of a trial, empty where none was asked for."""
        query = """select columns from timeline join trial t on t.id = timeline.trial
                   where t.cell = ? and t.purpose = ? and t.number = ?"""
        found = self._one(query, _identity(trial))
        columns: dict[str, list[float]] = json.loads(found["columns"]) if found else {}
        return columns

    def decide(self, trial: Trial, text: str) -> None:
        """Store what was decided of a trial that has been started."""
        with self._transaction():
            self._db.execute(
                """insert into decision (trial, at, text) select id, ?, ? from trial
                   where cell = ? and purpose = ? and number = ?""",
                (_now(), text, *_identity(trial)),
            )

    def decisions(self, trial: Trial) -> list[str]:
        """Why the trial was made, one entry per attempt, and what was decided of it since."""
        query = """select d.text from decision d join trial t on t.id = d.trial
                   where t.cell = ? and t.purpose = ? and t.number = ? order by d.id"""
        return [row["text"] for row in self._all(query, _identity(trial))]

    # --- what is decided once for a cell

    def stop(self, cell: str, generation: int, number: int, reason: str) -> None:
        """Store that the search of a cell ended before trial `number`. A second reason changes nothing."""
        with self._transaction():
            self._db.execute(
                "insert or ignore into stopped (cell, generation, number, reason, at) values (?, ?, ?, ?, ?)",
                (cell, generation, number, reason, _now()),
            )

    def stopped(self, cell: str, generation: int) -> tuple[int, str] | None:
        """Before which trial the search of a cell ended early, and why; None where it did not."""
        query = "select number, reason from stopped where cell = ? and generation = ?"
        found = self._one(query, (cell, generation))
        return (int(found["number"]), str(found["reason"])) if found else None

    def remember(self, cell: str, source: str, entries: list[dict[str, Any]]) -> None:
        """Store what a cell knows of other campaigns, once; an empty list says that there was nothing."""
        with self._transaction():
            self._db.execute(
                "insert or ignore into memory (cell, source, entries, at) values (?, ?, ?, ?)",
                (cell, source, canonical(entries), _now()),
            )

    def remembered(self, cell: str) -> tuple[str, list[dict[str, Any]]] | None:
        """Source and entries as stored, None where nothing was yet."""
        found = self._one("select source, entries from memory where cell = ?", (cell,))
        return (str(found["source"]), json.loads(found["entries"])) if found else None

    # --- the tracking mirror's outbox

    def unsent(self) -> list[str]:
        """Subjects that the mirror still owes: `trial:ID` by age, `campaign` last."""
        query = "select subject from outbox where sent_at is null order by subject = 'campaign', id"
        return [row["subject"] for row in self._all(query)]

    def sent(self, subjects: list[str]) -> None:
        """Strike subjects off the outbox."""
        with self._transaction():
            self._db.executemany(
                "update outbox set sent_at = ? where subject = ?", [(_now(), s) for s in subjects]
            )

    def resend(self) -> None:
        """Owe everything again; sending is idempotent, so this repairs a mirror that was lost."""
        with self._transaction():
            self._db.execute("update outbox set sent_at = null")

    def rows_by_id(self, identities: list[int]) -> list[Row]:
        """Rows behind `trial:ID` subjects, in that order; unknown ids are left out."""
        known = {row.id: row for row in self.rows()}
        return [known[identity] for identity in identities if identity in known]

    # --- inside

    def _empty(self) -> JournalError:
        return EmptyJournal(f"{self.path}: the journal is empty; `tiertune tune CAMPAIGN` fills it")

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _queue(self, subject: str) -> None:
        self._db.execute(
            """insert into outbox (subject, queued_at) values (?, ?)
               on conflict (subject) do update set queued_at = excluded.queued_at, sent_at = null""",
            (subject, _now()),
        )

    def _sweep(self) -> None:
        """We hold the lock, so whatever is still running was killed."""
        with self._transaction():
            self._db.execute(
                "update trial set status = ? where status = ?", (Status.INTERRUPTED, Status.RUNNING)
            )

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._mutex:
            self._db.row_factory = sqlite3.Row
            self._db.execute("begin immediate")
            try:
                yield
                self._db.execute("commit")
            except BaseException:
                if self._db.in_transaction:  # SQLite has rolled back by itself where the disk is full
                    self._db.execute("rollback")
                raise

    def _all(self, query: str, arguments: tuple[Any, ...] = ()) -> list[sqlite3.Row]:
        with self._mutex:
            self._db.row_factory = sqlite3.Row
            try:
                return self._db.execute(query, arguments).fetchall()
            except sqlite3.DatabaseError as error:
                contents = primary_code(error) == sqlite3.SQLITE_ERROR  # such as a table that is not there
                if isinstance(error, sqlite3.OperationalError) and not contents:
                    raise  # a full disk or a lock
                raise JournalError(
                    f"{self.path}: the journal is damaged ({error}); move it away to start afresh"
                ) from error

    def _one(self, query: str, arguments: tuple[Any, ...] = ()) -> sqlite3.Row | None:
        found = self._all(query, arguments)
        return found[0] if found else None


def _identity(trial: Trial) -> tuple[str, str, int]:
    return trial.cell, trial.purpose, trial.number


def _columns(trial: Trial, ask_cpu_s: float, environment: int | None) -> dict[str, Any]:
    return {
        "campaign": trial.campaign,
        "cell": trial.cell,
        "purpose": trial.purpose,
        "number": trial.number,
        "scenario": canonical(trial.scenario.document()),
        "system": trial.system,
        "config": canonical(trial.config),
        "seed": trial.seed,
        "noise": trial.noise,
        "origin": trial.origin,
        "fidelity": trial.fidelity,
        "cap": trial.cap,
        "status": Status.RUNNING,
        "ask_cpu_s": ask_cpu_s,
        "started_at": _now(),
        "environment": environment,
    }


def _same_proposal(before: Trial, now: Trial) -> bool:
    """Whether it is the same trial: a knob that only one of two versions has is at its default, or gone."""
    from tiertune.engine import check_config

    if before == now:
        return True
    shared = before.config.keys() & now.config.keys()
    if replace(before, config=now.config) != now or any(before.config[k] != now.config[k] for k in shared):
        return False
    default = check_config(now.system, {})
    apart = {**before.config, **now.config}.items()
    return all(knob in shared or default.get(knob, value) == value for knob, value in apart)


def _trial(row: sqlite3.Row) -> Trial:
    plain = ("campaign", "cell", "number", "system", "seed", "noise", "purpose")
    names = (*plain, "origin", "fidelity", "cap")
    scenario = Scenario.parse(json.loads(row["scenario"]))
    return Trial(scenario=scenario, config=json.loads(row["config"]), **{name: row[name] for name in names})


def _row(entry: sqlite3.Row, metrics: dict[str, float]) -> Row:
    names = (
        "cost",
        "error",
        "raw",
        "wall_s",
        "ask_cpu_s",
        "attempt",
        "started_at",
        "finished_at",
        "environment",
        "worker",
    )
    bare = Row(id=entry["id"], trial=_trial(entry), status=Status(entry["status"]), metrics=metrics)
    return replace(bare, **{name: entry[name] for name in names})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
