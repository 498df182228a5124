"""Tables of a suite's history. Never edit a step that was released: append one."""

from __future__ import annotations

STEPS: tuple[tuple[str, ...], ...] = (
    (
        # `state`: running, judged (its alarms are decided) or closed (its digest is written). `environment`
        # is a JSON mapping of facts in words.
        """create table night (
            date text primary key, began_at text not null, ended_at text, state text not null,
            environment text not null default '{}', sent_at text
        ) strict""",
        # What is followed over nights. `document` is a JSON mapping of what people want to know of it.
        "create table series (key text primary key, document text not null) strict",
        # One run of a panel configuration. `cost` is the natural log of the metric, lower is better.
        """create table run (
            night text not null references night (date), series text not null references series (key),
            seed integer not null, status text not null, cost real, error text, wall_s real,
            metrics text not null, primary key (night, series, seed)
        ) strict, without rowid""",
        # Figures of a search that ended in a night: natural logs, higher is worse; or failed of all trials.
        """create table figure (
            night text not null references night (date), series text not null references series (key),
            value real, failed integer not null default 0, runs integer not null default 0,
            primary key (night, series)
        ) strict, without rowid""",
        # The night since which a series is on its level.
        "create table level (series text primary key, since text not null) strict",
        "create table alarm (number integer primary key, document text not null) strict",
        # Steps for the better, and winners that took over, by night.
        """create table improvement (
            id integer primary key, night text not null, document text not null
        ) strict""",
        # The configuration that nights measure as tuned, since `night`; earlier ones stay for the record.
        """create table incumbent (
            cell text not null, night text not null, config text not null, source text not null,
            primary key (cell, night)
        ) strict, without rowid""",
        # One search of a campaign from start to end, over as many nights as it takes.
        """create table round (
            campaign text not null, number integer not null, name text not null, seed integer not null,
            began text not null, ended text, note text, primary key (campaign, number)
        ) strict, without rowid""",
        # What a night did for a campaign, and what it left undone, each with the reason.
        """create table work (
            id integer primary key, night text not null, campaign text not null, what text not null,
            why text not null, undone integer not null, due integer not null
        ) strict""",
        # Messages that are owed: one for each event and recipient.
        """create table notice (
            id integer primary key, night text not null, event text not null, recipient text not null,
            attempts integer not null default 0, error text, sent_at text, unique (night, event, recipient)
        ) strict""",
    ),
)

VERSION = len(STEPS)
