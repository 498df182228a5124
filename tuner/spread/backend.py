"""Runs trials on whatever workers a Dask scheduler has, behind the class that all backends share.

SMAC's own Dask runner files a trial that comes back as another configuration and so loses half of a budget;
here proposals, trials and the journal never leave the coordinator, and only plain data travels.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from tiertune.tuner.backend import Backend, BackendLost, Notify
from tiertune.tuner.spread.address import CONNECT_S, LOCAL, greet
from tiertune.tuner.spread.errand import PROFILES, do, engine_here, errand, measured
from tiertune.tuner.trial import Config, Measurement, Scenario, Status, Trial

SIMULATED = "simulated"
"""The resource that a worker has one of for every simulated trial that it can run at a time."""

PATIENCE_S = 5.0


class DaskBackend(Backend):
    """Sends each trial to a worker and waits for it. `inner` prepares and checks here, and never runs.

    `files` has workload and machine of each scenario as the campaign's plan holds them, by the scenario's
    key. A worker that is lost has its trial run again on another one, as often as the scheduler's
    `allowed-failures` (3); a trial that takes more workers down than that has crashed. Raises BackendLost
    where there is no such scheduler.
    """

    name: ClassVar[str] = "dask"

    def __init__(
        self,
        inner: Backend,
        address: str,
        files: Mapping[str, dict[str, Any]],
        workers: int,
        profiles: Path,
        notify: Notify,
    ) -> None:
        import asyncio

        from distributed import Client

        self._inner, self._files, self._notify = inner, files, notify
        self._cluster = _local_cluster(workers, profiles) if address == LOCAL else None
        self._address = str(self._cluster.scheduler_address) if self._cluster else address
        try:
            if self._cluster is None:
                notify(f"looking for the scheduler at {address}")
                asyncio.run(greet(address))
            self._client = Client(self._address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            self.close()
            raise BackendLost(
                f"no scheduler answers at {address} ({error}); start one with"
                f" `dask scheduler --host 127.0.0.1`, or use --scheduler {LOCAL}"
            ) from error
        self._waiting_was_said = False

    def prepare(self, scenario: Scenario, notify: Notify) -> None:
        """Prepares here as well: a scenario that does not fit is found before anything is sent."""
        self._inner.prepare(scenario, notify)

    def apply(self, trial: Trial) -> Config:
        """Checks the config here; the worker puts it in force and reads it back once more."""
        return self._inner.apply(trial)

    def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
        """The measurement of some worker, which it names. Raises BackendLost where the scheduler is gone."""
        from distributed.scheduler import KilledWorker

        sent = errand(trial, self._files[trial.scenario.key], engine_here(), timeline_points)
        try:
            future = self._client.submit(do, sent, pure=False, resources={SIMULATED: 1})
            received = self._awaited(future)
        except KilledWorker as error:
            return Measurement(Status.CRASHED, error=f"every worker that ran it died: {error}")
        except Exception as error:  # of the way there and back: what trials do wrong comes back as a status
            raise BackendLost(
                f"the scheduler at {self._address} or what its workers run is gone ({type(error).__name__}:"
                f" {error}); once it is back, `tiertune resume` goes on"
            ) from error
        if "refused" in received:
            raise BackendLost(
                f"worker {received['worker']} has engine {received['refused']}, this campaign is"
                f" computed with {engine_here()}; install the same tiertune on both"
            )
        return measured(received)

    def facts(self) -> dict[str, str]:
        """Those of the trials themselves: where they are run decides nothing."""
        return self._inner.facts()

    def close(self) -> None:
        """Leaves the scheduler, and ends it if it was started here. Idempotent."""
        client = getattr(self, "_client", None)
        if client is not None:
            client.close(timeout=PATIENCE_S)
        if self._cluster is not None:
            self._cluster.close(timeout=PATIENCE_S)
        self._inner.close()

    def _awaited(self, future: Any) -> dict[str, Any]:
        """The result; says once, and again after it was remedied, that nobody is there to work."""
        from distributed import TimeoutError as NotYet

        while True:
            try:
                received: dict[str, Any] = future.result(timeout=PATIENCE_S)
            except NotYet:
                self._look_for_workers()
            else:
                self._waiting_was_said = False
                return received

    def _look_for_workers(self) -> None:
        workers = self._client.scheduler_info(n_workers=-1)["workers"].values()
        able = sum(1 for worker in workers if worker["resources"].get(SIMULATED))
        if able == 0 and not self._waiting_was_said:
            self._waiting_was_said = True
            others = f" ({len(workers)} are for other work)" if workers else ""
            self._notify(
                f"no worker for simulated trials is connected to {self._address}{others}; waiting for"
                f" `tiertune worker {self._address}`"
            )


def _local_cluster(workers: int, profiles: Path) -> Any:
    """A scheduler and `workers` processes that listen on loopback alone."""
    from distributed import LocalCluster

    os.environ[PROFILES] = str(profiles.resolve())  # nannies hand their environment on
    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=None,
        resources={SIMULATED: 1},
        silence_logs="ERROR",
    )
