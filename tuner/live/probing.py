"""Whether a program is the one that a workload's file means, asked before the first trial."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable

from tiertune.tuner.backend import HostUnfit
from tiertune.workloads.live import HostPart

MOST_S = 20.0
"""A program that does not say what it is in this time is another one."""
MOST_TOLD = 200


def check_program(part: HostPart, find: Callable[[str], str]) -> None:
    """Raises HostUnfit where the program is not there, or not the one that is meant. `find` says where a
    program is."""
    program = find(part.command[0])
    if part.probe is None:
        return
    command = [program, *part.probe.arguments]
    variables = {**os.environ, "LC_ALL": "C"}
    try:
        # Whatever the exit code: some programs know no option that ends well.
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=MOST_S, env=variables, check=False
        )
    except subprocess.TimeoutExpired:
        said = f"nothing in {MOST_S:g} s"
    except OSError as error:
        raise HostUnfit(f"{program} cannot be run here: {error.strerror}") from error
    else:
        text = (done.stdout + done.stderr).decode("utf-8", "replace")
        if re.search(part.probe.expect, text, re.MULTILINE):
            return
        said = repr(text.strip()[:MOST_TOLD])
    raise HostUnfit(
        f"{program} is not the program of the workload's file: `{' '.join(command)}` says {said}, where"
        f" '{part.probe.expect}' was expected; put the right one there, or name another folder of programs"
    )
