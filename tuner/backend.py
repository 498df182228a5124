"""Where trials run: the simulator today, hosts and fleets later, all behind this one class.

A new backend inherits `tests/contracts/backend.py` and is then known to keep the promises below.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from tiertune.tuner.trial import Config, Measurement, Scenario, Trial

Notify = Callable[[str], None]


NOTES = "notes of "
"""A backend's facts that start so, followed by a scenario's key, say what was scaled in it, one sentence a
line."""


class ConfigRejected(ValueError):
    """The system does not take this config; the sentence names knob and value. The trial ends as
    `invalid-config`."""


class HostUnfit(RuntimeError):
    """The place to run is not in order (no fault of the config). The trial ends as `host-unfit`."""


class BackendLost(RuntimeError):
    """There is nobody left to run trials. The trial in flight stays as running, the campaign stops and can be
    resumed."""


class OutOfMemory(RuntimeError):
    """The kernel ended the workload, or something of it, for want of memory. The trial ends as `crashed`."""


STOPPED = "stopped; the trial in flight runs again with `tiertune resume`"
"""What a backend says that was cancelled."""


class TrialTimeout(TimeoutError):
    """The run passed its limit. `metrics` may hold a bound, such as the runtime so far."""

    def __init__(self, sentence: str, metrics: dict[str, float] | None = None) -> None:
        super().__init__(sentence)
        self.metrics = dict(metrics or {})


class Backend(ABC):
    """Runs trials. `apply` and `run` are called from several threads at once, for different trials.

    Call order: `prepare` once per scenario from one thread, then for each trial `apply` and `run`, then
    `close`.
    """

    name: ClassVar[str]

    queue: int = 0
    """Trials that may wait here for a place of their own, beside those that the campaign has workers for."""

    @abstractmethod
    def prepare(self, scenario: Scenario, notify: Notify) -> None:
        """Make whatever all trials of the scenario share (profiles, hosts). Idempotent; `notify` gets plain
        sentences."""

    @abstractmethod
    def apply(self, trial: Trial) -> Config:
        """Set the system's knobs and read them back: every knob the system has, defaults filled in.

        Raises ConfigRejected or HostUnfit.
        """

    @abstractmethod
    def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
        """Run and measure. Equal trials give equal metrics where the backend is deterministic.

        `timeline_points` > 0 asks for a timeline of about that many points: columns of equal length, `time_s`
        first.
        Raises TrialTimeout, HostUnfit or ConfigRejected; any other exception is a crash of this trial.
        """

    def facts(self) -> dict[str, str]:
        """Versions and settings of the backend that belong into the environment of each trial."""
        return {}

    def settle(self) -> None:  # noqa: B027 (a simulated host has nothing to wait for)
        """Wait a little for a host that was not in order, before a trial is run again. For any thread."""

    def cancel(self) -> None:  # noqa: B027 (simulated trials are short)
        """End the live trials that run, which raise BackendLost. For any thread."""

    def close(self) -> None:  # noqa: B027 (most backends have nothing to undo)
        """Undo what `prepare` and `apply` changed. Idempotent."""
