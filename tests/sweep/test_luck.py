"""Whoever a sweep calls behind is behind, as rarely by luck as it says; on figures whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import stdtr

from tests.sweep.test_page import AT, Runnable
from tiertune.tuner.comparison.inference import ALPHA
from tiertune.tuner.sweep import outcome
from tiertune.tuner.sweep.luck import Place, adjusted, chance
from tiertune.tuner.sweep.measured import MeasuredRow
from tiertune.tuner.sweep.outcome import Scene, Standing, outcome_of
from tiertune.tuner.sweep.quantity import quantity_of
from tiertune.tuner.sweep.row import PlannedRow, Result
from tiertune.tuner.sweep.scenario import plane_of
from tiertune.tuner.trial import Status

NOISE = 0.05


def scenes(figures: np.ndarray) -> tuple[Scene, ...]:
    """What is said of figures of shape (scenarios, contenders, seeds)."""
    rows = []
    for place, value in np.ndenumerate(figures):
        scene, contender, seed = place
        at = replace(AT, workload=f"w{scene}", system=f"s{contender}", seed=seed + 1)
        row = MeasuredRow(PlannedRow(at, Runnable(), {}), Result(Status.OK), None)
        row.values = {"slowdown": float(value)}
        rows.append(row)
    return outcome_of(plane_of(rows), quantity_of("slowdown")).scenes


def behind(figures: np.ndarray) -> list[set[str]]:
    found = scenes(figures)
    return [{e.subject for e in scene.entries if e.standing is Standing.BEHIND} for scene in found]


@pytest.fixture(autouse=True)
def no_intervals(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of means take nearly all of the time and decide nothing."""
    monkeypatch.setattr(outcome, "interval", lambda values: (float(min(values)), float(max(values))))


@pytest.mark.parametrize(("contenders", "seeds"), [(4, 10), (8, 5), (20, 3)])
def test_equals_are_rarely_behind_the_luckiest_of_them(contenders: int, seeds: int) -> None:
    """A test that takes the first as given calls some behind in 8, 10 and 12 of 100."""
    random = np.random.default_rng(contenders)
    found = [behind(figures(random, (1, contenders, seeds)))[0] for _ in range(1000)]
    assert np.mean([bool(names) for names in found]) <= 0.064  # the standard error of the share is 0.7 %


def test_nor_are_those_of_several_scenarios_some_of_which_differ() -> None:
    random, found = np.random.default_rng(21), []
    for _ in range(500):
        values = figures(random, (3, 8, 5))
        values[:, 4:] *= 3.0
        equals = {f"s{number}" for number in range(4)}
        told = behind(values)
        assert all(names >= {"s4", "s5", "s6", "s7"} for names in told)
        found.append(any(names & equals for names in told))
    assert np.mean(found) <= 0.07  # the standard error is 1 %


def test_three_times_as_slow_is_behind_among_twenty_on_three_seeds() -> None:
    """Where an adjustment for all pairs leaves most of them not told apart."""
    random = np.random.default_rng(22)
    values = figures(random, (1, 20, 3)) * np.linspace(1.0, 20.0, 20)[:, None]
    assert len(behind(values)[0]) >= 17


def figures(random: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    """Equal contenders: each seed is as hard for all, and each run has its own noise."""
    scenarios, _, seeds = shape
    hard = 0.2 * random.standard_normal((scenarios, 1, seeds))
    made: np.ndarray = np.exp(hard + NOISE * random.standard_normal(shape))
    return made


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_of_two_the_chance_is_that_of_the_test(seeds: int) -> None:
    for p in (0.5, 0.05, 1e-3, 1e-9):
        assert chance(p, 2, seeds) == pytest.approx(p, rel=1e-3)
    assert (chance(0.0, 9, seeds), chance(1.0, 9, seeds)) == (0.0, 1.0)


@pytest.mark.parametrize(("contenders", "seeds"), [(4, 3), (8, 5), (20, 3), (20, 10)])
def test_the_chance_is_what_happens(contenders: int, seeds: int) -> None:
    """No less than the share in which any is as far away, and hardly more while it is small."""
    values = np.random.default_rng(23).standard_normal((20_000, contenders, seeds))
    lowest = values[np.arange(len(values)), values.mean(axis=2).argmin(axis=1)]
    apart = values - lowest[:, None]
    with np.errstate(invalid="ignore"):  # the lowest against itself
        t = apart.mean(axis=2) / (apart.std(axis=2, ddof=1) / np.sqrt(seeds))
    furthest = np.quantile(np.nanmax(t, axis=1), 1.0 - ALPHA)
    told = chance(2.0 * float(stdtr(seeds - 1, -furthest)), contenders, seeds)
    assert 0.045 <= told <= 0.065


def test_steps_by_hand() -> None:
    """Two scenarios of two: Holm's adjustment. Of three, the second is one of two left."""
    two: dict[tuple[Place, str], tuple[float, int]] = {(("a",), "x"): (0.01, 5), (("b",), "x"): (0.04, 5)}
    assert list(adjusted(two, {("a",): 2, ("b",): 2}).values()) == pytest.approx([0.02, 0.04], rel=1e-3)
    three: dict[tuple[Place, str], tuple[float, int]] = {(("a",), "x"): (1e-6, 5), (("a",), "y"): (0.04, 5)}
    found = adjusted(three, {("a",): 3})
    assert found[("a",), "x"] == chance(1e-6, 3, 5)
    assert found[("a",), "y"] == pytest.approx(0.04, rel=1e-3)
