"""What a real kernel makes of the playbooks' own files, in the guest: `inside.py MODULES`.

Applies, applies again and restores what the role `tiering_host` sets, brings a CXL device's memory online and
takes it back. Runs on Debian's own Python, with nothing but its standard library.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

PLAYBOOKS = Path(__file__).resolve().parents[3] / "playbooks"
SCRIPTS = PLAYBOOKS / "roles/tiering_host/files"
RESULTS = Path("/run/exchange/results")
RECORD, REGIONS = "/run/found/found.json", "/run/found/regions"

MM, NODES, MEMORY = "/sys/kernel/mm", "/sys/devices/system/node", "/sys/devices/system/memory"
SETTINGS = {
    f"{MM}/transparent_hugepage/enabled": "never",
    f"{MM}/transparent_hugepage/defrag": "defer",
    f"{MM}/numa/demotion_enabled": "1",
    "/proc/sys/kernel/numa_balancing": "2",
    "/proc/sys/kernel/perf_event_paranoid": "0",
    "/proc/sys/vm/zone_reclaim_mode": "1",
    "/proc/sys/vm/swappiness": "10",
    f"{NODES}/node0/hugepages/hugepages-2048kB/nr_hugepages": "16",
    "/sys/devices/system/cpu/cpu1/online": "0",
}
FINIT_MODULE = 313
BLOCKS = 2
"""Blocks of node 1 that go offline."""
NONSENSE = {"path": "/proc/sys/kernel/numa_balancing", "value": "77"}


def loaded(name: str) -> ModuleType:
    """A module of the playbooks."""
    path = PLAYBOOKS / f"{name}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


settings, facts = loaded("library/tiering_settings"), loaded("library/tiering_facts")


def emit(**result: Any) -> None:
    """A line for the test."""
    with RESULTS.open("a") as file:
        file.write(json.dumps(result) + "\n")


def provision() -> None:
    """Settings of a host with two nodes: applied, applied again, refused, restored."""
    found = facts.facts()
    entries: list[dict[str, Any]] = [{"path": path, "value": value} for path, value in SETTINGS.items()]
    blocks = [f"{MEMORY}/memory{block}/state" for block in reversed(found["nodes"][1]["blocks"])]
    entries.append({"paths": blocks, "count": BLOCKS, "value": "offline"})

    def values() -> dict[str, str]:
        return {path: settings.KernelFile(path).read() for path in (*SETTINGS, *blocks)}

    before = values()
    changed = [len(settings.apply(entries, RECORD, check)[0]) for check in (True, False, False)]
    during = values()
    refused = ""
    try:
        settings.apply([NONSENSE], RECORD, False)
    except settings.CannotSet as error:
        refused = str(error)
    settings.restore(RECORD, False)
    emit(
        scenario="provision",
        facts=found,
        wanted=SETTINGS,
        blocks=blocks,
        before=before,
        changed=changed,
        during=during,
        refused=refused,
        after=values(),
        record=Path(RECORD).exists(),
    )


def insert(folder: Path) -> None:
    """Kernel modules, in whatever order they need one another."""
    left = sorted(folder.glob("*.ko"))
    while left:
        rest = [path for path in left if not inserted(path)]
        if len(rest) == len(left):
            break
        left = rest
    emit(scenario="modules", left=[path.name for path in left])


def inserted(path: Path) -> bool:
    """Whether a kernel module is in; a machine without kmod has no insmod."""
    with path.open("rb") as file:
        return bool(ctypes.CDLL(None).syscall(FINIT_MODULE, file.fileno(), b"", 0) == 0)


def script(name: str) -> dict[str, Any]:
    """A script of the role, and the nodes after it."""
    ran = subprocess.run(["sh", str(SCRIPTS / name), REGIONS], capture_output=True, text=True, timeout=120)
    record = Path(REGIONS).read_text() if Path(REGIONS).exists() else ""
    told = facts.facts()
    nodes = {node["number"]: node["total_bytes"] for node in told["nodes"]}
    said = {"code": ran.returncode, "output": ran.stdout, "errors": ran.stderr[-2000:]}
    return {**said, "record": record, "nodes": nodes, "tiers": told["tiers"], "cxl": told["cxl_memory"]}


def main() -> None:
    """Every scenario; one that breaks says so in its line."""
    provision()
    insert(Path(sys.argv[1]))
    before = facts.facts()
    emit(scenario="before", nodes={node["number"]: node["total_bytes"] for node in before["nodes"]})
    for step, name in (("online", "online"), ("again", "online"), ("offline", "offline")):
        emit(scenario=step, **script(f"cxl-{name}.sh"))


if __name__ == "__main__":
    main()
