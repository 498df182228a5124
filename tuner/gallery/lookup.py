"""The entry of the gallery that is nearest to a context, by the distances that transfer tests use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tiertune.tuner.gallery.definition import Entry, Part
from tiertune.tuner.transfer.feature import distances_of
from tiertune.tuner.transfer.traits import Traits
from tiertune.units import format_size


@dataclass(frozen=True)
class Difference:
    """A part in which two contexts differ: as it is in the entry, and as it is wanted."""

    part: Part
    there: str
    here: str


def nearest_entry(wanted: Traits, entries: Sequence[Entry]) -> Entry:
    """The entry of the same context, or the one whose context is nearest; of several the first.

    `entries` are one or more. Each feature counts against the largest distance among the entries and what is
    wanted.
    """
    same = [entry for entry in entries if not differences(entry.traits, wanted)]
    if same:
        return same[0]
    distances = distances_of([*(entry.traits for entry in entries), wanted])
    return entries[distances.nearest(len(entries), range(len(entries)))]


def differences(there: Traits, here: Traits) -> list[Difference]:
    """In what two contexts differ, in the order of `PARTS`."""
    found: list[Difference] = []
    if there.program != here.program:
        found.append(Difference("program", there.workload, here.workload))
    elif there.workload_digest != here.workload_digest:
        found.append(Difference("input", *_told(there.workload, here.workload)))
    if there.machine_digest != here.machine_digest:
        found.append(Difference("machine", *_told(there.machine, here.machine)))
    if there.slow_per_fast != here.slow_per_fast:
        found.append(Difference("ratio", there.ratio, here.ratio))
    if there.threads != here.threads:
        found.append(Difference("threads", str(there.threads), str(here.threads)))
    if there.page_bytes != here.page_bytes:
        found.append(Difference("pages", format_size(there.page_bytes), format_size(here.page_bytes)))
    if there.co_runners != here.co_runners:
        found.append(Difference("contention", there.co_runners, here.co_runners))
    return found


def _told(there: str, here: str) -> tuple[str, str]:
    """Names, or what is meant where a file has changed under its name."""
    return (f"{there} as it was then", f"{here} as it is now") if there == here else (there, here)
