"""A space as ConfigSpace, the form that optimisers take, and configurations back as plain Python."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tiertune.spaces.definition import Axis, Space
from tiertune.spaces.value import Value

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace


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


def _hyperparameter(axis: Axis) -> Any:
    from ConfigSpace import Categorical, Float, Integer

    # ConfigSpace takes no part in `meta`: the space is the same with priors as without.
    meta = None if axis.prior is None else {"prior": axis.prior.model_dump()}
    if axis.type == "int":
        bounds = (int(axis.minimum), int(axis.maximum))
        return Integer(axis.name, bounds, log=axis.log, default=int(axis.default), meta=meta)
    if axis.type == "float":
        ends = (axis.minimum, axis.maximum)
        return Float(axis.name, ends, log=axis.log, default=float(axis.default), meta=meta)
    return Categorical(axis.name, list(axis.choices), default=axis.default, meta=meta)
