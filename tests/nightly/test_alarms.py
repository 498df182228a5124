"""Alarms that were acknowledged."""

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
