"""Which features decide, on losses that were made up."""

from __future__ import annotations

import numpy as np
import pytest

from tiertune.tuner.transfer.feature import Distances
from tiertune.tuner.transfer.prediction import predict

HALF = [(0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 0)] * 2  # machine, ratio, threads


def distances(contexts: list[tuple[int, ...]]) -> Distances:
    """Of contexts that have 0 or 1 of each feature."""
    points = np.array([*contexts], dtype=float)
    names = ("machine", "ratio", "threads", "input")[: points.shape[1]]
    arrays = {n: np.abs(points[:, [i]] - points[:, [i]].T) for i, n in enumerate(names)}
    return Distances(arrays, dict.fromkeys(names, "the other one"))


def half() -> list[tuple[int, ...]]:
    """Eight of sixteen contexts, each two features independent."""
    return [(*point, int(place >= 4) ^ (sum(point) % 2)) for place, point in enumerate(HALF)]


def test_the_feature_that_decides_is_found_and_its_size() -> None:
    made = distances(half())
    noise = np.random.default_rng(1).normal(0, 0.005, (8, 8))
    found = predict(0.2 * made.by_name["ratio"] + noise, made)
    by_name = {one.feature: one for one in found.predictors}
    ratio = by_name.pop("ratio")
    assert ratio.verdict == "loses more"
    assert ratio.loss == pytest.approx(np.exp(0.2), rel=0.01)
    assert ratio.low is not None
    assert ratio.high is not None
    assert ratio.low < np.exp(0.2) < ratio.high
    assert ratio.share_explained is not None
    assert ratio.share_explained > 0.8
    assert found.explained is not None
    assert found.explained > 0.9
    assert ratio.same == pytest.approx(1.0, abs=0.01)
    assert ratio.different == pytest.approx(np.exp(0.2), rel=0.01)
    assert {one.verdict for one in by_name.values()} == {"not shown"}
    assert "what decides is ratio" in found.told


def test_noise_alone_shows_a_feature_about_as_often_as_its_chance_says() -> None:
    made, shown, generator = distances(half()), 0, np.random.default_rng(2)
    for _ in range(8):
        # Noise that goes with contexts, as real losses have it, and not with transfers.
        hard, good = generator.normal(0, 0.1, (2, 8))
        found = predict(hard[:, None] + good[None, :] + generator.normal(0, 0.05, (8, 8)), made)
        shown += sum(one.verdict != "not shown" for one in found.predictors)
    assert shown <= 4  # of 32, at a chance of 5 % each


def test_few_contexts_tell_nothing_and_say_so() -> None:
    made = distances(half()[:5])
    found = predict(0.2 * made.by_name["ratio"], made)
    assert {one.verdict for one in found.predictors} == {"too few contexts to tell"}
    assert "too few" in found.told


def test_features_of_too_few_combinations_cannot_be_told_apart() -> None:
    points = [(a, b, a ^ b) for a, b in ((0, 0), (0, 1), (1, 0), (1, 1))] * 2
    made = distances([(a, b, c, (a, b, c)[place % 3]) for place, (a, b, c) in enumerate(points)])
    made.by_name["input"] = made.by_name["machine"] + made.by_name["ratio"]
    found = predict(made.by_name["ratio"], made)
    assert "cannot be told apart" in found.told


def test_failed_transfers_are_left_out() -> None:
    made = distances(half())
    losses = 0.2 * made.by_name["ratio"]
    losses[0, 1] = np.nan
    found = predict(losses, made)
    assert found.transfers == 55
    assert {one.feature: one.loss for one in found.predictors}["ratio"] == pytest.approx(np.exp(0.2))
