"""What every optimiser promises. Inherit `OptimiserContract` and name the class."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
import yaml
from ConfigSpace import Categorical, Configuration, ConfigurationSpace

from tests.tuner import surfaces
from tiertune.tuner.optimiser.base import Observation, Optimiser, Proposal, Settings
from tiertune.tuner.trial import Status, canonical

INITIAL = 6
TRIALS = 16
LONG = 30

Fate = Callable[[int], Status]


def always_ok(number: int) -> Status:
    return Status.OK


def campaign(optimiser: Optimiser, trials: int = TRIALS, fate: Fate = always_ok) -> list[Proposal]:
    """Proposals of a whole campaign on the smooth surface, told without noise."""
    history: list[Observation] = []
    proposals = []
    for number in range(trials):
        proposal = optimiser.ask(number, history)
        proposals.append(proposal)
        history.append(observation(number, proposal, fate(number)))
    return proposals


def observation(number: int, proposal: Proposal, status: Status = Status.OK) -> Observation:
    cost = math.log(surfaces.smooth(proposal.config)) if status is Status.OK else None
    second = float(proposal.config["migration_kib"]) if status is Status.OK else None
    return Observation(number, proposal.config, status, cost, second=second)


@cache
def long_campaign(
    kind: type[Optimiser], seed: int, space: Callable[[], ConfigurationSpace]
) -> tuple[Proposal, ...]:
    """The longest campaign that tests look at, made once for all that only read it."""
    return tuple(campaign(kind(space(), Settings(seed, INITIAL, 0.2)), LONG))


class OptimiserContract:
    """Inherited by one test class an optimiser, which sets `optimiser`; or `space` as well, with the knobs of
    `surfaces.space` and advice on them."""

    optimiser: type[Optimiser]
    space: Callable[[], ConfigurationSpace] = staticmethod(surfaces.space)

    def known(self, seed: int = 1, trials: int = TRIALS) -> list[Proposal]:
        """The first `trials` proposals with that seed; that a fresh optimiser makes the same is tested."""
        return list(long_campaign(self.optimiser, seed, self.space)[:trials])

    def make(self, seed: int = 1, space: ConfigurationSpace | None = None) -> Optimiser:
        return self.optimiser(space or self.space(), Settings(seed, INITIAL, 0.2))

    def test_the_default_goes_first(self) -> None:
        first = self.make().ask(0, [])
        assert first.origin == "default"
        assert first.config == dict(self.space().get_default_configuration())

    def test_a_fresh_optimiser_gives_the_proposal_that_a_used_one_gives(self) -> None:
        used = self.known()
        history = [observation(number, proposal) for number, proposal in enumerate(used)]
        for number in (1, INITIAL, TRIALS - 1):
            assert self.make().ask(number, history[:number]) == used[number]

    def test_asking_twice_or_out_of_order_changes_nothing(self) -> None:
        used = self.known()
        history = [observation(number, proposal) for number, proposal in enumerate(used)]
        again = self.make()
        for number in (TRIALS - 1, 3, TRIALS - 1, TRIALS - 2):
            assert again.ask(number, history[:number]) == used[number]

    def test_the_order_of_the_history_does_not_matter(self) -> None:
        history = [observation(n, p) for n, p in enumerate(self.known())]
        assert self.make().ask(TRIALS, history) == self.make().ask(TRIALS, history[::-1])

    def test_no_config_is_proposed_twice(self) -> None:
        texts = [canonical(proposal.config) for proposal in self.known(trials=30)]
        assert len(set(texts)) == 30

    def test_a_config_in_flight_is_not_proposed_again(self) -> None:
        history = [observation(n, p) for n, p in enumerate(self.known())]
        alone = self.make().ask(TRIALS, history)
        flying = Observation(TRIALS - 1, alone.config, Status.RUNNING)
        assert self.make().ask(TRIALS, [*history[:-1], flying]).config != alone.config

    def test_every_config_is_legal(self) -> None:
        for proposal in self.known(trials=30):
            configuration = Configuration(self.space(), values=proposal.config)
            configuration.check_valid_configuration()

    def test_a_knob_is_there_exactly_when_its_condition_holds(self) -> None:
        proposals = self.known(2, 30)
        modes = {proposal.config["mode"] for proposal in proposals}
        assert "async" in modes
        for proposal in proposals:
            assert ("batch" in proposal.config) == (proposal.config["mode"] == "async")

    def test_trials_of_a_version_with_fewer_conditions_are_gone_on_from(self) -> None:
        """In such a campaign `batch` was searched beside every mode: two of its configs may be one now."""
        known = self.known()
        history = []
        for number, proposal in enumerate(known):
            batch = proposal.config.get("batch", 1 + number)
            history.append(observation(number, Proposal({**proposal.config, "batch": batch}, "model", "")))
        twin = dict(history[-1].config, mode="sync", batch=500)
        history[-1] = observation(TRIALS - 1, Proposal({**twin, "batch": 499}, "model", ""))
        history.append(observation(TRIALS, Proposal(twin, "model", "")))
        proposal = self.make().ask(TRIALS + 1, history)
        Configuration(self.space(), values=proposal.config).check_valid_configuration()

    def test_no_numpy_value_leaks(self) -> None:
        for proposal in self.known(trials=20):
            assert json.loads(json.dumps(proposal.config)) == proposal.config
            assert yaml.safe_load(yaml.safe_dump(proposal.config)) == proposal.config
            assert {type(value) for value in proposal.config.values()} <= {int, float, str, bool}

    def test_another_seed_gives_other_proposals(self) -> None:
        one, two = self.known(1), self.known(2)
        assert one[0] == two[0]
        assert all(a.config != b.config for a, b in zip(one[1:], two[1:], strict=True))

    @pytest.mark.parametrize(
        "status", [Status.CRASHED, Status.TIMEOUT, Status.NO_METRIC, Status.INVALID_CONFIG, Status.HOST_UNFIT]
    )
    def test_it_lives_with_failures_of_every_kind(self, status: Status) -> None:
        proposals = campaign(self.make(), 14, lambda number: status if number % 3 == 0 else Status.OK)
        assert len({canonical(proposal.config) for proposal in proposals}) == 14

    def test_it_lives_with_nothing_but_failures(self) -> None:
        proposals = campaign(self.make(), 12, lambda number: Status.CRASHED)
        assert len({canonical(proposal.config) for proposal in proposals}) == 12

    def test_an_exhausted_space_is_answered_with_a_repeat(self) -> None:
        tiny = ConfigurationSpace(seed=0)
        tiny.add(Categorical("mode", ["a", "b", "c"], default="b"))
        optimiser = self.make(space=tiny)
        history: list[Observation] = []
        for number in range(12):
            config = optimiser.ask(number, history).config
            history.append(Observation(number, config, Status.OK, float(len(history))))
        assert history[0].config == {"mode": "b"}
        assert {str(o.config["mode"]) for o in history[:INITIAL]} == {"a", "b", "c"}

    def test_a_history_that_knows_the_future_is_refused(self) -> None:
        first = observation(0, self.make().ask(0, []))
        with pytest.raises(ValueError, match="earlier trials"):
            self.make().ask(0, [first])
        with pytest.raises(ValueError, match="once each"):
            self.make().ask(2, [first, first])

    def test_it_draws_from_no_global_generator(self) -> None:
        np.random.seed(1)
        assert campaign(self.make()) == self.known()
