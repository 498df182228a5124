"""``make bench``: what the project promises about speed and memory, measured here and now.

Every figure is printed beside the promise, met or not. CPU seconds are of one process, wall
seconds depend on what else the machine does; both are given where they differ.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from functools import partial
from itertools import chain

from rich.console import Console
from rich.table import Table

from tests.bench import campaign, coordinator, live, startup, systems, trials


def main() -> int:
    """Print one table per promise."""
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="one repetition of each, and a campaign of 30 trials"
    )
    options = parser.parse_args()
    repetitions = 1 if options.quick else 3
    console = Console()
    load = os.getloadavg()[0]
    quiet = "" if load <= 1 else ": not quiet, so read times as upper bounds"
    console.print(f"{os.cpu_count()} cores, load {load:.1f}{quiet}")
    sections: list[Callable[[], trials.Section]] = [
        partial(startup.seconds_to_help, repetitions),
        partial(trials.seconds_per_trial, repetitions),
        partial(trials.fast_against_reference, repetitions),
        trials.memory_per_page,
        partial(trials.trials_per_hour, repetitions),
        trials.scale,
        partial(campaign.seconds_per_campaign, 30 if options.quick else 100),
        partial(campaign.throughput_by_workers, 30 if options.quick else 100),
    ]
    sections.append(partial(live.cost_of_the_daemon, 200_000 if options.quick else 2_000_000))
    by_system = partial(systems.seconds_by_system, 1)
    spread = coordinator.sections(repetitions)
    for title, head, rows in chain((section() for section in sections), by_system(), spread):
        table = Table(title=title, title_justify="left")
        for number, column in enumerate(head):
            table.add_column(column, justify="left" if number == 0 else "right")
        for row in rows:
            table.add_row(*row)
        console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
