"""Measuring another host for a machine file: its facts by one play, all measurements by a second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tiertune.files import InputError
from tiertune.tuner.backend import HostUnfit
from tiertune.tuner.calibration.measuring import (
    HostCpu,
    HostToMeasure,
    Measurement,
    Node,
    Sample,
    samples_in,
)
from tiertune.tuner.fleet.inventory import hosts_of
from tiertune.tuner.fleet.play import Play, Played


def remote(inventory: Path, name: str) -> HostToMeasure:
    """The host of this name, looked at. Raises InputError where the inventory has none, HostUnfit where it
    cannot be reached."""
    from tiertune.nearest import nearest

    names = [host.name for host in hosts_of(inventory)]
    if name not in names:
        raise InputError(
            f"--hosts {inventory}: there is no host {name}; did you mean {nearest(name, names)}?"
        )
    played = Play("facts.yml", inventory, "tiering_facts", name).run()
    facts = _checked(played, name)["facts"]
    nodes = [
        Node(node["number"], node["total_bytes"], tuple(node["cpus"]))
        for node in facts["nodes"]
        if node["total_bytes"]
    ]
    told = {key: facts[key] for key in ("kernel", "firmware", "product", "microcode", "memory_speed")}
    host = {"name": name, "system": f"Linux {facts['kernel']}", "processor": facts["processor"], **told}
    return HostToMeasure(_cpu(name, facts), nodes, partial(_measured, inventory, name), {"host": host})


def _cpu(name: str, facts: Mapping[str, Any]) -> HostCpu:
    cpu = facts["cpu"]
    sizes = [size for _, size in sorted(cpu["cache_bytes"].items(), key=lambda entry: int(entry[0]))]
    for what, value in (("the size of its caches", sizes), ("its clock", cpu["clock_ghz"])):
        if not value:
            raise HostUnfit(f"{name} does not tell {what}, which a machine file needs")
    inner = sizes[-2] if len(sizes) > 1 else 0
    return HostCpu(facts["processor"], cpu["cores"], cpu["clock_ghz"], sizes[-1], inner)


def _measured(inventory: Path, name: str, wanted: Sequence[Measurement]) -> list[list[Sample]]:
    entries = [
        {"arguments": entry.arguments, "cpus": ",".join(str(cpu) for cpu in entry.processors)}
        for entry in wanted
    ]
    played = Play(
        "calibrate.yml", inventory, "tiertune_trial", name, {"calibrate_measurements": entries}
    ).run()
    _checked(played, name)
    return [samples_in(item["output"]) for item in played.items[name]]


def _checked(played: Played, name: str) -> dict[str, Any]:
    why = played.unreachable.get(name) or played.failed.get(name)
    if why is not None or name not in played.results:
        raise HostUnfit(f"{name}: {why or played.message or 'Ansible did not say what came of it'}")
    return played.results[name]
