"""Sizes and ratios as people write them: `64GiB`, `13.75MiB`, `96GB`, `1:8`."""

from __future__ import annotations

import re
from fractions import Fraction

from tiertune.nearest import nearest

SIZE_UNITS: dict[str, int] = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}
"""Bytes per unit. `GB` is decimal and `GiB` binary: the 7 % between them decides whether a page fits."""

MAX_BYTES = 2**60
"""Largest size accepted; above it a file holds a slip of the unit."""

_SIZE = re.compile(r"\s*(?P<number>[+-]?[0-9]+(?:\.[0-9]+)?)\s*(?P<unit>[A-Za-z]*)\s*")
_RATIO = re.compile(r"\s*(?P<fast>[0-9]{1,9})\s*:\s*(?P<slow>[0-9]{1,9})\s*")


class UnitError(ValueError):
    """A size or ratio that cannot be read; the text says why and what is nearest."""


def parse_size(text: str | int | float, least_bytes: int = 1, most_bytes: int = MAX_BYTES) -> int:
    """Bytes of `text`: a whole number of bytes, or a number with a unit of `SIZE_UNITS`.

    Raises `UnitError` for anything else, for a size that is not a whole number of bytes, and for one outside
    `least_bytes` to `most_bytes`.
    """
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise UnitError("is not a size; write a number and a unit, such as 64GiB")
    size = text if isinstance(text, int) else _size(str(text))
    if size < least_bytes:
        raise UnitError(f"is too small; the smallest valid size is {format_size(least_bytes)}")
    if size > most_bytes:
        raise UnitError(f"is too large; the largest valid size is {format_size(most_bytes)}")
    return size


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise UnitError("is not a size; write a number and a unit, such as 64GiB")
    unit = match["unit"]
    if unit == "" and "." not in match["number"]:
        return int(match["number"])
    if unit not in SIZE_UNITS:
        known = f"the units are {', '.join(SIZE_UNITS)}"
        if unit == "":
            raise UnitError(f"is a size without a unit; {known}")
        raise UnitError(f"has the unknown unit '{unit}'; did you mean '{nearest(unit, SIZE_UNITS)}'? {known}")
    size = Fraction(match["number"]) * SIZE_UNITS[unit]
    if size.denominator != 1:
        raise UnitError(f"is not a whole number of bytes; the nearest valid size is {max(round(size), 1)}B")
    return size.numerator


def format_size(size_bytes: int) -> str:
    """Shortest exact spelling: `format_size(2097152) == "2MiB"`; reads back through `parse_size`."""
    for unit in ("TiB", "TB", "GiB", "GB", "MiB", "MB", "KiB", "kB"):
        if size_bytes and size_bytes % SIZE_UNITS[unit] == 0:
            return f"{size_bytes // SIZE_UNITS[unit]}{unit}"
    return f"{size_bytes}B"


def is_bytes(unit: str) -> bool:
    """Whether a knob or metric of this unit is a size."""
    return unit in ("B", "bytes")


def binary_unit(size_bytes: float) -> tuple[int, str]:
    """The largest binary unit that `size_bytes` fills, and its name."""
    for name, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(size_bytes) >= size:
            return size, name
    return 1, "B"


def rounded_size(size_bytes: float) -> str:
    """For people, to four digits: `rounded_size(1573741824) == "1.466 GiB"`."""
    size, name = binary_unit(size_bytes)
    return f"{size_bytes / size:.4g} {name}"


def parse_ratio(text: str) -> tuple[int, int]:
    """Parts of a `fast:slow` ratio: `parse_ratio("1:8") == (1, 8)`; raises `UnitError`."""
    match = _RATIO.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise UnitError('is not a fast:slow ratio; write two whole numbers, such as "1:8"')
    fast, slow = int(match["fast"]), int(match["slow"])
    if fast == 0 or slow == 0:
        raise UnitError(
            f'gives a tier no memory; the nearest valid ratio is "{max(fast, 1)}:{max(slow, 1)}"'
            " (the systems all-fast and all-slow stand for the two ends)"
        )
    return fast, slow


def fast_tier_bytes(footprint_bytes: int, ratio: str, page_bytes: int) -> int:
    """Bytes of fast memory that `ratio` leaves to a footprint: its share, rounded down to whole pages."""
    fast, slow = parse_ratio(ratio)
    return footprint_bytes * fast // (fast + slow) // page_bytes * page_bytes
