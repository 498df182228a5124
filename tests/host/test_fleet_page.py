"""Every command of docs/fleet.md, in its order, on two hosts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from tests.host.fleet import page
from tests.host.fleet.fixture import fleet, inventory, tierload
from tests.host.fleet.hosts import Fleet, Host

pytestmark = [pytest.mark.host, pytest.mark.long]

__all__ = ["fleet", "inventory", "tierload"]


@contextmanager
def one_node(host: Host, folder: Path) -> Iterator[None]:
    """The host's first node is all that it has."""
    system = host.sys / "devices/system"
    online = (system / "cpu/online").read_text()
    shutil.move(system / "node/node1", folder / "node1")
    (system / "cpu/online").write_text((system / "node/node0/cpulist").read_text())
    yield
    shutil.move(folder / "node1", system / "node/node1")
    (system / "cpu/online").write_text(online)


@pytest.mark.timeout(900)
def test_the_commands_of_the_page_run(fleet: Fleet, inventory: Path, tmp_path: Path) -> None:
    page.laid_out(tmp_path, inventory)
    before = {host.name: host.kernel_files() for host in fleet.hosts}
    for line in page.commands():
        if " calibrate " not in line:
            page.run(fleet, tmp_path, line)
            continue
        # Memory cannot be bound to the second node, which is made up: the host has one meanwhile.
        with one_node(fleet.hosts[1], tmp_path):
            page.run(fleet, tmp_path, line)
    machine = yaml.safe_load((tmp_path / "machines/beta.yaml").read_text())
    assert machine["cores"] == 2
    report = json.loads((tmp_path / "results/first-rack/report.json").read_text())
    hosts = report["cells"][0]["hosts"]
    assert [gain["host"] for gain in hosts["gains"]] == ["alpha", "beta"]
    (digest,) = (tmp_path / "results/nightly/first-nights").glob("*/digest.json")
    night = json.loads(digest.read_text())
    assert (night["outcome"], night["not_measured"]) == ("fine", [])
    for host in fleet.hosts:
        after = host.kernel_files()
        plain = [path for path, text in before[host.name].items() if "[" not in text]
        assert {path: after[path] for path in plain} == {path: before[host.name][path] for path in plain}
