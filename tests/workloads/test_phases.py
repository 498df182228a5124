"""Figures of the phases of a run on a host, from the marks of `tierload` and the daemon's series."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from tests.live.test_launch import END, PART, TRIAL, said
from tiertune import engine
from tiertune.tuner.live.launch import metrics_of
from tiertune.tuner.report.cell import metric_changes
from tiertune.workloads import metrics
from tiertune.workloads.live import NoMetrics, events_of
from tiertune.workloads.phases import PhaseRun, bytes_moved, figures, phases_of


def marks(*runs: tuple[str, float, float, int]) -> str:
    """What tierload prints of phases: name, start (s), seconds, operations."""
    lines: list[dict[str, Any]] = []
    for name, start_s, seconds, ops in runs:
        lines.append({"event": "phase_start", "name": name, "timed": True, "at_s": start_s})
        lines.append({"event": "phase_end", "name": name, "timed": True, "seconds": seconds, "ops": ops})
    return "".join(json.dumps(line) + "\n" for line in lines)


TRIAL_END = '{"event": "trial", "number": 1, "trial_s": 1.0, "ops": 1, "metrics": {}, "checks": []}\n'
HOT_SETS = marks(("hot set 1", 0.5, 2.0, 8_000_000), ("hot set 2", 2.5, 4.0, 8_000_000))


def test_a_live_trial_has_the_figures_of_its_phases() -> None:
    found = metrics_of(TRIAL, PART, said(output=HOT_SETS + TRIAL_END + END), {})
    assert found["runtime_s"] == 2.5
    assert {name: value for name, value in found.items() if name.startswith("phase.")} == {
        "phase.hot_set_s": 6.0,
        "phase.hot_set_mops": pytest.approx(16 / 6),
        "phase.hot_set_1_s": 2.0,
        "phase.hot_set_1_mops": 4.0,
        "phase.hot_set_2_s": 4.0,
        "phase.hot_set_2_mops": 2.0,
    }


def test_levels_of_a_search_are_told_together_where_there_are_many() -> None:
    runs = [(f"forward {depth}", float(depth), 0.5, 10) for depth in range(9)]
    found = figures(phases_of(events_of(marks(("clear", 0.0, 0.25, 0), *runs))))
    assert found == {"phase.clear_s": 0.25, "phase.forward_s": 4.5, "phase.forward_mops": 90 / 4.5 / 1e6}


def test_several_trials_have_their_mean() -> None:
    output = marks(("read", 0.0, 1.0, 10)) + TRIAL_END + marks(("read", 0.0, 3.0, 10)) + TRIAL_END
    trials = phases_of(events_of("a warning\n[1]\n" + output))
    assert [len(trial) for trial in trials] == [1, 1]
    assert figures(trials) == {"phase.read_s": 2.0, "phase.read_mops": 20 / 4e6}


def test_metrics_of_a_kernel_are_of_all_trials() -> None:
    def trials(first: dict[str, float], second: dict[str, float]) -> str:
        told = [{"event": "trial", "metrics": one, "checks": []} for one in (first, second)]
        return "".join(json.dumps(one) + "\n" for one in told) + END

    found = metrics_of(TRIAL, PART, said(output=trials({"own": 1.0}, {"own": 4.0})), {})
    assert found["own"] == 2.5
    with pytest.raises(NoMetrics, match="wrong result: broken_rules"):
        metrics_of(TRIAL, PART, said(output=trials({"broken_rules": 2}, {"broken_rules": 0})), {})


def test_marks_of_other_programs_are_passed_over() -> None:
    strange = '{"event": "phase_end", "name": "x"}\n{"event": "phase_start", "at_s": "soon"}\n'
    assert phases_of(events_of(strange)) == []


SERIES = [
    {"at_s": at / 5, "promoted_bytes": max(0, at - 10) * 100, "demoted_bytes": at * 10} for at in range(31)
]
"""Every 0.2 s: promotions begin at 2 s, at 500 bytes a second, demotions at once at 50."""


def test_what_the_daemon_moved_is_told_by_phase() -> None:
    early, late = PhaseRun("read", True, 0.0, 2.0, 1), PhaseRun("write", True, 2.0, 3.0, 1)
    blink = PhaseRun("swap", True, 5.0, 0.1, 1)
    found = bytes_moved([[early, late, blink]], SERIES)
    assert found == pytest.approx(
        {
            "phase.read_promoted_bytes": 0.0,
            "phase.read_demoted_bytes": 100.0,
            "phase.write_promoted_bytes": 1500.0,
            "phase.write_demoted_bytes": 150.0,
        }
    )
    assert bytes_moved([[early], [late]], SERIES) == {}
    assert bytes_moved([[early]], []) == {}


def test_every_metric_has_one_declaration() -> None:
    own = [one.name for one in (*engine.metrics(), *metrics.OF_HOSTS)]
    of_kernels = {one.name for kernel in engine.kernels() for one in kernel.metrics}
    assert len(set(own)) == len(own)
    assert not of_kernels & set(own), "a kernel's figure would be taken for one of the engine"
    for name in ("runtime_s", "tierd_cpu_s", "matches", "phase.hot_set_1_mops"):
        one = metrics.declared(name)
        assert one is not None
        assert one.name == name
        assert one.meaning
    assert metrics.declared("mine") is None
    hot = metrics.declared("phase.hot_set_1_mops")
    assert hot is not None
    assert (hot.unit, hot.direction, hot.role) == ("1e6 op/s", "maximize", "secondary")


def test_metrics_of_hosts_come_after_those_of_the_engine() -> None:
    found = metrics.of_hosts(
        {"runtime_s", "phase.read_s", "phase.build_s", "matches", "promoted_bytes", "mine"}
    )
    assert [one.name for one in found] == ["promoted_bytes", "matches", "phase.build_s", "phase.read_s"]


def test_a_report_has_phases_of_default_and_tuned_side_by_side() -> None:
    def row(seconds: float) -> Any:
        return SimpleNamespace(metrics={"phase.read_s": seconds, "runtime_s": seconds + 1, "mine": 1.0})

    judged: Any = SimpleNamespace(default_rows=[row(4), row(5), row(9)], winner_rows=[row(2)])
    told = [(one.metric.name, one.metric.unit, one.default, one.tuned) for one in metric_changes(judged)]
    assert told == [("runtime_s", "s", 6.0, 3.0), ("phase.read_s", "s", 5.0, 2.0)]


def test_a_figure_that_counts_mistakes_makes_a_result_wrong() -> None:
    trial = json.dumps({"event": "trial", "metrics": {"broken_rules": 2}, "checks": []}) + "\n"
    with pytest.raises(NoMetrics, match="wrong result: broken_rules"):
        metrics_of(TRIAL, PART, said(output=trial + END), {})
    assert metrics_of(TRIAL, PART, said(output=trial.replace("2", "0") + END), {})["broken_rules"] == 0
