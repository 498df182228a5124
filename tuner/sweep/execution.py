"""Runs the runs of a sweep on all cores; whatever goes wrong with one becomes its status."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from pathlib import Path
from typing import Any

from tiertune import engine
from tiertune.files import InputError
from tiertune.tuner.backend import HostUnfit, Notify
from tiertune.tuner.memory_need import check_memory
from tiertune.tuner.sweep.convergence import convergence_s, early_promotion_share, last_change_s
from tiertune.tuner.sweep.matrix import fast_misfit
from tiertune.tuner.sweep.row import ALL_FAST, NOT_APPLICABLE, Result, Run, Setting
from tiertune.tuner.sweep.window import figures
from tiertune.tuner.trial import Status, fingerprint
from tiertune.workloads.profile import profile_for

Finished = Callable[[Run, Result], None]


class Bench:
    """Prepares workloads, `profiles` being where recordings are kept, and measures on `jobs` threads.

    The engine releases the interpreter lock while it runs, so threads use all cores, and one prepared
    workload serves every thread.
    """

    def __init__(self, profiles: Path, jobs: int, notify: Notify) -> None:
        self._profiles = profiles
        self._jobs = jobs
        self._notify = notify
        self._recording: dict[str, threading.Lock] = {}

    def measure(self, runs: Sequence[Run], finished: Finished) -> None:
        """Every run once; `finished` is called in this thread, in no particular order.

        Runs of one setting are measured together and no more than `jobs` + 1 settings are in memory. On
        Ctrl-C the runs in flight are awaited and handed over, those in the queue never start; so it is when
        HostUnfit is raised, because this machine's memory does not hold the runs of a setting that may be
        measured at a time: `jobs`, or all there are.
        """
        groups: dict[str, list[Run]] = {}
        for run in runs:
            groups.setdefault(run.setting.key, []).append(run)
        # The longest settings first would need to know how long they take; the order of the file is as good.
        waiting = list(reversed(groups.values()))
        at_a_time = min(self._jobs, len(runs))
        pool = ThreadPoolExecutor(self._jobs)
        preparing: dict[Future[engine.EngineWorkload | Result], list[Run]] = {}
        measuring: dict[Future[Result], Run] = {}
        left: dict[str, int] = {}

        def hand_over(future: Future[Result]) -> None:
            run = measuring.pop(future)
            finished(run, future.result())
            left[run.setting.key] -= 1
            if not left[run.setting.key]:
                del left[run.setting.key]

        try:
            while waiting or preparing or measuring:
                while waiting and len(left) + len(preparing) <= self._jobs:
                    group = waiting.pop()
                    preparing[pool.submit(self._prepared, group[0].setting, at_a_time)] = group
                running: list[Future[Any]] = [*preparing, *measuring]
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    if future in measuring:
                        hand_over(future)
                        continue
                    group = preparing.pop(future)
                    prepared: engine.EngineWorkload | Result = future.result()
                    if isinstance(prepared, Result):
                        for run in group:
                            finished(run, prepared)
                        continue
                    left[group[0].setting.key] = len(group)
                    measuring |= {pool.submit(measured, prepared, run): run for run in group}
        except (KeyboardInterrupt, HostUnfit):
            pool.shutdown(cancel_futures=True)
            for ended in [future for future in measuring if not future.cancelled()]:
                hand_over(ended)
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _prepared(self, setting: Setting, at_a_time: int) -> engine.EngineWorkload | Result:
        """The workload in the engine, or what its runs come to without it."""
        # Settings that differ in pages alone share a recording: the second one reads what the first one made.
        key = fingerprint(setting.documents[0], setting.machine.llc_bytes, setting.threads)
        with self._recording.setdefault(key, threading.Lock()):
            try:
                workload = profile_for(
                    setting.workload,
                    setting.machine,
                    setting.threads,
                    self._profiles,
                    self._notify,
                    page_bytes=setting.page_bytes,
                )
            except BaseException as error:
                return _failed(error)
        check_memory(workload.footprint_bytes, setting.page_bytes, at_a_time)
        return workload


def measured(workload: engine.EngineWorkload, run: Run) -> Result:
    """One run, its metrics and its convergence. Never raises for anything that the engine does."""
    began = time.perf_counter()
    try:
        result = _measured(workload, run)
    except BaseException as error:  # a panic of the engine is no Exception
        result = _failed(error)
    return replace(result, wall_s=time.perf_counter() - began)


def _measured(workload: engine.EngineWorkload, run: Run) -> Result:
    footprint, setting = workload.footprint_bytes, run.setting
    # Known only now: the footprint of a graph follows from its edges.
    misfit = fast_misfit(footprint, run.fast, setting.page_bytes, setting.machine)
    if misfit and run.system != ALL_FAST:
        return Result(NOT_APPLICABLE, error=misfit)
    found = engine.run(workload, run.request(footprint))
    metrics, timeline = _numbers(found["metrics"]), dict(found["timeline"])
    metric = setting.workload.metric.name
    value = metrics.get(metric)
    if value is None or not value > 0.0:
        said = "nothing" if value is None else f"{value:g}"
        error = f"{metric} must be a finite number above 0, but the run said {said}"
        return Result(Status.NO_METRIC.value, metrics, error=error, footprint_bytes=footprint)
    change = last_change_s(setting.workload, timeline)
    return Result(
        Status.OK.value,
        metrics,
        _numbers(found.get("gauges") or {}),
        timeline,
        footprint,
        run.fast_bytes(footprint),
        None if change is None else convergence_s(timeline, change),
        change,
        early_promotion_share(timeline),
        observed=_numbers(found.get("observed") or {})
        | figures(run.windows, timeline, metrics, setting.page_bytes),
    )


def _failed(error: BaseException) -> Result:
    if isinstance(error, (engine.EngineError, InputError)):
        # What it says is about this combination: the files and configs in it were right on their own.
        return Result(NOT_APPLICABLE, error=str(error))
    return Result(Status.CRASHED.value, error=f"{type(error).__name__}: {error}")


def _numbers(found: dict[str, object]) -> dict[str, float]:
    """Figures that can be stored: finite numbers."""
    numbers = {name: value for name, value in found.items() if isinstance(value, (int, float))}
    return {name: float(value) for name, value in numbers.items() if math.isfinite(value)}
