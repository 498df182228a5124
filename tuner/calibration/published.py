"""Published bandwidth-latency curves: CSV files with `bandwidth_gbps,latency_ns` and perhaps `read_share`."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

from tiertune.files import InputError
from tiertune.nearest import nearest

REQUIRED = ("bandwidth_gbps", "latency_ns")
COLUMNS = (*REQUIRED, "read_share")
LEAST_POINTS = 4
PAST_SATURATION = 0.98
"""A point past the peak that moves less than this share of it lies past saturation."""


@dataclass(frozen=True)
class Point:
    """A point: total bandwidth in 1e9 bytes/s, latency in ns, the share of bandwidth that is reads."""

    bandwidth_gbps: float
    latency_ns: float
    read_share: float


def read_points(path: Path) -> list[Point]:
    """The points of a CSV file, in its order. Lines that begin with `#` and empty ones are left out.

    Raises `InputError` with one sentence for each line that is wrong, with file and line number.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text") from error
    lines = [
        (number, line)
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if not lines:
        raise InputError(f"{path}: is empty; its first line is {','.join(REQUIRED)}")
    header = [name.strip() for name in next(csv.reader([lines[0][1]]))]
    _check_header(path, lines[0][0], header)
    points, wrong = [], []
    for number, line in lines[1:]:
        try:
            points.append(_point(header, next(csv.reader([line]))))
        except ValueError as error:
            wrong.append(f"{path}:{number}: {error}")
        except csv.Error as error:
            wrong.append(f"{path}:{number}: cannot be read as CSV ({error})")
    if wrong:
        raise InputError(*wrong)
    if len(points) < LEAST_POINTS:
        raise InputError(f"{path}: has {len(points)} points; a curve needs {LEAST_POINTS} or more")
    return points


def rising_part(points: list[Point]) -> list[Point]:
    """The points before saturation, by latency: past it are those of less bandwidth than the most that is
    moved, and of more latency than there. What latencies before that scatter by is no saturation.

    Of each read share by itself, since what is moved at saturation depends on it.
    """
    peaks: dict[float, Point] = {}
    for point in points:
        peak = peaks.setdefault(point.read_share, point)
        if (point.bandwidth_gbps, -point.latency_ns) > (peak.bandwidth_gbps, -peak.latency_ns):
            peaks[point.read_share] = point

    def before(point: Point) -> bool:
        peak = peaks[point.read_share]
        enough = point.bandwidth_gbps >= PAST_SATURATION * peak.bandwidth_gbps
        return enough or point.latency_ns <= peak.latency_ns

    return sorted(filter(before, points), key=lambda point: point.latency_ns)


def _check_header(path: Path, line: int, header: list[str]) -> None:
    for name in header:
        if name not in COLUMNS:
            near = nearest(name, COLUMNS)
            raise InputError(f"{path}:{line}: '{name}' is no column of a curve; did you mean '{near}'?")
        if header.count(name) > 1:
            raise InputError(f"{path}:{line}: column '{name}' is there twice; keep one")
    for name in REQUIRED:
        if name not in header:
            raise InputError(
                f"{path}:{line}: column '{name}' is missing; the columns are {','.join(COLUMNS)}"
            )


def _point(header: list[str], cells: list[str]) -> Point:
    if len(cells) != len(header):
        raise ValueError(f"has {len(cells)} values for {len(header)} columns")
    bounds = {"bandwidth_gbps": (0.0, 10_000.0), "latency_ns": (1.0, 100_000.0), "read_share": (0.0, 1.0)}
    values = {"read_share": 1.0}
    for name, cell in zip(header, cells, strict=True):
        try:
            value = float(cell)
        except ValueError:
            raise ValueError(f"{name} is '{cell.strip()}', which is no number") from None
        low, high = bounds[name]
        if not (math.isfinite(value) and low <= value <= high):
            raise ValueError(f"{name} is {cell.strip()}; it must lie in {low:g} to {high:g}")
        values[name] = value
    return Point(**values)
