"""Live trials on this machine, with programs and a host that are made up."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.contracts.backend import BackendContract
from tests.live.test_fitness import FIT
from tests.tuner.test_backends import TINY
from tiertune.tuner.backend import Backend, BackendLost, HostUnfit, TrialTimeout
from tiertune.tuner.execution import attempt
from tiertune.tuner.host.state import HostState, state_of_raw
from tiertune.tuner.live.backend import HostBackend, program_here, used_by_others
from tiertune.tuner.live.fitness import Nodes
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.trial import Scenario, Status, Trial
from tiertune.units import fast_tier_bytes
from tiertune.workloads.definition import Workload, load_workload

PROGRAM = """\
import sys, time
seed = int(sys.argv[1])
print(f"took {1.0 + seed / 1000:.6f} s")
"""

TIERD = """\
import json, subprocess, sys
options = dict(zip(sys.argv[2::2], sys.argv[3::2]))
command = sys.argv[sys.argv.index("--") + 1:]
settings = json.load(open(options["--settings"])) if sys.argv[1] == "hold" else []
knobs = {} if sys.argv[1] == "hold" else json.load(open(options["--knobs"]))
moved = {"fast_bytes": 1, "present_bytes": 2, "demoted_bytes": 0, "samples": 3, "hint_faults": 0, "lost": 0}
report = {
    "version": 1, "policy": options.get("--policy"), "knobs": knobs, "settings": settings,
    "page_bytes": int(options.get("--page-bytes", 4096)),
    "series": [{"at_s": at / 10, "promoted_bytes": at * 4096, **moved} for at in range(100)],
    "overhead": {"cpu_s": 0.25}, "counts": {"unmanaged_processes": 12}, "words": sys.argv[1:],
}
done = subprocess.run(command)
place = sys.argv[sys.argv.index("--report") + 1]
json.dump(report, open(place, "w"))
sys.exit(4 if done.returncode else 0)
"""

HOST = """\
host:
  command: [program, "{seed}"]
  footprint: 1GiB
  metrics: {runtime_s: 'took ([\\d.]+) s'}
  timeout_s: 30
"""

SCENARIO = Scenario("tiny", "skx-numa", "1:8", 4, 4096)


def workload(folder: Path, program: str = PROGRAM, **changes: str) -> Workload:
    folder.mkdir(parents=True, exist_ok=True)
    for name, code in {"program": program, "tierd": TIERD}.items():
        place = folder / name
        place.write_text(f"#!{sys.executable} -SE\n{code}")
        place.chmod(0o755)
    host = HOST.replace("program,", f"{folder / 'program'},")
    for old, new in changes.items():
        host = host.replace(f"{old}: 30", f"{old}: {new}")
    (folder / "tiny.yaml").write_text(TINY + host)
    return load_workload(str(folder / "tiny.yaml"))


def backend_in(
    folder: Path,
    made: Workload,
    look: Callable[[], tuple[HostState, float]] = lambda: (FIT, 0.0),
    by_kernel: Collection[str] = (),
) -> HostBackend:
    inner = SimBackend(folder / "profiles", lambda name: made)
    find = {"tierd": str(folder / "tierd")}
    workloads = {SCENARIO.key: made}
    return HostBackend(inner, workloads, Nodes(0, 1), look, lambda name: find.get(name, name), by_kernel)


class TestHostBackend(BackendContract):
    def make(self, folder: Path) -> Backend:
        return backend_in(folder, workload(folder))

    def trial(self) -> Trial:
        return Trial("c", "cell", 1, SCENARIO, "hemem", {"read_hot_threshold": 4}, 5)


TRIAL = Trial("c", "cell", 1, SCENARIO, "hemem", {"read_hot_threshold": 4}, 5)


def test_what_tierd_says_comes_with_the_measurement(tmp_path: Path) -> None:
    measurement = backend_in(tmp_path, workload(tmp_path)).run(TRIAL, timeline_points=9)
    assert measurement.metrics == {
        "runtime_s": 1.005,
        "promoted_bytes": 99 * 4096.0,
        "demoted_bytes": 0.0,
        "samples": 3.0,
        "hint_faults": 0.0,
        "unmanaged_processes": 12.0,
        "tierd_cpu_s": 0.25,
    }
    assert measurement.timeline["promotions_per_s"] == pytest.approx([10.0] * 9)
    raw = json.loads(measurement.raw or "")
    assert raw["report"]["knobs"]["read_hot_threshold"] == 4
    assert "series" not in raw["report"]
    assert state_of_raw(measurement.raw, "a trial") == FIT


def test_a_trial_in_which_processors_were_throttled_is_none(tmp_path: Path) -> None:
    looks = iter([{"cores throttled (ms)": 0}, {"cores throttled (ms)": 10**9}])
    backend = backend_in(tmp_path, workload(tmp_path), lambda: (replace(FIT, counters=next(looks)), 0.0))
    measurement = attempt(backend, TRIAL)
    assert measurement.status is Status.HOST_UNFIT
    assert "this host was not in order: processors were throttled" in (measurement.error or "")


def test_a_trial_whose_end_was_not_alone_is_none_unless_it_was_its_own_end(tmp_path: Path) -> None:
    for last, status in ((0.5, Status.HOST_UNFIT), (0.02, Status.OK)):
        shares = [last, 0.5, 0.0]
        backend = backend_in(tmp_path, workload(tmp_path), _Busy(shares))
        measurement = attempt(backend, TRIAL)
        assert measurement.status is status
        said = "right after the trial others use 50 %" in (measurement.error or "")
        assert said == (status is Status.HOST_UNFIT)


@dataclass
class _Busy:
    """A host that is looked at: shares of its processors that others use, the next one last."""

    shares: list[float]

    def __call__(self) -> tuple[HostState, float]:
        return FIT, self.shares.pop()


TIERLOAD = """\
import json
def say(event, **told):
    print(json.dumps({"event": event, **told}))
for number, start_s in ((1, 0.0), (2, 5.0)):
    say("phase_start", name=f"hot set {number}", timed=True, at_s=start_s)
    say("phase_end", name=f"hot set {number}", timed=True, seconds=4.0 / number, ops=8_000_000)
say("end", runtime_s=6.0, throughput_mops=16 / 6)
"""


def test_phases_of_our_own_program_have_figures_and_what_was_moved_in_them(tmp_path: Path) -> None:
    made = workload(tmp_path, TIERLOAD)
    assert made.host is not None
    host = made.host.model_copy(update={"metrics": "tierload"})
    found = backend_in(tmp_path, made.model_copy(update={"host": host})).run(TRIAL).metrics
    assert (found["phase.hot_set_1_mops"], found["phase.hot_set_2_mops"]) == (2.0, 4.0)
    # The daemon moves a page every tenth of a second for 9.9 s.
    assert found["phase.hot_set_1_promoted_bytes"] == pytest.approx(40 * 4096)
    assert found["phase.hot_set_2_promoted_bytes"] == pytest.approx(20 * 4096)
    assert found["phase.hot_set_promoted_bytes"] == pytest.approx(60 * 4096)
    assert found["promoted_bytes"] == 99 * 4096


def test_first_touch_runs_without_a_daemon(tmp_path: Path) -> None:
    measurement = backend_in(tmp_path, workload(tmp_path)).run(replace(TRIAL, system="notier", config={}))
    assert measurement.metrics == {"runtime_s": 1.005}
    assert json.loads(measurement.raw or "")["report"] == {}


def test_a_system_of_the_kernel_is_held_with_the_fast_node_cut_to_size(tmp_path: Path) -> None:
    backend = backend_in(tmp_path, workload(tmp_path), by_kernel=["nbt"])
    measurement = backend.run(replace(TRIAL, system="nbt", config={"scan_size_mb": 64}))
    held = {
        entry["path"]: entry["value"] for entry in json.loads(measurement.raw or "")["report"]["settings"]
    }
    assert held["/proc/sys/kernel/numa_balancing"] == 2
    assert held["/sys/kernel/debug/sched/numa_balancing/scan_size_mb"] == 64
    # 60 GiB are free, of which 1:8 of 1 GiB is the workload's.
    huge = "/sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"
    fast_bytes = fast_tier_bytes(1 << 30, "1:8", 4096)
    assert next(iter(held)) == huge
    assert held[huge] == (60 * (1 << 30) - fast_bytes) // (2 << 20)


def test_a_system_that_limits_a_group_gets_one_and_the_whole_fast_node(tmp_path: Path) -> None:
    backend = backend_in(tmp_path, workload(tmp_path), by_kernel=["memtis"])
    measurement = backend.run(replace(TRIAL, system="memtis", config={"htmm_gamma": 7}))
    report = json.loads(measurement.raw or "")["report"]
    held = {entry["path"]: entry["value"] for entry in report["settings"]}
    group = "/sys/fs/cgroup/tiertune"
    assert held["/sys/kernel/mm/htmm/htmm_gamma"] == "7"
    assert held[f"{group}/memory.max_at_node0"] == fast_tier_bytes(1 << 30, "1:8", 4096)
    assert list(held)[-1] == f"{group}/memory.htmm_enabled"
    assert not any("hugepages-" in path for path in held)
    words = report["words"]
    assert words[words.index("--group") + 1] == group
    assert "--htmm" in words


def test_a_host_that_is_not_in_order_gets_no_trial(tmp_path: Path) -> None:
    def look() -> tuple[HostState, float]:
        return replace(FIT, quantities={**FIT.quantities, "swap used (kB)": 8.0}), 0.75

    backend = backend_in(tmp_path, workload(tmp_path), look)
    with pytest.raises(HostUnfit, match=r"(?s)8 kB are swapped out.*others use 75 %"):
        backend.prepare(SCENARIO, lambda sentence: None)
    measurement = attempt(backend, TRIAL)
    assert measurement.status is Status.HOST_UNFIT
    assert "swapoff" in (measurement.error or "")


@pytest.mark.parametrize(
    ("program", "status", "says"),
    [
        ("raise SystemExit(3)", Status.CRASHED, "ended with 4"),
        ("import os; os.kill(os.getpid(), 11)", Status.CRASHED, "ended with 4"),
        ("print('nothing of the kind')", Status.NO_METRIC, "nothing in the output matches"),
        ("import time; time.sleep(60)", Status.TIMEOUT, "ended after 1 s"),
    ],
)
def test_whatever_goes_wrong_is_a_status(tmp_path: Path, program: str, status: Status, says: str) -> None:
    made = workload(tmp_path, program, timeout_s="1")
    measurement = attempt(backend_in(tmp_path, made), TRIAL)
    assert (measurement.status, says in (measurement.error or "")) == (status, True), measurement


def test_a_cap_ends_a_trial_as_a_timeout(tmp_path: Path) -> None:
    with pytest.raises(TrialTimeout, match=r"given up after 0.5 s"):
        backend_in(tmp_path, workload(tmp_path)).run(replace(TRIAL, cap=0.5))


def test_cancelling_ends_the_trial_that_runs_and_those_that_wait(tmp_path: Path) -> None:
    """Settings are put back first: tierd is asked to end, and ends its program."""
    program = """
import pathlib, signal, sys, time
def tidy(*_):
    pathlib.Path(__file__).with_name('tidied').touch()
    sys.exit(0)
signal.signal(signal.SIGTERM, tidy)
pathlib.Path(__file__).with_name('runs').touch()
time.sleep(600)
"""
    backend = backend_in(tmp_path, workload(tmp_path, program))
    lost = []

    def run(seed: int) -> None:
        try:
            backend.run(replace(TRIAL, seed=seed))
        except BackendLost as error:
            lost.append(str(error))

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    until = time.monotonic() + 60
    while not (tmp_path / "runs").exists() and time.monotonic() < until:
        time.sleep(0.02)
    (tmp_path / "runs").unlink()
    backend.cancel()
    for thread in threads:
        thread.join(60)
    assert lost == ["stopped; the trial in flight runs again with `tiertune resume`"] * 2
    assert (tmp_path / "tidied").exists()
    assert not (tmp_path / "runs").exists()


def test_own_work_is_not_taken_for_that_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a counter that says all processors are busy: what is left is what this process did not use."""

    def all_busy(seconds: float) -> float:
        until = time.process_time() + seconds
        while time.process_time() < until:
            pass
        return 100.0

    monkeypatch.setattr("psutil.cpu_percent", all_busy)
    monkeypatch.setattr("psutil.cpu_count", lambda: 1)
    began, own_s = time.perf_counter(), time.process_time()
    share = used_by_others(0.3)
    own_share = (time.process_time() - own_s) / (time.perf_counter() - began)
    assert share == pytest.approx(1.0 - own_share, abs=0.05)
    monkeypatch.setattr("psutil.cpu_percent", lambda seconds: 40.0)
    assert used_by_others(0.0) <= 0.4


def test_trials_run_one_at_a_time(tmp_path: Path) -> None:
    running = 0
    most = 0
    mutex = threading.Lock()

    def look() -> tuple[HostState, float]:
        # Called right before and right after a run.
        nonlocal running, most
        with mutex:
            running = 1 - running
            most += running
        return FIT, 0.0

    backend = backend_in(tmp_path, workload(tmp_path), look)
    threads = [threading.Thread(target=backend.run, args=(replace(TRIAL, seed=seed),)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (running, most) == (0, 4)


def test_a_program_that_is_not_there_is_said_with_a_remedy() -> None:
    with pytest.raises(HostUnfit, match=r"no program no-such-thing here; install it"):
        program_here("no-such-thing")
