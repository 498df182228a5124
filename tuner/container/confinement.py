"""What a container of a trial may do and have, and whether it turned out so."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tiertune.tuner.live.fitness import Nodes
from tiertune.workloads.live import ContainerPart, HostPart

FOLDER = "/tiertune"
"""Inside: a volume with the trial's files, and with tierd where the image has none. The rest is read-only."""
STATE = "/run/tiertune"
"""Of the host, in every container whose tierd moves pages: its lock is what makes it the only one."""
ROOT = "0:0"

NO_RIGHTS: Mapping[str, int] = {}
RIGHTS: Mapping[str, int] = {
    "DAC_OVERRIDE": 1,
    "KILL": 5,
    "SYS_PTRACE": 19,
    "SYS_ADMIN": 21,
    "SYS_NICE": 23,
}
"""Capabilities that tierd keeps of root's, by their numbers; it says itself what each is for. PERFMON is not
among them: engines before 23 do not know it, and the kernel takes SYS_ADMIN for it."""

# SYS_ADMIN, without which frame numbers are hidden, would open these doors; tierd goes through none.
_REFUSED = (
    *("mount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "fsmount", "fsconfig", "fspick"),
    *("mount_setattr", "setns", "unshare", "chroot", "open_by_handle_at", "name_to_handle_at"),
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "bpf"),
    *("swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "syslog", "sethostname", "setdomainname"),
    *("settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "stime", "iopl", "ioperm", "vhangup"),
    *("add_key", "request_key", "keyctl", "fanotify_init", "lookup_dcookie", "nfsservctl", "personality"),
)
_NEW_NAMESPACES = (1 << 7, 1 << 17, 1 << 25, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30)
_EPERM, _ENOSYS = 1, 38


@dataclass(frozen=True)
class Limits:
    """What a container may have; `nodes` in rising order, `cpus` and `processors` None for all."""

    memory_bytes: int
    nodes: tuple[int, ...]
    pids: int
    cpus: float | None = None
    processors: str | None = None

    def document(self) -> dict[str, Any]:
        """Plain data, as it is stored with a trial."""
        return {
            "memory_bytes": self.memory_bytes,
            "nodes": listed(self.nodes),
            "pids": self.pids,
            "cpus": self.cpus,
            "processors": self.processors,
        }


def limits_of(part: HostPart, nodes: Nodes) -> Limits:
    """Those of a workload's container on these nodes."""
    given = part.container or ContainerPart()
    numbers = tuple(sorted({nodes.fast, nodes.slow}))
    return Limits(part.memory_bytes, numbers, given.pids, given.cpus, given.processors)


def create_options(limits: Limits, tiering: bool) -> dict[str, Any]:
    """What the SDK's `containers.create` is told. A container that moves no pages has no rights at all."""
    options: dict[str, Any] = {
        "user": ROOT,
        "working_dir": FOLDER,
        "read_only": True,
        "network_mode": "none",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "init": True,
        "tmpfs": {"/tmp": "rw,noexec,nosuid,nodev,size=64m"},
        "mem_limit": limits.memory_bytes,
        # With swap it would be another measurement.
        "memswap_limit": limits.memory_bytes,
        "pids_limit": limits.pids,
        "cpuset_mems": listed(limits.nodes),
    }
    if limits.cpus is not None:
        options["nano_cpus"] = round(limits.cpus * 1e9)
    if limits.processors is not None:
        options["cpuset_cpus"] = limits.processors
    if tiering:
        options["cap_add"] = list(RIGHTS)
        options["security_opt"].append(f"seccomp={json.dumps(filter_of_calls())}")
        options["volumes"] = {STATE: {"bind": STATE, "mode": "rw"}}
    return options


def filter_of_calls() -> dict[str, Any]:
    """The seccomp profile of tierd: Docker's own refuses move_pages and userfaultfd, its trade; refused
    instead is whatever leads out of the container."""
    rules = [{"names": list(_REFUSED), "action": "SCMP_ACT_ERRNO", "errnoRet": _EPERM}]
    # Flags of clone3 are out of a filter's sight; without it, libraries take clone.
    rules.append({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS})
    for flag in _NEW_NAMESPACES:
        told = {"index": 0, "value": flag, "valueTwo": flag, "op": "SCMP_CMP_MASKED_EQ"}
        rules.append({"names": ["clone"], "action": "SCMP_ACT_ERRNO", "errnoRet": _EPERM, "args": [told]})
    return {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": rules}


def departures(limits: Limits, tiering: bool, inside: Mapping[str, Any], boot: str) -> Iterator[str]:
    """Each limit that is not as it was asked for, in words, from what `tierd limits` saw inside."""
    rights = sum(1 << number for number in (RIGHTS if tiering else NO_RIGHTS).values())
    wanted: dict[str, Any] = {
        # Counted in pages.
        "memory_bytes": limits.memory_bytes // 4096 * 4096,
        "nodes": list(limits.nodes),
        "pids": limits.pids,
        "capabilities": rights,
        "no_new_privileges": True,
        "seccomp": True,
        "read_only": True,
        "interfaces": ["lo"],
        "boot": boot,
    }
    if limits.cpus is not None:
        wanted["cpus"] = limits.cpus
    if limits.processors is not None:
        wanted["processors"] = numbers_of(limits.processors)
    found = dict(inside)
    for name in ("nodes", "processors"):
        found[name] = numbers_of(str(found.get(name) or ""))
    # A kernel has tunnels of its own in every network, which lead nowhere.
    found["interfaces"] = [name for name in found.get("interfaces") or () if name not in _TUNNELS]
    for name, value in wanted.items():
        if not _equal(value, found.get(name)):
            if name == "boot":
                yield "the Docker Engine runs on another machine than tiertune, which looks at this one"
            else:
                yield f"inside the container {name} is {found.get(name)!r} and not {value!r}"


_TUNNELS = frozenset(
    ("sit0", "tunl0", "ip6tnl0", "gre0", "gretap0", "erspan0", "ip_vti0", "ip6_vti0", "ip6gre0")
)


def listed(numbers: tuple[int, ...]) -> str:
    """Numbers as the kernel reads them, such as 0,2."""
    return ",".join(map(str, numbers))


def numbers_of(text: str) -> list[int]:
    """Numbers of a list such as 0-3,8."""
    found: list[int] = []
    for piece in filter(None, text.split(",")):
        first, _, last = piece.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


def _equal(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, int | float):
        # A quota has whole microseconds of a period of 100 ms.
        return abs(wanted - found) <= 1e-5
    return bool(wanted == found)
