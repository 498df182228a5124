#!/usr/bin/python
"""What of a host decides the results of tiering: kernel, firmware, nodes, tiers, memory."""

from __future__ import annotations

DOCUMENTATION = """
module: tiering_facts
short_description: Kernel, firmware, microcode, memory nodes, tiers and settings of a host
description:
  - Reads and changes nothing. What a host does not tell is an empty text or an empty list.
options: {}
"""

import contextlib
import glob
import os
import re
import subprocess

SYS = "/sys/devices"


def read(path):
    """The text of a kernel file, empty where it is not told."""
    with contextlib.suppress(OSError), open(path) as file:
        return file.read().strip()
    return ""


def numbers(text):
    """`0-3,8` as Linux writes lists of nodes or processors."""
    found = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def nodes():
    """The memory nodes, with what they hold and how far they are."""
    found = []
    for folder in sorted(
        glob.glob(SYS + "/system/node/node[0-9]*"), key=lambda path: int(path.rsplit("node", 1)[1])
    ):
        meminfo = read(folder + "/meminfo")
        total = re.search(r"MemTotal:\s+(\d+) kB", meminfo)
        free = re.search(r"MemFree:\s+(\d+) kB", meminfo)
        found.append(
            {
                "number": int(folder.rsplit("node", 1)[1]),
                "total_bytes": int(total.group(1)) * 1024 if total else 0,
                "free_bytes": int(free.group(1)) * 1024 if free else 0,
                "cpus": numbers(read(folder + "/cpulist")),
                "blocks": sorted(
                    int(path.rsplit("memory", 1)[1]) for path in glob.glob(folder + "/memory[0-9]*")
                ),
                "distances": [int(word) for word in read(folder + "/distance").split()],
                "access": {
                    os.path.basename(path): read(path)
                    for path in sorted(glob.glob(folder + "/access0/initiators/*_*"))
                },
            }
        )
    return found


def tiers():
    """Nodes of each of the kernel's memory tiers, fastest first (a lower number is faster)."""
    folders = glob.glob(SYS + "/virtual/memory_tiering/memory_tier[0-9]*")
    ordered = sorted(folders, key=lambda path: int(path.rsplit("memory_tier", 1)[1]))
    return [numbers(read(folder + "/nodelist")) for folder in ordered]


def memory_speed():
    """What the firmware says of the memory modules: a sorted list such as `16x 4800 MT/s`."""
    try:
        said = subprocess.run(
            ["dmidecode", "--type", "17"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ).stdout
    except OSError:
        return []
    speeds = re.findall(r"^\s+Configured Memory Speed: (\d+ MT/s)", said, re.MULTILINE)
    return [f"{speeds.count(speed)}x {speed}" for speed in sorted(set(speeds))]


def processor():
    """Model name of the first processor."""
    found = re.search(r"^model name\s*: (.*)$", read("/proc/cpuinfo"), re.MULTILINE)
    return found.group(1) if found else ""


def cache_bytes(index):
    """Size of a cache that holds data; 0 for another or where it is not told."""
    size = read(index + "/size")
    if not size or read(index + "/type") == "Instruction":
        return 0
    return int(size.rstrip("KM")) * (1 << 20 if size.endswith("M") else 1 << 10)


def of_socket(folder, level):
    """Sizes of the caches of this level in the first socket, by the processors that share each."""
    package = "/topology/physical_package_id"
    found = {}
    for processor in glob.glob(folder + "/cpu[0-9]*"):
        if read(processor + package) != read(folder + "/cpu0" + package):
            continue
        for index in glob.glob(processor + "/cache/index*"):
            if read(index + "/level") == level and cache_bytes(index):
                found[read(index + "/shared_cpu_list") or processor] = cache_bytes(index)
    return found


def cpu():
    """Processors in use, their clock, and the caches of the first by level; 0 and empty where not told.

    Of the last level those of the socket are counted together: processors made of parts have one in each.
    """
    folder = SYS + "/system/cpu"
    clock = read(folder + "/cpu0/cpufreq/cpuinfo_max_freq")
    megahertz = re.search(r"^cpu MHz\s*: ([0-9.]+)$", read("/proc/cpuinfo"), re.MULTILINE)
    caches = {}
    for index in sorted(glob.glob(folder + "/cpu0/cache/index*")):
        if cache_bytes(index):
            caches[read(index + "/level")] = cache_bytes(index)
    if caches:
        last = max(caches, key=int)
        caches[last] = sum(of_socket(folder, last).values())
    ghz = int(clock) / 1e6 if clock else float(megahertz.group(1)) / 1e3 if megahertz else 0.0
    cores = len(numbers(read(folder + "/online")))
    return {"cores": cores, "clock_ghz": round(ghz, 2), "cache_bytes": caches}


def facts():
    """Everything, as plain data."""
    dmi = SYS + "/virtual/dmi/id/"
    return {
        "kernel": os.uname().release,
        "command_line": read("/proc/cmdline"),
        "firmware": " ".join(filter(None, (read(dmi + "bios_vendor"), read(dmi + "bios_version")))),
        "product": read(dmi + "product_name"),
        "processor": processor(),
        "cpu": cpu(),
        "microcode": read(SYS + "/system/cpu/cpu0/microcode/version"),
        "memory_speed": memory_speed(),
        "nodes": nodes(),
        "tiers": tiers(),
        "cxl_memory": sorted(os.path.basename(path) for path in glob.glob("/sys/bus/cxl/devices/mem*")),
        "memory_block_bytes": int(read(SYS + "/system/memory/block_size_bytes") or "0", 16),
        "systemd": os.path.isdir("/run/systemd/system"),
        "boot": read("/proc/sys/kernel/random/boot_id"),
    }


def main():
    """What Ansible runs."""
    from ansible.module_utils.basic import AnsibleModule

    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    module.exit_json(changed=False, facts=facts())


if __name__ == "__main__":
    main()
