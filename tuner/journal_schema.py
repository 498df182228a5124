"""Tables of the journal and how an older journal becomes a current one.

Never edit a step that was released: append one. `tests/tuner/test_journal.py` opens a journal of every
version.
"""

from __future__ import annotations

import sqlite3

# Step n takes a journal from version n to n + 1; the statements of a step run in one transaction.
STEPS: tuple[tuple[str, ...], ...] = (
    (
        # One row: the campaign as resolved when it started. `generation` counts budget extensions, `lag` is
        # that of the first run (proposals depend on it), `identity` tells it from its namesakes in MLflow.
        """create table campaign (
            id integer primary key check (id = 1), identity text not null, name text not null,
            document text not null, lag integer not null, generation integer not null default 0,
            created_at text not null
        ) strict""",
        """create table environment (
            id integer primary key, fingerprint text not null unique, document text not null,
            recorded_at text not null
        ) strict""",
        # `cost` is the natural log of the objective, lower is better, null for a failed trial. `wall_s`,
        # `ask_cpu_s`, `attempt` and the dates are of this run; all else is equal in equal campaigns.
        """create table trial (
            id integer primary key, campaign text not null, cell text not null, purpose text not null,
            number integer not null, scenario text not null, system text not null, config text not null,
            seed integer not null, noise text not null, origin text not null, fidelity real not null,
            status text not null, cost real, error text, raw text,
            wall_s real, ask_cpu_s real not null, attempt integer not null default 1,
            started_at text not null, finished_at text, environment integer references environment (id),
            unique (cell, purpose, number)
        ) strict""",
        # A value of null is NaN, which SQLite does not have.
        """create table metric (
            trial integer not null references trial (id), name text not null, value real,
            primary key (trial, name)
        ) strict, without rowid""",
        """create table timeline (
            trial integer primary key references trial (id), columns text not null
        ) strict""",
        # Why a trial was made: which rule chose the config, and from how much knowledge.
        """create table decision (
            id integer primary key, trial integer not null references trial (id), at text not null,
            text text not null
        ) strict""",
        # What the tracking mirror still owes: a row goes in with the transaction that it mirrors.
        """create table outbox (
            id integer primary key, subject text not null unique, queued_at text not null, sent_at text
        ) strict""",
    ),
    (
        # A trial ends as a timeout when its runtime passes `cap` (s).
        "alter table trial add column cap real",
        # A search that ended before its budget: trial `number` would have been the next.
        """create table stopped (
            cell text not null, generation integer not null, number integer not null, reason text not null,
            at text not null, primary key (cell, generation)
        ) strict, without rowid""",
        # What a cell knew of other campaigns when it began; it stays so, whatever they do later. `entries`
        # is a JSON list of config, gain, rank and, since there are constraints in it, feasible.
        """create table memory (
            cell text primary key, source text not null, entries text not null, at text not null
        ) strict, without rowid""",
    ),
    # Who ran a trial where that was not the process of its campaign: a worker, or a host of a fleet.
    ("alter table trial add column worker text",),
)

VERSION = len(STEPS)


def version_of(connection: sqlite3.Connection) -> int:
    """The schema version of an open database, 0 for an empty one."""
    found = connection.execute("select 1 from sqlite_master where name = 'schema_version'").fetchone()
    row = connection.execute("select version from schema_version").fetchone() if found else None
    return int(row[0]) if row else 0


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the database to VERSION; every step is atomic, so a kill in between leaves a whole older
    version."""
    connection.execute("begin immediate")
    try:
        version = version_of(connection)
        if version == 0:
            connection.execute("create table if not exists schema_version (version integer not null) strict")
            connection.execute(
                "insert into schema_version select 0 where not exists (select 1 from schema_version)"
            )
        for step in STEPS[version:]:
            for statement in step:
                connection.execute(statement)
        connection.execute("update schema_version set version = ?", (len(STEPS),))
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise
