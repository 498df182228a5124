"""Where along an axis a tuned config stops being better than the default, found by bisection.

First a few points over the whole way, since a gain may come and go more than once; then every step on which
the answer changes is halved until its ends are neighbours. All is a function of the runs, and these are
cached: the same command asks for the same points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from tiertune.tuner.transfer.axis import Axis
from tiertune.tuner.transfer.context import Context, complete
from tiertune.tuner.transfer.gain import Gain, gain_of
from tiertune.tuner.transfer.measuring import Laboratory, held_back_seeds

FIRST_POINTS = 6
NEIGHBOURS = 1.05
"""Values this close in proportion are not told apart further."""

State = Literal["better", "not better", "unclear", "failed"]
Data = dict[str, Any]


@dataclass
class Line:
    """One tuned config along the axis: gains by value. `least` is the log gain that counts as better."""

    context: Context
    label: str
    least: float
    gains: dict[float, Gain] = field(default_factory=dict)

    def state(self, value: float) -> State:
        """What the interval says; unclear where the limit lies within it."""
        effect = self.gains[value].effect
        if effect is None:
            return "failed"
        if math.log(effect.low) > self.least:
            return "better"
        return "not better" if math.log(effect.high) < self.least else "unclear"

    def above(self, value: float) -> bool | None:
        """Whether the estimate is above the limit; None where it failed. What bisection follows."""
        gain = self.gains[value]
        return None if gain.effect is None else gain.log >= self.least

    def steps(self) -> list[tuple[float, float]]:
        """Neighbouring points between which the answer changes."""
        known = sorted(value for value in self.gains if self.above(value) is not None)
        return [(low, high) for low, high in pairwise(known) if self.above(low) != self.above(high)]


def walk(
    contexts: Sequence[tuple[Context, str]],
    axis: Axis,
    ends: tuple[float, float],
    least_pct: float,
    seeds: int,
    laboratory: Laboratory,
) -> list[Line]:
    """Every context's tuned config from one end of the axis to the other."""
    lines = [Line(context, label, math.log1p(least_pct / 100)) for context, label in contexts]
    low, high = sorted(ends)
    spread = [low * (high / low) ** (step / (FIRST_POINTS - 1)) for step in range(FIRST_POINTS)]
    points = sorted({low, high, *(axis.snap(value) for value in spread[1:-1])})
    wanted = [(line, value) for line in lines for value in points]
    while wanted:
        _measure(wanted, axis, seeds, laboratory)
        wanted = [
            (line, middle)
            for line in lines
            for middle in (_between(axis, *step) for step in line.steps())
            if middle is not None and middle not in line.gains  # one that failed would be asked for ever
        ]
    return lines


def _between(axis: Axis, low: float, high: float) -> float | None:
    middle = axis.snap(math.sqrt(low * high))
    return middle if high / low > NEIGHBOURS and low < middle < high else None


def _measure(wanted: Sequence[tuple[Line, float]], axis: Axis, seeds: int, laboratory: Laboratory) -> None:
    runs = []
    for line, value in wanted:
        place = axis.place(line.context, value)
        blocks = held_back_seeds(line.context, "along", seeds)
        default = complete(line.context.system, {})
        runs.append((line, value, place, default, blocks))
    laboratory.measure(
        (place, config, blocks)
        for line, _, place, default, blocks in runs
        for config in (default, line.context.tuned)
    )
    for line, value, place, default, blocks in runs:
        tuned = line.context.tuned
        line.gains[value] = gain_of(
            laboratory.costs(place, default, blocks),
            laboratory.costs(place, tuned, blocks),
            laboratory.failure(place, default, blocks) or laboratory.failure(place, tuned, blocks),
        )


def along_document(
    lines: Sequence[Line], axis: Axis, ends: tuple[float, float], least_pct: float, seeds: int
) -> Data:
    """The walk as plain data, points and ends in the order asked for."""
    backwards = ends[0] > ends[1]
    told = [_line(line, axis, backwards) for line in lines]
    document = {
        "axis": axis.name,
        "from": axis.text(ends[0]),
        "to": axis.text(ends[1]),
        "least_pct": least_pct,
        "seeds": seeds,
        "lines": told,
    }
    return {"verdict": _verdict(document, told), **document}


def _line(line: Line, axis: Axis, backwards: bool) -> Data:
    values = sorted(line.gains, reverse=backwards)
    points = []
    for value in values:
        gain = line.gains[value]
        effect = gain.effect
        points.append(
            {
                "value": value,
                "text": axis.text(value),
                "ratio": effect and effect.ratio,
                "low": effect and effect.low,
                "high": effect and effect.high,
                "state": line.state(value),
                "reason": gain.reason,
            }
        )
    known = [value for value in values if line.above(value) is not None]
    steps = sorted(line.steps(), key=lambda step: values.index(step[0]))
    breakpoints = [_breakpoint(line, axis, known, step, backwards) for step in steps]
    return {
        "label": line.label,
        "own": axis.own(line.context),
        "campaign": line.context.campaign,
        "cell": line.context.cell,
        "told": _told(line, axis, values),
        "breakpoints": breakpoints,
        "points": points,
    }


def _breakpoint(
    line: Line, axis: Axis, known: Sequence[float], step: tuple[float, float], backwards: bool
) -> Data:
    """A change of the answer, as met on the way, and how far around it the intervals cannot tell."""
    before, after = reversed(step) if backwards else step
    place = known.index(before)
    clear = [value for value in known[: place + 1] if line.state(value) != "unclear"]
    sure_before = clear[-1] if clear else None
    sure_after = next((value for value in known[place + 1 :] if line.state(value) != "unclear"), None)
    kind = "stops" if line.above(before) else "begins"
    told = f"{kind} between {axis.text(before)} and {axis.text(after)}"
    if any(step[0] < value < step[1] for value in line.gains):
        told += ", where runs failed"
    if sure_before != before or sure_after != after:
        outer = [
            "the start" if sure_before is None else axis.text(sure_before),
            "the end" if sure_after is None else axis.text(sure_after),
        ]
        told += f"; by the intervals it may be anywhere from {outer[0]} to {outer[1]}"
    return {
        "kind": kind,
        "before": before,
        "after": after,
        "sure_before": sure_before,
        "sure_after": sure_after,
        "told": told,
    }


def _told(line: Line, axis: Axis, values: Sequence[float]) -> str:
    """Where the config is better, as stretches of the way, and where runs failed."""
    failed = [value for value in values if line.above(value) is None]
    if len(failed) == len(values):
        return "no run worked"
    if all(line.above(value) for value in values):
        return "everywhere"
    told = _stretches(axis, values, [bool(line.above(value)) for value in values]) or "nowhere"
    if not failed:
        return told
    return f"{told}; failed at {_stretches(axis, values, [value in failed for value in values])}"


def _stretches(axis: Axis, values: Sequence[float], inside: Sequence[bool]) -> str:
    """Neighbouring values that are inside, by their ends."""
    found: list[list[float]] = [[]]
    for value, held in zip(values, inside, strict=True):
        if held:
            found[-1].append(value)
        else:
            found.append([])
    return "; ".join(
        axis.text(one[0]) if len(one) == 1 else f"{axis.text(one[0])} to {axis.text(one[-1])}"
        for one in found
        if one
    )


def _verdict(document: Data, lines: Sequence[Data]) -> str:
    count = len(lines)
    everywhere = sum(line["told"] == "everywhere" for line in lines)
    nowhere = sum(line["told"].startswith(("nowhere", "no run worked")) for line in lines)
    way = f"from {document['from']} to {document['to']}"
    limit = f"at least {document['least_pct']:g} % better than the default"
    if count == 1:
        line = lines[0]
        changes = ", ".join(one["told"] for one in line["breakpoints"])
        if not changes:
            return f"{line['label']}: {limit} {line['told']}, {document['axis']} {way}"
        return f"{line['label']}, {document['axis']} {way}: being {limit} {changes}"
    some = count - everywhere - nowhere
    return (
        f"{document['axis']} {way}: of {count} tuned configurations {everywhere} stay {limit} all the way,"
        f" {some} on a part of it, {nowhere} on none"
    )
