"""The digest as Markdown, for mail and terminals, and the words that it shares with the page."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tiertune.tuner.nightly.digest import Digest, Line
from tiertune.tuner.report.numbers import number


def render_markdown(digest: Digest) -> str:
    """The whole digest; equal digests give equal text."""
    return "\n".join([f"# {digest.suite}, night of {digest.night}: {digest.verdict}", "", *_body(digest)])


def _body(digest: Digest) -> Iterator[str]:
    if digest.alarms:
        yield from ("## Alarms", "")
        for alarm in digest.alarms:
            state = alarm.news or f"open since {alarm.raised}"
            yield f"- **{alarm.number}, {state}**: {alarm.text}"
            for one in alarm.affected:
                yield f"  - {one.label}: {one.change}{', back' if one.back else ''}"
            for fact in alarm.changed:
                yield f"  - changed with it: {fact}"
        yield ""
    if digest.improved:
        yield from ("## Improved", "")
        yield from (f"- {better.label}: {better.text}" for better in digest.improved)
        yield ""
    yield from ("## Not measured", "")
    yield from (f"- {told.campaign}: {told.what}: {told.why}" for told in digest.not_measured)
    yield from ([""] if digest.not_measured else ["Everything that was due was measured.", ""])
    if digest.goes_on or digest.done:
        yield from ("## Searches", "")
        yield from (f"- {told.campaign}: {told.why}" for told in (*digest.done, *digest.goes_on))
        yield ""
    if digest.figures:
        yield from ("## Figures", "")
        yield "| figure | tonight | before | change | nights | |"
        yield "|---|---:|---:|---:|---:|---|"
        for line in digest.figures:
            cells = (
                shown(line.value, line.unit),
                shown(line.before, line.unit),
                change(line),
                str(line.nights),
            )
            yield f"| {line.label} | {' | '.join(cells)} | {mark(line)} |"
        yield ""
    if digest.changed:
        yield from ("## What differs from the night before", "")
        yield from (f"- {fact}" for fact in digest.changed)
        yield ""
    for notice in digest.notices:
        yield f"Note: {notice}"


def shown(value: float | None, unit: str) -> str:
    """A value in its unit, a dash for none."""
    if value is None:
        return "-"
    if unit == "share":
        return f"{100 * value:.0f} %"
    return number(value) if unit == "ratio" else f"{number(value)} {unit}".rstrip()


def change(line: Line) -> str:
    """By how much the metric itself moved; a dash where there is nothing to compare with."""
    if line.change is None or line.value is None or not line.before:
        return "-"
    share = 100 * (line.value / line.before - 1)
    return f"{share:+.1f} %" if abs(share) >= 0.05 else "same"


def mark(line: Line) -> str:
    """What to look at."""
    if line.alarm is not None:
        return f"alarm {line.alarm}"
    return f"{line.failed} of {line.runs} failed" if line.failed else ""


def percent(log: float) -> float:
    """A natural log as a change in percent."""
    return 100 * math.expm1(log)
