"""Shares of gains: their intervals hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest

from tiertune.tuner.transfer.gain import gain_of, share_of


def test_a_share_without_noise_is_exact() -> None:
    share = share_of(np.full(8, 0.1), np.full(8, 0.4))
    assert share is not None
    assert (share.share, share.low, share.high) == pytest.approx((0.25, 0.25, 0.25))


def test_there_is_no_share_of_a_gain_that_may_be_nothing() -> None:
    noisy = np.array([0.3, -0.3, 0.2, -0.1, 0.1, -0.2, 0.3, -0.2])
    assert share_of(np.full(8, 0.1), noisy) is None
    assert share_of(np.full(8, 0.1), np.full(8, -0.4)) is None


def test_the_interval_of_a_share_holds_the_truth_as_often_as_it_says() -> None:
    generator, held = np.random.default_rng(5), 0
    for _ in range(1000):
        common = generator.normal(0, 0.02, 8)  # paired runs share most of their noise
        part = 0.12 + common + generator.normal(0, 0.02, 8)
        whole = 0.30 + common + generator.normal(0, 0.02, 8)
        share = share_of(part, whole)
        assert share is not None
        held += share.low <= 0.4 <= share.high
    assert 930 <= held <= 970


def test_a_config_that_failed_once_is_chosen_by_nobody() -> None:
    failed = gain_of(np.zeros(5), np.array([-1.0, -1.0, np.nan, -1.0, -1.0]), "crashed: out of pages")
    assert failed.log == -np.inf
    assert failed.effect is None
    assert failed.reason == "crashed: out of pages"
