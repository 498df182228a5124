"""Steps and alarms on numbers whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from tests.nightly.nights import SLOWED, World, live
from tiertune.tuner.nightly.alarms import Track, Watch, accept, observe
from tiertune.tuner.nightly.detection import Kind, Reading, Series, Step, steps
from tiertune.tuner.nightly.figures import FIGURES


def test_200_nights_without_a_change() -> None:
    """At most five false alarms over all 36 series; 1 is what the error budget allows on average."""
    assert len(live(World((0.01, 0.02, 0.03), 0.005), 200, seed=1)) <= 5


@pytest.mark.parametrize("noise", [0.01, 0.02, 0.03])
def test_a_slowdown_is_one_alarm_in_that_night_or_the_next(noise: float) -> None:
    for seed in range(5):
        world = World((noise,), noise / 10, slower_from=12)
        alarms = live(world, 18, seed)
        assert [alarm.subject for alarm in alarms] == [SLOWED], seed
        assert alarms[0].raised in ("00012", "00013"), seed
        assert alarms[0].lead.size == pytest.approx(np.log1p(world.slowdown), abs=0.03)
        assert alarms[0].state == "raised"


def test_the_third_night_can_be_judged() -> None:
    for seed in range(8):
        alarms = live(World((0.005,), 0.001, seeds=5, slower_from=2), 5, seed)
        assert [(alarm.subject, alarm.raised) for alarm in alarms] == [(SLOWED, "00002")], seed


def test_an_alarm_is_cleared_when_the_figures_are_back() -> None:
    (alarm,) = live(World((0.01,), 0.001, slower_from=10, slower_until=16), 22, seed=3)
    assert alarm.state == "cleared"
    assert alarm.closed in ("00016", "00017")
    assert all(member.back for member in alarm.members)


def test_a_second_regression_is_an_alarm_of_its_own() -> None:
    levels = [0.0] * 8 + [0.05] * 6 + [0.12] * 4
    watch = Watch()
    raised: list[int] = []
    for night in range(len(levels)):
        watch, found = observe(watch, f"{night:03d}", [steady(levels[: night + 1])])
        raised += found.raised
    assert [(alarm.since, alarm.state) for alarm in watch.alarms] == [("008", "raised"), ("014", "raised")]
    assert raised == [1, 2]
    assert [alarm.lead.size for alarm in watch.alarms] == pytest.approx([0.05, 0.07], abs=0.005)


def test_accepted_is_the_new_normal() -> None:
    watch, _ = observe(Watch(), "005", [steady([0.0] * 5 + [0.05])])
    assert watch.alarms[0].state == "raised"
    watch = accept(watch, [1], "005", "meant")
    for night in range(6, 12):
        watch, found = observe(watch, f"{night:03d}", [steady([0.0] * 5 + [0.05] * (night - 4))])
        assert found.raised == ()
    assert (watch.alarms[0].state, watch.alarms[0].reason) == ("accepted", "meant")


def test_what_is_better_is_no_alarm() -> None:
    watch, found = observe(Watch(), "005", [steady([0.0] * 5 + [-0.05])])
    assert watch.alarms == ()
    (step,) = found.improved
    assert step.night == "005"
    assert step.size == pytest.approx(-0.05, abs=0.005)


def test_runs_that_fail_are_one_alarm_until_they_work_again() -> None:
    watch = Watch()
    raised: list[int] = []
    for night in range(12):
        failed = 10 if 5 <= night < 9 else 0
        readings = [
            Reading(f"{n:03d}", () if 5 <= n < 9 else (0.0,) * 10, 10 if 5 <= n < 9 else 0)
            for n in range(night + 1)
        ]
        assert readings[-1].failed == failed
        watch, found = observe(watch, f"{night:03d}", [Track("x", "workload x", Kind(), readings)])
        raised += found.raised
    assert raised == [1]
    assert (watch.alarms[0].raised, watch.alarms[0].state, watch.alarms[0].closed) == (
        "005",
        "cleared",
        "009",
    )


def test_failures_that_were_accepted_are_not_raised_again() -> None:
    watch = Watch()
    for night in range(10):
        readings = [
            Reading(f"{n:03d}", () if n >= 5 else (0.0,) * 10, 10 if n >= 5 else 0) for n in range(night + 1)
        ]
        watch, _ = observe(watch, f"{night:03d}", [Track("x", "workload x", Kind(), readings)])
        watch = accept(watch, [1], f"{night:03d}", "known")
    assert [alarm.state for alarm in watch.alarms] == ["accepted"]


def test_one_failure_of_ten_is_none() -> None:
    readings = [Reading(f"{n:03d}", (0.0,) * 10) for n in range(3)]
    last = Reading("003", (0.0,) * 9, 1)
    assert steps([Series("x", Kind(), [*readings, last])]) == ([], [])


def test_confirmation_waits_for_a_second_night() -> None:
    for nights, since in ((1, []), (2, ["005"])):
        own = steady([0.0] * 5 + [0.05] * nights)
        worse, _ = steps([Series("x", own.kind, own.readings)], confirm=2)
        assert [step.night for step in worse] == since


def test_new_random_numbers_of_a_frozen_simulator_are_no_step() -> None:
    """Equal seeds give equal nights; a change of the random stream draws every seed anew, once."""
    random = np.random.default_rng(5)
    alarms = 0
    for _ in range(200):
        old, new = (tuple(random.normal(0, 0.03, 10).tolist()) for _ in range(2))
        readings = [Reading(f"{n:03d}", old) for n in range(40)]
        worse, _ = steps([Series("x", Kind(), [*readings, Reading("040", new)])])
        alarms += len(worse)
    assert alarms <= 3


@pytest.mark.parametrize(("panel", "measured"), [(10, 1), (10, 3), (20, 5)])
def test_a_night_that_is_measured_in_part_keeps_the_promise(panel: int, measured: int) -> None:
    """200 suites of 24 figures on a host, 20 quiet nights and one whose window closed early: one false alarm
    is what the error budget allows on average."""
    random = np.random.default_rng(7)
    assert sum(bool(_quiet(random, panel, measured)) for _ in range(200)) <= 3


def test_a_night_that_is_measured_in_part_still_tells_a_large_step() -> None:
    found = [_quiet(np.random.default_rng(seed), 10, 5, slower=0.1) for seed in range(10)]
    assert [len(worse) for worse in found] == [1] * 10


def _quiet(random: np.random.Generator, panel: int, measured: int, slower: float = 0.0) -> list[Step]:
    """What got worse in the last of 21 nights, of which only some of the runs were made; the first figure is
    slower tonight."""
    noise = random.normal(0, 0.02, (24, 21, panel))
    noise[0, -1] += slower
    series = []
    for number, nights in enumerate(noise.tolist()):
        own = [Reading(f"{night:03d}", tuple(values)) for night, values in enumerate(nights)]
        own[-1] = Reading("020", own[-1].values[:measured])
        series.append(Series(f"{number}", Kind(), own))
    return steps(series)[0]


def test_single_figures_need_some_nights_first() -> None:
    kind = FIGURES["proposal_cpu_s"].kind
    random = np.random.default_rng(2)

    def told(nights: int) -> list[Step]:
        values = [0.05 * float(random.standard_normal()) for _ in range(nights)] + [1.0]
        return steps([Series("x", kind, [Reading(f"{n:03d}", (v,)) for n, v in enumerate(values)])])[0]

    assert told(4) == []
    assert len(told(10)) == 1


def steady(levels: list[float]) -> Track:
    """A workload with those night means and 0.5 % noise, the same on every call."""
    random = np.random.default_rng(11)
    noise = random.normal(0, 0.005, (len(levels), 10))
    readings = [
        Reading(f"{night:03d}", tuple((level + own).tolist()))
        for night, (level, own) in enumerate(zip(levels, noise, strict=True))
    ]
    return Track("x", "workload x", Kind(), readings)
