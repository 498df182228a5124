"""In the guest: a daemon that is killed, stopped, or in the way of somebody: the workload, and settings."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.host.guest import inside, policies

MIB = inside.MIB
BALANCING = Path("/proc/sys/kernel/numa_balancing")
MONITORS = Path("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds")
NODES = ["--fast", str(inside.FAST), "--slow", str(inside.SLOW), "--fast-bytes", str(policies.CAP_BYTES)]
STATE = ["--state", "/run/tierd"]


class Daemon:
    """Commands of the daemon under test."""

    def __init__(self, binaries: str) -> None:
        self.program = f"{binaries}/tierd"
        self.hotset = f"{binaries}/examples/hotset"

    def managing(self, verb: str, policy: str, sampler: str, *options: str) -> list[str]:
        """A command line that manages memory."""
        chosen = ["--policy", policy, "--sampler", sampler, "--page-bytes", "4096"]
        return [self.program, verb, *chosen, *NODES, *STATE, *options]

    def tried(self, *command: str) -> dict[str, Any]:
        """What a command ends with."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return {"code": done.returncode, "said": done.stderr[-1000:]}


def lives(pid: int) -> bool:
    """Whether a process runs, and is not only waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def killed(daemon: Daemon, before: dict[str, str]) -> None:
    """Killed under a policy that needs settings of the host; then restored, attached to, and stopped."""
    prefix = (*daemon.managing("run", "nbt", "hint-faults,damon"), "--")
    arguments = (daemon.hotset, Path("/run/killed"), policies.SIZE_BYTES, policies.HOT_BYTES)
    hotset = inside.Hotset(*arguments, node=inside.SLOW, prefix=prefix)
    pid = hotset.state["pid"]
    time.sleep(2)
    second = daemon.tried(*daemon.managing("run", "hemem", "written"), "--", "/bin/true")
    hotset.process.send_signal(signal.SIGKILL)
    hotset.process.wait()
    time.sleep(1)
    left = inside.differences(before, inside.settings())
    outlived = lives(pid)
    restored = daemon.tried(daemon.program, "restore", *STATE)
    changed = inside.differences(before, inside.settings())
    inside.emit(
        scenario="killed",
        second=second,
        left=[path for path in left if "damon" not in path],
        monitors_left=str(MONITORS) in left,
        outlived=outlived,
        restored=restored,
        changed=changed,
    )
    stopped(daemon, before, hotset)
    os.kill(pid, signal.SIGKILL)


def stopped(daemon: Daemon, before: dict[str, str], hotset: inside.Hotset) -> None:
    """Attached to a process that runs, and ended by a signal."""
    knobs = Path("/run/hemem.json")
    knobs.write_text(json.dumps({"mmap_filter_size_bytes": 0}))
    pid = hotset.state["pid"]
    options = ("--knobs", str(knobs), "--pid", str(pid), "--report", "/run/attached.json")
    attached = subprocess.Popen(
        daemon.managing("attach", "hemem", "written", *options), stderr=subprocess.PIPE
    )
    hotset.tell(f"hot {policies.FIRST_HOT}")
    inside.waited(lambda: hotset.hot_in_fast() >= policies.ENOUGH, policies.PATIENCE_S)
    moved = hotset.hot_in_fast()
    attached.send_signal(signal.SIGTERM)
    said = attached.communicate(timeout=60)[1].decode()
    inside.emit(
        scenario="attached",
        moved=moved,
        code=attached.returncode,
        said=said[-1000:],
        outlived=lives(pid),
        changed=inside.differences(before, inside.settings()),
    )


def others(daemon: Daemon) -> None:
    """Somebody else uses what the daemon would."""
    for name, setting, value, policy, sampler in (
        ("monitor", MONITORS, "1", "mru", "damon"),
        ("balancing", BALANCING, "2", "nbt", "hint-faults,damon"),
        ("balancing for a policy without hint faults", BALANCING, "2", "mru", "written"),
    ):
        found = setting.read_text()
        setting.write_text(value)
        before = inside.settings()
        refused = daemon.tried(*daemon.managing("run", policy, sampler), "--", "/bin/true")
        changed = inside.differences(before, inside.settings())
        inside.emit(scenario="others", name=name, refused=refused, changed=changed)
        setting.write_text(found)


def main(binaries: str) -> None:
    """All of them."""
    daemon = Daemon(binaries)
    before = inside.settings()
    killed(daemon, before)
    others(daemon)


if __name__ == "__main__":
    main(*sys.argv[1:])
