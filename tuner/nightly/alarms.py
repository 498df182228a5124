"""From steps to alarms: one for what changed together, said once, open until it is accepted or gone.

A step sets a new level of its series: from then on, nights are compared with those since the step. So an
alarm is not repeated the next night, a second regression on top of the first is one of its own, and the
way back is found by the same test.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from tiertune.tuner.nightly.detection import ALPHA, LONGEST, Kind, Reading, Series, Step, steps

State = Literal["raised", "accepted", "cleared"]

TOGETHER = 2
"""Steps of a subject so many nights apart are one alarm: a small one takes a night longer to see."""

GONE = 7
"""A series that was not measured in so many nights is followed no more, such as one of a former winner."""


@dataclass(frozen=True)
class Track:
    """The whole history of a figure. `subject` is what an alarm would be about: a workload, a tuner."""

    key: str
    subject: str
    kind: Kind
    readings: Sequence[Reading]


@dataclass(frozen=True)
class Member:
    """A series in an alarm: its level before, its step (natural log, or share of failed runs), whether it is
    back, and its first night that was different (empty where an older tiertune stored it)."""

    key: str
    before: float
    size: float
    p: float
    failing: bool = False
    back: bool = False
    since: str = ""


@dataclass(frozen=True)
class Alarm:
    """`raised` is the night that said it, `since` the first night that was different; `lead` is the series
    that is most certain."""

    number: int
    subject: str
    raised: str
    since: str
    members: tuple[Member, ...]
    state: State = "raised"
    closed: str | None = None
    reason: str | None = None

    @property
    def lead(self) -> Member:
        """The member that the step is most certain of."""
        return min(self.members, key=lambda member: member.p)


@dataclass(frozen=True)
class Watch:
    """What is known after a night: since when each series is on its level, and all alarms so far."""

    levels: Mapping[str, str] = field(default_factory=dict)
    alarms: tuple[Alarm, ...] = ()


@dataclass(frozen=True)
class Findings:
    """What a night changed: numbers of alarms that were raised, that others joined, or that were cleared, and
    steps for the better."""

    raised: tuple[int, ...] = ()
    grown: tuple[int, ...] = ()
    cleared: tuple[int, ...] = ()
    improved: tuple[Step, ...] = ()


def observe(
    watch: Watch,
    night: str,
    tracks: Iterable[Track],
    alpha: float = ALPHA,
    confirm: int = 1,
    said: str | None = None,
) -> tuple[Watch, Findings]:
    """Judge `night`, whose readings are the last ones of the tracks that were measured.

    `said` is the night that says so, where it is a later one: a night that was killed is judged by the next.
    """
    known = {track.key: track for track in tracks}
    measured = {
        key: track for key, track in known.items() if track.readings and track.readings[-1].night == night
    }
    worse, better = steps(
        (
            Series(key, track.kind, _since(track.readings, watch.levels.get(key, "")))
            for key, track in measured.items()
        ),
        alpha,
        confirm,
    )
    nights = sorted({r.night for track in known.values() for r in track.readings[-LONGEST:]})
    levels = dict(watch.levels)
    for step in (*worse, *better):
        if not step.failing:
            levels[step.key] = step.night
    alarms, raised, grown = _raised(watch.alarms, said or night, worse, measured, nights)
    lately = nights[-GONE:]
    alive = {key for key, track in known.items() if track.readings and track.readings[-1].night in lately}
    alarms, cleared, returned = _cleared(alarms, said or night, better, measured, alive)
    alarms = tuple(_refreshed(alarm, alarms, measured, levels) for alarm in alarms)
    improved = tuple(step for step in better if step.key not in returned)
    return Watch(levels, alarms), Findings(raised, grown, cleared, improved)


def accept(watch: Watch, numbers: Iterable[int], night: str, reason: str) -> Watch:
    """Close open alarms as the new normal; the level since their step is what later nights are compared
    with."""
    wanted = set(numbers)
    closed = []
    levels = dict(watch.levels)
    for alarm in watch.alarms:
        if alarm.number in wanted and alarm.state == "raised":
            alarm = replace(alarm, state="accepted", closed=night, reason=reason)
            # Failing runs set no level when they are found, so that the way back is compared with before.
            for member in alarm.members:
                if member.failing:
                    since = member.since or alarm.since
                    levels[member.key] = max(levels.get(member.key, ""), since)
        closed.append(alarm)
    return Watch(levels, tuple(closed))


def _refreshed(
    alarm: Alarm, alarms: Sequence[Alarm], measured: Mapping[str, Track], levels: Mapping[str, str]
) -> Alarm:
    """An open alarm with sizes by all nights since: the night that raises one tends to overstate it."""
    if alarm.state != "raised":
        return alarm
    later = {member.key for one in alarms if one.number > alarm.number for member in one.members}

    def now(member: Member) -> Member:
        if member.failing or member.back or member.key in later or member.key not in measured:
            return member
        level = _since(measured[member.key].readings, levels.get(member.key, ""))
        means = [reading.mean for reading in level if reading.values]
        return replace(member, size=sum(means) / len(means) - member.before) if means else member

    return replace(alarm, members=tuple(map(now, alarm.members)))


def _since(readings: Sequence[Reading], night: str) -> list[Reading]:
    return [reading for reading in readings[-LONGEST:] if reading.night >= night]


def _raised(
    alarms: tuple[Alarm, ...],
    night: str,
    worse: Sequence[Step],
    measured: Mapping[str, Track],
    nights: Sequence[str],
) -> tuple[tuple[Alarm, ...], tuple[int, ...], tuple[int, ...]]:
    by_number = {alarm.number: alarm for alarm in alarms}
    raised: list[int] = []
    grown: list[int] = []
    for step in worse:
        subject = measured[step.key].subject
        member = Member(step.key, step.before, step.size, step.p, step.failing, since=step.night)
        home = next((a for a in by_number.values() if _belongs(a, subject, step, nights)), None)
        if home is None:
            number = max(by_number, default=0) + 1
            by_number[number] = Alarm(number, subject, night, step.night, (member,))
            raised.append(number)
        else:
            by_number[home.number] = _joined(home, member)
            if (
                home.number not in raised
                and home.number not in grown
                and (step.key, step.failing) not in {(m.key, m.failing) for m in home.members}
            ):
                grown.append(home.number)
    return tuple(by_number.values()), tuple(raised), tuple(grown)


def _belongs(alarm: Alarm, subject: str, step: Step, nights: Sequence[str]) -> bool:
    if alarm.state != "raised" or alarm.subject != subject:
        return False
    if step.failing and any(member.failing for member in alarm.members):
        return True
    between = [n for n in nights if min(alarm.since, step.night) <= n < max(alarm.since, step.night)]
    return len(between) <= TOGETHER


def _joined(alarm: Alarm, member: Member) -> Alarm:
    """The alarm with one more series; a second step of a series that is in it adds to the first."""
    there = {(one.key, one.failing): one for one in alarm.members}
    first = there.get((member.key, member.failing))
    if first is not None:
        size = member.size if member.failing else first.size
        member = replace(first, size=size, back=False, since=member.since if first.back else first.since)
    there[member.key, member.failing] = member
    return replace(alarm, members=tuple(there.values()))


def _cleared(
    alarms: tuple[Alarm, ...],
    night: str,
    better: Sequence[Step],
    measured: Mapping[str, Track],
    alive: Collection[str],
) -> tuple[tuple[Alarm, ...], tuple[int, ...], set[str]]:
    """Alarms of which all that is still followed is back where it was, by more than half of the way."""
    down = {step.key: step for step in better}
    returned: set[str] = set()
    kept: list[Alarm] = []
    cleared: list[int] = []
    for alarm in alarms:
        if alarm.state == "raised":
            members = tuple(_back(member, down, measured) for member in alarm.members)
            returned |= {m.key for m in members if m.back and m.key in down}
            alarm = replace(alarm, members=members)
            live = [member for member in members if member.key in alive]
            if live and all(member.back for member in live):
                alarm = replace(alarm, state="cleared", closed=night, reason="back where it was")
                cleared.append(alarm.number)
        kept.append(alarm)
    return tuple(kept), tuple(cleared), returned


def _back(member: Member, down: Mapping[str, Step], measured: Mapping[str, Track]) -> Member:
    if member.key not in measured:
        return member
    if member.failing:
        return replace(member, back=_works(member, measured[member.key].readings))
    step = down.get(member.key)
    if step is None:
        return member
    left = step.before + step.size - member.before
    return replace(member, back=left < member.size / 2)


def _works(member: Member, readings: Sequence[Reading]) -> bool:
    """Whether runs fail no more often than before, in as many runs as the last night had in which they did: a
    night that is measured in part may miss those that fail."""
    good = 0
    for reading in reversed(readings):
        runs = len(reading.values) + reading.failed
        if reading.failed > member.before * runs + 1e-9:
            return good >= runs
        good += runs
    return True
