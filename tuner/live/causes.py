"""Why a live trial failed, where its own words do not say it: what the host lacked while it ran."""

from __future__ import annotations

import tempfile

from tiertune.tuner.backend import HostUnfit, OutOfMemory
from tiertune.tuner.host.state import HostState
from tiertune.units import format_size
from tiertune.workloads.live import HostPart

LEAST_FREE_BYTES = 64 << 10
"""With less than this left on a trial's disk, nobody knows what of its output is missing."""


def cause(error: Exception, part: HostPart, host: tuple[HostState, HostState], free_bytes: int) -> Exception:
    """The error to be told instead of `error`, or that itself.

    `host` is as it was before and after, `free_bytes` what was left on the disk of the trial's folder.
    """
    if isinstance(error, HostUnfit):
        return error
    if free_bytes < LEAST_FREE_BYTES:
        return HostUnfit(f"{full_disk(tempfile.gettempdir())} ({error})")
    before, after = (state.counters.get("oom_kill", 0) for state in host)
    if after > before:
        killed = f"{after - before} process{'es' if after - before > 1 else ''}"
        return OutOfMemory(
            f"{error}; the kernel killed {killed} for want of memory meanwhile: the workload needs more than"
            f" the footprint of its host part, {format_size(part.footprint)}, or somebody else took memory"
        )
    return error


def full_disk(folder: str) -> str:
    """That the disk of `folder` is full, and what to do."""
    return (
        f"the disk of {folder}, where trials write, is full; free some of it, or set TMPDIR to another folder"
    )
