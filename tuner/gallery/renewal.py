"""Entries that another build measured, run again: where every run comes to the same, bit for bit, they are
of this build as well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tiertune.tuner.gallery.context import NotAtHand, context_of
from tiertune.tuner.gallery.definition import Entry, Gain, Gallery
from tiertune.tuner.gallery.gathering import gain_of
from tiertune.tuner.gallery.staleness import Now, staleness
from tiertune.tuner.statistics import effect
from tiertune.tuner.transfer.context import Context, complete
from tiertune.tuner.transfer.measuring import Laboratory, Place, place_of
from tiertune.tuner.trial import Config, Objective, Status

Values = list[float | None]
"""By seed, None where the run failed."""

SMALLEST_PCT = 0.01
"""Moves below this are said to be; what counts is that they are no longer the same."""


@dataclass(frozen=True)
class Repeatable:
    """A stale entry whose validation can be run here."""

    system: str
    entry: Entry
    context: Context

    @property
    def seeds(self) -> list[int]:
        """Seeds of the validation."""
        assert self.entry.validation is not None, "an entry without runs is not repeatable"
        return self.entry.validation.seeds

    @property
    def runs(self) -> int:
        """Of default and tuned."""
        return 2 * len(self.seeds)


@dataclass(frozen=True)
class Unrepeatable:
    """A stale entry that stays it, and why nothing is run for it."""

    system: str
    entry: Entry
    why: str


@dataclass(frozen=True)
class Repeated:
    """What came of the validation. Factors are performance over what it was, above 1 is better: geometric
    means over seeds; None where a run failed. `gain` is that of today."""

    system: str
    entry: Entry
    same: bool
    default: float | None
    tuned: float | None
    gain: Gain | None

    @property
    def moved(self) -> str:
        """By how much, in words."""
        if self.default is None or self.tuned is None:
            return "a run failed that worked before"
        if self.default == self.tuned == 1.0 and self.gain != self.entry.gain:
            return "its runs are the same, but the gain in the file does not follow from them"
        said = f"default is {_told(self.default)} and tuned {_told(self.tuned)}"
        if self.gain is not None and self.entry.gain is not None:
            was, now = (
                f"{one.ratio:.4g} ({one.low:.4g} to {one.high:.4g})" for one in (self.entry.gain, self.gain)
            )
            said += f"; gain {now}, was {was}"
        return said


def what(entry: Entry) -> str:
    """The entry's context in words."""
    return " ".join(entry.traits.words.values())


def stale_of(
    galleries: Sequence[Gallery], here: Now, results: Path
) -> tuple[list[Repeatable], list[Unrepeatable]]:
    """The stale entries: those that can be run again, and those that cannot."""
    can: list[Repeatable] = []
    cannot: list[Unrepeatable] = []
    for gallery in galleries:
        for entry in gallery.entries:
            if not staleness(entry.made_by, here.of(gallery.name)):
                continue
            why = _obstacle(entry)
            if not why:
                try:
                    can.append(Repeatable(gallery.name, entry, context_of(entry, gallery.name, results)))
                except NotAtHand as missing:
                    why = str(missing)
            if why:
                cannot.append(Unrepeatable(gallery.name, entry, why))
    return can, cannot


def _obstacle(entry: Entry) -> str:
    if entry.measured_on == "hosts":
        return "it was measured on real hosts, which this build does not decide"
    if entry.validation is None:
        if entry.gain is None:
            return "nothing but the default worked there, so that only its search can tell"
        return (
            "the file does not hold the runs of its gain; `tiertune gallery` gathers them from its campaign"
        )
    if None in (*entry.validation.default, *entry.validation.tuned):
        return "a run of its validation failed"
    return ""


def repeat(repeatable: Sequence[Repeatable], laboratory: Laboratory) -> list[Repeated]:
    """Runs the validations, several at a time, and holds every run against the one of the file."""
    places = [(one, place_of(one.context)) for one in repeatable]
    laboratory.measure(
        (place, config, one.seeds)
        for one, place in places
        for config in (complete(one.system, {}), one.context.tuned)
    )
    return [_held_against(one, place, laboratory) for one, place in places]


def _held_against(one: Repeatable, place: Place, laboratory: Laboratory) -> Repeated:
    validation, objective = one.entry.validation, one.context.objective
    assert validation is not None, "an entry without runs is not repeatable"
    default, tuned = (
        _values(laboratory, place, config, one.seeds)
        for config in (complete(one.system, {}), one.context.tuned)
    )
    gain = _gain(default, tuned, objective)
    same = default == validation.default and tuned == validation.tuned and gain == one.entry.gain
    moved = _factor(validation.default, default, objective), _factor(validation.tuned, tuned, objective)
    return Repeated(one.system, one.entry, same, *moved, gain)


def _values(laboratory: Laboratory, place: Place, config: Config, seeds: Sequence[int]) -> Values:
    """The metric by seed; costs are rounded, so that they would not tell the last bits apart."""
    metric = place.context.objective.metric
    found = [laboratory.found[place.run(config, seed).key] for seed in seeds]
    return [run.metrics.get(metric) if run.status == Status.OK else None for run in found]


def _gain(default: Values, tuned: Values, objective: Objective) -> Gain | None:
    costs = _costs(default, objective), _costs(tuned, objective)
    found = None if None in (*costs[0], *costs[1]) else effect(*costs)  # type: ignore[arg-type]
    return None if found is None else gain_of(found)


def _factor(before: Values, after: Values, objective: Objective) -> float | None:
    """How much better it is than before: 1 exactly where every run is the same."""
    if before == after:
        return 1.0
    pairs = zip(_costs(before, objective), _costs(after, objective), strict=True)
    steps = [was - now for was, now in pairs if was is not None and now is not None]
    if len(steps) < len(before):
        return None
    found = math.exp(sum(steps) / len(steps))
    return found if found != 1.0 else math.nextafter(1.0, 2.0)


def _costs(values: Values, objective: Objective) -> list[float | None]:
    return [None if value is None else objective.cost({objective.metric: value}) for value in values]


def confirmed(galleries: Sequence[Gallery], repeated: Sequence[Repeated], here: Now) -> list[Gallery]:
    """The galleries with what came to the same marked as of `here`. Entries are found by all that they say,
    so that one that was replaced meanwhile is not marked."""
    marked = []
    for gallery in galleries:
        same = [one.entry for one in repeated if one.same and one.system == gallery.name]
        mark = here.of(gallery.name).confirmation
        entries = [
            entry.model_copy(update={"made_by": entry.made_by.model_copy(update={"confirmed": mark})})
            if entry in same
            else entry
            for entry in gallery.entries
        ]
        marked.append(gallery.model_copy(update={"entries": entries}))
    return marked


def _told(factor: float) -> str:
    if factor == 1.0:
        return "the same"
    by = abs(factor - 1.0) * 100
    share = f"{by:.3g}" if by >= SMALLEST_PCT else f"less than {SMALLEST_PCT:g}"
    return f"{share} % {'better' if factor > 1.0 else 'worse'}"
