"""The hosts of an Ansible inventory, as `ansible-inventory` reads it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiertune.files import InputError
from tiertune.tuner.fleet.program import ansible_environment, program

GROUP = "tier_hosts"
"""The group whose hosts run trials; the playbooks are for it, too."""

DRIFT_LIMIT = 0.15
"""How much the latency of a host's memory may leave what it was at first, as a share."""


@dataclass(frozen=True)
class Host:
    """A host with what the inventory says of it."""

    name: str
    fast_node: int = 0
    slow_node: int = 1
    drift_limit: float = DRIFT_LIMIT


def check_inventory(inventory: Path) -> None:
    """Raises InputError where there is none at this path."""
    if not inventory.exists():
        raise InputError(f"--hosts {inventory}: there is no such file; docs/fleet.md shows an inventory")


def hosts_of(inventory: Path) -> list[Host]:
    """The hosts of the group `tier_hosts`, by name. Raises InputError where there are none.

    Values of a vault stay where they are: nothing but the variables named in `Host` is read.
    """
    check_inventory(inventory)
    ran = subprocess.run(
        [program("ansible-inventory"), "--inventory", str(inventory), "--list", "--limit", GROUP],
        capture_output=True,
        text=True,
        check=False,
        env=ansible_environment(),
    )
    if ran.returncode:
        said = " ".join(ran.stderr.split()) or "ansible-inventory cannot read it"
        raise InputError(f"--hosts {inventory}: {said}")
    document = json.loads(ran.stdout)
    variables: Mapping[str, Mapping[str, Any]] = document.get("_meta", {}).get("hostvars", {})
    names = sorted(_members(document, GROUP, set()))
    if not names:
        raise InputError(
            f"--hosts {inventory}: the group {GROUP} has no hosts, and it is the one that runs trials"
        )
    return [_host(inventory, name, variables.get(name, {})) for name in names]


def _members(document: Mapping[str, Any], group: str, seen: set[str]) -> set[str]:
    if group in seen:
        return set()
    seen.add(group)
    entry = document.get(group, {})
    found = set(entry.get("hosts", ()))
    for child in entry.get("children", ()):
        found |= _members(document, child, seen)
    return found


def _host(inventory: Path, name: str, variables: Mapping[str, Any]) -> Host:
    def number(key: str, default: float) -> float:
        value = variables.get(key, default)
        try:
            return float(value)
        except (TypeError, ValueError) as error:
            raise InputError(f"--hosts {inventory}: {name}: {key}: {value} is no number") from error

    return Host(
        name,
        int(number("tiering_host_fast_node", 0)),
        int(number("tiering_host_slow_node", 1)),
        number("tiertune_drift_limit", DRIFT_LIMIT),
    )
