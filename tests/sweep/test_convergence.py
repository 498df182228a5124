"""When a system has settled, on series whose answer is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.configs.corpus import ROOT
from tiertune.document import parse
from tiertune.tuner.sweep.convergence import convergence_s, early_promotion_share, last_change_s
from tiertune.workloads.definition import Workload, load_workload

STREAMS = """\
name: phases
version: 1
description: Phases by time and by work
source: made up for this test
metric: {name: throughput_mops, direction: maximize}
threads: 1
sim:
  streams:
    objects: [{name: a, bytes: 1GiB}, {name: b, bytes: 1GiB}]
    blocks: [BLOCKS]
"""


def phase(name: str, end: str, target: str, ops: str = "") -> str:
    stream = f"{{object: {target}, law: {{kind: uniform}}, class: random, reads_per_op: 1}}"
    group = f"{{name: g, threads: 1, {ops} cpu_ns_per_op: 1, streams: [{stream}]}}"
    return f"{{name: {name}, {end} groups: [{group}]}}"


def workload(*phases: str, repeat: int = 1) -> Workload:
    block = f"{{repeat: {repeat}, phases: [{', '.join(phases)}]}}"
    return Workload.model_validate(parse(STREAMS.replace("BLOCKS", block)).data)


def series(*rates: float, step_s: float = 1.0) -> dict[str, list[float]]:
    """Points of `step_s` each."""
    times = [step_s * (number + 1) for number in range(len(rates))]
    return {"time_s": times, "throughput_mops": list(rates)}


def test_settles_where_it_stays_within_5_percent() -> None:
    timeline = series(*[50] * 10, *[94] * 5, *[96] * 5, *[100] * 20)
    assert convergence_s(timeline, 0.0) == 15.0
    assert convergence_s(timeline, 10.0) == 5.0
    assert convergence_s(timeline, 20.0) == 0.0


def test_a_later_dip_counts_against_it() -> None:
    assert convergence_s(series(*[100] * 20, 80, *[100] * 19), 0.0) == 21.0


def test_faster_before_it_settles_is_not_settled_either() -> None:
    assert convergence_s(series(*[120] * 7, *[100] * 33), 0.0) == 7.0


def test_what_never_settles_has_no_convergence() -> None:
    assert convergence_s(series(*range(50, 150, 2)), 0.0) is None
    assert convergence_s(series(*[100, 60] * 20), 0.0) is None
    # Still for the last stretch alone: its own evidence.
    assert convergence_s(series(*[50] * 36, *[100] * 4), 0.0) is None
    assert convergence_s({"time_s": [], "throughput_mops": []}, 0.0) is None


def test_a_stretch_across_the_change_says_nothing() -> None:
    timeline = series(*[50] * 10, 75, *[100] * 20)
    assert convergence_s(timeline, 10.5) == pytest.approx(0.5)


def test_a_last_stretch_that_is_cut_short_is_no_dip() -> None:
    timeline = series(*[50] * 10, *[100] * 30)
    ends = [*timeline["time_s"], 40.01]
    assert convergence_s({"time_s": ends, "throughput_mops": [*timeline["throughput_mops"], 60]}, 0.0) == 10.0
    ends[-1] = 40.5
    assert convergence_s({"time_s": ends, "throughput_mops": [*timeline["throughput_mops"], 60]}, 0.0) is None


def test_promotions_at_an_even_rate_are_a_third_early() -> None:
    even = {"time_s": [4.0, 10.0], "promotions_per_s": [5.0, 5.0]}
    assert early_promotion_share(even) == pytest.approx(1 / 3)


def test_promotions_of_the_first_third_are_early() -> None:
    # 30 pages in 2 s, 10 in 8 s: of the latter, 1.25 a second, those until 10/3 s are early.
    spike = {"time_s": [2.0, 10.0], "promotions_per_s": [15.0, 1.25]}
    assert early_promotion_share(spike) == pytest.approx((30 + 1.25 * (10 / 3 - 2)) / 40)


def test_no_promotions_have_no_early_share() -> None:
    assert early_promotion_share({"time_s": [1.0, 2.0], "promotions_per_s": [0.0, 0.0]}) is None


def test_one_phase_changes_at_the_start_alone() -> None:
    assert last_change_s(workload(phase("only", "seconds: 30,", "a")), series(*[10] * 30)) == 0.0
    assert last_change_s(load_workload("seq-chase"), series(*[10] * 30)) == 0.0


def test_phases_by_the_clock() -> None:
    timed = workload(phase("one", "seconds: 12,", "a"), phase("two", "seconds: 18,", "b"))
    assert last_change_s(timed, series(*[10] * 30)) == 12.0
    again = workload(phase("one", "seconds: 5,", "a"), phase("two", "seconds: 5,", "b"), repeat=3)
    assert last_change_s(again, series(*[10] * 30)) == 25.0
    # The same again is no change.
    same = workload(phase("one", "seconds: 10,", "a"), repeat=3)
    assert last_change_s(same, series(*[10] * 30)) == 0.0


def test_phases_by_their_work() -> None:
    worked = workload(phase("one", "", "a", "ops: 120e6,"), phase("two", "", "b", "ops: 200e6,"))
    assert last_change_s(worked, series(*[10] * 10, *[20] * 11)) == pytest.approx(11.0)
    mixed = workload(
        phase("one", "seconds: 4,", "a"),
        phase("two", "", "b", "ops: 60e6,"),
        phase("three", "seconds: 20,", "a"),
    )
    assert last_change_s(mixed, series(*[10] * 30)) == pytest.approx(10.0)


def test_a_moving_hot_set_moves_at_shares_of_the_work() -> None:
    gups = load_workload("gups")
    assert gups.sim.record is not None
    assert gups.sim.record.model_dump()["moves"] == 3
    assert last_change_s(gups, series(*[10] * 20, *[20] * 10)) == pytest.approx(25.0)


def test_of_a_recorded_graph_nothing_is_claimed() -> None:
    assert last_change_s(load_workload("bc-kron"), series(*[10] * 30)) is None


def test_the_documentation_has_these_numbers() -> None:
    page = Path(ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    assert "within 5 % of the plateau" in page
    assert "last fifth" in page
