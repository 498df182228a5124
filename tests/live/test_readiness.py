"""`doctor --host`: what the daemon's probe says, with a remedy for each thing that is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tiertune.tuner.live.readiness import REMEDIES, of_probe

SOURCES = ("pebs", "ibs", "hint-faults", "damon", "written", "referenced")


def probe(nodes: int = 2, working: tuple[str, ...] = SOURCES, rivals: tuple[str, ...] = ()) -> dict[str, Any]:
    found = [{"node": number, "total_bytes": 8 << 30, "cpus": 4 * (number == 0)} for number in range(nodes)]
    sources = [{"name": name, "problem": None if name in working else f"no {name}"} for name in SOURCES]
    counters = "hardware" if "pebs" in working else "software"
    return {
        "host": {"nodes": found},
        "sources": sources,
        "counters": counters,
        "counters_problem": None if counters == "hardware" else "the kernel shows no slices",
        "rivals": list(rivals),
    }


def test_a_host_with_everything_has_no_remedy() -> None:
    found = list(of_probe(probe()))
    assert [(entry.name, entry.state) for entry in found] == [("memory nodes", "ok"), ("signals", "ok")]
    assert found[0].detail == "node 0: 8.0 GiB, 4 CPUs, node 1: 8.0 GiB, 0 CPUs"


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_that_is_missing_has_a_remedy(name: str) -> None:
    working = tuple(source for source in SOURCES if source != name)
    entry = next(e for e in of_probe(probe(working=working)) if e.name == f"source {name}")
    assert (entry.state, entry.detail, entry.remedy) == ("warning", f"no {name}", REMEDIES[name])


def test_one_node_or_no_signal_is_bad() -> None:
    found = {entry.name: entry for entry in of_probe(probe(nodes=1, working=(), rivals=("kdamond",)))}
    assert {name for name, entry in found.items() if entry.state == "bad"} == {"memory nodes", "signals"}
    assert "daxctl" in found["memory nodes"].remedy
    assert found["others"].detail == "kdamond"
    assert found["counters"].state == "warning"
    assert found["counters"].detail.startswith(
        "software (the kernel shows no slices): Colloid, Alto and PACT"
    )


@pytest.mark.parametrize(("nodes", "remedy"), [(1, "a second memory node first"), (2, REMEDIES["pebs"])])
def test_counters_of_two_tiers_take_two_nodes_before_a_processor(nodes: int, remedy: str) -> None:
    found = {entry.name: entry for entry in of_probe(probe(nodes=nodes, working=()))}
    assert found["counters"].remedy == remedy


def test_the_command_asks_the_daemon(tmp_path: Path) -> None:
    """With a daemon that is made up, since what this machine has is its own affair."""
    said = json.dumps(probe(nodes=1))
    daemon = tmp_path / "tierd"
    daemon.write_text(f"#!{sys.executable}\nprint({said!r})\nraise SystemExit(3)\n")
    daemon.chmod(0o755)
    code = (
        "from tiertune.tuner.live import readiness\n"
        f"readiness.program_here = lambda name: {str(daemon)!r}\n"
        "from tiertune.tuner.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "doctor", "--host", "--json"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 3, ran.stderr
    found = {entry["name"]: entry for entry in json.loads(ran.stdout)["findings"]}
    assert found["tierd"]["state"] == "ok"
    assert found["memory nodes"]["state"] == "bad"
