"""Spaces against the engine's declared knobs, and their way to ConfigSpace and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ConfigSpace import Configuration

from tests.configs.corpus import ROOT
from tiertune.engine import check_config, system, systems
from tiertune.files import names
from tiertune.spaces.configspace import config_of, to_configspace
from tiertune.spaces.definition import Space, load_space

FULL = ROOT / "tests/configs/good/space/full.yaml"
TUNABLE = [one.name for one in systems() if any(knob.tunable for knob in one.knobs)]
"""Systems that can be tuned: each has a space of its name, which searches all that can be tuned there."""


@pytest.mark.parametrize("name", names("spaces"))
def test_spaces_name_declared_knobs_only(name: str) -> None:
    space = load_space(name)
    assert set(space.knobs) <= {knob.name for knob in system(space.system).knobs}


def test_hemem_space_has_all_ten_tunable_knobs_over_their_declared_ranges() -> None:
    tunable = {knob.name: knob for knob in system("hemem").knobs if knob.tunable}
    axes = load_space("hemem").axes()
    assert len(axes) == 10
    assert {axis.name for axis in axes} == set(tunable)
    for axis in axes:
        declared = tunable[axis.name]
        assert (axis.minimum, axis.maximum, axis.log) == (declared.min, declared.max, declared.log)
        assert axis.default == declared.default


@pytest.mark.parametrize("name", TUNABLE)
def test_shipped_spaces_search_all_that_can_be_tuned(name: str) -> None:
    tunable = {knob.name for knob in system(name).knobs if knob.tunable}
    assert {axis.name for axis in load_space(name).axes()} == tunable


def test_default_configuration_is_the_declared_one() -> None:
    space = load_space("hemem")
    configspace = to_configspace(space, 0)
    declared = {knob.name: knob.default for knob in system("hemem").knobs if knob.tunable}
    assert config_of(space, configspace.get_default_configuration()) == declared


@pytest.mark.parametrize("path", [*TUNABLE, str(FULL)])
def test_samples_are_plain_valid_and_read_back(path: str) -> None:
    """ConfigSpace hands out numpy scalars and `numpy.str_`; json and the journal take neither."""
    space = load_space(path)
    configspace = to_configspace(space, 5)
    for configuration in configspace.sample_configuration(200):
        config = config_of(space, configuration)
        assert {type(value) for value in config.values()} <= {bool, int, float, str}
        assert json.loads(json.dumps(config)) == config
        resolved = check_config(space.system, config)
        assert {name: resolved[name] for name in config} == config
        searched = {name: value for name, value in config.items() if name in configspace}
        assert config_of(space, Configuration(configspace, values=searched)) == config


def test_samples_follow_the_seed() -> None:
    space = load_space("hemem")

    def drawn(seed: int) -> list[dict[str, object]]:
        return [dict(config_of(space, c)) for c in to_configspace(space, seed).sample_configuration(10)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)


def test_conditions_fixed_values_and_narrowed_ranges_arrive() -> None:
    space = load_space(str(FULL))
    configspace = to_configspace(space, 1)
    assert "migration_period_ms" not in configspace
    seen = {True: 0, False: 0}
    for configuration in configspace.sample_configuration(100):
        config = config_of(space, configuration)
        assert config["migration_period_ms"] == 0
        assert config["cool_when_full"] is True
        assert 1000 <= float(config["sampling_period"]) <= 20000
        assert ("write_hot_threshold" in config) is config["use_store_samples"]
        seen[bool(config["use_store_samples"])] += 1
    assert min(seen.values()) > 0
    assert "write_hot_threshold" not in config_of(space, configspace.get_default_configuration())
    scales = {axis.name: axis.log for axis in space.axes()}
    assert scales["sampling_period"] is True
    assert scales["read_hot_threshold"] is False


def test_ends_of_ranges_survive_the_logarithm() -> None:
    """exp(log(x)) may fall outside the range by a rounding error, and the engine would refuse that."""
    space = load_space("hemem")
    for axis in space.axes():
        assert float(axis.plain(axis.minimum * (1 - 1e-12))) >= axis.minimum
        assert float(axis.plain(axis.maximum * (1 + 1e-12))) <= axis.maximum


def test_own_space_by_path(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\ndescription: d\nsystem: hemem\nknobs: {cooling_threshold: {max: 40}}\n")
    space = load_space(str(path))
    assert isinstance(space, Space)
    (axis,) = space.axes()
    assert (axis.minimum, axis.maximum) == (2, 40)
