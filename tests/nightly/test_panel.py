"""Runs of the panel are stored as they end, in whatever order that is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from tests.cli.small import write_small
from tiertune.tuner.backend import Backend, BackendLost, Notify
from tiertune.tuner.campaign import load_campaign
from tiertune.tuner.nightly.history import History
from tiertune.tuner.nightly.panel import Place, entry_of, measure_into
from tiertune.tuner.plan import plan_of
from tiertune.tuner.trial import Config, Measurement, Scenario, Status, Trial

SEEDS = [11, 12, 13, 14]


@dataclass
class _Lost(Backend):
    """The run of the first seed goes on until all others are `stored`; then nobody is left to run any."""

    name: ClassVar[str] = "made-up"
    stored: Callable[[], set[int]] = set

    def prepare(self, scenario: Scenario, notify: Notify) -> None:
        pass

    def apply(self, trial: Trial) -> Config:
        return trial.config

    def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
        if trial.seed == SEEDS[0]:
            ends_s = time.monotonic() + 5
            while self.stored() < set(SEEDS[1:]) and time.monotonic() < ends_s:
                time.sleep(0.01)
            raise BackendLost("no host is left")
        return Measurement(Status.OK, {"runtime_s": 100.0})


def test_runs_that_ended_stay_when_a_longer_one_is_lost(tmp_path: Path) -> None:
    plan = plan_of(load_campaign(str(write_small(tmp_path))))
    (cell,) = plan.cells
    one = entry_of("small", plan, cell, "default", cell.default, Place("made-up", "here"))
    with History(tmp_path / "history.sqlite") as history:
        history.begin("2026-11-01")
        with History(history.path, writer=False) as reader:
            backend = _Lost(lambda: reader.seeds_run("2026-11-01", one.followed.key))
            with pytest.raises(BackendLost):
                measure_into(history, "2026-11-01", one, SEEDS, backend, 2, lambda: True, lambda _: None)
        assert history.seeds_run("2026-11-01", one.followed.key) == set(SEEDS[1:])
