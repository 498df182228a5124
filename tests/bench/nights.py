"""How late a 5 % slowdown is found, by noise and length of the history, and how often nothing is taken for
one.

``make bench-nights``: made-up nights of a suite of 36 series (`tests/nightly/nights.py`). docs/nightly.md
has its tables.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from rich.console import Console
from rich.table import Table

from tests.nightly.nights import SLOWED, World, live

AFTER = 6
"""Nights after the slowdown that are looked at."""


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="make bench-nights", description=__doc__)
    parser.add_argument("--suites", type=int, default=40, help="suites in each line of the first table")
    parser.add_argument("--years", type=int, default=5, help="runs of 200 nights in each line of the second")
    options = parser.parse_args()
    console = Console(width=110)
    found = Table(title=f"A slowdown of 5 %, {options.suites} suites each", title_justify="left")
    head = (
        "noise of a run",
        "of a night",
        "nights before",
        "same night",
        "the next",
        "later",
        "not in 7",
        "more alarms",
    )
    for column in head:
        found.add_column(column, justify="right")
    for noise in (0.01, 0.02, 0.03):
        for night in (0.0, 0.005, 0.01):
            for before in (2, 7, 30):
                found.add_row(*_found(noise, night, before, options.suites))
    console.print(found)
    false = Table(title=f"No change, {options.years} x 200 nights each", title_justify="left")
    for column in ("noise of a run", "of a night", "noise law", "false alarms", "in 200 nights"):
        false.add_column(column, justify="right")
    for noise, night, heavy in (
        (0.01, 0.0, False),
        (0.03, 0.0, False),
        (0.02, 0.01, False),
        (0.02, 0.01, True),
    ):
        alarms = sum(
            len(live(World((noise,), night, heavy=heavy), 200, seed)) for seed in range(options.years)
        )
        law = "Student's t, 4" if heavy else "normal"
        each = f"{alarms / options.years:.1f}"
        false.add_row(f"{noise:.1%}", f"{night:.1%}", law, str(alarms), each)
    console.print(false)
    return 0


def _found(noise: float, night: float, before: int, suites: int) -> list[str]:
    delays: Counter[str] = Counter()
    more = 0
    for seed in range(suites):
        alarms = live(World((noise,), night, slower_from=before), before + AFTER + 1, seed)
        right = [alarm for alarm in alarms if alarm.subject == SLOWED and int(alarm.raised) >= before]
        more += len(alarms) - min(1, len(right))
        delay = int(right[0].raised) - before if right else None
        delays["never" if delay is None else "same" if delay == 0 else "next" if delay == 1 else "later"] += 1
    shares = [f"{delays[name] / suites:.0%}" for name in ("same", "next", "later", "never")]
    return [f"{noise:.1%}", f"{night:.1%}", str(before), *shares, str(more)]


if __name__ == "__main__":
    sys.exit(main())
