"""The command of a trial, and what its output is taken for."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.tuner.toy import SCENARIO
from tiertune.tuner.backend import ConfigRejected, HostUnfit, TrialTimeout
from tiertune.tuner.fleet.yardstick import Drift, latency_of
from tiertune.tuner.host.state import HostState
from tiertune.tuner.live.fitness import Nodes
from tiertune.tuner.live.launch import launch, metrics_of, raw_of
from tiertune.tuner.live.measurement import measured
from tiertune.tuner.live.scope import Ended
from tiertune.tuner.trial import Trial
from tiertune.workloads.definition import load_workload
from tiertune.workloads.live import HostPart, NoMetrics

PART = HostPart(command=["gups", "--threads={threads}", "{seed}", "--json"], footprint=9 << 30, timeout_s=60)
SCENE = replace(SCENARIO, ratio="1:8", page_bytes=2 << 20)
TRIAL = Trial("toy", "cell", 3, SCENE, "hemem", {"hot_read_threshold": 8}, seed=2**40 + 5)
NODES = Nodes(2, 3)
END = '{"event":"end","runtime_s":2.5,"throughput_mops":40.0,"peak_rss_bytes":null}\n'
RAN = {"returncode": 0, "ended": "finished", "errors": "", "output": END, "wall_s": 3.0}


def said(**changes: Any) -> dict[str, Any]:
    return {**RAN, **changes}


def test_a_system_runs_below_tierd_with_its_config_in_a_file() -> None:
    order = launch(TRIAL, {"hot_read_threshold": 8}, PART, 4, NODES)
    before, after = order.command[: order.command.index("--")], order.command[order.command.index("--") + 1 :]
    options = dict(zip(before[2::2], before[3::2], strict=False))
    assert before[:2] == ["tierd", "run"]
    assert (options["--policy"], options["--fast"], options["--slow"]) == ("hemem", "2", "3")
    assert options["--fast-bytes"] == str(1 << 30)
    assert after == ["gups", "--threads=4", "5", "--json"]
    assert json.loads(order.files["knobs.json"]) == {"hot_read_threshold": 8}
    assert order.fetch == ["report.json"]


def test_first_touch_needs_no_daemon() -> None:
    order = launch(replace(TRIAL, system="notier"), {}, PART, 4, NODES)
    assert order.command == ["gups", "--threads=4", "5", "--json"]
    assert not order.files


def test_the_metrics_of_tierload() -> None:
    noise = "numactl: a warning\n" + END
    assert metrics_of(TRIAL, PART, said(output=noise), {}) == {"runtime_s": 2.5, "throughput_mops": 40.0}


@pytest.mark.parametrize(
    ("changes", "error", "sentence"),
    [
        ({"returncode": 2, "errors": "tierd: no knob x\n"}, ConfigRejected, "tierd: no knob x"),
        ({"returncode": 3, "errors": "tierd: one node\n"}, HostUnfit, "tierd: one node"),
        ({"returncode": -11}, RuntimeError, "ended with -11"),
        ({"returncode": None, "ended": "timeout"}, TrialTimeout, "60 s"),
        ({"output": ""}, NoMetrics, "did not say"),
    ],
)
def test_what_goes_wrong_is_told_apart(
    changes: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error, match=sentence):
        metrics_of(TRIAL, PART, said(**changes), {})


@pytest.mark.parametrize("found", [{"exit_code": 2}, {"exit_code": 3}, {"exit_code": None, "signal": 9}])
@pytest.mark.parametrize("place", ["run", "hold"])
def test_a_program_below_tierd_that_fails_is_told_by_its_own_code(found: dict[str, Any], place: str) -> None:
    errors = "gups: no such graph\ntierd: 0.1 s; at most 0.0 MiB in the fast tier\n"
    report = {"workload": found} if place == "run" else found
    code = found["exit_code"] or -9
    with pytest.raises(RuntimeError, match=f"the command ended with {code}: gups: no such graph$"):
        metrics_of(TRIAL, PART, said(returncode=4, errors=errors), report)


def test_exit_codes_that_are_well_are_those_of_the_program() -> None:
    part = PART.model_copy(update={"exit_codes": [0, 1, 3, 4]})
    assert metrics_of(TRIAL, part, said(returncode=4), {"workload": {"exit_code": 3}})["runtime_s"] == 2.5
    for code, report in ((1, {}), (4, {"workload": {"exit_code": None, "signal": None}})):
        with pytest.raises(RuntimeError):
            metrics_of(TRIAL, part, said(returncode=code), report)


def test_the_time_of_a_program_is_without_that_of_the_daemon() -> None:
    part = HostPart(command=["bench"], footprint=1 << 30, metrics={"runtime_s": "wall"})
    for report in ({"workload": {"runtime_s": 2.25}}, {"runtime_s": 2.25}):
        assert metrics_of(TRIAL, part, said(wall_s=9.0), report) == {"runtime_s": 2.25}
    assert metrics_of(replace(TRIAL, system="notier"), part, said(wall_s=9.0), {}) == {"runtime_s": 9.0}
    with pytest.raises(NoMetrics, match="nobody says how long the program ran"):
        metrics_of(TRIAL, part, said(wall_s=9.0), {})


def test_a_run_beyond_its_cap_is_a_timeout_with_a_bound() -> None:
    with pytest.raises(TrialTimeout) as raised:
        metrics_of(replace(TRIAL, cap=2.0), PART, said(), {})
    assert raised.value.metrics == {"runtime_s": 2.0}


def test_a_wrong_result_is_no_measurement() -> None:
    wrong = '{"event":"trial","checks":[{"name":"sum","passed":false,"detail":"1"}],"metrics":{}}\n'
    with pytest.raises(NoMetrics, match="wrong result: sum"):
        metrics_of(TRIAL, PART, said(output=wrong + END), {})


def test_the_last_number_that_an_expression_finds() -> None:
    part = HostPart(command=["bc"], footprint=1 << 30, metrics={"runtime_s": r"Average Time:\s+([0-9.]+)"})
    output = "Average Time:  4.0\nwarming up\nAverage Time:  3.5\n"
    assert part.read(output) == {"runtime_s": 3.5}
    with pytest.raises(NoMetrics, match="nothing in the output matches"):
        part.read("Segmentation fault\n")


def test_what_a_run_said_on_either_output_can_be_read_again() -> None:
    """Silo says its throughput on the error output."""
    silo = load_workload("ycsb-c-zipf").upstream
    assert silo is not None
    line = "agg_throughput: 1.25e+06 ops/sec\n"
    ended = Ended(0, False, "", line, 3.0)
    bare = replace(TRIAL, system="notier")
    host = (HostState(), HostState())
    raws = [raw_of("alpha", said(output="", errors=line)), measured(bare, silo, ended, {}, host, 0).raw or ""]
    for raw in map(json.loads, raws):
        assert silo.read(raw["output"], raw["errors"]) == {"throughput_mops": 1.25}


def sample(*latencies_ns: float) -> str:
    return "".join(json.dumps({"event": "sample", "latency_ns": value}) + "\n" for value in latencies_ns)


def test_a_host_whose_memory_slows_down_drifts() -> None:
    drift = Drift(0.15)
    assert [drift.seen(sample(value, value * 3)) for value in (100.0, 104.0, 98.0, 112.0, 88.0)] == [None] * 5
    sentence = drift.seen(sample(131.0))
    assert sentence is not None
    assert "131.0 ns, +31 % from the 100.0 ns" in sentence
    assert drift.seen("tierload: not found") is None


def test_a_window_without_a_processor_is_no_latency_and_ends_no_trial() -> None:
    lost = '{"event": "sample", "latency_ns": null}\n'
    assert latency_of(lost + sample(110.0, 120.0)) == 110.0
    assert latency_of(lost) is None
    assert Drift(0.15).seen(lost) is None
