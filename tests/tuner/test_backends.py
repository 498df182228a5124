"""Every backend keeps the contract; what becomes of each kind of failure."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contracts.backend import BackendContract
from tests.source_tree import ROOT
from tests.tuner.toy import SCENARIO, ToyBackend
from tiertune.files import InputError
from tiertune.tuner.backend import Backend, ConfigRejected, HostUnfit, TrialTimeout
from tiertune.tuner.execution import attempt, verify
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.trial import Config, Measurement, Scenario, Status, Trial
from tiertune.workloads.definition import Workload, load_workload

TINY = """
name: tiny
version: 1
description: random updates of a small table with a hot part
source: this test
metric: {name: runtime_s, direction: minimize}
threads: 4
sim:
  record:
    {kernel: gups, table_bytes: 64MiB, hot_bytes: 8MiB, hot_share: 0.9, updates: 2000000, moves: 1, seed: 1}
  carry: {table_bytes: 2GiB, hot_bytes: 256MiB, runs: 200}
"""


def tiny(folder: Path) -> Workload:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tiny.yaml").write_text(TINY)
    return load_workload(str(folder / "tiny.yaml"))


class TestToyBackend(BackendContract):
    def make(self, folder: Path) -> Backend:
        return ToyBackend()

    def trial(self) -> Trial:
        return Trial("toy", "cell", 3, SCENARIO, "toy", {"sample_period": 1000}, 5)


class TestSimBackend(BackendContract):
    def make(self, folder: Path) -> Backend:
        workload = tiny(folder)
        return SimBackend(folder / "profiles", lambda name: workload)

    def trial(self) -> Trial:
        scenario = Scenario("tiny", "skx-numa", "1:8", 4)
        return Trial("c", f"{scenario.key}/hemem", 1, scenario, "hemem", {"read_hot_threshold": 4}, 5)


def test_every_backend_has_a_contract_test() -> None:
    def classes(folder: str, base: str) -> set[str]:
        """Read, as what is imported here depends on which tests run in this process."""
        texts = (path.read_text(encoding="utf-8") for path in (ROOT / folder).rglob("*.py"))
        return {
            name for text in texts for name in re.findall(rf"^class (\w+)\({base}\):", text, re.MULTILINE)
        }

    suites = {name.removeprefix("Test") for name in classes("tests", "BackendContract")}
    assert classes("tuner", "Backend") == suites - {"ToyBackend"}


def test_a_ratio_that_does_not_fit_is_an_input_error(tmp_path: Path) -> None:
    workload = tiny(tmp_path)
    backend = SimBackend(tmp_path / "profiles", lambda name: workload)
    with pytest.raises(InputError, match=r"ratio: .*page"):
        backend.prepare(Scenario("tiny", "skx-numa", "1:100000", 4), lambda sentence: None)


class _Scripted(Backend):
    name = "scripted"

    def __init__(self, event: Exception | Measurement) -> None:
        self.event = event

    def prepare(self, scenario: Scenario, notify: object) -> None:
        pass

    def apply(self, trial: Trial) -> Config:
        return trial.config

    def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
        if isinstance(self.event, Exception):
            raise self.event
        return self.event


TRIAL = Trial("toy", "cell", 0, SCENARIO, "toy", {"k": 1, "f": 0.5}, 1)


@pytest.mark.parametrize(
    ("event", "status"),
    [
        (ConfigRejected("k: 1 is too small"), Status.INVALID_CONFIG),
        (HostUnfit("swap is on"), Status.HOST_UNFIT),
        (TrialTimeout("600 s passed", {"runtime_s": 600.0}), Status.TIMEOUT),
        (RuntimeError("segmentation fault"), Status.CRASHED),
        (MemoryError(), Status.CRASHED),
        (Measurement(Status.OK, {"runtime_s": 1.0}), Status.OK),
    ],
)
def test_whatever_a_backend_does_becomes_a_status(event: Exception | Measurement, status: Status) -> None:
    measurement = attempt(_Scripted(event), TRIAL)
    assert measurement.status is status
    assert (measurement.error is None) == (status is Status.OK)
    assert measurement.wall_s > 0.0


def test_a_timeout_keeps_what_it_had_reached() -> None:
    assert attempt(_Scripted(TrialTimeout("late", {"runtime_s": 600.0})), TRIAL).metrics == {
        "runtime_s": 600.0
    }


def test_a_config_that_was_not_applied_is_no_trial() -> None:
    verify(TRIAL, {"k": 1, "f": math.nextafter(0.5, 1.0), "other": 3})
    with pytest.raises(ConfigRejected, match="k is 2 after it was set to 1"):
        verify(TRIAL, {"k": 2, "f": 0.5})
    with pytest.raises(ConfigRejected, match="no knob f"):
        verify(TRIAL, {"k": 1})
    with pytest.raises(ConfigRejected, match="k is True"):
        verify(replace(TRIAL, config={"k": 2}), {"k": True})
