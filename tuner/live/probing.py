"""Whether a program is the one that a workload's file means, asked before the first trial."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence

from tiertune.tuner.backend import HostUnfit
from tiertune.workloads.live import HostPart, Probe

MOST_S = 20.0
"""A program that does not say what it is in this time is another one."""
MOST_TOLD = 200
LOCALE = {"LC_ALL": "C"}
"""In which programs are asked: expressions are of what they say in it."""


def check_program(part: HostPart, find: Callable[[str], str]) -> None:
    """Raises HostUnfit where the program is not there, or not the one that is meant. `find` says where a
    program is."""
    program = find(part.command[0])
    if part.probe is None:
        return
    command = [program, *part.probe.arguments]
    try:
        # Whatever the exit code: some programs know no option that ends well.
        done = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=MOST_S,
            env={**os.environ, **LOCALE},
            check=False,
        )
    except subprocess.TimeoutExpired:
        text = None
    except OSError as error:
        raise HostUnfit(f"{program} cannot be run here: {error.strerror}") from error
    else:
        text = (done.stdout + done.stderr).decode("utf-8", "replace")
    stranger = stranger_in(part.probe, command, text)
    if stranger is not None:
        raise HostUnfit(stranger)


def stranger_in(probe: Probe, command: Sequence[str], text: str | None) -> str | None:
    """Why what `command` said (None: nothing in time) is not of the program that is meant, if it is not."""
    if text is None:
        said = f"nothing in {MOST_S:g} s"
    elif re.search(probe.expect, text, re.MULTILINE):
        return None
    else:
        said = repr(text.strip()[:MOST_TOLD])
    return (
        f"{command[0]} is not the program of the workload's file: `{' '.join(command)}` says {said}, where"
        f" '{probe.expect}' was expected; put the right one there, or name another folder of programs"
    )
