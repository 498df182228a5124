"""A fleet of two hosts for the tests of a module, with an inventory and the agent's programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.configs.corpus import ROOT
from tests.host.fleet.hosts import Fleet, fleet_of
from tests.host.programs import program

TIERD = Path(__file__).with_name("tierd")
CACHE = ROOT / ".cache" / "host-tests"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two hosts, alpha and beta, behind a controller."""
    # Paths of Unix sockets are short.
    running = fleet_of(tmp_path_factory.mktemp("fleet"), ["alpha", "beta"], CACHE)
    yield running
    running.close()


@pytest.fixture(scope="module")
def tierload() -> Path:
    """The kernels as a command."""
    return program("tierload")


@pytest.fixture(scope="module")
def inventory(fleet: Fleet, tierload: Path) -> Path:
    """An inventory of both, with the programs that the agent installs."""
    # Latencies of a machine that runs both hosts and more tell nothing; drift has a test of its own.
    variables = {"tiertune_agent_programs": f"[{tierload}, {TIERD}]", "tiertune_drift_limit": "100"}
    return fleet.write_inventory(fleet.folder / "inventory.yml", variables)
