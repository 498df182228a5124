"""How much memory this process can still take: a container or a unit has less than its machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tiertune.units import rounded_size


class TooLittleMemory(MemoryError):
    """What was asked for would take more memory than is free, which was found out before it began; a
    sentence."""


@dataclass(frozen=True)
class _Kind:
    """A version of control groups: its file system in mountinfo, and the names of its files."""

    controller: str
    limit: str
    usage: str
    cached: tuple[str, ...]


FIRST = _Kind(
    "memory", "memory.limit_in_bytes", "memory.usage_in_bytes", ("total_inactive_file", "total_active_file")
)
SECOND = _Kind("", "memory.max", "memory.current", ("inactive_file", "active_file"))


def too_little(what: str, needed_bytes: int, free_bytes: int, remedy: str) -> str:
    """The sentence that refuses `what`, with both figures."""
    return (
        f"{what}: about {rounded_size(needed_bytes)} of memory are needed,"
        f" {rounded_size(free_bytes)} are free; {remedy}"
    )


def free_bytes(root: Path = Path("/")) -> int:
    """What the machine has free or, where control groups leave less, what they leave; `root` is where /proc
    and /sys are.
    """
    import psutil

    return min([psutil.virtual_memory().available, *_left_by_groups(root)])


def _left_by_groups(root: Path) -> Iterator[int]:
    """What each group with a limit that the process is in leaves, its own and those above it."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        kind = SECOND if not controllers else FIRST if FIRST.controller in controllers.split(",") else None
        mounted = None if kind is None else _mounted(root, kind)
        if kind is None or mounted is None:
            continue
        top, shown = mounted
        # A container may see its own group only, and as the top one.
        inside = Path(path).relative_to(shown) if Path(path).is_relative_to(shown) else Path()
        group = top / inside
        for folder in (group, *group.parents):
            if not folder.is_relative_to(top):
                break
            left = _left(folder, kind)
            if left is not None:
                yield left


def _mounted(root: Path, kind: _Kind) -> tuple[Path, Path] | None:
    """Where the groups are mounted, and which of them is seen there."""
    for line in _text(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        shown, place = before.split()[3:5]
        system, _, options = after.split(maxsplit=2)
        first = system == "cgroup" and kind.controller in options.split(",")
        if (system == "cgroup2") if kind is SECOND else first:
            return root / place.lstrip("/"), Path(shown)
    return None


def _left(group: Path, kind: _Kind) -> int | None:
    """The limit less what is used and cannot be dropped; None without a limit."""
    try:
        limit, used = (int(_text(group / name)) for name in (kind.limit, kind.usage))
    except ValueError:
        return None  # "max", or a kernel without the controller
    counts = dict(line.split() for line in _text(group / "memory.stat").splitlines())
    cached = sum(int(counts.get(name, 0)) for name in kind.cached)
    return max(0, limit - max(0, used - cached))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
