BEGIN TRANSACTION;
CREATE TABLE alarm (number integer primary key, document text not null) strict;
CREATE TABLE figure (
            night text not null references night (date), series text not null references series (key),
            value real, failed integer not null default 0, runs integer not null default 0,
            primary key (night, series)
        ) strict, without rowid;
CREATE TABLE improvement (
            id integer primary key, night text not null, document text not null
        ) strict;
CREATE TABLE incumbent (
            cell text not null, night text not null, config text not null, source text not null,
            primary key (cell, night)
        ) strict, without rowid;
CREATE TABLE level (series text primary key, since text not null) strict;
CREATE TABLE night (
            date text primary key, began_at text not null, ended_at text, state text not null,
            environment text not null default '{}', sent_at text
        ) strict;
INSERT INTO "night" VALUES('2026-01-05','2026-01-05T03:00:00+00:00','2026-01-05T04:00:00+00:00','closed','{}',NULL);
CREATE TABLE notice (
            id integer primary key, night text not null, event text not null, recipient text not null,
            attempts integer not null default 0, error text, sent_at text, unique (night, event, recipient)
        ) strict;
CREATE TABLE round (
            campaign text not null, number integer not null, name text not null, seed integer not null,
            began text not null, ended text, note text, primary key (campaign, number)
        ) strict, without rowid;
CREATE TABLE run (
            night text not null references night (date), series text not null references series (key),
            seed integer not null, status text not null, cost real, error text, wall_s real,
            metrics text not null, primary key (night, series, seed)
        ) strict, without rowid;
CREATE TABLE series (key text primary key, document text not null) strict;
CREATE TABLE work (
            id integer primary key, night text not null, campaign text not null, what text not null,
            why text not null, undone integer not null, due integer not null
        ) strict;
COMMIT;
pragma user_version = 1;
