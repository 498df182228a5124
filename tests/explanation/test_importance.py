"""Importance on planted costs: what matters is found, what does not is not, and nothing is said of noise."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tiertune.tuner.explanation.importance import (
    FEWEST_TRIALS,
    LEAST_R2,
    Importance,
    beyond_sum,
    importance_of,
)

NAMES = [f"knob{number}" for number in range(6)]


def planted(law: Callable[[np.ndarray], np.ndarray], trials: int = 60, noise: float = 0.1) -> Importance:
    random = np.random.default_rng(7)
    places = random.random((trials, len(NAMES)))
    return importance_of(NAMES, places, law(places) + random.normal(0.0, noise, trials))


def test_the_one_knob_that_matters_is_found_and_no_other() -> None:
    found = planted(lambda x: 2.0 * x[:, 3] ** 2)
    assert not found.refused
    assert found.r2 is not None
    assert found.r2 > 0.8
    assert [part.knobs for part in found.knobs if part.shown] == [("knob3",)]
    best = found.knobs[0]
    assert best.low < best.share < best.high
    assert best.low > 0.3
    assert not any(part.shown for part in found.pairs)


def test_equal_trials_give_equal_importance() -> None:
    first, second = (planted(lambda x: 2.0 * x[:, 3], trials=FEWEST_TRIALS, noise=0.01) for _ in range(2))
    assert first.knobs
    assert first == second


def test_two_knobs_that_work_only_together_interact() -> None:
    found = planted(lambda x: 2.0 * (x[:, 0] > 0.5) * (x[:, 1] > 0.5))
    assert {part.knobs for part in found.knobs if part.shown} == {("knob0",), ("knob1",)}
    (pair,) = [part for part in found.pairs if part.shown]
    assert pair.knobs == ("knob0", "knob1")
    # 2 x (1/2 x 1/2): a third of the variance of this law is in the interaction.
    assert 0.15 < pair.share < 0.5


def test_a_sum_of_two_knobs_is_no_interaction() -> None:
    found = planted(lambda x: x[:, 0] + x[:, 1])
    assert {part.knobs for part in found.knobs if part.shown} == {("knob0",), ("knob1",)}
    assert not any(part.shown for part in found.pairs)


def test_of_noise_nothing_is_said() -> None:
    found = planted(lambda x: 0.0 * x[:, 0])
    assert found.r2 is not None
    assert found.r2 < LEAST_R2
    assert "noise" in found.refused
    assert (found.knobs, found.pairs) == ((), ())


def test_of_few_trials_or_equal_ones_nothing_is_said() -> None:
    found = planted(lambda x: 2.0 * x[:, 3], trials=FEWEST_TRIALS - 1)
    assert (found.r2, found.knobs) == (None, ())
    assert str(FEWEST_TRIALS - 1) in found.refused
    assert "no knob" in planted(lambda x: 0.0 * x[:, 0], noise=0.0).refused


def test_beyond_the_sum_of_rows_and_columns() -> None:
    added = np.add.outer([0.0, 3.0, 4.0], [1.0, 5.0])
    assert np.abs(beyond_sum(added)).max() == pytest.approx(0.0, abs=1e-12)
    assert beyond_sum(np.array([[1.0, -1.0], [-1.0, 1.0]])).var() == pytest.approx(1.0)
