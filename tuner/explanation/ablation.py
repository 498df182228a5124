"""The way from default to tuned, one knob at a time, so that the first few steps have most of the gain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

Gains = Callable[[Sequence[frozenset[str]]], list[float]]
"""Log gains over the default with only these knobs changed; minus infinity where that does not run."""

FURTHER = 2
"""Steps shown beyond those that suffice, so that one sees what the next change would bring."""


def rollout(knobs: Sequence[str], gains: Gains, keep: float) -> list[str]:
    """Changed knobs in the order in which to change them: the smallest set found that keeps the share `keep`
    of the gain of all, then up to FURTHER more.

    Forward from the default (the best addition each time) and backward from tuned (the least loss each time),
    since knobs that help only together are found from one side alone; the smaller set wins. Empty where all
    together gain nothing.
    """
    everything = frozenset(knobs)
    whole = gains([everything])[0]
    if not everything or whole <= 0.0:
        return []
    target = keep * whole
    found = [
        _pruned(frozenset(_forward(knobs, knobs, [], gains, target)), gains, target),
        _pruned(everything, gains, target),
    ]
    levels = gains(found)
    smallest = min(range(2), key=lambda number: (len(found[number]), -levels[number]))
    chosen = [knob for knob in knobs if knob in found[smallest]]
    ordered = _forward(knobs, chosen, [], gains, float("inf"))
    rest = [knob for knob in knobs if knob not in ordered]
    return _forward(knobs, rest, ordered, gains, float("inf"), FURTHER)


def _forward(
    knobs: Sequence[str],
    candidates: Iterable[str],
    before: Sequence[str],
    gains: Gains,
    target: float,
    most: int | None = None,
) -> list[str]:
    """`before`, and the best of the candidates one by one until the target is reached or `most` are added."""
    path, left = list(before), [knob for knob in knobs if knob in set(candidates)]
    reached = float("-inf")
    while left and reached < target and (most is None or len(path) < len(before) + most):
        levels = gains([frozenset([*path, knob]) for knob in left])
        best = max(range(len(left)), key=lambda number: levels[number])
        reached = levels[best]
        path.append(left.pop(best))
    return path


def _pruned(chosen: frozenset[str], gains: Gains, target: float) -> frozenset[str]:
    """`chosen` without what can be given back while the target is kept, the least loss first.

    Of those that can go alone, as many go at once as can (all, half, a quarter ...), which saves most runs;
    at the end, none can go alone.
    """
    while len(chosen) > 1:
        knobs = sorted(chosen)
        levels = gains([chosen - {knob} for knob in knobs])
        order = sorted(range(len(knobs)), key=lambda number: -levels[number])
        spare = [knobs[number] for number in order if levels[number] >= target][: len(chosen) - 1]
        if not spare:
            break
        while len(spare) > 1 and gains([chosen - set(spare)])[0] < target:
            spare = spare[: len(spare) // 2]
        chosen -= set(spare)
    return chosen
