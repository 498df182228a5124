"""The sentence at the top of a sweep's page."""

from __future__ import annotations

from collections.abc import Sequence

from tiertune.tuner.report.numbers import number
from tiertune.tuner.sweep.outcome import Entry, Estimate, Outcome, Scene, Standing
from tiertune.tuner.sweep.quantity import MAXIMIZE
from tiertune.tuner.sweep.scenario import ORDERED

MOST_NAMED = 3
"""So many contenders, or groups of them, are named; the others are counted."""
MOST_LETTERS = 40
"""Names that are longer than this together are counted as well."""
MOST_LISTED = 6
"""So many values of an axis are listed; where more are meant, scenarios are counted."""


def verdict_of(outcome: Outcome, failed: int, rows: int) -> str:
    """Who has the best figure where; or, where there is one scenario, in which order they are."""
    said = _said(outcome)
    if failed:
        said += f"; {failed} of {rows} rows failed"
    return said


def with_interval(one: Estimate) -> str:
    """A mean with its interval, as far as there is one."""
    if one.low is None or one.high is None or one.low == one.high:
        return number(one.value)
    return f"{number(one.value)} ({number(one.low)} to {number(one.high)})"


def _said(outcome: Outcome) -> str:
    scenes, quantity = outcome.scenes, outcome.quantity
    known = [(entry, scene) for scene in scenes for entry in scene.entries if entry.estimate is not None]
    if not known:
        return f"no row has the figure {quantity.name}"
    if len(known) == 1:
        (entry, _), *_ = known
        assert entry.estimate is not None
        return f"{quantity.short} is {_with_unit(outcome, entry.estimate)}"
    if not quantity.direction:
        return _span(outcome, known)
    if not any(scene.firsts for scene in scenes):
        return f"nobody is first by {quantity.short}: no row has it on every seed"
    best = "highest" if quantity.direction == MAXIMIZE else "lowest"
    where = " on one seed" if outcome.seeds == 1 else ""
    if len(scenes) == 1:
        return f"{best} {quantity.short}{where}: {_in_order(scenes[0])}"
    return f"{best} {quantity.short}{where}: {_by_scene(outcome)}"


def _span(outcome: Outcome, known: Sequence[tuple[Entry, Scene]]) -> str:
    def size(item: tuple[Entry, Scene]) -> float:
        return item[0].estimate.value if item[0].estimate else 0.0

    ends = []
    for entry, scene in (min(known, key=size), max(known, key=size)):
        assert entry.estimate is not None
        at = ", ".join(part for part in (entry.subject, scene.name) if part)
        ends.append(f"{number(entry.estimate.value)} ({at})")
    unit = f" {outcome.quantity.unit}" if outcome.quantity.unit else ""
    return f"{outcome.quantity.short} from {ends[0]} to {ends[1]}{unit}"


def _with_unit(outcome: Outcome, one: Estimate) -> str:
    unit = outcome.quantity.unit
    return f"{with_interval(one)} {unit}" if unit else with_interval(one)


def _in_order(scene: Scene) -> str:
    """All with their intervals, or of many the first, who is level with it, and the last."""
    ranked = [entry for entry in scene.entries if entry.estimate and entry.standing is not Standing.YARDSTICK]
    texts = [f"{entry.subject} {with_interval(entry.estimate)}" for entry in ranked if entry.estimate]
    level = [entry.subject for entry in ranked if entry.standing is Standing.LEVEL]
    said = ", then ".join(texts if len(texts) <= MOST_NAMED else texts[:1])
    if level:
        long = len(level) > MOST_NAMED or len(", ".join(level)) > MOST_LETTERS
        others = f"{len(level)} others" if long else _names(level)
        said += f"; {others} {'is' if len(level) == 1 else 'are'} not told apart from it"
    if len(texts) > MOST_NAMED and ranked[-1].standing is not Standing.LEVEL:
        said += f"; last of {len(texts)} is {texts[-1]}"
    return said


def _by_scene(outcome: Outcome) -> str:
    """Groups of scenarios with the same first ones, the largest group first."""
    scenes = outcome.scenes
    groups: dict[tuple[str, ...], list[Scene]] = {}
    for scene in scenes:
        groups.setdefault(tuple(sorted(scene.firsts)), []).append(scene)
    order = sorted(groups.items(), key=lambda item: -len(item[1]))
    if len(order) == 1:
        return f"{_or(order[0][0])} in all {len(scenes)} scenarios"
    said, of = [], f" of {len(scenes)} scenarios"
    for firsts, members in order[:MOST_NAMED]:
        where = _where(outcome, members)
        if not where:
            where, of = f"in {len(members)}{of}", ""
        said.append(f"{_or(firsts)} {where}")
    left = sum(len(members) for _, members in order[MOST_NAMED:])
    return "; ".join([*said, *([f"others in {left}"] if left else [])])


def _where(outcome: Outcome, members: Sequence[Scene]) -> str:
    """The values of one axis that tell these scenarios from all others; empty where none does, or many."""
    for turn in range(len(outcome.axes)):
        values = list(dict.fromkeys(scene.place[turn] for scene in members))
        alike = [scene for scene in outcome.scenes if scene.place[turn] in values]
        if len(alike) == len(members) and len(values) <= MOST_LISTED:
            return f"at {_names(values)}" if outcome.axes[turn].name in ORDERED else f"on {_names(values)}"
    return ""


def _or(firsts: Sequence[str]) -> str:
    if not firsts:
        return "nobody"
    if len(firsts) == 1:
        return firsts[0]
    if len(firsts) > MOST_NAMED:
        return f"{', '.join(firsts[:2])} or {len(firsts) - 2} more (not told apart)"
    return f"{', '.join(firsts[:-1])} or {firsts[-1]} (not told apart)"


def _names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
