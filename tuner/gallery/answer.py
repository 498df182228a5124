"""What the gallery says to somebody with a context, as plain data: all that `show --gallery` prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tiertune.tuner.gallery.definition import DEFAULT, Entry, Gallery, TransferTest
from tiertune.tuner.gallery.lookup import differences, nearest_entry
from tiertune.tuner.gallery.staleness import Now, staleness
from tiertune.tuner.gallery.trust import Trust, trust_in
from tiertune.tuner.host_facts import UNCOMMITTED
from tiertune.tuner.transfer.traits import Traits

Data = dict[str, Any]


def answer(wanted: Traits, galleries: Sequence[Gallery], here: Now) -> Data:
    """The nearest entry of one system's galleries, in what its context differs, and how far to trust it."""
    here = here.of(galleries[0].name)
    entries = [entry for gallery in galleries for entry in gallery.entries]
    tests = [test for gallery in galleries for test in gallery.tests]
    entry = nearest_entry(wanted, entries)
    apart = differences(entry.traits, wanted)
    trust = trust_in(tests, entry.space, [one.part for one in apart], here) if apart else None
    return {
        "system": galleries[0].name,
        "wanted": dict(wanted.words),
        "exact": not apart,
        "differs": [asdict(one) for one in apart],
        "trust": {
            "told": _told(entry, trust.told if trust else ""),
            "measured": _figures(trust) if trust and trust.pairs else None,
        },
        "stale": staleness(entry.made_by, here),
        "entry": entry.model_dump(mode="json"),
        "entries": len(entries),
    }


def _figures(trust: Trust) -> Data:
    return {name: value for name, value in asdict(trust).items() if name != "told"}


def _told(entry: Entry, carried: str) -> str:
    """How far to trust the entry, in a sentence."""
    if entry.gain is None:
        judged = "nothing but the default worked there"
    else:
        judged = f"its gain was judged on {entry.gain.seeds} seeds that no search had seen"
    where = "a modelled machine" if entry.measured_on == "model" else "real hosts"
    if not carried:
        return f"tuned in this very context, on {where}; {judged}"
    if entry.outcome == DEFAULT:
        return f"nothing better than the default was found there, so there is nothing to carry; {judged}"
    return carried


def stale_entries(galleries: Sequence[Gallery], here: Now) -> list[Data]:
    """Entries and transfer tests that something else measured than what runs now, each with the reason.

    Tests of entries that were found to be the same today are not among them, but in `older_tests`.
    """
    found: list[Data] = []
    for gallery in galleries:
        now = here.of(gallery.name)
        parts = [(" ".join(entry.traits.words.values()), entry.made_by) for entry in gallery.entries]
        parts += [
            (f"transfer test of {test.space}", test.made_by)
            for test in gallery.tests
            if not _rests_on_renewed(test, gallery, now)
        ]
        for what, made in parts:
            if why := staleness(made, now):
                found.append({"system": gallery.name, "what": what, "why": why, "command": made.command})
    return found


def older_tests(galleries: Sequence[Gallery], here: Now) -> list[Data]:
    """Transfer tests of an earlier build whose entries, default and tuned, are the same with this one; what
    is carried was not run again."""
    found: list[Data] = []
    for gallery in galleries:
        now = here.of(gallery.name)
        for test in gallery.tests:
            why = staleness(test.made_by, now)
            if why and _rests_on_renewed(test, gallery, now):
                what = f"transfer test of {test.space}"
                row = {"system": gallery.name, "what": what, "why": why, "command": test.made_by.command}
                found.append(row)
    return found


def _rests_on_renewed(test: TransferTest, gallery: Gallery, now: Now) -> bool:
    """Whether the build of a test measured all entries of its space as well, and today's gives the same."""
    entries = [entry.made_by for entry in gallery.entries if entry.space == test.space]
    same = all(
        (made.tiertune, made.engine, made.builds, made.code)
        == (test.made_by.tiertune, test.made_by.engine, test.made_by.builds, test.made_by.code)
        and made.confirmed == now.confirmation
        for made in entries
    )
    return bool(entries) and same


def listing(galleries: Sequence[Gallery], here: Now) -> list[Data]:
    """Every entry in a row."""
    return [
        {
            "system": gallery.name,
            **entry.traits.words,
            "space": entry.space,
            "outcome": entry.outcome,
            "gain": None if entry.gain is None else entry.gain.model_dump(),
            "verdict": entry.verdict,
            "knobs": dict(entry.knobs),
            "trials": entry.trials,
            "campaign": entry.campaign,
            "command": entry.made_by.command,
            "stale": staleness(entry.made_by, here.of(gallery.name)),
        }
        for gallery in galleries
        for entry in gallery.entries
    ]


def uncommitted(galleries: Sequence[Gallery]) -> str:
    """A sentence on entries of a checkout that no commit holds; empty where there are none."""
    made = [entry.made_by for gallery in galleries for entry in gallery.entries]
    number = sum(bool(one.modified) for one in made)
    if not number:
        return ""
    which = f"{number} of {len(made)} entries"
    return f"{which}: the checkout had {UNCOMMITTED}"
