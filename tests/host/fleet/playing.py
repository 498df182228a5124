"""Playbooks from the outside, as an operator runs them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.configs.corpus import ROOT
from tests.host.fleet.hosts import Fleet

PLAYBOOKS = ROOT / "playbooks"


def environment() -> dict[str, str]:
    """The environment of an operator: Ansible's programs on PATH, UTF-8."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "LC_ALL": "C.UTF-8"}


def started(fleet: Fleet, inventory: Path, *words: str, **variables: object) -> subprocess.Popen[str]:
    """Starts a playbook where the hosts can be reached."""
    given = ["--extra-vars", json.dumps(variables)] if variables else []
    return subprocess.Popen(
        fleet.command("ansible-playbook", "--inventory", str(inventory), *words, *given),
        cwd=PLAYBOOKS,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def played(fleet: Fleet, inventory: Path, *words: str, **variables: object) -> str:
    """What a playbook prints; it has to succeed."""
    process = started(fleet, inventory, *words, **variables)
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output


def changes(output: str) -> dict[str, int]:
    """How many tasks changed each host, from the recap of a play."""
    return {
        host: int(count) for host, count in re.findall(r"^(\w+) +: ok=.*changed=(\d+)", output, re.MULTILINE)
    }
