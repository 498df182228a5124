"""Pages of which only some are known to be there: stretches, cut where nothing was seen for long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tiertune.workloads.measured import PAGE_BYTES, PROCESS_SHIFT, Area, NothingSeen

if TYPE_CHECKING:
    import numpy as np

    Ints = np.ndarray[Any, np.dtype[np.int64]]

MOST_PAGES = 2**26
"""256 GiB of pages: what is held in memory here while a profile is made."""

MOST_ADDRESS = 2**47
"""Addresses of programs end here on x86-64; above are the kernel's."""

GAP_PAGES = 8192
"""32 MiB without any sample are taken as not there."""

HUGE_PAGES = 512


def spans(pages: Ints) -> Ints:
    """Stretches (rows: first page, page after the last) around `pages`: whole 2 MiB, cut at `GAP_PAGES`.

    `pages` are keys of any processes. Raises `NothingSeen` where that is more than can be held.
    """
    import numpy as np

    seen = np.unique(pages)
    cut = np.flatnonzero(np.diff(seen) > GAP_PAGES)
    first = seen[np.concatenate([[0], cut + 1])] // HUGE_PAGES * HUGE_PAGES
    last = (seen[np.concatenate([cut, [len(seen) - 1]])] // HUGE_PAGES + 1) * HUGE_PAGES
    return np.stack([first, last], axis=1)


def every_page(stretches: Ints) -> Ints:
    """All pages of stretches that do not overlap, sorted. Raises `NothingSeen` where they are too many."""
    import numpy as np

    total = int((stretches[:, 1] - stretches[:, 0]).sum())
    if total > MOST_PAGES:
        held, most = total * PAGE_BYTES / 2**30, MOST_PAGES * PAGE_BYTES >> 30
        raise NothingSeen(f"the addresses span {held:.0f} GiB, the most is {most} GiB")
    return np.concatenate([np.arange(low, high, dtype=np.int64) for low, high in stretches])


def areas_of(stretches: Ints) -> tuple[Area, ...]:
    """The stretches as areas named by their addresses."""
    mask = (1 << PROCESS_SHIFT) - 1
    return tuple(
        Area(
            int(low >> PROCESS_SHIFT),
            int(low & mask),
            int(low & mask) + int(high - low),
            f"{int(low & mask) * PAGE_BYTES:#x}",
        )
        for low, high in stretches
    )
