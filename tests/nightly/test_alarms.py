"""Alarms over nights that are measured in part, that were acknowledged, and of runs that fail."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tiertune.tuner.nightly.alarms import Track, Watch, accept, observe
from tiertune.tuner.nightly.detection import Kind, Reading

WORKLOAD = "workload x"


def watched(
    nights: Sequence[dict[str, Reading]], watch: Watch | None = None, first: int = 0
) -> tuple[Watch, list[int]]:
    """Nights from `first` on, one after the other: what is known then, and numbers of alarms as raised."""
    watch = watch or Watch()
    raised: list[int] = []
    for last in range(first, len(nights)):
        own: dict[str, list[Reading]] = {}
        for night in nights[: last + 1]:
            for key, reading in night.items():
                own.setdefault(key, []).append(reading)
        tracks = [Track(key, WORKLOAD, Kind(), readings) for key, readings in own.items()]
        watch, found = observe(watch, f"{last:03d}", tracks)
        raised += found.raised
    return watch, raised


def noisy(night: int, key: str, level: float = 0.0, failed: int = 0, runs: int = 10) -> Reading:
    """Runs of a night about a level, the same on every call."""
    random = np.random.default_rng([night, *key.encode()])
    values = (level + random.normal(0, 0.005, runs)).tolist()
    return Reading(f"{night:03d}", tuple(values[: runs - failed]), failed)


def test_what_was_not_measured_tonight_is_not_back() -> None:
    """The window closed before the second figure; only the first is known to be where it was."""
    nights = [{key: noisy(n, key, 0.05 * (8 <= n < 11)) for key in ("a", "b")} for n in range(11)]
    nights.append({"a": noisy(11, "a")})
    watch, _ = watched(nights)
    (alarm,) = watch.alarms
    assert [member.back for member in sorted(alarm.members, key=lambda one: one.key)] == [True, False]
    assert alarm.state == "raised"
    nights.append({key: noisy(12, key) for key in ("a", "b")})
    watch, _ = watched(nights, watch, first=12)
    assert [(one.state, one.closed) for one in watch.alarms] == [("cleared", "012")]


def test_an_alarm_does_not_wait_for_a_figure_that_is_followed_no_more() -> None:
    """A winner that was replaced is measured by no night."""
    nights = [{key: noisy(n, key, 0.05 * (8 <= n < 11)) for key in ("a", "b")} for n in range(11)]
    nights += [{"a": noisy(n, "a")} for n in range(11, 30)]
    watch, _ = watched(nights)
    assert [one.state for one in watch.alarms] == ["cleared"]


def test_one_run_that_works_does_not_clear_failures() -> None:
    """Half of the runs fail; one is measured before the window closes, and happens to work."""
    nights = [{"a": noisy(n, "a", failed=5 if n >= 8 else 0)} for n in range(10)]
    nights.append({"a": noisy(10, "a", runs=1)})
    nights.append({"a": noisy(11, "a", failed=5)})
    watch, raised = watched(nights)
    assert raised == [1]
    assert watch.alarms[0].state == "raised"
    watch, _ = watched([*nights, {"a": noisy(12, "a")}], watch, first=12)
    assert watch.alarms[0].state == "cleared"


def test_failures_are_over_where_they_are_as_rare_as_before() -> None:
    nights = [{"a": noisy(n, "a", failed=20 if 8 <= n < 10 else 1, runs=40)} for n in range(11)]
    watch, raised = watched(nights)
    assert raised == [1]
    assert watch.alarms[0].state == "cleared"


def test_failures_that_came_later_than_their_alarm_stay_accepted() -> None:
    """The second figure fails since long after the first one, in the same alarm."""
    nights = [{"a": noisy(n, "a", failed=5 * (n >= 5)), "b": noisy(n, "b")} for n in range(20)]
    nights.append({key: noisy(20, key, failed=5) for key in ("a", "b")})
    watch, raised = watched(nights)
    assert [len(one.members) for one in watch.alarms] == [2]
    watch = accept(watch, [1], "020", "known")
    nights += [{key: noisy(n, key, failed=5) for key in ("a", "b")} for n in range(21, 24)]
    watch, raised = watched(nights, watch, first=21)
    assert raised == []


def test_a_step_after_failures_is_accepted_with_them() -> None:
    levels = [0.05 * (n >= 12) for n in range(20)]
    nights = [{"a": noisy(n, "a", levels[n], failed=5 * (n >= 5))} for n in range(14)]
    watch, _ = watched(nights)
    watch = accept(watch, [one.number for one in watch.alarms], "013", "known")
    nights += [{"a": noisy(n, "a", levels[n], failed=5)} for n in range(14, 20)]
    _, raised = watched(nights, watch, first=14)
    assert raised == []
