"""How long ``tiertune --help`` takes: what every command needs before it does anything."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from tests.bench.trials import Section

COMMAND = Path(sys.executable).with_name("tiertune")
PROMISED_S = 0.3


def seconds_to_help(repetitions: int) -> Section:
    """CPU seconds of the command's own process, modules compiled before; the least of the repetitions."""
    took = []
    for _ in range(1 + 2 * repetitions):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([COMMAND, "--help"], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    least_s = min(took[1:])  # the first one may have compiled modules
    return (
        "The command, before it does anything",
        ["command", "CPU", "promise", ""],
        [
            [
                "tiertune --help",
                f"{least_s:.2f} s",
                f"{PROMISED_S} s",
                "met" if least_s < PROMISED_S else "missed",
            ]
        ],
    )
