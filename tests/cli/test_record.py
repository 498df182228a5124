"""`tiertune record` without a machine: commands and processes, and what is said of those it cannot watch."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.cli.small import tiertune
from tests.workloads.test_measured import seen
from tiertune.files import InputError
from tiertune.tuner.cli import recording
from tiertune.workloads import sampling
from tiertune.workloads.measured import Declaration, Sightings
from tiertune.workloads.profile_file import opened

COMMAND = [sys.executable, "-c", "from tiertune.tuner.cli import main; main()", "record"]
BUSY = """
import time
memory, until = bytearray(48 << 20), time.monotonic() + 60
while time.monotonic() < until:
    for place in range(16 << 20, 32 << 20, 4096):
        memory[place] = 1
"""


def record(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, cwd=folder, timeout=120)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "give a command"),
        (["--pid", "1", "--", "true"], "one of the two"),
        (["--pid", "999999999"], "there is no process 999999999"),
        (["--", "/no/such/program"], "/no/such/program cannot be started: no such file or directory"),
        (["bc-kron"], "a workload of ours is recorded with --machine"),
        (["--class", "dependant", "--", "true"], "did you mean 'dependent'?"),
        (["--class", "sequential:0x20-0x10", "--", "true"], "ends before it begins"),
        (["--sampler", "write", "--", "true"], "did you mean 'written'?"),
        (["-o", "a.txt", "--", "true"], "must end in .parquet"),
        (["--page-size", "4KiB", "--", "true"], "--page-size is for workloads"),
        (["-m", "skx-numa", "--seconds", "3", "bc-kron"], "--seconds is for processes"),
    ],
)
def test_mistakes_are_told_in_a_sentence(arguments: list[str], expected: str, tmp_path: Path) -> None:
    refused = record(tmp_path, *arguments)
    # A host without any sampler says that first.
    assert refused.returncode in (2, 3), refused.stderr
    assert expected in refused.stderr or refused.returncode == 3
    assert "Traceback" not in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_command_is_recorded_and_ended(tmp_path: Path) -> None:
    (tmp_path / "busy.py").write_text(BUSY, encoding="utf-8")
    where = ["-o", "busy.parquet", "--seconds", "3", "--class", "dependent", "--json"]
    done = record(tmp_path, *where, "--", sys.executable, "busy.py")
    if done.returncode == 3:
        assert "tiertune: " in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert "it sees" in done.stderr
    columns, metadata = opened(tmp_path / "busy.parquet")
    assert json.loads(done.stdout)["footprint_bytes"] > 48 * 2**20
    told = json.loads(metadata)
    largest = max(range(len(told["objects"])), key=lambda number: int(told["objects"][number]["bytes"]))
    mine = columns["object"] == largest
    pages, reads = columns["page"][mine], columns["reads"][mine].astype(float)
    # The program fills its memory first; from then on a third of it is all that it touches.
    inside = (pages >= 15 << 8) & (pages < 33 << 8)
    assert reads[inside].sum() > 0.6 * reads.sum()
    assert set(columns["class"][mine]) == {0}


def sampled(monkeypatch: pytest.MonkeyPatch, *command: str, seconds: float = 0.0) -> Sightings:
    """What `record` makes of a command, with a sampler that sees nothing new."""

    def sample_process(*_: object) -> Sightings:
        time.sleep(seconds)
        return seen()

    monkeypatch.setattr(sampling, "sample_process", sample_process)
    return recording._sample_command(list(command), "referenced", None, 0.1, quiet=False)


@pytest.mark.parametrize(
    ("does", "how"),
    [("import os; os.kill(os.getpid(), 11)", "by SIGSEGV"), ("raise SystemExit(3)", "with exit code 3")],
)
def test_a_command_that_failed_is_told_in_the_profile(
    does: str, how: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = sampled(monkeypatch, sys.executable, "-c", does, seconds=1.0)
    assert found.notes == (f"The command ended {how}; the profile may be of a part of its work",)
    assert f"warning: {sys.executable} ended {how}" in capsys.readouterr().err


def test_what_a_command_started_is_ended_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = f"sleep 60 & echo $! > {tmp_path / 'child'}; wait"
    found = sampled(monkeypatch, "sh", "-c", script, seconds=1.0)
    assert found.notes[0].startswith("The command still ran when the recording ended")
    child = int((tmp_path / "child").read_text())
    try:
        assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def test_a_mistaken_class_does_not_lose_what_was_seen(tmp_path: Path) -> None:
    path = tmp_path / "once.parquet"
    wrong = [Declaration("dependent", label="heep"), Declaration("sequential", pages=(1, 2))]
    with pytest.raises(InputError) as refused:
        recording.finish(seen(), wrong, 0.5, path, as_json=True, once=True)
    assert refused.value.sentences == (
        f"--class: there is no area 'heep'; areas are heap; {path} is kept without that",
        f"--class: no page was seen in 0x1000-0x2000; {path} is kept without that",
    )
    assert "not declared" in opened(path)[1]
    other = tmp_path / "again.parquet"
    with pytest.raises(InputError, match="no page was seen in 0x1000-0x2000"):
        recording.finish(seen(), wrong[1:], 0.5, other, as_json=True)
    assert not other.exists(), "an import can be made again"


def test_a_process_goes_on_and_an_interrupt_keeps_what_was_seen(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        call = [*COMMAND, "--pid", str(process.pid), "-o", "busy.parquet"]
        recording = subprocess.Popen(call, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        assert recording.stderr is not None
        recording.stderr.readline()
        time.sleep(4)
        if recording.poll() is None:
            os.kill(recording.pid, signal.SIGINT)
        recording.communicate(timeout=60)
        assert recording.returncode in (0, 3)
        assert (tmp_path / "busy.parquet").exists() == (recording.returncode == 0)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_a_script_is_not_repeated_where_recording_is_said(tmp_path: Path) -> None:
    done = tiertune("record", "masim-stairs-ci", "-m", "skx-numa", "--results", tmp_path)
    assert done.exit_code == 0
    first, _, *more = done.stderr.splitlines()
    assert re.search(r"^tiertune: recording masim-stairs-ci: kernel masim, config of \d+ lines, ", first)
    assert more == []


# A recording in native code that Ctrl-C meets a moment after it began.
STOPPED = """
import os, signal, sys, threading
import tiertune_engine
record = tiertune_engine.record
def met(request):
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    return record(request)
tiertune_engine.record = met
from tiertune.tuner.cli import main
main()
"""


@pytest.mark.parametrize("command", [("record", "gups@smoke"), ("run", "hemem", "-w", "gups@smoke")])
def test_ctrl_c_in_a_first_recording_stops(command: tuple[str, ...], tmp_path: Path) -> None:
    whole = [sys.executable, "-c", STOPPED, *command, "-m", "skx-numa"]
    done = subprocess.run(whole, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 130, done.stderr
    told = done.stderr.splitlines()
    assert told[-1] == "tiertune: stopped; nothing is left running"
    assert all(line.startswith("tiertune: ") for line in told)


def test_a_panic_of_the_engine_is_a_bug_of_ours(tmp_path: Path) -> None:
    """One that is real: the engine finds another NumPy than it was made for."""
    head = "import numpy.lib; numpy.lib.NumpyVersion = None; from tiertune.tuner.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", head, "record", "gups@smoke", "-m", "skx-numa"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        timeout=120,
    )
    assert done.returncode == 1, done.stderr
    assert "a bug of ours, sorry: PanicException: " in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    (kept,) = tmp_path.glob("tiertune-bug-*.txt")
    assert "PanicException" in kept.read_text()
