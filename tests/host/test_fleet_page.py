"""Every command of docs/fleet.md, in its order, on two hosts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from tests.host.fleet import page
from tests.host.fleet.fixture import fleet, inventory, tierload
from tests.host.fleet.hosts import Fleet

pytestmark = pytest.mark.host

__all__ = ["fleet", "inventory", "tierload"]


@pytest.mark.timeout(600)
def test_the_commands_of_the_page_run(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    page.laid_out(tmp_path, inventory)
    before = {host.name: host.kernel_files() for host in fleet.hosts}
    for line in page.commands():
        if " calibrate " not in line:
            page.run(fleet, tmp_path, line)
            continue
        # The second node is made up, and memory cannot be bound to it: this host has one while it is measured.
        node = fleet.hosts[1].sys / "devices/system/node/node1"
        shutil.move(node, tmp_path / "node1")
        page.run(fleet, tmp_path, line)
        shutil.move(tmp_path / "node1", node)
    machine = yaml.safe_load((tmp_path / "machines/beta.yaml").read_text())
    assert machine["cores"] == 2
    assert (tmp_path / "results/first-rack/report.html").is_file()
    for host in fleet.hosts:
        found = {
            path: text for path, text in host.kernel_files().items() if "[" not in before[host.name][path]
        }
        assert found == {path: before[host.name][path] for path in found}
