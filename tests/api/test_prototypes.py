"""Policies written in Python: the same decisions as in Rust, the same contract, mistakes told."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import tiertune
from tests.api.recency import Recency
from tests.cli.small import WORKLOAD
from tiertune import engine
from tiertune.policy import Context, Float, Int, Migrated, Policy, PolicyMistake, Sample, Sampler
from tiertune.testing import check, policies_of


@pytest.fixture(autouse=True)
def nothing_stays_registered() -> Iterator[None]:
    yield
    for name in engine.registered():
        tiertune.unregister(name)


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "small-workload.yaml"
    path.write_text(WORKLOAD)
    return path


class Faulty(Policy):
    """Samples, and does what a test wants of it."""

    name = "faulty"
    summary = "does what a test wants"
    signal = "hardware samples"

    def samplers(self) -> Sequence[Sampler]:
        return [Sampler("load-miss", 5000)]


def evaluated(system: str, workload: Path, **more: Any) -> tiertune.Run:
    return tiertune.run(
        system, workload, "skx-numa", ratio="1:4", noise="paired", results=workload.parent / "results", **more
    )


def test_a_copy_of_mru_decides_and_costs_exactly_what_the_rust_one_does(workload: Path) -> None:
    tiertune.register(Recency)
    knobs = {"window_ms": 20.0, "batch_pages": 16}
    more: dict[str, Any] = {"timeline_points": 50, "seeds": [1, 2]}
    rust = evaluated("mru", workload, config={**knobs, "alloc_evict": False}, **more)
    python = evaluated("recency", workload, config=knobs, **more)
    assert rust.median["promotions"] > 50
    assert python.runs.equals(rust.runs)
    assert python.timeline.equals(rust.timeline)
    assert python.gauges.equals(rust.gauges)


def test_it_does_what_the_golden_scripts_of_mru_say() -> None:
    tiertune.register(Recency)
    script = """\
machine page=2MiB tiers=2,4

alloc 0..5

run 15ms

load 3 x2

run 20ms

gauges seen_slow_pages failed_moves
"""
    fixed = script.replace("tiers=2,4", "tiers=2,4 alloc_evict=false")
    rust = engine.replay_script("mru", fixed).replace(" alloc_evict=false", "")
    assert engine.replay_script("recency", script) == rust
    assert "ask   page 3: 1 -> 0" in rust


def test_a_registered_policy_is_a_system_like_any_other(workload: Path) -> None:
    tiertune.register(Recency)
    assert "recency" in tiertune.systems().index
    assert tiertune.knobs("recency").loc["batch_pages", "max"] == 4096
    with pytest.raises(tiertune.EngineError, match=r"no system 'recencie'; did you mean 'recency'"):
        engine.system("recencie")
    with pytest.raises(tiertune.EngineError, match=r"recency knob 'batch_pages': 5000 is not .* is 4096"):
        evaluated("recency", workload, config={"batch_pages": 5000})
    with pytest.raises(tiertune.EngineError, match=r"'colloid\+recency' makes no sense"):
        engine.system("colloid+recency")
    assert tiertune.unregister("recency")
    with pytest.raises(tiertune.EngineError, match="no system 'recency'"):
        engine.system("recency")


def test_what_a_policy_raises_ends_the_run_with_the_place_and_the_cause(workload: Path) -> None:
    class Raises(Faulty):
        def on_samples(self, samples: Sequence[Sample], cx: Context) -> None:
            if cx.now_ns > 5_000_000:
                raise KeyError("lost")

    tiertune.register(Raises)
    with pytest.raises(
        tiertune.PolicyFailed, match=r"policy faulty: on_samples at \d+(\.\d+)? ms: KeyError"
    ) as told:
        evaluated("faulty", workload)
    assert isinstance(told.value.__cause__, KeyError)


def test_pages_that_there_are_not_and_a_kept_context_are_mistakes_that_are_told(workload: Path) -> None:
    seen: list[str] = []

    class Wrong(Faulty):
        kept: Context | None = None

        def on_samples(self, samples: Sequence[Sample], cx: Context) -> None:
            mistakes: tuple[Callable[[], object], ...] = (
                lambda: cx.migrate(self.topology.pages, 0),
                lambda: cx.migrate(0, 7),
                lambda: cx.tier_of(2**32 - 1),
                lambda: self.kept and self.kept.now_ns,
            )
            for wrong in mistakes:
                if len(seen) < 8:
                    try:
                        wrong()
                    except (IndexError, RuntimeError) as error:
                        seen.append(str(error))
            self.kept = cx

    tiertune.register(Wrong)
    evaluated("faulty", workload)
    assert seen[0].endswith("the last page is 1023")
    assert seen[1] == "tier 7 of 2; the slowest is 1"
    assert "from page 4294967295 on" in seen[2]
    assert any("during a call only" in text for text in seen)


@pytest.mark.parametrize(
    ("attributes", "sentence"),
    [
        ({"name": "hemem"}, "'hemem' is a system of the engine"),
        ({"name": "Two Words"}, "use small letters, digits and dashes"),
        ({"page_bytes": (8192,)}, "holds other sizes"),
        ({"save": Int(1, 0, 2, "one")}, "a knob cannot be called 'save'"),
        ({"some_ms": Float(9.0, 0.0, 2.0, "one")}, "faulty knob 'some_ms': 9 is not a number from 0 to 2"),
    ],
)
def test_a_class_that_cannot_be_registered_is_told_why(attributes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(tiertune.EngineError, match=sentence):
        tiertune.register(type("Wrong", (Faulty,), attributes))
    with pytest.raises(PolicyMistake, match="no class derived"):
        tiertune.register(object)  # type: ignore[arg-type]


def test_quick_promises_of_the_contract_are_kept() -> None:
    quick = engine.promises()[:5]
    assert [kept for kept in check(Recency, tuple(quick)) if kept.wrong] == []


def test_the_contract_catches_a_policy_that_breaks_it() -> None:
    class Careless(Faulty):
        page_bytes = (2 << 20,)

        def on_samples(self, samples: Sequence[Sample], cx: Context) -> None:
            for sample in samples[:1]:
                cx.migrate(sample.page, 0)

        def on_migrations(self, ended: Sequence[Migrated], idle: bool, cx: Context) -> None:
            del ended, idle

        def restore(self, state: bytes) -> None:
            del state

    broken = {kept.promise: kept.wrong for kept in check(Careless, tuple(engine.promises()[4:6]))}
    assert "took up bytes that are no state" in broken["a state that is none is refused"]
    assert "asks to move page" in broken["requests are valid and succeed"]
    assert "to its own tier 0" in broken["requests are valid and succeed"]


def test_a_promise_is_told_as_broken_where_the_policy_raises() -> None:
    class Raises(Faulty):
        def overheads(self) -> Any:
            return "none"

    (kept,) = check(Raises, ("samplers, mechanics and overheads make sense",))
    assert kept.wrong.startswith("policy faulty: overheads: ")


def in_its_own_process(code: str) -> str:
    """What a script prints. A deadlock in the engine cannot be ended in this process."""
    paths = os.pathsep.join(path for path in sys.path if path)
    environment = {**os.environ, "PYTHONPATH": paths}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_registered_can_be_asked_for_while_a_policy_goes() -> None:
    script = """
import json, tiertune_engine

class Goes:
    def __del__(self):
        print([one["name"] for one in json.loads(tiertune_engine.registered_json())], flush=True)

told = {"name": "goes", "summary": "s", "source": "s", "signal": "none", "page_bytes": [4096], "knobs": []}
for _ in range(2):
    tiertune_engine.register_policy(json.dumps(told), Goes())
print(tiertune_engine.unregister_policy("goes"))
"""
    assert in_its_own_process(script) == "['goes']\n[]\nTrue\n"


def test_a_policy_may_check_another_one() -> None:
    script = """
import tiertune
from tiertune import engine
from tiertune.testing import check

class Checks(tiertune.Policy):
    name, summary, signal = "checks", "asks how another one does", "none"

    def samplers(self):
        assert engine.check_promise("hemem", engine.promises()[0]) is None
        return []

(kept,) = check(Checks, (engine.promises()[2],))
print(kept.wrong)
"""
    assert in_its_own_process(script) == "\n"


def test_policies_of_a_file_are_found_and_a_bad_file_is_told(tmp_path: Path) -> None:
    found = policies_of(Path(__file__).with_name("recency.py"))
    assert [one.__name__ for one in found] == ["Recency"]
    empty, broken = tmp_path / "empty.py", tmp_path / "broken.py"
    empty.write_text("x = 1\n")
    broken.write_text("import no_such_module\n")
    ending = tmp_path / "ending.py"
    ending.write_text("import sys\n\nsys.exit(3)\n")
    for path, sentence in (
        (empty, "no class derived"),
        (broken, "cannot be imported: ModuleNotFoundError"),
        (ending, "cannot be imported: SystemExit: 3"),
    ):
        with pytest.raises(tiertune.InputError, match=sentence):
            policies_of(path)


def test_results_of_a_policy_are_of_its_code(workload: Path) -> None:
    tiertune.register(Recency)
    matrix = {
        "systems": ["recency"],
        "workloads": [str(workload)],
        "machines": ["skx-numa"],
        "ratios": ["1:4"],
    }
    results = workload.parent / "results"
    first = tiertune.sweep(matrix, seeds=1, results=results)
    told: list[int] = []
    tiertune.sweep(matrix, seeds=1, results=results, progress=lambda progress: told.append(progress.cached))
    assert told == [2]
    before = engine.registered()["recency"]

    class Changed(Recency):
        pass

    tiertune.register(Changed)
    assert engine.registered()["recency"] != before
    again = tiertune.sweep(
        matrix, seeds=1, results=results, progress=lambda progress: told.append(progress.cached)
    )
    assert told[1] == 1
    assert again.rows.loc[0, "runtime_s"] == first.rows.loc[0, "runtime_s"]


ENDLESS = """
import os, sys, time
import tiertune
from tiertune.policy import Policy, Sampler

class Endless(Policy):
    name, summary, signal = "endless", "takes its time", "hardware samples"

    def samplers(self):
        return [Sampler("load-miss", 5000)]

    def on_samples(self, cx, samples):
        os.write(1, b"asked\\n")  # whole lines, whichever thread
        time.sleep(0.2)

tiertune.register(Endless)
tiertune.run("endless", sys.argv[1], "skx-numa", ratio="1:4", seeds="1-50", results=sys.argv[2])
"""


def test_ctrl_c_ends_runs_of_several_seeds(workload: Path, tmp_path: Path) -> None:
    """Threads run the seeds, and signals reach none of these."""
    command = [sys.executable, "-c", ENDLESS, str(workload), str(tmp_path / "results")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.readline() == "asked\n"
        running.send_signal(signal.SIGINT)
        began = time.monotonic()
        try:
            running.wait(60)
        finally:
            running.kill()
        # Each run alone asks for longer than this.
        assert time.monotonic() - began < 10
        said = running.stderr.read()
    assert said.splitlines()[-1].startswith("KeyboardInterrupt"), said
    assert running.returncode == -signal.SIGINT
