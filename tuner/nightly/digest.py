"""The digest of a night as data: what improved, what regressed, what was not measured and why, and trends.

It is made from the history alone, so that it can be made again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from tiertune.tuner.nightly.alarms import Alarm, Member
from tiertune.tuner.nightly.detection import LONGEST, Reading
from tiertune.tuner.nightly.history import Followed, History
from tiertune.tuner.nightly.suite import Suite
from tiertune.tuner.nightly.verdict import change_words
from tiertune.tuner.report.plain import plain

SCHEMA = 1

Outcome = Literal["regression", "incomplete", "fine"]


@dataclass(frozen=True)
class Affected:
    """A series in an alarm."""

    label: str
    change: str
    size: float
    failing: bool
    back: bool
    p: float


@dataclass(frozen=True)
class AlarmSaid:
    """An alarm as the digest tells it. `news`: raised, cleared or accepted tonight; empty where it was open
    before. `changed` names facts that differ between the last night before it and its first."""

    number: int
    subject: str
    state: str
    news: str
    raised: str
    since: str
    closed: str | None
    reason: str | None
    text: str
    affected: tuple[Affected, ...]
    changed: tuple[str, ...]


@dataclass(frozen=True)
class Line:
    """A figure tonight. `value` and `before` are in the metric's unit (geometric means over seeds, and over
    the nights of the level so far); `change` is the natural log of tonight to before, above 0 is worse."""

    key: str
    figure: str
    campaign: str
    label: str
    metric: str
    unit: str
    value: float | None
    before: float | None
    change: float | None
    spread: float | None
    nights: int
    since: str
    failed: int
    runs: int
    alarm: int | None


@dataclass(frozen=True)
class Point:
    """A night of a trend: mean and standard error of the natural log, above 0 is worse than the first."""

    night: str
    value: float
    error: float


@dataclass(frozen=True)
class Trend:
    """A figure over the last nights, relative to the first of them; `steps` are nights of a new level."""

    key: str
    label: str
    campaign: str
    points: tuple[Point, ...]
    steps: tuple[str, ...]


@dataclass(frozen=True)
class Told:
    """A sentence on a campaign."""

    campaign: str
    what: str
    why: str


@dataclass(frozen=True)
class Better:
    """Something that is better since tonight."""

    label: str
    text: str
    source: str | None


@dataclass(frozen=True)
class Digest:
    """All of it. `outcome` decides the exit code."""

    suite: str
    description: str
    night: str
    outcome: Outcome
    verdict: str
    began: str
    ended: str | None
    nights: int
    alarms: tuple[AlarmSaid, ...]
    improved: tuple[Better, ...]
    not_measured: tuple[Told, ...]
    goes_on: tuple[Told, ...]
    done: tuple[Told, ...]
    figures: tuple[Line, ...]
    trends: tuple[Trend, ...]
    changed: tuple[str, ...]
    notices: tuple[str, ...]
    environment: Mapping[str, str]


def build_digest(history: History, suite: Suite, night: str) -> Digest:
    """The digest of `night`, as the history tells it."""
    followed, readings, watch = history.followed(), history.readings(night), history.watch()
    nights = [date for date in history.nights() if date <= night]
    errors = history.errors(night)
    alarms = tuple(
        _alarm(alarm, night, nights, followed, history)
        for alarm in watch.alarms
        if alarm.raised <= night
        and (alarm.state == "raised" or alarm.closed == night or alarm.raised == night)
    )
    alarms = tuple(sorted(alarms, key=lambda alarm: (alarm.news == "", -alarm.number)))
    open_of = {
        member.key: (alarm.number, member)
        for alarm in watch.alarms
        if alarm.state == "raised"
        for member in alarm.members
        if not member.back
    }
    lines = tuple(
        _line(followed[key], own, night, watch.levels.get(key, ""), open_of.get(key))
        for key, own in readings.items()
        if own[-1].night == night
    )
    work = history.work(night)
    not_measured = [Told(one.campaign, one.what, one.why) for one in work if one.undone and one.due]
    for key, said in errors.items():
        text = f"{len(said)} runs failed: {said[0]}"
        not_measured.append(Told(followed[key].campaign, followed[key].label, text))
    began, ended = history.times(night)
    previous = nights[nights.index(night) - 1] if nights.index(night) else None
    raised = [alarm for alarm in alarms if alarm.news == "raised"]
    due = any(one.undone and one.due for one in work)
    outcome: Outcome = "regression" if raised else "incomplete" if due else "fine"
    improved = tuple(Better(one["label"], one["text"], one["source"]) for one in history.improvements(night))
    return Digest(
        suite=suite.name,
        description=suite.description,
        night=night,
        outcome=outcome,
        verdict=_verdict(raised, alarms, improved, not_measured, lines),
        began=began,
        ended=ended,
        nights=len(nights),
        alarms=alarms,
        improved=improved,
        not_measured=tuple(not_measured),
        goes_on=tuple(Told(w.campaign, w.what, w.why) for w in work if w.undone and not w.due),
        done=tuple(Told(w.campaign, w.what, w.why) for w in work if not w.undone),
        figures=tuple(sorted(lines, key=_rank)),
        trends=_trends(followed, readings, watch.levels),
        changed=_changed(history, previous, night) if previous else (),
        notices=tuple(
            f"{one.recipient} was not told ({one.event}), tried {one.attempts} times: {one.error}"
            for one in history.owed()
        ),
        environment=history.environment(night),
    )


def document(digest: Digest) -> dict[str, Any]:
    """The digest as plain data; what is not a number is null."""
    made: dict[str, Any] = plain({"schema": SCHEMA, **asdict(digest)})
    return made


def _alarm(
    alarm: Alarm, night: str, nights: Sequence[str], followed: Mapping[str, Followed], history: History
) -> AlarmSaid:
    affected = tuple(
        Affected(
            followed[one.key].label,
            change_words(followed[one.key], one.size, one.failing),
            one.size,
            one.failing,
            one.back,
            one.p,
        )
        for one in sorted(alarm.members, key=lambda one: one.p)
    )
    lead = affected[0]
    where = lead.label if len(affected) == 1 else f"{len(affected)} figures"
    before = [date for date in nights if date < alarm.since]
    news = "raised" if alarm.raised == night and alarm.state == "raised" else ""
    if alarm.closed == night:
        news = alarm.state
    return AlarmSaid(
        alarm.number,
        alarm.subject,
        alarm.state,
        news,
        alarm.raised,
        alarm.since,
        alarm.closed,
        alarm.reason,
        f"{alarm.subject}: {lead.change} since {alarm.since} ({where})",
        affected,
        _changed(history, before[-1], alarm.since) if before else (),
    )


def _line(
    followed: Followed, own: Sequence[Reading], night: str, since: str, alarm: tuple[int, Member] | None
) -> Line:
    """A figure beside the nights of its level; one in an open alarm beside the level before the alarm."""
    tonight = own[-1]
    level = [r for r in own[:-1][-LONGEST:] if r.night >= since and r.values]
    counted = followed.figure == "failed_trials"
    runs = len(tonight.values) + tonight.failed
    before = math.fsum(r.mean for r in level) / len(level) if level and not counted else None
    if alarm is not None and not alarm[1].failing:
        before = alarm[1].before
    here = tonight.mean if tonight.values and not counted else None
    spread = None
    if here is not None and len(tonight.values) > 1:
        spread = math.sqrt(tonight.squares / (len(tonight.values) - 1))
    value = None if here is None else _metric(followed, here)
    if counted and runs:
        value = tonight.failed / runs
    return Line(
        key=followed.key,
        figure=followed.figure,
        campaign=followed.campaign,
        label=followed.label,
        metric=followed.metric,
        unit=followed.unit,
        value=value,
        before=None if before is None else _metric(followed, before),
        change=None if here is None or before is None else here - before,
        spread=spread,
        nights=len(level) + 1,
        since=level[0].night if level else night,
        failed=tonight.failed,
        runs=runs,
        alarm=alarm[0] if alarm else None,
    )


def _metric(followed: Followed, cost: float) -> float:
    return math.exp(cost if followed.direction == "minimize" else -cost)


def _rank(line: Line) -> tuple[bool, bool, str]:
    return line.alarm is None, line.figure != "performance", line.label


def _trends(
    followed: Mapping[str, Followed], readings: Mapping[str, Sequence[Reading]], levels: Mapping[str, str]
) -> tuple[Trend, ...]:
    trends = []
    for key, own in readings.items():
        known = [reading for reading in own if reading.values][-LONGEST:]
        if len(known) < 2 or followed[key].figure == "failed_trials":
            continue
        points = tuple(
            Point(
                r.night,
                r.mean - known[0].mean,
                math.sqrt(r.squares / max(1, len(r.values) - 1) / len(r.values)),
            )
            for r in known
        )
        step = levels.get(key, "")
        steps = (step,) if any(reading.night == step for reading in known) else ()
        trends.append(Trend(key, followed[key].label, followed[key].campaign, points, steps))
    return tuple(sorted(trends, key=lambda trend: trend.label))


def _changed(history: History, before: str, after: str) -> tuple[str, ...]:
    """Facts that differ between two nights."""
    old, new = history.environment(before), history.environment(after)
    if not old or not new:
        return ()
    return tuple(
        f"{name}: {old.get(name, 'nothing')} -> {new.get(name, 'nothing')}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    )


def _verdict(
    raised: Sequence[AlarmSaid],
    alarms: Sequence[AlarmSaid],
    improved: Sequence[Better],
    not_measured: Sequence[Told],
    lines: Sequence[Line],
) -> str:
    if raised:
        first = raised[0].text
        return first if len(raised) == 1 else f"{len(raised)} regressions; {first}"
    parts = ["no new regression"]
    still = sum(alarm.state == "raised" for alarm in alarms)
    if not any(line.nights > 1 for line in lines):
        parts = ["nothing to compare with yet"]
    if not lines:
        parts = ["nothing was measured"]
    parts += [f"{still} alarm{'s' if still > 1 else ''} still open"] if still else []
    parts += [f"{len(improved)} improved"] if improved else []
    parts += [f"{len(not_measured)} not measured"] if not_measured else []
    return ", ".join(parts)
