"""A sweep from its rows to their results: what is cached is read, the rest is measured and cached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from tiertune.tuner.backend import Notify
from tiertune.tuner.sweep.cache import Cache
from tiertune.tuner.sweep.execution import Bench
from tiertune.tuner.sweep.files import cache_path
from tiertune.tuner.sweep.row import PlannedRow, Result, Run
from tiertune.tuner.trial import Status


@dataclass(frozen=True)
class Progress:
    """How far a sweep is; counts are of runs, baselines included."""

    total: int
    cached: int
    done: int
    failed: int


Ended = Callable[[Run, Mapping[str, Result]], None]
"""Told a run that has just been measured, and the results by key that are there by now."""


def runs_of(plans: Sequence[PlannedRow], baselines: bool = True) -> list[Run]:
    """Every run that the rows need, with the baselines of slowdowns unless told otherwise, each once."""
    wanted: dict[str, Run] = {}
    for plan in plans:
        if plan.run is not None:
            for run in (plan.run, plan.run.baseline()) if baselines else (plan.run,):
                wanted.setdefault(run.key, run)
    return list(wanted.values())


def measure(
    plans: Sequence[PlannedRow],
    results: Path,
    *,
    jobs: int,
    fresh: bool,
    timelines: bool,
    notify: Notify,
    listener: Callable[[Progress], None],
    ended: Ended | None = None,
    baselines: bool = True,
    known: Mapping[str, Result] = MappingProxyType({}),
) -> dict[str, Result]:
    """Results by key of the run. Each is cached as soon as it is there, so that Ctrl-C loses none.

    With `fresh` everything but what is `known` is measured again and replaces what was cached; with
    `timelines` results have their time series.
    """
    runs = runs_of(plans, baselines)
    with Cache(cache_path(results)) as cache:
        found = {run.key: known[run.key] for run in runs if run.key in known}
        if not fresh:
            found |= cache.read([run.key for run in runs if run.key not in found], timelines)
        cached, failed = len(found), 0
        listener(Progress(len(runs), cached, cached, failed))

        def finished(run: Run, result: Result) -> None:
            nonlocal failed
            cache.write(run.key, result, timelines)
            found[run.key] = result
            failed += result.status == Status.CRASHED
            listener(Progress(len(runs), cached, len(found), failed))
            if ended is not None:
                ended(run, found)

        Bench(results / "profiles", jobs, notify).measure(
            [run for run in runs if run.key not in found], finished
        )
    return found
