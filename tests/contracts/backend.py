"""What every backend promises. Inherit `BackendContract` and give a backend and a trial for it."""

from __future__ import annotations

import json
import math
import threading
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tiertune.tuner.backend import Backend, ConfigRejected
from tiertune.tuner.trial import Status, Trial


class BackendContract(ABC):
    """Inherited by one test class a backend. `trial` must work, and take a few seconds at most."""

    @abstractmethod
    def make(self, folder: Path) -> Backend:
        """A backend that keeps what it must keep in `folder`."""

    @abstractmethod
    def trial(self) -> Trial:
        """A trial that works; its config sets one knob at least."""

    @pytest.fixture
    def backend(self, tmp_path_factory: pytest.TempPathFactory) -> Backend:
        # One folder for all tests of a class: recording a workload is the slow part.
        backend = self.make(tmp_path_factory.getbasetemp() / type(self).__name__)
        backend.prepare(self.trial().scenario, lambda sentence: None)
        return backend

    def test_preparing_twice_says_nothing_new(self, backend: Backend) -> None:
        said: list[str] = []
        backend.prepare(self.trial().scenario, said.append)
        assert said == []

    def test_apply_reads_back_the_whole_config(self, backend: Backend) -> None:
        applied = backend.apply(self.trial())
        assert self.trial().config.items() <= applied.items()
        assert len(applied) > len(self.trial().config)
        assert json.loads(json.dumps(applied)) == applied

    def test_a_knob_that_is_not_there_is_rejected_in_words(self, backend: Backend) -> None:
        wrong = replace(self.trial(), config={**self.trial().config, "no_such_knob": 1})
        with pytest.raises(ConfigRejected, match="no_such_knob"):
            backend.apply(wrong)

    def test_a_run_measures_finite_numbers(self, backend: Backend) -> None:
        measurement = backend.run(self.trial())
        assert measurement.status is Status.OK
        assert measurement.error is None
        assert measurement.metrics["runtime_s"] > 0.0
        assert all(type(value) is float and math.isfinite(value) for value in measurement.metrics.values())
        assert measurement.timeline == {}

    def test_a_timeline_has_equal_columns_over_rising_time(self, backend: Backend) -> None:
        timeline = backend.run(self.trial(), timeline_points=20).timeline
        assert next(iter(timeline)) == "time_s"
        assert len({len(column) for column in timeline.values()}) == 1
        assert 2 <= len(timeline["time_s"]) <= 200
        assert timeline["time_s"] == sorted(timeline["time_s"])

    def test_asking_for_a_timeline_changes_no_metric(self, backend: Backend) -> None:
        assert backend.run(self.trial(), timeline_points=20).metrics == backend.run(self.trial()).metrics

    def test_equal_trials_measure_the_same_on_any_thread(self, backend: Backend) -> None:
        trials = [replace(self.trial(), seed=seed) for seed in (1, 2, 1, 2)]
        alone = [backend.run(trial).metrics for trial in trials]
        with ThreadPoolExecutor(4) as pool:
            together = [measurement.metrics for measurement in pool.map(backend.run, trials)]
        assert together == alone
        assert alone[0] == alone[2]
        assert alone[0] != alone[1]

    def test_facts_are_text(self, backend: Backend) -> None:
        assert all(isinstance(text, str) and text for text in backend.facts().values())

    def test_a_stop_ends_the_wait_for_a_host(self, backend: Backend, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tiertune.tuner.live.stop.SETTLE_S", 600.0)
        waiting = threading.Thread(target=backend.settle, daemon=True)
        waiting.start()
        backend.cancel()
        waiting.join(60)
        assert not waiting.is_alive()

    def test_closing_twice_is_fine(self, backend: Backend) -> None:
        backend.close()
        backend.close()
