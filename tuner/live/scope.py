"""A command in a session of its own, of which nothing is left when it is over or this process is gone."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tiertune.arithmetic import restore_environment
from tiertune.tuner.backend import HostUnfit

GRACE_S = 10.0
"""From being asked to end until being killed: tierd puts the host back meanwhile."""

EXEC_S = 1.0
"""Within that, a program that is begun has its environment."""

LOOK_S = 0.1
"""Between two looks whether it is to stop."""

# A program of its own tells the kernel, and no code of ours between fork and exec: for such code Python makes
# a real fork, before which OpenBLAS ends its threads, so that a matrix product of another thread never ends.
_ENDS_WITH_PARENT = ("setpriv", "--pdeathsig", "TERM", "--")


MARK = "TIERTUNE_SCOPE"
"""Environment variable that all processes of a command inherit, also those that leave its session."""


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code (negative for a signal), and whether that was by its timeout.
    `wall_s` is until then, without what ending the processes that it left took."""

    returncode: int
    timed_out: bool
    output: str
    errors: str
    wall_s: float


def run_in_scope(
    command: Sequence[str],
    folder: Path,
    timeout_s: float,
    stop: threading.Event | None = None,
    variables: Mapping[str, str] | None = None,
) -> Ended:
    """Run `command`, its output in files of `folder`, and wait. `variables` are beside those of tiertune.

    It is asked to end when the thread that called this is gone, after `timeout_s`, and by `stop`. Raises
    OSError where there is no such program, and HostUnfit where this host has no setpriv.
    """
    _check_program(command[0], folder)
    if shutil.which(_ENDS_WITH_PARENT[0]) is None:
        raise HostUnfit(
            f"there is no program {_ENDS_WITH_PARENT[0]} on PATH, which has trials end with tiertune;"
            " install util-linux"
        )
    restore_environment()
    places = folder / "output.txt", folder / "errors.txt"
    mark = uuid.uuid4().hex
    began = time.perf_counter()
    with places[0].open("wb") as output, places[1].open("wb") as errors:
        process = subprocess.Popen(
            [*_ENDS_WITH_PARENT, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            cwd=folder,
            env={**os.environ, **(variables or {}), MARK: mark},
            start_new_session=True,
        )
        try:
            _wait(process, timeout_s, stop)
            wall_s = time.perf_counter() - began
            timed_out = process.returncode is None and not (stop is not None and stop.is_set())
        finally:
            _end_all(process, mark)
    texts = [place.read_text(encoding="utf-8", errors="replace") for place in places]
    return Ended(process.returncode, timed_out, texts[0], texts[1], wall_s)


def _check_program(name: str, folder: Path) -> None:
    """Raises OSError where a command in `folder` does not find this program."""
    if shutil.which(str(folder / name) if "/" in name else name) is None:
        found = "/" in name and (folder / name).exists()
        number = errno.EACCES if found else errno.ENOENT
        raise OSError(number, os.strerror(number), name)


def _wait(process: subprocess.Popen[bytes], within_s: float, stop: threading.Event | None = None) -> None:
    """Until it has ended, for `within_s` at most, or until it is to stop."""
    until = time.monotonic() + within_s
    while process.poll() is None and not (stop is not None and stop.is_set()):
        left_s = until - time.monotonic()
        if left_s <= 0:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(left_s if stop is None else min(left_s, LOOK_S))


def _end_all(process: subprocess.Popen[bytes], mark: str) -> None:
    """The command first, so that it can tidy up; then whatever it left."""
    if process.poll() is None:
        process.terminate()
        _wait(process, GRACE_S)
    for how in (signal.SIGTERM, signal.SIGKILL):
        for pid in _left(process.pid, mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, how)
        until = time.monotonic() + (GRACE_S if how == signal.SIGTERM else 1.0)
        while _left(process.pid, mark) and time.monotonic() < until:
            time.sleep(0.02)
    if process.poll() is None:
        process.kill()
        process.wait()


def _left(leader: int, mark: str) -> list[int]:
    """Processes of the session of `leader` that still run, and those that left it and have its mark."""
    found = []
    marked = f"{MARK}={mark}".encode()
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name is in brackets and may hold anything.
            state, _parent, _group, session = place.read_text(errors="replace").rpartition(")")[2].split()[:4]
            if state in "ZX":
                continue
            if int(session) == leader or marked in _environment(place.parent).split(b"\0"):
                found.append(int(place.parent.name))
    return found


def _environment(process: Path) -> bytes:
    """What /proc says of it. In the middle of exec a process has none, and no arguments: it is waited for."""
    until = time.monotonic() + EXEC_S
    while True:
        environment = (process / "environ").read_bytes()
        begins = not environment and not (process / "cmdline").read_bytes() and _is_user(process)
        if not begins or time.monotonic() > until:
            return environment
        time.sleep(0.001)


def _is_user(process: Path) -> bool:
    """Threads of the kernel run no file."""
    try:
        (process / "exe").readlink()
    except OSError:
        return False
    return True
