"""Hosts as a random effect: the interval holds the truth as often as it says, also where hosts differ."""

from __future__ import annotations

import numpy as np
import pytest

from tiertune.tuner.host_effect import host_effect
from tiertune.tuner.statistics import interval

TRUTH = 0.10


def drawn(seed: int, hosts: int, each: int, between: float) -> tuple[list[float], list[str]]:
    random = np.random.default_rng(seed)
    gains, names = [], []
    for host in range(hosts):
        own = TRUTH + between * random.standard_normal()
        gains += list(own + 0.02 * random.standard_normal(each))
        names += [f"host {host}"] * each
    return gains, names


@pytest.mark.parametrize("between", [0.0, 0.02, 0.1])
def test_the_interval_covers_the_truth(between: float) -> None:
    covered = plain = 0
    rounds = 400
    for seed in range(rounds):
        gains, names = drawn(seed, 4, 3, between)
        found = host_effect(gains, names)
        assert found is not None
        covered += found.low <= TRUTH <= found.high
        if seed < 100:
            low, high = interval(gains)
            plain += low <= TRUTH <= high
    assert covered / rounds > 0.91
    if between == 0.1:
        assert plain / 100 < 0.75, "without hosts in the model the interval would be far too narrow"


def test_the_parts_of_the_variance() -> None:
    gains, names = drawn(5, 200, 4, 0.05)
    found = host_effect(gains, names)
    assert found is not None
    assert not found.pooled
    assert found.between_sd == pytest.approx(0.05, rel=0.15)
    assert found.within_sd == pytest.approx(0.02, rel=0.1)
    assert found.by_host["host 3"] == pytest.approx(np.mean(gains[12:16]))


def test_too_little_says_nothing() -> None:
    assert host_effect([0.1, 0.2], ["a", "a"]) is None
    assert host_effect([0.1, 0.2], ["a", "b"]) is None
