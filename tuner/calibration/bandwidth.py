"""Peak bandwidths of reads and of writes from streams that write a share of the lines they read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

BEYOND_READS = 1.15
"""Where reads and writes together move so many times what reads alone do, reads alone do not fill the bus."""


@dataclass(frozen=True)
class Peaks:
    """Peaks in 1e9 bytes/s, and whether reads and writes have separate channels; see the engine's tiers."""

    read_gbps: float
    write_gbps: float
    duplex: bool
    r_squared: float
    reads_fill: float = 1.0
    """What reads alone reach of the peak: less than 1 where cores keep too few lines in flight for it."""

    def utilisation(self, read_gbps: Numbers, write_gbps: Numbers) -> Numbers:
        """Share of the peak in use, as the engine computes it."""
        import numpy as np

        reads, writes = np.asarray(read_gbps) / self.read_gbps, np.asarray(write_gbps) / self.write_gbps
        return np.maximum(reads, writes) if self.duplex else reads + writes


def fit_peaks(read_gbps: Numbers, write_gbps: Numbers, duplex: bool) -> Peaks:
    """Peaks from samples at full load, alike in length, some of them without writes and some with.

    On one bus read / R + write / W = 1; divided by what is read, with s = write / read, 1 / read = 1/R + s/W
    is a line. Where more is moved with writes than by reads alone, cores limit the reads, not the bus: both
    peaks are then the most that was moved, a lower bound. Separate channels have the most that each moved.
    Raises `ValueError` where there are no samples of one kind.
    """
    import numpy as np

    reads, writes = np.asarray(read_gbps, dtype=float), np.asarray(write_gbps, dtype=float)
    only_reads = writes <= 0.01 * reads
    if not only_reads.any() or only_reads.all():
        raise ValueError("peaks need samples with writes and samples without")
    alone = float(np.median(reads[only_reads]))
    share, slowness = writes / reads, 1.0 / reads
    if duplex:
        return Peaks(alone, float(np.median(writes[writes >= 0.9 * np.max(writes)])), True, 1.0)
    most = max(
        float(np.median((reads + writes)[np.round(share, 2) == kind])) for kind in set(np.round(share, 2))
    )
    if most > BEYOND_READS * alone:
        return Peaks(most, most, False, 1.0, alone / most)
    slope, intercept = np.polyfit(share, slowness, 1)
    fitted = intercept + slope * share
    spread = float(np.sum((slowness - slowness.mean()) ** 2))
    r_squared = 1.0 - float(np.sum((slowness - fitted) ** 2)) / spread if spread > 0 else 1.0
    return Peaks(float(1.0 / intercept), float(1.0 / max(slope, intercept)), False, r_squared)
