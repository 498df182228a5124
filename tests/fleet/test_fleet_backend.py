"""Live trials on hosts of a fleet keep the contract of backends; Ansible and the hosts are made up."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.contracts.backend import BackendContract
from tests.tuner.test_backends import TINY
from tiertune.tuner import execution
from tiertune.tuner.backend import Backend, BackendLost
from tiertune.tuner.fleet import backend as fleet
from tiertune.tuner.fleet.inventory import Host
from tiertune.tuner.fleet.play import Played
from tiertune.tuner.fleet.program import ansible_environment
from tiertune.tuner.live.launch import launch
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.trial import Scenario, Status, Trial
from tiertune.workloads.definition import load_workload

HOST = """\
host:
  command: [/opt/program, "{seed}"]
  footprint: 1GiB
  metrics: {runtime_s: 'took ([\\d.]+) s'}
"""
SCENARIO = Scenario("tiny", "skx-numa", "1:8", 4, 4096)
REPORT = {
    "page_bytes": 4096,
    "series": [
        {
            "at_s": at / 10,
            "promoted_bytes": at * 4096,
            "demoted_bytes": 0,
            "fast_bytes": 1,
            "samples": at,
            "hint_faults": 0,
        }
        for at in range(100)
    ],
    "overhead": {"cpu_s": 0.25},
}


class _Hosts:
    """Hosts on which a program takes as many seconds as its seed."""

    def __init__(
        self,
        name: str,
        inventory: Path,
        action: str,
        limit: str = "",
        variables: Mapping[str, Any] = {},
        *,
        within_s: float,
    ) -> None:
        assert variables.get("trial_timeout_s", 0.0) + 200 < within_s < math.inf
        self._name, self._limit, self._variables = name, limit, variables

    def run(self) -> Played:
        if self._name == "facts.yml":
            return Played(results={name: {"facts": {}} for name in ("a", "b")})
        seed = self._variables["trial_command"][-1]
        said = {
            "ended": "finished",
            "returncode": 0,
            "output": f"took {seed} s\n",
            "errors": "",
            "wall_s": 1.0,
            "fetched": {"report.json": json.dumps(REPORT)},
        }
        return Played(results={self._limit: said})

    def cancel(self) -> None:
        pass


class TestFleetBackend(BackendContract):
    @pytest.fixture(autouse=True)
    def made_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(fleet, "Play", _Hosts)
        monkeypatch.setattr(fleet, "traits", lambda facts, fast, slow: {})

    def make(self, folder: Path) -> Backend:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tiny.yaml").write_text(TINY + HOST)
        made = load_workload(str(folder / "tiny.yaml"))
        inner = SimBackend(folder / "profiles", lambda name: made)
        hosts = [Host("a"), Host("b")]
        return fleet.FleetBackend(inner, folder, hosts, {SCENARIO.key: made}, lambda sentence: None)

    def trial(self) -> Trial:
        return Trial("c", "cell", 1, SCENARIO, "hemem", {"read_hot_threshold": 4}, 5)

    def test_what_the_daemon_did_is_measured_as_here(self, backend: Backend) -> None:
        measurement = backend.run(self.trial(), timeline_points=9)
        assert measurement.metrics == {
            "runtime_s": 5.0,
            "promoted_bytes": 99 * 4096.0,
            "demoted_bytes": 0.0,
            "samples": 99.0,
            "hint_faults": 0.0,
            "tierd_cpu_s": 0.25,
        }
        assert measurement.timeline["promotions_per_s"] == pytest.approx([10.0] * 9)
        assert measurement.worker in ("a", "b")

    def test_a_trial_that_failed_names_its_host_and_its_own_time(
        self, backend: Backend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Who is woken looks for the one host on which trials crash; waiting for it is no time of a trial."""
        said = {"ended": "finished", "returncode": 9, "output": "", "errors": "no luck\n", "wall_s": 1.0}
        now_s = [0.0]
        assert isinstance(backend, fleet.FleetBackend)
        take = backend._pool._take

        def waited(trial: Trial) -> Host:
            now_s[0] += 100.0
            return take(trial)

        def crashes(self: _Hosts) -> Played:
            now_s[0] += 2.0
            return Played(results={self._limit: said})

        monkeypatch.setattr("time.perf_counter", lambda: now_s[0])
        monkeypatch.setattr(backend._pool, "_take", waited)
        monkeypatch.setattr(_Hosts, "run", crashes)
        found = execution.attempt(backend, self.trial())
        assert found.status is Status.CRASHED
        assert found.error == "RuntimeError: the command ended with 9: no luck"
        assert (found.worker, found.wall_s) == ("a", 2.0)

    def test_a_trial_that_has_its_host_when_all_is_stopped_does_not_begin(
        self, backend: Backend, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It would have run to its end, for as long as that takes, with Ctrl-C waiting for it."""
        begun: list[str] = []

        def runs(self: _Hosts) -> Played:
            begun.append(self._name)
            return Played(cancelled=True)

        monkeypatch.setattr(_Hosts, "run", runs)

        def stopped_meanwhile(*told: Any) -> Any:
            backend.cancel()
            return launch(*told)

        monkeypatch.setattr(fleet, "launch", stopped_meanwhile)
        with pytest.raises(BackendLost):
            backend.run(self.trial())
        assert begun == []


def test_every_value_of_a_config_survives_ansibles_extra_variables(tmp_path: Path) -> None:
    """Ansible reads variables as YAML and templates them: neither may make a number of a word, or round."""
    import ansible_runner

    given: Any = {"switch": np.bool_(True), "log": np.int64(40532), "third": np.float64(1 / 3)}
    given |= {"large": 2**53 - 1, "small": 2.5e-05, "word": np.str_("per_tick")}
    given |= {"off": "off", "number": "1e3", "none": "null"}
    wanted = Trial("c", "cell", 1, SCENARIO, "hemem", given, 5).config
    found: dict[str, object] = {}

    def seen(event: Mapping[str, Any]) -> bool:
        if event.get("event") == "runner_on_ok":
            found.update(event["event_data"]["res"].get("config", {}))
        return False

    ran = ansible_runner.run(
        private_data_dir=str(tmp_path),
        inventory="localhost ansible_connection=local",
        host_pattern="localhost",
        module="ansible.builtin.debug",
        module_args="var=config",
        extravars={"config": wanted},
        envvars=ansible_environment(),
        settings={"suppress_ansible_output": True, "pexpect_use_poll": True},
        event_handler=seen,
        quiet=True,
    )
    assert ran.rc == 0
    assert found == wanted
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in wanted.items()
    }
