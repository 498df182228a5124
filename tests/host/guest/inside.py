"""What scenarios do in the guest: a process with a known hot set, where its pages are, and settings as found.

Runs on Debian's own Python, with nothing but its standard library.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

PAGE_BYTES = 4096
MIB = 2**20
MOVE_PAGES = 279
FAST, SLOW = 0, 1
FRAME_MASK = (1 << 55) - 1
RESULTS = Path("/run/exchange/results")

SETTINGS = ["/proc/sys/vm", "/proc/sys/kernel", "/sys/kernel/mm", "/sys/kernel/debug/sched"]
# What changes by itself, or is no setting.
COUNTS = (
    "/proc/sys/kernel/random/",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/kernel/pty/nr",
    "/proc/sys/vm/stat_refresh",
    "/sys/kernel/debug/sched/debug",
    "/sys/kernel/debug/sched/domains",
    "/sys/kernel/mm/lru_gen",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/full_scans",
    "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_collapsed",
)

_libc = ctypes.CDLL(None, use_errno=True)


def emit(**result: Any) -> None:
    """Adds a line to what the test gets, with the time since the boot."""
    uptime_s = float(Path("/proc/uptime").read_text().split()[0])
    with RESULTS.open("a") as file:
        file.write(json.dumps({**result, "uptime_s": uptime_s}) + "\n")


def nodes_of(pid: int, address: int, size_bytes: int) -> list[int]:
    """Node of each page of a range, as the kernel answers `move_pages`; negative where there is none."""
    count = size_bytes // PAGE_BYTES
    pages = (ctypes.c_void_p * count)(*range(address, address + size_bytes, PAGE_BYTES))
    status = (ctypes.c_int * count)()
    done = _libc.syscall(MOVE_PAGES, pid, ctypes.c_ulong(count), pages, None, status, 0)
    if done != 0:
        raise OSError(ctypes.get_errno(), f"pages of process {pid} cannot be found")
    return list(status)


def share_in_fast(pid: int, address: int, size_bytes: int) -> float:
    """Share of a range that is in the fast node."""
    nodes = nodes_of(pid, address, size_bytes)
    return nodes.count(FAST) / len(nodes)


def slow_frames() -> tuple[int, int]:
    """The page frames of the slow node, which lies behind the fast one: first, and the one after the last."""
    node, frames = -1, 0
    for line in Path("/proc/zoneinfo").read_text().splitlines():
        words = line.split()
        if words[0] == "Node":
            node, frames = int(words[1].rstrip(",")), 0
        elif words[0] == "present":
            frames = int(words[1])
        elif words[0] == "start_pfn:" and node == SLOW and frames:
            return int(words[1]), int(words[1]) + frames
    raise OSError("the slow node has no memory")


def frames(pid: int) -> set[int]:
    """Page frames of the private memory of a process; none when it has ended."""
    found: set[int] = set()
    try:
        maps = Path(f"/proc/{pid}/maps").read_text()
        with Path(f"/proc/{pid}/pagemap").open("rb", buffering=0) as pagemap:
            for line in maps.splitlines():
                words = line.split()
                # Readable, writable, private, and of no file.
                if not (words[1].startswith("rw") and words[1][3] == "p" and words[4] == "0"):
                    continue
                start, end = (int(word, 16) // PAGE_BYTES for word in words[0].split("-"))
                pagemap.seek(start * 8)
                entries = array.array("Q")
                data = pagemap.read((end - start) * 8)
                entries.frombytes(data[: len(data) // 8 * 8])
                found.update(entry & FRAME_MASK for entry in entries if entry >> 63)
    except (FileNotFoundError, ProcessLookupError):
        return set()
    return found


def bytes_in_fast(pids: Iterable[int]) -> int:
    """What processes have in the fast node together; what they share counts once."""
    border, _ = slow_frames()
    together: set[int] = set().union(*(frames(pid) for pid in pids))
    return sum(frame < border for frame in together) * PAGE_BYTES


def settings() -> dict[str, str]:
    """Every setting that can be read, by its path."""
    found = {}
    for folder in SETTINGS:
        for path, _, names in os.walk(folder):
            for name in names:
                file = f"{path}/{name}"
                if file.startswith(COUNTS) or "/stats/" in file:
                    continue
                try:
                    found[file] = Path(file).read_text(errors="replace")
                except OSError:
                    continue
    return found


def differences(before: dict[str, str], after: dict[str, str]) -> dict[str, list[str | None]]:
    """Settings that are not as they were: before and after."""
    paths = sorted(before.keys() | after.keys())
    return {
        path: [before.get(path), after.get(path)] for path in paths if before.get(path) != after.get(path)
    }


def status(pid: int) -> dict[str, str]:
    """What the kernel says of a process, by name."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def vmstat(*names: str) -> dict[str, int]:
    """Counters of the kernel."""
    pairs = (line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    return {name: int(value) for name, value in pairs if name in names}


def waited(true: Callable[[], bool], seconds: float, pause_s: float = 0.25) -> bool:
    """Whether it became true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(pause_s)
    return true()


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process does nothing meanwhile, and has ended the system call that it was in."""
    try:
        os.kill(pid, signal.SIGSTOP)
        waited(lambda: Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "TZ", 10, 0.01)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


class Hotset:
    """A process that touches a known range; `prefix` is a command that starts it, such as a daemon's."""

    def __init__(
        self,
        program: str,
        folder: Path,
        size_bytes: int,
        hot_bytes: int,
        node: int | None = None,
        prefix: tuple[str, ...] = (),
    ) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        os.mkfifo(folder / "control")
        command = [*prefix, program, str(folder), str(size_bytes), str(hot_bytes)]
        output = (folder / "output").open("wb")
        self.process = subprocess.Popen(
            [*command, *([str(node)] if node is not None else [])], stdout=output, stderr=subprocess.STDOUT
        )
        if not waited(lambda: (folder / "state").exists() or self.process.poll() is not None, 60, 0.05):
            raise TimeoutError(f"{command} did not begin")
        if not (folder / "state").exists():
            raise RuntimeError(f"{command} ended: {self.said()}")

    def said(self) -> str:
        """The end of what it and the command before it wrote."""
        return (self.folder / "output").read_text(errors="replace")[-2000:]

    @property
    def state(self) -> dict[str, Any]:
        """What it says of itself."""
        loaded: dict[str, Any] = json.loads((self.folder / "state").read_text())
        return loaded

    def tell(self, line: str) -> dict[str, Any]:
        """Has it do something; what it is then."""
        done = self.state["done"]
        with (self.folder / "control").open("w") as pipe:
            pipe.write(f"{line}\n")
        if line.startswith("exit"):
            return {}
        if not waited(lambda: self.state["done"] > done, 60, 0.02):
            raise TimeoutError(f"'{line}' is not done: {self.said()}")
        return self.state

    def hot_in_fast(self) -> float:
        """Share of the hot pages that are in the fast node."""
        state = self.state
        return share_in_fast(state["pid"], state["address"] + state["hot"], state["hot_bytes"])

    def pids(self) -> Iterator[int]:
        """It and its children."""
        state = self.state
        yield state["pid"]
        yield from state["children"]
