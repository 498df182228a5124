"""Forbidden combinations: read as they are written, the same to ConfigSpace, and never proposed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ConfigSpace import Configuration
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.tuner.interrupted import check_resumed
from tests.tuner.test_presets import CAMPAIGN, write
from tiertune.spaces.configspace import config_of, to_configspace, values_of
from tiertune.spaces.definition import Space, load_space
from tiertune.spaces.forbidden import clauses_of, forbidden_by
from tiertune.tuner.campaign import load_campaign
from tiertune.tuner.journal import Journal
from tiertune.tuner.loop import journal_path
from tiertune.tuner.optimiser.base import Observation, Settings
from tiertune.tuner.optimiser.cube import Cube
from tiertune.tuner.optimiser.registry import OPTIMISERS, optimiser_class
from tiertune.tuner.plan import plan_of
from tiertune.tuner.trial import Config, Status, canonical

KNOBS = {
    "read_hot_threshold": {},
    "write_hot_threshold": {},
    "cooling_threshold": {},
    "use_store_samples": {},
    "rate_mode": {},
    "sampling_period": {},
    "migration_period_ms": {"special": 0.3},
    "max_migration_rate_gib": {},
}
NUMBERS = ("read_hot_threshold", "write_hot_threshold", "cooling_threshold", "migration_period_ms")
ORDERS = ("<", "<=", ">", ">=", "=")


def space_of(forbid: list[str], **more: object) -> Space:
    return Space.model_validate(
        {"name": "x", "description": "d", "system": "hemem", "knobs": KNOBS, "forbid": forbid, **more}
    )


terms = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from(NUMBERS), st.sampled_from(ORDERS), st.integers(4, 60)),
    st.builds("{} {} {}".format, *[st.sampled_from(part) for part in (NUMBERS[:2], ORDERS, NUMBERS[2:])]),
    st.sampled_from(["rate_mode = per_tick", "use_store_samples = true", "migration_period_ms = 0"]),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(terms, min_size=1, max_size=3), st.integers(0, 2**31))
def test_configspace_forbids_what_is_written(parts: list[str], seed: int) -> None:
    clause = " and ".join(parts)
    space = space_of([clause])
    clauses = clauses_of(space)
    assume(forbidden_by(clauses, space.start()) is None)  # which is refused when a file is read
    free, cube = to_configspace(space_of([]), seed), Cube(to_configspace(space, seed))
    drawn = free.sample_configuration(300)
    rows = np.array([configuration.get_array() for configuration in drawn])
    configs = [config_of(space, configuration) for configuration in drawn]
    assert list(cube.forbidden(rows)) == [forbidden_by(clauses, config) is not None for config in configs]


def test_clauses_are_read_as_written() -> None:
    space = space_of(
        ["rate_mode = per_tick and read_hot_threshold >= 32", "cooling_threshold<write_hot_threshold"]
    )
    clauses = clauses_of(space)
    start = {**space.start(), "use_store_samples": True, "write_hot_threshold": 4}

    def broken(**changes: bool | int | float | str) -> int | None:
        return forbidden_by(clauses, {**start, **changes})

    assert broken() is None
    assert broken(rate_mode="per_tick", read_hot_threshold=32) == 0
    assert broken(rate_mode="per_tick", read_hot_threshold=31) is None
    assert broken(rate_mode="per_second", read_hot_threshold=64) is None
    assert broken(cooling_threshold=3) == 1
    assert broken(cooling_threshold=4) is None
    idle = {name: value for name, value in start.items() if name != "write_hot_threshold"}
    assert forbidden_by(clauses, {**idle, "cooling_threshold": 2}) is None  # does not act


def test_an_order_says_nothing_of_special_values() -> None:
    below, named = space_of(["migration_period_ms < 5"]), space_of(["migration_period_ms = 0"])
    special = {**below.start(), "migration_period_ms": 0.0}
    assert forbidden_by(clauses_of(below), special) is None
    assert forbidden_by(clauses_of(named), special) == 0
    seen = {
        config_of(named, c)["migration_period_ms"] for c in to_configspace(named, 1).sample_configuration(200)
    }
    assert 0.0 not in seen
    seen = {
        config_of(below, c)["migration_period_ms"] for c in to_configspace(below, 1).sample_configuration(200)
    }
    assert 0.0 in seen
    assert min(float(value) for value in seen - {0.0}) >= 5.0


TIGHT = [
    "read_hot_threshold > cooling_threshold",
    "max_migration_rate_gib < 4",
    "cooling_threshold >= 100",
    "rate_mode = per_tick and sampling_period <= 2000",
    "sampling_period > 20000",
]


@pytest.mark.parametrize("priors", [False, True], ids=["plain", "priors"])
@pytest.mark.parametrize("name", list(OPTIMISERS))
def test_no_optimiser_proposes_what_is_forbidden(
    name: str, priors: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """The best lies where all is forbidden, and so do the priors."""
    knobs: dict[str, dict[str, object]] = {knob: dict(said) for knob, said in KNOBS.items()}
    if priors:
        knobs["max_migration_rate_gib"]["prior"] = {"around": 0.5, "spread": 1.2}
    space = space_of(TIGHT, knobs=knobs)
    clauses = clauses_of(space)
    optimiser = optimiser_class(name)(
        to_configspace(space, 1), Settings(1, 8, 0.2), lambda c: config_of(space, c)
    )
    history: list[Observation] = []
    for number in range(20):
        config = optimiser.ask(number, history).config
        assert forbidden_by(clauses, config) is None
        cost = 0.1 * float(config["max_migration_rate_gib"]) - 0.02 * float(config["read_hot_threshold"])
        history.append(Observation(number, config, Status.OK, cost))
    assert len({canonical(observation.config) for observation in history}) == 20
    assert capfd.readouterr().out == ""  # ConfigSpace 1.2 has a clause that prints


def test_a_campaign_never_runs_what_is_forbidden_killed_or_not(tmp_path: Path) -> None:
    text = """
name: narrow
description: two in three draws are forbidden
system: hemem
knobs: {read_hot_threshold: {}, cooling_threshold: {}, rate_mode: {}}
forbid:
  - read_hot_threshold > cooling_threshold
  - rate_mode = per_tick and cooling_threshold > 32
"""
    campaign = (
        CAMPAIGN.replace("presets: true\n", "").replace("random}", "smac}").replace("trials: 7", "trials: 12")
    )
    loaded = load_campaign(str(write(tmp_path / "files", text, campaign)))
    plan = plan_of(loaded)
    check_resumed(loaded, tmp_path, 6)
    clauses = clauses_of(plan.cells[0].space)
    with Journal(journal_path(tmp_path / "whole", "small"), writer=False) as journal:
        configs: list[Config] = [row.trial.config for row in journal.rows()]
    assert len(configs) > 12
    assert [config for config in configs if forbidden_by(clauses, config) is not None] == []


def test_a_space_that_forbids_nothing_is_the_one_that_it_was(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("{name: x, description: d, system: hemem, knobs: {cooling_threshold: {}}}")
    assert set(load_space(str(path)).model_dump()) == {"name", "description", "system", "knobs"}


def test_forbidden_configurations_read_back_as_they_are() -> None:
    space = space_of(TIGHT)
    made = to_configspace(space, 2)
    for configuration in made.sample_configuration(100):
        config = config_of(space, configuration)
        assert config_of(space, Configuration(made, values=values_of(made, config))) == config
