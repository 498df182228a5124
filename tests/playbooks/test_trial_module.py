"""The module that runs a trial on a host, without Ansible: what comes back, and what is left of it."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.playbooks.loading import loaded
from tests.source_tree import ROOT
from tiertune.tuner.live import scope

RUNS = """
import importlib.util, json, sys
module, lock, given = sys.argv[1:]
spec = importlib.util.spec_from_file_location("trial", module)
trial = importlib.util.module_from_spec(spec)
spec.loader.exec_module(trial)
trial.LOCK = lock
trial.SETTINGS = lock.replace("trial.lock", "found-by-trial.json")
# Where systemd runs, a scope takes root; the way without it is the one under test.
trial.scoped = lambda command, name: command
try:
    print(json.dumps(trial.run(json.loads(given))))
except trial.CannotRun as error:
    sys.exit(str(error))
"""


def begun(folder: Path, command: list[str], **more: Any) -> subprocess.Popen[str]:
    given = {
        "name": "one",
        "folder": str(folder / "trials"),
        "command": command,
        "files": {},
        "environment": {},
        "secrets": {},
        "path": [],
        "yardstick": [],
        "timeout_s": 60.0,
        "settings": False,
        "fetch": [],
    }
    module = ROOT / "playbooks/library/tiertune_trial.py"
    told = [str(module), str(folder / "run/trial.lock"), json.dumps({**given, **more})]
    return subprocess.Popen(
        [sys.executable, "-c", RUNS, *told], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(folder: Path, command: list[str], **more: Any) -> dict[str, Any]:
    output, errors = begun(folder, command, **more).communicate(timeout=60)
    assert errors == ""
    return dict(json.loads(output))


def test_output_code_files_and_environment_come_back(tmp_path: Path) -> None:
    script = (
        "import os, sys; print(os.environ['WORD'], os.getcwd()); open('made', 'w').write('kept'); sys.exit(7)"
    )
    found = ended(
        tmp_path,
        [sys.executable, "-c", script],
        environment={"WORD": "said"},
        fetch=["made", "none"],
    )
    assert (found["returncode"], found["ended"], found["left_running"]) == (7, "finished", False)
    assert found["output"] == f"said {tmp_path / 'trials/one'}\n"
    assert found["fetched"] == {"made": "kept", "none": ""}


def test_programs_are_found_in_the_folder_and_on_the_path(tmp_path: Path) -> None:
    program = tmp_path / "bin/own-program"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho mine\n")
    program.chmod(0o755)
    assert ended(tmp_path, ["own-program"], path=[str(program.parent)])["output"] == "mine\n"
    inside = ended(tmp_path, ["sh", "@FOLDER@/given.sh"], files={"given.sh": "echo given"})
    assert inside["output"] == "given\n"


def test_a_program_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    running = begun(tmp_path, ["no-such-program"])
    assert running.wait(60) == 1
    assert running.stderr is not None
    assert running.stderr.read() == "no-such-program: is not there, or is no program that may be run\n"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_command_does_not_outlive_whoever_runs_it(tmp_path: Path, number: signal.Signals) -> None:
    note = tmp_path / "pid"
    script = f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    running = begun(tmp_path, [sys.executable, "-c", script])
    deadline = time.monotonic() + 30
    while not (note.is_file() and note.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    pid = int(note.read_text())
    assert psutil.Process(pid).ppid() == running.pid
    running.send_signal(number)
    output, _ = running.communicate(timeout=30)
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    if number == signal.SIGTERM:
        assert json.loads(output)["ended"] == "asked to end by signal 15"


def test_settings_of_a_trial_that_was_cut_off_are_those_of_no_other(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    record = tmp_path / "run/found-by-trial.json"
    record.write_text('{"schema": 1, "found": []}')
    running = begun(tmp_path, ["true"])
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 1
    assert f"{record}: settings of a trial that was cut off are still in force" in errors
    assert ended(tmp_path, ["true"], settings=True)["returncode"] == 0
    record.unlink()
    assert ended(tmp_path, ["true"])["returncode"] == 0


@pytest.mark.parametrize(
    ("tidies_s", "dies_s", "killed"), [(scope.GRACE_S - 1.0, 0.0, False), (math.inf, 60.0, True)]
)
def test_a_daemon_has_time_to_put_the_host_back_and_the_kernel_to_take_memory_back(
    monkeypatch: pytest.MonkeyPatch, tidies_s: float, dies_s: float, killed: bool
) -> None:
    """As on a host that steers itself; a host was set aside because 1 TiB takes a while to be freed."""
    trial = loaded("library/tiertune_trial")
    now_s, sent = [0.0], dict[int, float]()

    class Clock:
        monotonic = staticmethod(lambda: now_s[0])

        @staticmethod
        def sleep(seconds: float) -> None:
            now_s[0] += seconds

    def below(_: int) -> list[int]:
        gone = now_s[0] >= sent.get(signal.SIGTERM, math.inf) + tidies_s
        gone = gone or now_s[0] >= sent.get(signal.SIGKILL, math.inf) + dies_s
        return [] if gone else [4242]

    monkeypatch.setattr(trial, "time", Clock)
    monkeypatch.setattr(trial, "descendants", below)
    monkeypatch.setattr(trial.os, "kill", lambda _, number: sent.setdefault(number, now_s[0]))
    assert trial.end_all(1)
    assert (signal.SIGKILL in sent) is killed
