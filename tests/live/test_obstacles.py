"""Systems that need what only the simulated machine has: a campaign of live trials never begins with one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.small import tiertune
from tests.live.test_host_backend import HOST
from tests.tuner.test_backends import TINY
from tiertune import engine

CAMPAIGN = """\
name: mine
scenarios: [{workload: ./tiny.yaml, machine: skx-numa, ratio: '1:8'}]
systems: [{system: hemem, space: hemem}, {system: soar, space: ./space.yaml}]
budget: {trials: 2, initial: 1}
"""


def test_all_but_three_systems_run_live() -> None:
    found = {system.name for system in engine.systems() if system.live_obstacle is not None}
    assert found == {"oracle", "static", "soar"}


@pytest.mark.parametrize("place", [["--here", "0,0"], ["--container", "0,1"]])
def test_a_campaign_with_one_is_refused_before_its_first_trial(tmp_path: Path, place: list[str]) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY + HOST)
    (tmp_path / "space.yaml").write_text(
        "name: mine\ndescription: x\nsystem: soar\nknobs: {fit_cycles: {}}\n"
    )
    (tmp_path / "mine.yaml").write_text(CAMPAIGN)
    done = tiertune("tune", tmp_path / "mine.yaml", *place, "--results", tmp_path / "results")
    assert done.exit_code == 2, done.output
    said = " ".join(done.output.split())
    assert f"{place[0]}: soar cannot run live: it is planned by a rehearsal of the whole workload" in said
    assert f"have it simulated without {place[0]}" in said
    assert not (tmp_path / "results").exists()


def test_a_system_that_runs_on_no_host_says_so() -> None:
    assert "on no host: it needs the truth" in " ".join(tiertune("show", "oracle").output.split())
    assert "on no host" not in tiertune("show", "hemem").output
