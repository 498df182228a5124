"""What is said of an optimum's neighbours, on costs with a planted truth."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from tiertune.tuner.comparison.inference import chance
from tiertune.tuner.explanation.document import stability_of
from tiertune.tuner.explanation.study import AROUND_SEEDS, Neighbour, Study
from tiertune.tuner.statistics import effect

NOISE = 0.02
CELLS, NEIGHBOURS = 60, 20


def around(random: np.random.Generator, gains: list[float]) -> list[dict[str, Any]]:
    """The neighbours that are called better, of some that gain this much over the optimum (logs)."""
    tuned = random.normal(0.0, NOISE, AROUND_SEEDS)
    found = []
    for number, gain in enumerate(gains):
        costs = random.normal(-gain, NOISE, AROUND_SEEDS)
        found.append(Neighbour(f"knob{number}", 1, effect(list(tuned), list(costs)), chance(tuned - costs)))
    study = SimpleNamespace(neighbours=found, bounds={}, changed={}, context=SimpleNamespace(tuned={}))
    return cast("list[dict[str, Any]]", stability_of(cast("Study", study))["better"])


def test_of_neighbours_that_are_as_good_none_is_called_better_by_luck() -> None:
    random = np.random.default_rng(1)
    false = sum(bool(around(random, [0.0] * NEIGHBOURS)) for _ in range(CELLS))
    assert false < 0.1 * CELLS  # 2.6 % of many cells; a third of all without the adjustment


def test_a_neighbour_that_is_far_better_is_named() -> None:
    random = np.random.default_rng(1)
    (found,) = around(random, [0.0] * 4 + [0.5])
    assert found["knob"] == "knob4"
