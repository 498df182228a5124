"""One trial from config to stored row, and a batch of them on several threads. Whatever goes wrong becomes a
status."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from tiertune.tuner.backend import Backend, BackendLost, ConfigRejected, HostUnfit, TrialTimeout
from tiertune.tuner.events import Finished, Listener, Note, Started
from tiertune.tuner.journal import Journal
from tiertune.tuner.search.objectives import Objectives
from tiertune.tuner.trial import Config, Measurement, Objective, Status, Trial
from tiertune.workloads.live import NoMetrics

MOST_REPEATS = 2
"""Times that one trial is run again because its host was not in order."""
SHARE_REPEATED = 0.1
"""Of a cell's trials, runs that may be spent on that: a host that never is in order is not waited for."""
LEAST_REPEATS = 3


class Repeats:
    """Runs that are left for trials whose host was not in order. For several threads."""

    def __init__(self, left: int = LEAST_REPEATS) -> None:
        self._left = left
        self._mutex = threading.Lock()

    @classmethod
    def of(cls, trials: int) -> Repeats:
        """What a cell of that many trials may spend."""
        return cls(max(LEAST_REPEATS, int(trials * SHARE_REPEATED)))

    def take(self) -> bool:
        """Whether there was one left, which is spent then."""
        with self._mutex:
            self._left -= 1
            return self._left >= 0


@dataclass(frozen=True)
class Bench:
    """Where trials of a cell run and are stored: everything but the trial itself."""

    backend: Backend
    journal: Journal
    objective: Objective
    environment: int
    listener: Listener
    workers: int = 1
    objectives: Objectives | None = None
    repeats: Repeats = field(default_factory=Repeats)

    def start(self, trial: Trial, ask_cpu_s: float, decision: str) -> None:
        """Store the trial as running and say so."""
        self.journal.start(trial, ask_cpu_s=ask_cpu_s, environment=self.environment, decision=decision)
        self.listener(Started(trial, ask_cpu_s))

    def run(self, trial: Trial, timeline_points: int = 0) -> None:
        """Apply, verify, run, measure, store. The trial must have been started."""
        measurement = self._in_order(trial, timeline_points)
        cost = self.objective.cost(measurement.metrics) if measurement.status is Status.OK else None
        if measurement.status is Status.OK and cost is None:
            said = measurement.metrics.get(self.objective.metric, "nothing")
            sentence = f"{self.objective.metric} must be a finite number above 0, but the run said {said}"
            measurement = replace(measurement, status=Status.NO_METRIC, error=sentence)
        two = self.objectives
        if cost is not None and two is not None and two.values(measurement.metrics) is None:
            said = measurement.metrics.get(two.second.metric, "nothing")
            sentence = f"{two.second.metric} must be a finite number of at least 0, but the run said {said}"
            measurement, cost = replace(measurement, status=Status.NO_METRIC, error=sentence), None
        self.journal.finish(trial, measurement, cost)
        value = None if cost is None else measurement.metrics[self.objective.metric]
        self.listener(Finished(trial, measurement, value))

    def _in_order(self, trial: Trial, timeline_points: int) -> Measurement:
        """What came of the trial, run again where it was the host that was not in order: what such a run
        measured is thrown away, and said."""
        measurement = attempt(self.backend, trial, timeline_points)
        for _ in range(MOST_REPEATS):
            if measurement.status is not Status.HOST_UNFIT or not self.repeats.take():
                break
            why = (measurement.error or "").partition("\n")[0]
            self.journal.decide(trial, f"again, as {why}")
            self.listener(Note(f"{trial.purpose} {trial.number} of {trial.cell} again, as {why}"))
            self.backend.settle()
            measurement = attempt(self.backend, trial, timeline_points)
        return measurement

    def run_all(self, trials: Sequence[Trial], decision: str, timeline_points: dict[int, int]) -> None:
        """Run those of `trials` that are not finished yet; `timeline_points` by trial number, 0 where
        absent."""
        pool = ThreadPoolExecutor(self.workers)
        try:
            waiting = []
            for trial in trials:
                stored = self.journal.row(trial.cell, trial.purpose, trial.number)
                if stored is None or not stored.status.finished:
                    waiting.append(
                        pool.submit(self._whole, trial, decision, timeline_points.get(trial.number, 0))
                    )
            for future in waiting:
                future.result()
        finally:
            # After Ctrl-C or an error only the trials that run are awaited, those in the queue never start.
            pool.shutdown(cancel_futures=True)

    def _whole(self, trial: Trial, decision: str, timeline_points: int) -> None:
        self.start(trial, 0.0, decision)
        self.run(trial, timeline_points)


def attempt(backend: Backend, trial: Trial, timeline_points: int = 0) -> Measurement:
    """What came of a trial. Of all that the backend may do, only its being lost is raised."""

    def run() -> Measurement:
        verify(trial, backend.apply(trial))
        return backend.run(trial, timeline_points)

    return ended(run)


def ended(run: Callable[[], Measurement]) -> Measurement:
    """What came of `run`, with how long it took. Only BackendLost is raised."""
    began = time.perf_counter()
    try:
        measurement = run()
    except BackendLost:
        raise
    except ConfigRejected as error:
        measurement = Measurement(Status.INVALID_CONFIG, error=str(error))
    except HostUnfit as error:
        measurement = Measurement(Status.HOST_UNFIT, error=str(error))
    except NoMetrics as error:
        measurement = Measurement(Status.NO_METRIC, error=str(error))
    except TrialTimeout as error:
        measurement = Measurement(Status.TIMEOUT, metrics=error.metrics, error=str(error))
    except (
        Exception
    ) as error:  # a crash of any kind is a result about this config, not the end of the campaign
        measurement = Measurement(Status.CRASHED, error=f"{type(error).__name__}: {error}")
    # A trial that had to wait for a host says itself how long it took there.
    return replace(measurement, wall_s=measurement.wall_s or time.perf_counter() - began)


def verify(trial: Trial, applied: Config) -> None:
    """Every knob has the value that was asked for. Raises ConfigRejected: a trial of another config is no
    trial."""
    for name, wanted in trial.config.items():
        if name not in applied:
            raise ConfigRejected(f"{trial.system} has no knob {name}; it has {', '.join(sorted(applied))}")
        if not same_value(wanted, applied[name]):
            raise ConfigRejected(f"{name} is {applied[name]!r} after it was set to {wanted!r}")


def same_value(wanted: object, applied: object) -> bool:
    """Whether two values of a knob are equal, up to the last digits of a float."""
    if isinstance(wanted, float) and isinstance(applied, int | float):
        return math.isclose(wanted, applied, rel_tol=1e-12)
    return wanted == applied
