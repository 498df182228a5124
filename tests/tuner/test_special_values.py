"""Special values (0 for off and the like): drawn with their share, proposed by every optimiser, and left
alone where nobody asks for them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from ConfigSpace import Configuration

from tests.tuner.interrupted import check_resumed
from tests.tuner.test_presets import CAMPAIGN, write
from tiertune.engine import check_config, systems
from tiertune.spaces.configspace import config_of, to_configspace, values_of
from tiertune.spaces.definition import Space, load_space
from tiertune.tuner.campaign import load_campaign
from tiertune.tuner.optimiser.base import Observation, Optimiser, Settings
from tiertune.tuner.optimiser.cube import Cube
from tiertune.tuner.optimiser.registry import OPTIMISERS, optimiser_class
from tiertune.tuner.plan import plan_of
from tiertune.tuner.trial import Config, Status, canonical

SPACE = """
name: narrow
description: two knobs with special values, one without
system: colloid+hemem
knobs:
  colloid_latency_sample_interval_us: {special: 0.25}
  colloid_static_limit_mib: {special: 0.1, default: 0}
  cooling_threshold: {}
"""
KNOBS = ("colloid_latency_sample_interval_us", "colloid_static_limit_mib", "cooling_threshold")


def load(folder: Path, text: str = SPACE) -> Space:
    path = folder / "narrow.yaml"
    path.write_text(text)
    return load_space(str(path))


def make(space: Space, name: str, seed: int = 1, initial: int = 8, random_share: float = 0.2) -> Optimiser:
    settings = Settings(seed, initial, random_share)
    return optimiser_class(name)(to_configspace(space, seed), settings, lambda c: config_of(space, c))


def searched(optimiser: Optimiser, trials: int, cost: float) -> list[Config]:
    """A search of a surface on which the first special value is worth `cost`, and knobs next to nothing."""
    history: list[Observation] = []
    for number in range(trials):
        config = optimiser.ask(number, history).config
        value = (cost if config[KNOBS[0]] == 0 else 0.0) + 0.001 * math.log(float(config[KNOBS[2]]))
        history.append(Observation(number, config, Status.OK, value))
    return [observation.config for observation in history]


def test_draws_have_their_share_and_are_what_the_engine_takes(tmp_path: Path) -> None:
    space = load(tmp_path)
    made = to_configspace(space, 3)
    configs = [config_of(space, configuration) for configuration in made.sample_configuration(2000)]
    for knob, share in ((KNOBS[0], 0.25), (KNOBS[1], 0.1)):
        assert np.mean([config[knob] == 0 for config in configs]) == pytest.approx(share, abs=0.03)
    for config in configs[:200]:
        assert set(config) == set(KNOBS)
        assert json.loads(json.dumps(config)) == config
        resolved = check_config("colloid+hemem", config)
        assert {name: resolved[name] for name in config} == config
        assert config_of(space, Configuration(made, values=values_of(made, config))) == config
    points = Cube(made).sample(4000, np.random.default_rng(1))
    switch = points[:, made.index_of[f"{KNOBS[0]}:special"]]
    assert np.mean(switch > 0) == pytest.approx(0.25, abs=0.03)


def test_a_search_may_start_at_a_special_value(tmp_path: Path) -> None:
    space = load(tmp_path)
    start = make(space, "random").ask(0, []).config
    assert start == space.start()
    assert start[KNOBS[1]] == 0
    assert type(start[KNOBS[1]]) is float
    assert start[KNOBS[0]] == 10_000


@pytest.mark.parametrize("name", list(OPTIMISERS))
def test_initial_designs_have_some(tmp_path: Path, name: str) -> None:
    optimiser = make(load(tmp_path), name, initial=33)
    configs = [optimiser.ask(number, []).config for number in range(1, 33)]
    assert 3 <= sum(config[KNOBS[0]] == 0 for config in configs) <= 13  # of 32; 8 are expected
    assert any(config[KNOBS[0]] != 0 for config in configs)


@pytest.mark.parametrize("name", ["smac", "tpe", "portfolio"])
def test_models_go_to_special_values_that_are_good_and_leave_bad_ones(tmp_path: Path, name: str) -> None:
    space = load(tmp_path)
    good = searched(make(space, name, initial=10, random_share=0.0), 22, -0.5)[10:]
    bad = searched(make(space, name, initial=10, random_share=0.0), 22, 0.5)[10:]
    assert sum(config[KNOBS[0]] == 0 for config in good) >= 8  # of 12
    assert sum(config[KNOBS[0]] == 0 for config in bad) <= (6 if name == "tpe" else 3)  # TPE explores on


def test_every_declared_special_value_can_be_searched() -> None:
    seen = 0
    for info in systems():
        knobs = {knob.name: {"special": 0.5} for knob in info.knobs if knob.tunable and knob.special}
        if not knobs:
            continue
        space = Space.model_validate({"name": "x", "description": "d", "system": info.name, "knobs": knobs})
        made = to_configspace(space, 1)
        for configuration in made.sample_configuration(50):
            config = config_of(space, configuration)
            assert {k: v for k, v in check_config(info.name, config).items() if k in config} == config
            seen += sum(value == 0 for value in config.values())
    assert seen > 100


def test_a_campaign_may_ask_for_them_in_any_space(tmp_path: Path) -> None:
    knobs = "{migration_period_ms: {}, cooling_threshold: {}}"
    text = f"{{name: narrow, description: d, system: hemem, knobs: {knobs}}}"
    asked = CAMPAIGN.replace("presets: true", "special_values: 0.5").replace("random}", "smac}")
    plan = plan_of(load_campaign(str(write(tmp_path / "files", text, asked))))
    (cell,) = plan.cells
    assert plan.document["cells"][cell.key]["space"]["knobs"]["migration_period_ms"]["special"] == 0.5
    assert "special" not in plan.document["cells"][cell.key]["space"]["knobs"]["cooling_threshold"]
    optimiser = plan.new_optimiser(cell)
    assert 0 in {optimiser.ask(number, []).config["migration_period_ms"] for number in range(4)}
    loaded = load_campaign(str(tmp_path / "files/small.yaml"))
    whole = check_resumed(loaded, tmp_path, 5)
    assert {row["status"] for row in whole} == {Status.OK}


def test_a_space_that_asks_for_none_is_the_one_that_it_was(tmp_path: Path) -> None:
    plain = CAMPAIGN.replace("presets: true\n", "")
    text = "{name: narrow, description: d, system: hemem, knobs: {migration_period_ms: {}}}"
    plan = plan_of(load_campaign(str(write(tmp_path / "files", text, plain))))
    assert "special" not in canonical(plan.document)
    assert list(to_configspace(plan.cells[0].space, 0)) == ["migration_period_ms"]
