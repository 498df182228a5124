"""What the test hosts take for their kernel's files: two nodes, the second one without processors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

CPUS = 4
BLOCKS = 8
"""Memory blocks of 128 MiB each: the first half is on node 0."""

_NODE = "devices/system/node"
_CPU = "devices/system/cpu"


def _sys() -> dict[str, str]:
    files = {
        f"{_NODE}/online": "0-1",
        f"{_NODE}/has_memory": "0-1",
        f"{_NODE}/node0/cpulist": f"0-{CPUS // 2 - 1}",
        f"{_NODE}/node1/cpulist": f"{CPUS // 2}-{CPUS - 1}",
        f"{_NODE}/node0/distance": "10 20",
        f"{_NODE}/node1/distance": "20 10",
        f"{_CPU}/online": f"0-{CPUS - 1}",
        f"{_CPU}/intel_pstate/no_turbo": "0",
        f"{_CPU}/cpu0/microcode/version": "0x5003604",
        "devices/system/memory/block_size_bytes": "8000000",
        "devices/virtual/memory_tiering/memory_tier4/nodelist": "0",
        "devices/virtual/memory_tiering/memory_tier22/nodelist": "1",
        "devices/virtual/dmi/id/bios_version": "F12",
        "devices/virtual/dmi/id/product_name": "test host",
        "kernel/mm/transparent_hugepage/enabled": "always [madvise] never",
        "kernel/mm/transparent_hugepage/defrag": "always defer defer+madvise [madvise] never",
        "kernel/mm/numa/demotion_enabled": "false",
    }
    for index, (level, size) in enumerate((("1", "32K"), ("2", "1024K"), ("3", "8192K"))):
        folder = f"{_CPU}/cpu0/cache/index{index}"
        files |= {f"{folder}/level": level, f"{folder}/size": size, f"{folder}/type": "Unified"}
    for cpu in range(CPUS):
        files[f"{_CPU}/cpu{cpu}/cpufreq/scaling_governor"] = "powersave"
        if cpu:
            files[f"{_CPU}/cpu{cpu}/online"] = "1"
    for node in (0, 1):
        files[f"{_NODE}/node{node}/hugepages/hugepages-2048kB/nr_hugepages"] = "0"
        total = BLOCKS // 2 * 131072
        files[f"{_NODE}/node{node}/meminfo"] = (
            f"Node {node} MemTotal: {total} kB\nNode {node} MemFree: {total} kB"
        )
    for block in range(BLOCKS):
        files[f"devices/system/memory/memory{block}/state"] = "online"
        files[f"{_NODE}/node{2 * block // BLOCKS}/memory{block}/state"] = "online"
    return files


SYS = _sys()

PROC_SYS = {
    "kernel/numa_balancing": "1",
    "kernel/perf_event_paranoid": "2",
    "kernel/hostname": "unused",
    "kernel/osrelease": "unused",
    "kernel/random/boot_id": "8d3f1c0e-5f0e-4b7e-9f5e-3f8f0c1d2e3f",
    "kernel/ngroups_max": "65536",
    "vm/swappiness": "60",
    "vm/zone_reclaim_mode": "1",
    "vm/overcommit_memory": "0",
}


def planted(folder: Path, files: Mapping[str, str]) -> None:
    """Writes the files below a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
