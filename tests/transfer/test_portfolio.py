"""One config for all and a few with a rule, on gains that were made up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tiertune.tuner.transfer.feature import FEATURES
from tiertune.tuner.transfer.portfolio import grow, leaf_of
from tiertune.tuner.transfer.robust import best_for

# default, good on the first two contexts only, good on the last two only, a little good everywhere
GAINS = np.array([[0.0, 0, 0, 0], [0.6, 0.6, -0.2, -0.2], [-0.2, -0.2, 0.5, 0.5], [0.1, 0.1, 0.1, 0.1]])
ROWS, COLUMNS = [0, 1, 2, 3], [0, 1, 2, 3]


def properties(**given: list[Any]) -> list[dict[str, Any]]:
    """Of four contexts; what is not given is the same in all."""
    plain: dict[str, Any] = {feature.name: 1.0 for feature in FEATURES} | {"program": "bc", "input": "kron"}
    return [plain | {name: values[place] for name, values in given.items()} for place in range(4)]


def test_one_config_is_best_on_average_or_in_the_worst_context() -> None:
    assert best_for(GAINS, ROWS, COLUMNS, "mean") == 1
    assert best_for(GAINS, ROWS, COLUMNS, "worst") == 3
    failing = np.where(GAINS == 0.6, -np.inf, GAINS)
    assert best_for(failing, ROWS, COLUMNS, "mean") == 2


def test_the_tree_asks_what_parts_the_contexts() -> None:
    made = properties(**{"slow memory per fast": [1.0, 2.0, 8.0, 16.0], "threads": [4.0, 8.0, 4.0, 8.0]})
    leaves = grow(GAINS, ROWS, COLUMNS, made, 2, "mean")
    assert [(leaf.candidate, leaf.contexts) for leaf in leaves] == [(1, (0, 1)), (2, (2, 3))]
    assert [leaf.rule for leaf in leaves] == [
        "slow memory per fast at most 4",
        "slow memory per fast above 4",
    ]
    assert [leaf_of(leaves, one).candidate for one in made] == [1, 1, 2, 2]
    unseen = made[0] | {"slow memory per fast": 5.0}
    assert leaf_of(leaves, unseen).candidate == 2


def test_the_tree_asks_for_words() -> None:
    made = properties(input=["kron", "twitter", "urand", "urand"])
    leaves = grow(GAINS, ROWS, COLUMNS, made, 2, "mean")
    assert [leaf.rule for leaf in leaves] == ["input is urand", "input is not urand"]
    assert [leaf_of(leaves, one).candidate for one in made] == [1, 1, 2, 2]


def test_a_split_that_brings_under_one_percent_is_not_made() -> None:
    made = properties(threads=[4.0, 4.0, 8.0, 8.0])
    little = np.array([[0.0, 0, 0, 0], [0.3, 0.3, 0.3, 0.3], [0.28, 0.28, 0.31, 0.31]])
    (leaf,) = grow(little, [0, 1, 2], COLUMNS, made, 4, "mean")
    assert (leaf.candidate, leaf.rule) == (1, "always")
    # ... and one that nothing tells apart cannot be.
    assert len(grow(GAINS, ROWS, COLUMNS, properties(), 4, "mean")) == 1


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_more_leaves_never_gain_less(size: int) -> None:
    gains = np.random.default_rng(size).normal(0, 0.2, (9, 4))
    made = properties(threads=[1.0, 2.0, 4.0, 8.0], input=["a", "b", "c", "d"])

    def gained(leaves: list[Any]) -> float:
        return sum(float(gains[leaf.candidate, to]) for leaf in leaves for to in leaf.contexts)

    rows = list(range(9))
    fewer, more = (grow(gains, rows, COLUMNS, made, count, "mean") for count in (size, size + 1))
    assert gained(more) >= gained(fewer)
    assert sorted(to for leaf in more for to in leaf.contexts) == COLUMNS
