"""Control groups for tests, of whichever version this machine has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")


@contextmanager
def memory_group(name: str, limit_bytes: int) -> Iterator[Path]:
    """A group with so much memory. What is put into it has to end by itself."""
    first = (GROUPS / "memory").is_dir()
    group = (GROUPS / "memory" if first else GROUPS) / f"tiertune-test-{name}"
    if not first:
        (GROUPS / "cgroup.subtree_control").write_text("+memory")
    group.mkdir()
    try:
        (group / ("memory.limit_in_bytes" if first else "memory.max")).write_text(str(limit_bytes))
        yield group
    finally:
        group.rmdir()
