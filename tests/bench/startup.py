"""How long ``tiertune --help`` takes: what every command needs before it does anything."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.trials import Section

COMMAND = Path(sys.executable).with_name("tiertune")
PROMISED_S = 0.3


def seconds_to_help(repetitions: int) -> Section:
    """CPU seconds of the command's own process, modules compiled before; the least of the repetitions."""
    took = []
    with tempfile.TemporaryDirectory() as compiled:
        # Compiled once, as on a user's machine, also where this environment keeps Python from storing that.
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": compiled}
        for _ in range(1 + 2 * repetitions):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([COMMAND, "--help"], stdout=subprocess.DEVNULL, check=True, env=env)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            took.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    least_s = min(took[1:])  # the first one compiles
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
