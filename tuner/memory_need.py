"""Whether this machine has the memory that runs will take, asked before the first of them starts."""

from __future__ import annotations

from tiertune.tuner.backend import HostUnfit
from tiertune.tuner.report.numbers import quantity

BYTES_PER_PAGE = 40
"""What the engine takes for a page of a run; `make bench` holds it to that."""
SMALLER = (
    "smaller: --page-size 2MiB (page_size in campaigns and sweeps), `workers: 1` or --jobs 1, or a workload"
    " of a smaller footprint"
)


def check_memory(footprint_bytes: int, page_bytes: int, runs: int = 1) -> None:
    """Raises `HostUnfit` where `runs` at a time take more than is free; without that, the kernel would end
    the process without a word."""
    import psutil

    pages = -(-footprint_bytes // page_bytes)
    needed, free = pages * BYTES_PER_PAGE * runs, psutil.virtual_memory().available
    if needed > free:
        together = f"{runs} runs at a time" if runs > 1 else "one run"
        need, there, page = (quantity(size, "bytes") for size in (needed, free, page_bytes))
        raise HostUnfit(
            f"{together} of {pages:,} pages of {page}: about {need} of memory are needed, {there} are free;"
            f" {SMALLER}"
        )
