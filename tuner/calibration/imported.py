"""A tier with the curve of a published CSV file in place of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tiertune.document import Document
from tiertune.files import InputError
from tiertune.machines.definition import Tier
from tiertune.mistakes import sentences_of
from tiertune.tuner.calibration.bandwidth import Peaks
from tiertune.tuner.calibration.curve import Curve, fit_curve
from tiertune.tuner.calibration.published import LEAST_POINTS, Point, rising_part

FAR_FROM_IDLE = 0.25
"""Where the lowest point has more than this of the peak's load, unloaded latency was not measured."""

READS = 0.99
"""From this share of reads on, a point counts as reads alone."""


@dataclass(frozen=True)
class Imported:
    """A tier fitted to a curve, the fit, and how many points lay past saturation and were left out."""

    tier: Tier
    curve: Curve
    peaks: Peaks
    left_out: int


def imported_tier(base: Tier, path: Path, points: Sequence[Point]) -> Imported:
    """`base` with latency, peaks and curve from points of a file. Peaks are the most that the points move.

    Raises `InputError` for points without any of (nearly) reads alone.
    """
    import numpy as np

    kept = rising_part(list(points))
    left_out = len(points) - len(kept)
    if len(kept) < LEAST_POINTS:
        raise InputError(
            f"{path}: {left_out} of {len(points)} points have less bandwidth and more latency than the peak"
            f" of their read_share, which is past saturation; a curve needs {LEAST_POINTS} before it"
        )
    reads = [point for point in kept if point.read_share >= READS]
    if not reads:
        raise InputError(
            f"{path}: no point has a read_share of {READS:g} or more, so that the peak of"
            " reads cannot be told"
        )
    if not any(point.bandwidth_gbps for point in reads):
        raise InputError(f"{path}: no point of reads has a bandwidth_gbps above 0, so that there is no peak")
    peaks = _peaks(base, kept, max(point.bandwidth_gbps for point in reads))
    read = np.array([point.bandwidth_gbps * point.read_share for point in kept])
    write = np.array([point.bandwidth_gbps * (1.0 - point.read_share) for point in kept])
    used = peaks.utilisation(read, write)
    curve = fit_curve(used, np.array([point.latency_ns for point in kept]))
    said = (
        f"fitted to {len(kept)} points of {path.name}: R2 {curve.r_squared:.3f}, residuals"
        f" {curve.typical_residual:.1%} typical and {curve.worst_residual:.1%} worst"
    )
    if left_out:
        said += f"; {left_out} points past saturation left out"
    if (lowest := float(used.min())) > FAR_FROM_IDLE:
        said += (
            f"; not measured below {lowest:.0%} of the peak, where latency is taken to be that of the lowest"
        )
    document: dict[str, Any] = base.model_dump(mode="json", exclude_unset=True)
    document |= {
        "latency_ns": float(f"{curve.latency_ns:.4g}"),
        "read_gbps": float(f"{peaks.read_gbps:.4g}"),
        "curve": [(float(f"{place:.4g}"), float(f"{multiple:.4g}")) for place, multiple in curve.points],
    }
    sources = {**base.sources, "latency_ns": said, "curve": said}
    sources["read_gbps"] = f"the most that points of reads move in {path.name}"
    if document.get("sequential_latency_ns") is not None:
        document["sequential_latency_ns"] = min(document["sequential_latency_ns"], document["latency_ns"])
    if any(point.read_share < READS for point in kept):
        document["write_gbps"] = float(f"{peaks.write_gbps:.4g}")
        sources["write_gbps"] = f"from the most that points with writes move in {path.name}"
    else:
        document["write_gbps"] = float(f"{base.write_gbps * peaks.read_gbps / base.read_gbps:.4g}")
        sources["write_gbps"] = (
            f"{path.name} has reads only: in proportion to reads as before; {sources['write_gbps']}"
        )
    for figure in ("read_gbps", "write_gbps"):
        if (random := document.get(f"random_{figure}")) is not None:
            share = random / getattr(base, figure)
            document[f"random_{figure}"] = float(f"{share * document[figure]:.4g}")
    try:
        tier = Tier.model_validate(document | {"sources": sources})
    except ValidationError as error:
        wrong = sentences_of(error, Tier, str(path), Document(document, {}))
        raise InputError(
            *(text.replace(f"{path}:1: ", f"{path}: the fitted ", 1) for text in wrong)
        ) from error
    return Imported(tier, curve, peaks, left_out)


def _peaks(base: Tier, points: Sequence[Point], read_gbps: float) -> Peaks:
    """Peak of writes that lets each read share reach what it does; the median over the shares."""
    import numpy as np

    most: dict[float, float] = {}
    for point in points:
        if point.read_share < READS:
            most[point.read_share] = max(most.get(point.read_share, 0.0), point.bandwidth_gbps)
    found = []
    for share, total in most.items():
        writes = total * (1.0 - share)
        left = 1.0 if base.duplex else 1.0 - total * share / read_gbps
        if left > 0.0:
            found.append(writes / left)
    write_gbps = float(np.median(found)) if found else read_gbps
    return Peaks(read_gbps, write_gbps, base.duplex, 1.0)
