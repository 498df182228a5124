"""A space as ConfigSpace, the form that optimisers take, and configurations back as plain Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tiertune.spaces.definition import Axis, Space, Value

if TYPE_CHECKING:
    from ConfigSpace import Configuration, ConfigurationSpace


def to_configspace(space: Space, seed: int) -> ConfigurationSpace:
    """The searched knobs with ranges, scales, defaults and conditions; fixed knobs are not part of it.

    `seed` (0 to 2^32 - 1) decides what `sample_configuration` draws.
    """
    from ConfigSpace import ConfigurationSpace, EqualsCondition

    axes = space.axes()
    configspace = ConfigurationSpace(name=space.name, seed=seed)
    configspace.add([_hyperparameter(axis) for axis in axes])
    for axis in axes:
        if axis.condition is not None:
            parent, value = axis.condition
            configspace.add(EqualsCondition(configspace[axis.name], configspace[parent], value))
    return configspace


def config_of(space: Space, configuration: Mapping[str, Any]) -> dict[str, Value]:
    """The knobs of `configuration` and the fixed ones, as Python's own int, float, bool and str.

    Takes a ConfigSpace configuration or any mapping with the same names.

    Knobs whose condition does not hold are left out.
    """
    given = dict(configuration)
    config = {axis.name: axis.plain(given[axis.name]) for axis in space.axes() if axis.name in given}
    return {**config, **space.fixed}


def configuration_of(
    space: Space, configspace: ConfigurationSpace, config: dict[str, Value]
) -> Configuration:
    """The inverse of `config_of`: raises `ValueError` where `config` lies outside the space.

    Searched knobs that `config` leaves out take their defaults; fixed and inactive ones are dropped.
    """
    from ConfigSpace import Configuration

    values: dict[str, Any] = {}
    axes = {axis.name: axis for axis in space.axes()}
    for axis in axes.values():
        values[axis.name] = config.get(axis.name, axis.default)
    active = {name: value for name, value in values.items() if _acts(axes[name], values)}
    return Configuration(configspace, values=active)


def default_config(space: Space) -> dict[str, Value]:
    """The configuration that a campaign tries first: every default, and the fixed values."""
    axes = space.axes()
    values = {axis.name: axis.default for axis in axes}
    return {**{axis.name: axis.default for axis in axes if _acts(axis, values)}, **space.fixed}


def _acts(axis: Axis, values: dict[str, Any]) -> bool:
    return axis.condition is None or values[axis.condition[0]] == axis.condition[1]


def _hyperparameter(axis: Axis) -> Any:
    from ConfigSpace import Categorical, Float, Integer

    if axis.type == "int":
        bounds = (int(axis.minimum), int(axis.maximum))
        return Integer(axis.name, bounds, log=axis.log, default=int(axis.default))
    if axis.type == "float":
        return Float(axis.name, (axis.minimum, axis.maximum), log=axis.log, default=float(axis.default))
    return Categorical(axis.name, list(axis.choices), default=axis.default)
