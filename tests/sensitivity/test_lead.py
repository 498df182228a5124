"""The lead of one side is that of its interval: over paired seeds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tiertune.tuner.sensitivity.study import by_seed, interval_pct, lead_pct
from tiertune.tuner.sweep.row import PlannedRow, Result
from tiertune.tuner.trial import Status


def side(name: str, values: list[float | None], direction: str) -> tuple[list[PlannedRow], dict[str, Result]]:
    """Rows of one side with a result each, by seed; None: the run failed."""
    metric = SimpleNamespace(name="m", direction=direction)
    setting = SimpleNamespace(workload=SimpleNamespace(metric=metric))
    rows: list[Any] = []
    found = {}
    for seed, value in enumerate(values):
        key = f"{name}{seed}"
        rows.append(
            SimpleNamespace(at=SimpleNamespace(seed=seed), run=SimpleNamespace(key=key, setting=setting))
        )
        found[key] = Result(Status.CRASHED) if value is None else Result(Status.OK, {"m": value})
    return cast("list[PlannedRow]", rows), found


def leads(
    better: list[float | None], worse: list[float | None], direction: str = "minimize"
) -> tuple[float | None, tuple[float, float] | None]:
    mine, found = side("better", better, direction)
    others, more = side("worse", worse, direction)
    found |= more
    return lead_pct(mine, others, found), interval_pct(by_seed(mine, others, found))


def test_a_lead_lies_in_its_interval_whatever_seeds_have_in_common() -> None:
    random = np.random.default_rng(1)
    for _ in range(40):
        common = random.normal(0.0, 0.03, 5)
        better, worse = (
            np.exp(base + common + random.normal(0.0, 0.005, 5)).tolist() for base in (0.0, 0.05)
        )
        lead, ends = leads(better, worse)
        assert lead is not None
        assert ends is not None
        assert ends[0] <= lead <= ends[1]


def test_directions_and_failures() -> None:
    assert leads([1.0, 2.0], [1.1, 2.2])[0] == pytest.approx(10.0)
    assert leads([1.1, 2.2], [1.0, 2.0], "maximize")[0] == pytest.approx(10.0)
    assert leads([1.0, None], [1.1, 2.2])[0] is None
    assert leads([1.0, 2.0], [1.1, None])[0] is None
