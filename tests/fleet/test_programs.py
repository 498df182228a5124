"""Whether hosts of a fleet have the program that a workload's file means, asked before the first trial."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.test_backends import TINY
from tiertune.tuner.backend import Backend, HostUnfit
from tiertune.tuner.fleet import backend as fleet
from tiertune.tuner.fleet.inventory import Host
from tiertune.tuner.fleet.play import Played
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.trial import Scenario
from tiertune.workloads.definition import load_workload

PROBED = """\
host:
  command: [/opt/bc, -n, "3"]
  footprint: 1GiB
  metrics: {runtime_s: wall}
  probe: {arguments: [-h], expect: "^usage: bc"}
"""
SCENARIO = Scenario("tiny", "skx-numa", "1:8", 4, 2 << 20)
RIGHT = {"ended": "finished", "output": "usage: bc [-n]\n", "errors": ""}
OTHER = {"ended": "finished", "output": "", "errors": "bc 1.07.1\n"}
SILENT = {"ended": "timeout", "output": "usage: bc", "errors": ""}


class Plays:
    """Hosts that answer to plays as they were told to; `asked` has each question with whom it was put to."""

    def __init__(self, answers: Mapping[str, Mapping[str, Any] | str]) -> None:
        self.answers, self.asked = answers, list[tuple[list[str], str]]()

    def __call__(
        self,
        name: str,
        inventory: Path,
        action: str,
        limit: str = "",
        variables: Mapping[str, Any] = {},
        *,
        within_s: float,
    ) -> Plays:
        self._name = name
        if name == "trial.yml":
            self.asked.append((variables["trial_command"], limit))
        return self

    def run(self) -> Played:
        if self._name == "facts.yml":
            return Played(results={name: {"facts": {}} for name in self.answers})
        answers = self.answers.items()
        return Played(
            results={name: dict(said) for name, said in answers if not isinstance(said, str)},
            failed={name: said for name, said in answers if isinstance(said, str)},
        )


@pytest.fixture
def told() -> list[str]:
    return []


def backend_of(
    folder: Path, plays: Plays, told: list[str], monkeypatch: pytest.MonkeyPatch, part: str = PROBED
) -> Backend:
    monkeypatch.setattr(fleet, "Play", plays)
    monkeypatch.setattr(fleet, "traits", lambda facts, fast, slow: {})
    (folder / "tiny.yaml").write_text(TINY + part)
    made = load_workload(str(folder / "tiny.yaml"))
    inner = SimBackend(folder / "profiles", lambda name: made)
    hosts = [Host(name) for name in plays.answers]
    return fleet.FleetBackend(inner, folder, hosts, {SCENARIO.key: made}, told.append)


def test_a_host_with_another_program_is_set_aside(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plays = Plays({"a": RIGHT, "b": OTHER, "c": SILENT, "d": "/opt/bc: is not there"})
    backend = backend_of(tmp_path, plays, told, monkeypatch)
    for _ in range(2):
        backend.prepare(SCENARIO, lambda sentence: None)
    assert plays.asked == [(["env", "LC_ALL=C", "/opt/bc", "-h"], "a,b,c,d")], "each program is asked once"
    stranger = "is set aside: /opt/bc is not the program of the workload's file: `/opt/bc -h` says"
    meant = "where '^usage: bc' was expected; put the right one there, or name another folder of programs"
    assert told == [
        f"b {stranger} 'bc 1.07.1', {meant}; 3 hosts left",
        f"c {stranger} nothing in 20 s, {meant}; 2 hosts left",
        "d is set aside: /opt/bc: is not there; 1 host left",
    ]


def test_a_fleet_without_the_program_is_unfit(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plays = Plays({"a": OTHER, "b": OTHER})
    backend = backend_of(tmp_path, plays, told, monkeypatch)
    with pytest.raises(HostUnfit, match=r"no host can be used \(a: /opt/bc is not the program .*; b: "):
        backend.prepare(SCENARIO, lambda sentence: None)


def test_a_workload_without_a_probe_asks_nothing(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plays = Plays({"a": OTHER})
    part = "".join(line for line in PROBED.splitlines(True) if "probe" not in line)
    backend_of(tmp_path, plays, told, monkeypatch, part).prepare(SCENARIO, lambda sentence: None)
    assert plays.asked == []
