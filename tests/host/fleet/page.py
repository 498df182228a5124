"""The commands of docs/fleet.md, run as they stand there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

from tests.configs.corpus import ROOT
from tests.host.fleet.hosts import Fleet
from tests.host.fleet.playing import environment

PAGE = ROOT / "docs" / "fleet.md"


def commands() -> list[str]:
    """Every command, in the order of the page."""
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return [line for block in blocks for line in block.splitlines() if line]


def laid_out(folder: Path, inventory: Path) -> None:
    """A folder in which the page's commands run: the checkout's tools, its files, an inventory."""
    for name in (".venv", "playbooks"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "inventory.yml").symlink_to(inventory)
    for block in re.findall(r"^```yaml\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.M | re.S):
        name = block.splitlines()[0].removeprefix("# ")
        (folder / name).write_text(block)


def run(fleet: Fleet, folder: Path, line: str) -> str:
    """What a command prints; it has to succeed."""
    variables = {"PYTHONPATH": os.pathsep.join([str(ROOT / "engine" / "python"), str(ROOT)])}
    done = subprocess.run(
        fleet.command(*shlex.split(line)),
        cwd=folder,
        env={**environment(), "ANSIBLE_CONFIG": str(ROOT / "playbooks/ansible.cfg"), **variables},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    return done.stdout
