"""The phases of a run on a host, as `tierload` marks them, and figures of each: how long it took, how fast it
went, and what the daemon moved meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from tiertune.engine import MetricInfo

PREFIX = "phase."
"""Before the name of a phase and a figure of it, as in `phase.forward_s`."""

MOST_NUMBERED = 8
"""Phases that differ by nothing but a number, such as `hot set 1` to `hot set 4`, have figures of their own
where they are no more than these, beside those of all together."""

FIGURES = {
    "s": ("s", "minimize", "Time in the phase"),
    "mops": ("1e6 op/s", "maximize", "Operations of all threads per second of the phase"),
    "promoted_bytes": ("B", "", "Bytes that the daemon moved to the fast tier during the phase"),
    "demoted_bytes": ("B", "", "Bytes that the daemon moved to the slow tier during the phase"),
}
"""What follows the name: unit, direction and meaning."""


@dataclass(frozen=True)
class PhaseRun:
    """One time that a phase ran; `start_s` is from the start of the trial."""

    name: str
    timed: bool
    start_s: float
    seconds: float
    ops: int


def phases_of(events: Iterable[Mapping[str, Any]]) -> list[list[PhaseRun]]:
    """What the marks among `events` of `tierload --json` say, trial by trial; what is no mark is passed
    over."""
    trials: list[list[PhaseRun]] = [[]]
    start_s = 0.0
    for event in events:
        what = event.get("event")
        try:
            if what == "phase_start":
                start_s = float(event["at_s"])
            elif what == "phase_end":
                trials[-1].append(
                    PhaseRun(
                        str(event["name"]),
                        bool(event["timed"]),
                        start_s,
                        float(event["seconds"]),
                        int(event["ops"]),
                    )
                )
            elif what == "trial":
                trials.append([])
        except (KeyError, TypeError, ValueError):
            continue  # another program's event of the same name
    return [trial for trial in trials if trial]


def figures(trials: Sequence[Sequence[PhaseRun]]) -> dict[str, float]:
    """Seconds and rate of every phase, a mean over trials, as metrics by name."""
    found: dict[str, float] = {}
    for label, runs in _labelled(run for trial in trials for run in trial).items():
        seconds, ops = sum(run.seconds for run in runs), sum(run.ops for run in runs)
        found[f"{PREFIX}{label}_s"] = seconds / len(trials)
        if ops > 0 and seconds > 0:
            found[f"{PREFIX}{label}_mops"] = ops / seconds / 1e6
    return found


def bytes_moved(
    trials: Sequence[Sequence[PhaseRun]], series: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Bytes that the daemon moved during each phase, from sums at points of time (`series` of its report),
    between which they are taken to grow evenly.

    The daemon's clock starts with the program. Nothing for phases that are shorter than points are apart, and
    for several trials, whose times are not told.
    """
    if len(trials) != 1 or len(series) < 2:
        return {}
    times = [float(point["at_s"]) for point in series]
    apart_s = max(after - before for before, after in pairwise(times))
    found = {}
    for label, runs in _labelled(trials[0]).items():
        if sum(run.seconds for run in runs) < apart_s * len(runs):
            continue
        for name in ("promoted_bytes", "demoted_bytes"):
            sums = [float(point[name]) for point in series]
            ends = [
                (_at(run.start_s, times, sums), _at(run.start_s + run.seconds, times, sums)) for run in runs
            ]
            found[f"{PREFIX}{label}_{name}"] = sum(after - before for before, after in ends)
    return found


def declared(name: str) -> MetricInfo | None:
    """The declaration of a figure of a phase; None for a name of something else."""
    for ending, (unit, direction, meaning) in FIGURES.items():
        if name.startswith(PREFIX) and name.endswith(f"_{ending}"):
            phase = name[len(PREFIX) : -len(ending) - 1]
            role = "secondary" if direction else "covariate"
            return MetricInfo(name, unit, direction, role, f"{meaning} {phase}.")
    return None


def _labelled(runs: Iterable[PhaseRun]) -> dict[str, list[PhaseRun]]:
    """Runs by kind of phase ("forward" is that of "forward 3"), and by name where these are few."""
    kinds: dict[str, dict[str, list[PhaseRun]]] = {}
    for run in runs:
        kind = re.sub(r" \d+$", "", run.name)
        kinds.setdefault(_label(kind), {}).setdefault(_label(run.name), []).append(run)
    found: dict[str, list[PhaseRun]] = {}
    for kind, names in kinds.items():
        found[kind] = [run for same in names.values() for run in same]
        if 1 < len(names) <= MOST_NUMBERED:
            found |= names
    return found


def _label(name: str) -> str:
    """A name as part of a metric's, which databases and tables of others hold as well."""
    return re.sub(r"[^\w-]+", "_", name)


def _at(time_s: float, times: Sequence[float], sums: Sequence[float]) -> float:
    """The sum at a time between points; before the first nothing has moved, after the last nothing more."""
    if time_s <= times[0]:
        return sums[0]
    for (before_s, before), (after_s, after) in pairwise(zip(times, sums, strict=True)):
        if time_s <= after_s:
            return before + (after - before) * (time_s - before_s) / (after_s - before_s)
    return sums[-1]
