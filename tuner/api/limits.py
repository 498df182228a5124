"""What numbers may be that say how something is measured: the same in a notebook and on the command line."""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable
from typing import NamedTuple


class Limits(NamedTuple):
    """Smallest and largest valid number."""

    least: int
    most: int
    whole: bool = True


SEEDS = Limits(5, 1000)
"""Of judgement: fewer give no interval, so that a gain would pass for none."""
JOBS = Limits(1, 256)
CANDIDATES = Limits(1, 5)
PORTFOLIO = Limits(1, 8)
LEAST_PCT = Limits(0, 1000, whole=False)
KEEP_PCT = Limits(10, 100, whole=False)
SLICES = Limits(0, 16)
POINTS = Limits(3, 65)
GRID = Limits(3, 33)
THREADS = Limits(1, 4096)
TIMELINE_POINTS = Limits(0, 10**9)
"""0 for none."""


def check(name: str, value: float, limits: Limits) -> None:
    """Raises `InputError` where an argument is no number of its kind, or out of its limits."""
    from tiertune.files import InputError

    if isinstance(value, bool) or not isinstance(value, numbers.Integral if limits.whole else numbers.Real):
        what = "whole number" if limits.whole else "number"
        raise InputError(f"{name}: {value!r} is no {what}; valid are {limits.least} to {limits.most}")
    if not limits.least <= value <= limits.most:
        near = limits.least if value < limits.least else limits.most
        raise InputError(
            f"{name}: {value} is not from {limits.least} to {limits.most}; the nearest valid is {near}"
        )


def check_numbers(name: str, given: Iterable[int] | None, most: int, what: str) -> None:
    """Raises `InputError` where one of `numbers`, which people count from 1, is of nothing."""
    from tiertune.files import InputError

    for number in given or ():
        if not 1 <= number <= most:
            near = "smallest is 1" if number < 1 else f"largest is {most}"
            raise InputError(f"{name} {number}: {what} {most}; the {near}")


def jobs_of(jobs: int | None) -> int:
    """Runs at a time, one for each core where nothing was said; raises `InputError`."""
    if jobs is None:
        return len(os.sched_getaffinity(0))
    check("jobs", jobs, JOBS)
    return jobs
