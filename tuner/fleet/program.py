"""Ansible's programs, which are called and never imported, and the environment that they run in."""

from __future__ import annotations

import locale
import os
import shutil
import sys
from pathlib import Path

from tiertune.arithmetic import restore_environment
from tiertune.tuner.backend import HostUnfit

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"

SSH_ARGUMENTS = (
    "-o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=10 -o ServerAliveCountMax=3"
)
"""A host that is silent for 30 s is lost, also in the middle of a trial."""


def program(name: str) -> str:
    """The path of a program of Ansible: beside this Python, or on PATH. Raises HostUnfit."""
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    if found is None:
        raise HostUnfit(f"there is no {name}, with which hosts are reached; pip install 'tiertune[fleet]'")
    return found


def playbook(name: str) -> Path:
    """The path of a playbook. Raises HostUnfit where this tiertune was installed without them."""
    path = PLAYBOOKS / name
    if not path.is_file():
        raise HostUnfit(f"{path}: there is no such playbook; hosts are reached from a checkout of tiertune")
    return path


def ansible_environment() -> dict[str, str]:
    """What Ansible's programs are given beside our own environment, which wins where it says otherwise."""
    wanted = {
        "ANSIBLE_PIPELINING": "1",
        "ANSIBLE_SSH_ARGS": SSH_ARGUMENTS,
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_INVENTORY_UNPARSED_FAILED": "1",
    }
    if Path("ansible.cfg").is_file():
        wanted["ANSIBLE_CONFIG"] = str(Path("ansible.cfg").resolve())
    restore_environment()
    found = {**wanted, **os.environ}
    beside = str(Path(sys.executable).parent)
    found["PATH"] = os.pathsep.join([beside, found.get("PATH", os.defpath)])
    if locale.getpreferredencoding(False).lower().replace("-", "") != "utf8":
        found["LC_ALL"] = "C.UTF-8"  # ansible refuses any other
    return found
