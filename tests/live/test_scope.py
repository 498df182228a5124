"""Programs of live trials: what they say, and that nothing of them is left."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from tiertune.tuner.backend import HostUnfit
from tiertune.tuner.live import scope
from tiertune.tuner.live.scope import run_in_scope


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_output_and_exit_code_come_back(tmp_path: Path) -> None:
    ended = run_in_scope(
        python("import sys; print('said'); sys.stderr.write('why'); sys.exit(7)"), tmp_path, 60
    )
    assert (ended.returncode, ended.timed_out, ended.output, ended.errors) == (7, False, "said\n", "why")
    assert 0 < ended.wall_s < 60


def test_a_signal_is_a_negative_exit_code(tmp_path: Path) -> None:
    assert run_in_scope(python("import os; os.kill(os.getpid(), 9)"), tmp_path, 60).returncode == -9


def test_a_host_without_setpriv_is_unfit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HostUnfit, match=r"no program setpriv on PATH.* install util-linux"):
        run_in_scope(python("print('ran')"), tmp_path, 60)


LEAVES_CHILDREN = """
import subprocess, sys, time
children = [subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']) for _ in range(2)]
print(*(child.pid for child in children), flush=True)
time.sleep({seconds})
"""


@pytest.mark.parametrize(("seconds", "timed_out"), [(0, False), (600, True)])
def test_children_do_not_outlive_it(tmp_path: Path, seconds: int, timed_out: bool) -> None:
    ended = run_in_scope(python(LEAVES_CHILDREN.format(seconds=seconds)), tmp_path, 4.0 if timed_out else 60)
    assert ended.timed_out is timed_out
    left = [int(pid) for pid in ended.output.split()]
    assert len(left) == 2
    assert not [pid for pid in left if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]


@pytest.mark.parametrize(("seconds", "timed_out"), [(0, False), (600, True)])
def test_what_leaves_its_session_does_not_outlive_it_either(
    tmp_path: Path, seconds: int, timed_out: bool
) -> None:
    """As daemons do; the next trial would run beside it."""
    code = LEAVES_CHILDREN.replace(")'])", ")'], start_new_session=True)").format(seconds=seconds)
    assert "start_new_session" in code
    ended = run_in_scope(python(code), tmp_path, 4.0 if timed_out else 60)
    assert ended.timed_out is timed_out
    left = [int(pid) for pid in ended.output.split()]
    assert len(left) == 2
    assert not [pid for pid in left if psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie"]


def test_the_time_that_its_children_take_to_end_is_not_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A workload without a runtime of its own is measured by this."""
    monkeypatch.setattr(scope, "GRACE_S", 1.5)
    stays = "trap '' TERM; echo ready; sleep 600 & wait; sleep 600"
    code = f"""
import subprocess
subprocess.Popen(['sh', '-c', {stays!r}], stdout=subprocess.PIPE).stdout.readline()
"""
    began = time.perf_counter()
    ended = run_in_scope(python(code), tmp_path, 60)
    whole_s = time.perf_counter() - began
    assert whole_s > 1.5
    assert ended.wall_s < whole_s - 1.0


def test_it_is_asked_to_end_before_it_is_killed(tmp_path: Path) -> None:
    code = """
import signal, sys, time
def tidy(*_):
    print('tidied up', flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, tidy)
print('ready', flush=True)
time.sleep(600)
"""
    ended = run_in_scope(python(code), tmp_path, 2.0)
    assert ended.timed_out
    assert ended.output == "ready\ntidied up\n"


def test_it_ends_when_it_is_to_stop(tmp_path: Path) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    ended = run_in_scope(["sleep", "600"], tmp_path, 600, stop)
    assert ended.returncode == -signal.SIGTERM
    assert ended.wall_s < 60


def test_it_ends_with_whoever_started_it(tmp_path: Path) -> None:
    """A tuner that is killed leaves no program behind."""
    code = f"""
from pathlib import Path
from tiertune.tuner.live.scope import run_in_scope
run_in_scope(['sleep', '601'], Path({str(tmp_path)!r}), 600)
"""
    with subprocess.Popen(python(code)) as tuner:
        child = _child_of(tuner.pid)
        tuner.kill()
    until = time.monotonic() + 10
    while child.is_running() and child.status() != "zombie" and time.monotonic() < until:
        time.sleep(0.02)
    assert not child.is_running() or child.status() == "zombie"


def _child_of(pid: int) -> psutil.Process:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for child in psutil.Process(pid).children():
            if child.name() == "sleep":
                return child
        time.sleep(0.02)
    raise AssertionError("nothing was started")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("no-such-program", FileNotFoundError),
        ("/no/such/program", FileNotFoundError),
        ("./no-such", FileNotFoundError),
        ("./text", PermissionError),
    ],
)
def test_a_program_that_is_missing_is_an_error_that_names_it(
    tmp_path: Path, name: str, error: type[OSError]
) -> None:
    (tmp_path / "text").touch(0o644)
    with pytest.raises(error, match=name):
        run_in_scope([name], tmp_path, 1)


def test_a_program_is_found_from_the_folder_that_it_runs_in(tmp_path: Path) -> None:
    (tmp_path / "program").write_text("#!/bin/sh\necho found\n")
    (tmp_path / "program").chmod(0o755)
    assert run_in_scope(["./program"], tmp_path, 60).output == "found\n"


def test_no_python_runs_between_fork_and_exec(tmp_path: Path) -> None:
    """A fork with Python in it hangs threads that are in OpenBLAS."""
    code = f"""
import os
from pathlib import Path
from tiertune.tuner.live.scope import run_in_scope
os.register_at_fork(before=lambda: print('forked'))
print(run_in_scope(['true'], Path({str(tmp_path)!r}), 60).returncode)
"""
    said = subprocess.run(python(code), capture_output=True, text=True, timeout=60)
    assert said.stdout == "0\n", said.stderr
