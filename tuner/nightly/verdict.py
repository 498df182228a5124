"""Judging nights: the history in, alarms out, each night once and in order."""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1

from tiertune.tuner.nightly.alarms import Track, observe
from tiertune.tuner.nightly.detection import Kind
from tiertune.tuner.nightly.figures import FIGURES
from tiertune.tuner.nightly.history import Followed, History
from tiertune.tuner.nightly.suite import Suite


@dataclass(frozen=True)
class Verdict:
    """Numbers of alarms that were raised, that others joined, and that were cleared."""

    raised: tuple[int, ...] = ()
    grown: tuple[int, ...] = ()
    cleared: tuple[int, ...] = ()


def judge(history: History, suite: Suite, date: str) -> Verdict:
    """Judge every night that is not judged yet, `date` the last of them; one that was killed is judged with
    what it has."""
    raised: list[int] = []
    grown: list[int] = []
    cleared: list[int] = []
    for night in history.unjudged():
        followed = history.followed()
        readings = history.readings(night)
        tracks = [
            Track(key, one.subject, kind_of(one, suite), readings[key])
            for key, one in followed.items()
            if key in readings
        ]
        watch, found = observe(
            history.watch(),
            night,
            tracks,
            1 / suite.alarms.false_alarm_nights,
            suite.alarms.confirm_nights,
            said=date,
        )
        better = [
            {
                "key": step.key,
                "label": followed[step.key].label,
                "text": f"{change_words(followed[step.key], step.size)} since {step.night}",
                "source": None,
            }
            for step in found.improved
        ]
        history.keep_watch(watch, night, date, better)
        raised += found.raised
        grown += found.grown
        cleared += found.cleared
    return Verdict(tuple(raised), tuple(grown), tuple(cleared))


def kind_of(followed: Followed, suite: Suite) -> Kind:
    """What is assumed of a series."""
    if followed.figure == "performance":
        return Kind(suite.alarms.night_noise, suite.alarms.least)
    return FIGURES[followed.figure].kind


def change_words(followed: Followed, size: float, failing: bool = False) -> str:
    """`runtime_s 5.2 % higher`, `throughput_mops 4.9 % lower`; `size` is in logs, above 0 is worse."""
    if failing:
        return f"{100 * size:.0f} % of runs fail"
    share = 100 * expm1(size if followed.direction == "minimize" else -size)
    if abs(share) >= 200:
        return f"{followed.metric} {1 + share / 100:.3g} times as high"
    return f"{followed.metric} {abs(share):.2g} % {'higher' if share > 0 else 'lower'}"
