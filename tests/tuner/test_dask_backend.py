"""Trials on workers of a Dask scheduler keep the contract of backends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.cli.small import tiertune
from tests.contracts.backend import BackendContract
from tests.tuner.test_backends import tiny
from tiertune.machines.definition import load_machine
from tiertune.tuner.backend import Backend
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.spread.backend import SIMULATED, DaskBackend
from tiertune.tuner.spread.errand import PROFILES
from tiertune.tuner.trial import Scenario, Trial

SCENARIO = Scenario("tiny", "skx-numa", "1:8", 4)


class TestDaskBackend(BackendContract):
    address: ClassVar[str]

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def scheduler(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        """One scheduler with two workers for all tests, as processes take seconds to start."""
        from distributed import LocalCluster

        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(PROFILES, str(tmp_path_factory.mktemp("profiles")))
            cluster = LocalCluster(
                n_workers=2,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                resources={SIMULATED: 1},
                silence_logs="ERROR",
            )
        cls.address = str(cluster.scheduler_address)
        yield
        cluster.close()

    @pytest.fixture
    def backend(self, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
        backend = self.make(tmp_path_factory.getbasetemp() / type(self).__name__)
        backend.prepare(self.trial().scenario, lambda sentence: None)
        yield backend
        backend.close()

    def make(self, folder: Path) -> Backend:
        workload = tiny(folder)
        files: dict[str, Any] = {
            "workload": workload.model_dump(mode="json"),
            "machine": load_machine(SCENARIO.machine).document(),
        }
        inner = SimBackend(folder / "profiles", lambda name: workload)
        return DaskBackend(
            inner, self.address, {SCENARIO.key: files}, 1, folder / "profiles", lambda sentence: None
        )

    def test_a_worker_whose_name_is_taken_is_told_a_free_one(self) -> None:
        """As two on one host are, where nobody names them."""
        ran = tiertune("worker", self.address, "--cores", "1", "--name", "1")
        assert ran.exit_code == 2
        assert ran.stderr.splitlines()[1:] == [
            f"tiertune: --name 1: a worker of {self.address} has this name; the nearest free one is 1-2"
        ]

    def trial(self) -> Trial:
        return Trial("c", f"{SCENARIO.key}/hemem", 1, SCENARIO, "hemem", {"read_hot_threshold": 4}, 5)
