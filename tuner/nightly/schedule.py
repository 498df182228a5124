"""When a night may run: windows of local time, and which date a night belongs to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

CLOCK = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])")


@dataclass(frozen=True)
class Span:
    """From one time of the day to another; past midnight where the end comes first. Equal ends are a whole
    day."""

    begin: time
    end: time

    @property
    def length(self) -> timedelta:
        """How long it is open, more than nothing and at most a day."""
        day = datetime.combine(date.min, self.end) - datetime.combine(date.min, self.begin)
        return day if day > timedelta(0) else day + timedelta(days=1)

    def opening(self, now: datetime) -> datetime | None:
        """When the window that is open at `now` was opened, None where it is closed."""
        for days in (0, 1):
            opened = datetime.combine(now.date() - timedelta(days=days), self.begin)
            if opened <= now < opened + self.length:
                return opened
        return None

    def closing(self, now: datetime) -> datetime | None:
        """When the window that is open at `now` closes, None where it is closed."""
        opened = self.opening(now)
        return None if opened is None else opened + self.length


def parse_clock(text: str) -> time | None:
    """`22:30` as a time of the day, None for anything else."""
    found = CLOCK.fullmatch(text)
    return time(int(found[1]), int(found[2])) if found else None


def night_of(now: datetime, window: Span | None) -> date:
    """The date of the night that `now` belongs to: that of the evening, also after midnight."""
    opened = window.opening(now) if window else None
    return (opened or now).date()


def hours(span: Span) -> Iterator[str]:
    """Begin and end as a file spells them."""
    for clock in (span.begin, span.end):
        yield clock.strftime("%H:%M")
