"""Whether a campaign is running: asked of the kernel's table of locks, so that looking never takes the lock.

A page that tried the lock, as a second campaign would, could keep a campaign that starts just then from
running.
"""

from __future__ import annotations

from pathlib import Path

from tiertune.tuner.journal_lock import lock_file

LOCKS = Path("/proc/locks")


def is_running(journal: Path, locks: Path = LOCKS) -> bool:
    """Whether some process of this host holds the lock of `journal`.

    Lines of the table are `1: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE 0 EOF`. File systems of layers tell
    processes another device than the table does; then the process in the lock file has to be the one.
    """
    try:
        lock = lock_file(journal)
        number, holder = lock.stat().st_ino, lock.read_text(encoding="utf-8").strip()
        lines = locks.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return False
    for line in lines:
        fields = line.split()
        if len(fields) < 6 or fields[1] != "FLOCK":
            continue
        process, inode = fields[4], fields[5].rpartition(":")[2]
        if inode == str(number) and holder == f"process {process}":
            return True
    return False
