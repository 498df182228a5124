"""Whose a container is: a process of this boot. When it is gone, what it left is nobody's."""

from __future__ import annotations

import os
from pathlib import Path

LABEL = "io.tiertune.owner"
BOOT = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """The boot of this machine's kernel."""
    return BOOT.read_text(encoding="utf-8").strip()


def owner() -> str:
    """This process, so that no later one can be taken for it."""
    return "/".join([boot_id(), _namespace(), str(os.getpid()), _started(os.getpid())])


def lives(name: str) -> bool:
    """Whether the process that `owner` named so still runs, or might: one in a container of its own, with the
    engine's socket in it, cannot be seen from here."""
    boot, *process = name.split("/")
    if boot != boot_id() or len(process) != 3:
        return False
    namespace, pid, started = process
    if namespace != _namespace():
        return True
    return pid.isdecimal() and started != "" and _started(int(pid)) == started


def _namespace() -> str:
    """In which process numbers are counted."""
    return str(Path("/proc/self/ns/pid").readlink()).removeprefix("pid:").strip("[]")


def _started(pid: int) -> str:
    """When a process started, in ticks since boot; empty where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    state, *rest = text.rpartition(")")[2].split()
    return "" if state in "ZX" else rest[18]
