"""Every optimiser keeps the contract; what SMAC does beyond it."""

from __future__ import annotations

from itertools import combinations
from math import exp, log
from statistics import median

import numpy as np
import pytest
from ConfigSpace import Configuration

from tests.contracts.optimiser import INITIAL, OptimiserContract, campaign
from tests.tuner import surfaces
from tiertune.tuner.optimiser.base import Observation, Proposal, Settings
from tiertune.tuner.optimiser.imputation import CRASH_FACTOR, TIMEOUT_FACTOR, told
from tiertune.tuner.optimiser.portfolio import PortfolioOptimiser
from tiertune.tuner.optimiser.random import RandomOptimiser
from tiertune.tuner.optimiser.registry import OPTIMISERS, optimiser_class
from tiertune.tuner.optimiser.smac import SmacOptimiser
from tiertune.tuner.optimiser.tpe import TpeOptimiser
from tiertune.tuner.trial import Status


class TestSmac(OptimiserContract):
    optimiser = SmacOptimiser


class TestPortfolio(OptimiserContract):
    optimiser = PortfolioOptimiser


class TestTpe(OptimiserContract):
    optimiser = TpeOptimiser


class TestRandom(OptimiserContract):
    optimiser = RandomOptimiser


class TestAdvisedPortfolio(OptimiserContract):
    """Of which forest, process and TPE are parts."""

    optimiser = PortfolioOptimiser
    space = staticmethod(surfaces.advised_space)


class TestAdvisedRandom(OptimiserContract):
    optimiser = RandomOptimiser
    space = staticmethod(surfaces.advised_space)


def test_every_registered_optimiser_has_a_contract_test() -> None:
    # Other files hold wrappers of optimisers to the same contract.
    suites = [suite for suite in OptimiserContract.__subclasses__() if suite.__module__ == __name__]
    tested = {suite.optimiser for suite in suites}
    assert tested == {optimiser_class(name) for name in OPTIMISERS}
    assert {optimiser_class(name).name for name in OPTIMISERS} == set(OPTIMISERS)


def test_default_then_initial_design_then_model_with_random_picks() -> None:
    optimiser = SmacOptimiser(surfaces.space(), Settings(3, INITIAL, 0.3))
    origins = [proposal.origin for proposal in campaign(optimiser, 40)]
    assert origins[:INITIAL] == ["default"] + ["initial"] * (INITIAL - 1)
    later = origins[INITIAL:]
    assert set(later) == {"model", "random"}
    assert 4 <= later.count("random") <= 17  # 34 draws at 0.3: outside with a chance below 1 %


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_the_random_share_is_kept_at_its_ends(share: float) -> None:
    optimiser = SmacOptimiser(surfaces.space(), Settings(3, 4, share))
    later = [proposal.origin for proposal in campaign(optimiser, 12)][4:]
    assert set(later) == {"random" if share else "model"}


def test_the_initial_design_fills_the_space() -> None:
    optimiser = SmacOptimiser(surfaces.space(), Settings(1, 17, 0.2))
    shares = [float(optimiser.ask(number, []).config["reserve_share"]) / 0.2 for number in range(1, 17)]
    # A Sobol design of 16 points has one in each sixteenth of every axis.
    assert sorted(int(share * 16) for share in shares) == list(range(16))


def test_the_model_steers_to_better_configs() -> None:
    # Not best against best: that takes 100 noisy trials and several seeds, see `optimiser_race.py`.
    for seed in (0, 1):
        smac = campaign(SmacOptimiser(surfaces.space(), Settings(seed, 12, 0.2)), 36)
        draws = campaign(RandomOptimiser(surfaces.space(), Settings(seed)), 36)
        modelled = [surfaces.smooth(p.config) - 1.0 for p in smac if p.origin == "model"]
        random = [surfaces.smooth(p.config) - 1.0 for p in draws if p.origin == "random"]
        assert median(modelled) < 0.6 * median(random)


def test_failures_are_told_as_worse_than_all_that_worked() -> None:
    history = [
        Observation(0, {"k": 0}, Status.OK, 1.0),
        Observation(1, {"k": 1}, Status.OK, 3.0),
        Observation(2, {"k": 2}, Status.CRASHED),
        Observation(3, {"k": 3}, Status.TIMEOUT, bound=5.0),
        Observation(4, {"k": 4}, Status.TIMEOUT, bound=2.0),
        Observation(5, {"k": 5}, Status.HOST_UNFIT),
        Observation(6, {"k": 6}, Status.RUNNING),
        Observation(7, {"k": 7}, Status.NO_METRIC),
    ]
    costs = {observation.number: cost for observation, cost in told(history)}
    assert set(costs) == {0, 1, 2, 3, 4, 7}
    assert exp(costs[2] - 3.0) == pytest.approx(CRASH_FACTOR)
    assert exp(costs[7] - 3.0) == pytest.approx(CRASH_FACTOR)
    assert exp(costs[3] - 5.0) == pytest.approx(TIMEOUT_FACTOR)
    assert exp(costs[4] - 3.0) == pytest.approx(TIMEOUT_FACTOR)


def test_proposals_in_flight_are_no_near_duplicates() -> None:
    """Five workers ask before anything of theirs is told: each proposal comes from a model of its own, and
    they lie as far apart as five that are made one after the other."""

    def apart(proposals: list[Proposal]) -> float:
        points = [Configuration(surfaces.space(), values=one.config).get_array() for one in proposals]
        pairs = [np.nan_to_num(a) - np.nan_to_num(b) for a, b in combinations(points, 2)]
        return float(np.median([np.sqrt((step**2).mean()) for step in pairs]))

    space = surfaces.space()
    draws = campaign(RandomOptimiser(space, Settings(1)), 30)
    costs = [log(surfaces.smooth(draw.config)) for draw in draws]
    begun = [
        Observation(number, draw.config, Status.OK, cost)
        for number, (draw, cost) in enumerate(zip(draws, costs, strict=True))
    ]
    found: dict[bool, list[Proposal]] = {True: [], False: []}
    for flying, proposals in found.items():
        history = list(begun)
        for number in range(30, 35):
            made = SmacOptimiser(space, Settings(1, 10, 0.0)).ask(number, history)
            proposals.append(made)
            cost = log(surfaces.smooth(made.config))
            status = Status.RUNNING if flying else Status.OK
            history.append(Observation(number, made.config, status, None if flying else cost))
    assert apart(found[True]) > 0.5 * apart(found[False])
