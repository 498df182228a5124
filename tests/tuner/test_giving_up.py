"""Simulated trials that get nowhere are not waited for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.small import write_small
from tiertune import engine
from tiertune.tuner import simulation
from tiertune.tuner.execution import attempt
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.trial import Scenario, Status, Trial


def trial_in(folder: Path) -> Trial:
    write_small(folder)
    workload = str(folder / "small-workload.yaml")
    return Trial("c", "x", 0, Scenario(workload, "skx-numa", "1:4"), "notier", {}, seed=1)


def test_a_run_far_slower_than_one_without_tiering_is_a_timeout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = trial_in(tmp_path)
    monkeypatch.setattr(simulation, "GIVE_UP_AFTER", 0.5)
    backend = SimBackend(tmp_path)
    backend.prepare(trial.scenario, print)
    ended: list[float] = []
    run = engine.run

    def watched(workload: engine.EngineWorkload, request: Mapping[str, Any]) -> dict[str, Any]:
        result = run(workload, request)
        ended.append(result["metrics"]["runtime_s"])
        return result

    monkeypatch.setattr(engine, "run", watched)
    measurement = attempt(backend, trial)
    assert measurement.status is Status.TIMEOUT
    limit = measurement.metrics["runtime_s"]
    assert measurement.error == (
        f"given up after {limit:.6g} s, 0.5 times as long as a run without tiering takes"
    )
    # The engine stopped there too, within one slice.
    assert limit < ended[0] < 1.5 * limit


def test_any_other_run_goes_to_its_end(tmp_path: Path) -> None:
    trial = trial_in(tmp_path)
    backend = SimBackend(tmp_path)
    backend.prepare(trial.scenario, print)
    measurement = attempt(backend, trial)
    assert measurement.status is Status.OK
