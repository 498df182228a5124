"""What travels between a campaign's coordinator and a worker, and what a worker does with it.

SMAC, the journal and the files of a campaign stay with the coordinator. A worker is sent one trial with the
workload and machine that it is about, so that it needs no file of the campaign, and sends back what came of
it. All of it is plain data.
"""

from __future__ import annotations

import os
import platform
import threading
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiertune.tuner.trial import Measurement, Scenario, Status, Trial, fingerprint

if TYPE_CHECKING:
    from tiertune.tuner.simulation import SimBackend

PROFILES = "TIERTUNE_PROFILES"
"""Environment variable of a worker: the folder where it keeps the workloads that it records."""

_MUTEX = threading.Lock()


def errand(trial: Trial, files: dict[str, Any], engine: str, timeline_points: int) -> dict[str, Any]:
    """A trial as plain data, with its workload and machine as a journal holds them."""
    return {
        "trial": asdict(trial),
        "files": files,
        "engine": engine,
        "timeline_points": timeline_points,
    }


def do(sent: dict[str, Any]) -> dict[str, Any]:
    """Runs on a worker: the trial of an errand, and what came of it as plain data.

    `refused` is set where the worker's engine is not the coordinator's: numbers of two engines must not be
    mixed.
    """
    from tiertune.tuner.execution import attempt

    if sent["engine"] != engine_here():
        return {"worker": here(), "refused": engine_here()}
    trial = _trial(sent["trial"])
    try:
        backend = _backend(
            fingerprint(sent["files"], trial.scenario.document()), sent["files"], trial.scenario
        )
    except (
        Exception
    ) as error:  # the coordinator prepared the same scenario, so it is this worker that is unfit
        unfit = Measurement(Status.HOST_UNFIT, error=f"{here()}: {type(error).__name__}: {error}")
        return {"worker": here(), "measurement": asdict(unfit)}
    found = attempt(backend, trial, sent["timeline_points"])
    return {"worker": here(), "measurement": asdict(found)}


def measured(received: dict[str, Any]) -> Measurement:
    """The measurement that came back."""
    document = dict(received["measurement"])
    return Measurement(**{**document, "status": Status(document["status"]), "worker": received["worker"]})


def here() -> str:
    """This worker: its name, or that of the host."""
    try:
        from distributed import get_worker

        return str(get_worker().name)
    except ValueError:
        return platform.node()


@cache
def engine_here() -> str:
    """Version and hash of the engine that computes here."""
    from tiertune import engine

    return f"{engine.version()} ({engine.sources()})"


def profiles_folder() -> Path:
    """Where this worker keeps recorded workloads."""
    given = os.environ.get(PROFILES)
    return Path(given) if given else Path.home() / ".cache" / "tiertune" / "profiles"


_BACKENDS: dict[str, SimBackend] = {}


def _backend(key: str, files: dict[str, Any], scenario: Scenario) -> SimBackend:
    """The backend of a scenario, prepared once per worker."""
    from tiertune.tuner.journal_files import stored_machine, stored_workload
    from tiertune.tuner.simulation import SimBackend

    with _MUTEX:
        if key not in _BACKENDS:
            workload, machine = stored_workload(files["workload"]), stored_machine(files["machine"])
            backend = SimBackend(profiles_folder(), lambda name: workload, lambda name: machine)
            backend.prepare(scenario, lambda sentence: None)
            _BACKENDS[key] = backend
        return _BACKENDS[key]


def _trial(document: dict[str, Any]) -> Trial:
    return Trial(**{**document, "scenario": Scenario.parse(document["scenario"])})
