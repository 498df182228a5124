"""What a connection to a host lives as long as: a lock that the kernel gives up for us, however we end."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class Lease:
    """A lock on a file, held from now until `release` or the death of this process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def release(self) -> None:
        """Ends every connection that was made under this lease. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)
