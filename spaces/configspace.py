"""A space as ConfigSpace, the form that optimisers take, and configurations back as plain Python.

A knob with special values is two hyperparameters: one that says whether it is in its range or at which
special value, and the number, which only acts in the range. So a model need not believe that 0 for "off" is
next to the smallest value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tiertune.spaces.conditions import IN_RANGE, SPECIAL, condition_of, holds
from tiertune.spaces.definition import Axis, Space
from tiertune.spaces.forbidden import clauses_of, to_forbidden
from tiertune.spaces.value import Value

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace


def to_configspace(space: Space, seed: int) -> ConfigurationSpace:
    """The searched knobs with ranges, scales, defaults, conditions and what is forbidden; fixed knobs are not
    part of it.

    `seed` (0 to 2^32 - 1) decides what `sample_configuration` draws.
    """
    from ConfigSpace import ConfigurationSpace, EqualsCondition

    axes = space.axes()
    configspace = ConfigurationSpace(name=space.name, seed=seed)
    configspace.add([hyperparameter for axis in axes for hyperparameter in hyperparameters(axis)])
    for axis in axes:
        first = axis.name
        if axis.specials:
            first += SPECIAL
            configspace.add(EqualsCondition(configspace[axis.name], configspace[first], IN_RANGE))
        if axis.condition is not None:
            parent = next(other for other in axes if other.name == axis.condition.knob)
            condition = condition_of(axis.condition, parent, first, configspace)
            if condition is not None:
                configspace.add(condition)
    for clause in clauses_of(space):
        configspace.add(to_forbidden(clause, configspace, SPECIAL))
    return configspace


def config_of(space: Space, configuration: Mapping[str, Any]) -> dict[str, Value]:
    """The knobs of `configuration` and the fixed ones, as Python's own int, float, bool and str.

    Takes a ConfigSpace configuration or any mapping with the same names.

    Knobs whose condition does not hold are left out.
    """
    given = dict(configuration)
    config = {}
    for axis in space.axes():
        place = given.get(axis.name + SPECIAL, IN_RANGE)
        if place != IN_RANGE:
            config[axis.name] = next(value for value in axis.specials if str(value) == place)
        elif axis.name in given:
            config[axis.name] = axis.plain(given[axis.name])
    return {**config, **space.fixed}


def values_of(configspace: ConfigurationSpace, config: Mapping[str, Value]) -> dict[str, Any]:
    """The inverse of `config_of`: values of hyperparameters. Knobs that are not searched are left out, and
    so are those that do not act, which configs of versions with fewer conditions have."""
    values: dict[str, Any] = {}
    for name, value in config.items():
        if name not in configspace:
            continue
        place = IN_RANGE
        if name + SPECIAL in configspace:
            switch: Any = configspace[name + SPECIAL]
            places = switch.choices
            place = str(value) if str(value) in places else IN_RANGE
            values[name + SPECIAL] = place
        if place == IN_RANGE:
            values[name] = value
    # Knobs on which others depend come first.
    for name in [name for name in configspace if name in values]:
        if not all(holds(condition, values) for condition in configspace.parent_conditions_of[name]):
            del values[name]
    return values


def hyperparameters(axis: Axis) -> list[Any]:
    """A knob as one hyperparameter, or as two where it has special values."""
    from ConfigSpace import Categorical, Float, Integer

    # ConfigSpace takes no part in `meta`: the space is the same with priors as without.
    meta = None if axis.prior is None else {"prior": axis.prior.model_dump()}
    if axis.choices:
        return [Categorical(axis.name, list(axis.choices), default=axis.default, meta=meta)]
    bounds, inside = (axis.minimum, axis.maximum), min(max(float(axis.default), axis.minimum), axis.maximum)
    made: list[Any] = [
        Integer(axis.name, (int(bounds[0]), int(bounds[1])), log=axis.log, default=int(inside), meta=meta)
        if axis.type == "int"
        else Float(axis.name, bounds, log=axis.log, default=inside, meta=meta)
    ]
    if axis.specials:
        share = axis.special_share / len(axis.specials)
        made.append(
            Categorical(
                axis.name + SPECIAL,
                [IN_RANGE, *map(str, axis.specials)],
                default=str(axis.default) if axis.default in axis.specials else IN_RANGE,
                weights=[1.0 - axis.special_share, *(share for _ in axis.specials)],
            )
        )
    return made
