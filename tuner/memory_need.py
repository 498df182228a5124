"""Whether this machine has the memory that runs will take, asked before the first of them starts."""

from __future__ import annotations

from tiertune.memory_limit import free_bytes, too_little
from tiertune.tuner.backend import HostUnfit
from tiertune.units import rounded_size

BYTES_PER_PAGE = 40
"""What the engine takes for a page of a run; `make bench` holds it to that."""
CAMPAIGN_BYTES = 272 * 2**20
"""What a campaign takes beside its runs: the optimiser, the tracking and the report."""
SMALLER = (
    "smaller: --page-size 2MiB (page_size in campaigns and sweeps), `workers: 1` or --jobs 1, or a workload"
    " of a smaller footprint"
)


def check_campaign_memory() -> None:
    """Raises `HostUnfit` where a campaign would be ended for want of memory after its first trials."""
    free = free_bytes()
    if free < CAMPAIGN_BYTES:
        need, there = (rounded_size(size) for size in (CAMPAIGN_BYTES, free))
        raise HostUnfit(
            f"a campaign: about {need} of memory are needed beside its runs, {there} are free; give this"
            " machine or container more, or end what else runs; `tiertune doctor` says how much is free"
        )


def check_memory(footprint_bytes: int, page_bytes: int, runs: int = 1) -> None:
    """Raises `HostUnfit` where `runs` at a time take more than is free; without that, the kernel would end
    the process without a word."""
    pages = -(-footprint_bytes // page_bytes)
    needed, free = pages * BYTES_PER_PAGE * runs, free_bytes()
    if needed > free:
        together = f"{runs} runs at a time" if runs > 1 else "one run"
        what = f"{together} of {pages:,} pages of {rounded_size(page_bytes)}"
        raise HostUnfit(too_little(what, needed, free, SMALLER))
