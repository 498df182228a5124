"""Conditions between the searched knobs of a space, in the form that optimisers take.

Where a knob with special values (two hyperparameters, see `configspace`) is asked for a number, its range and
its special values are asked one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tiertune.condition import Condition
from tiertune.document import Path as Place
from tiertune.spaces.value import Value

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

    from tiertune.spaces.definition import Axis, Space

SPECIAL = ":special"
"""What a knob's name ends in, for the hyperparameter that says whether it is in its range."""
IN_RANGE = "in range"


def reach(condition: Condition, axis: Axis) -> tuple[bool, bool]:
    """Whether `condition` holds for any, and for all, values of the axis that it is on."""
    taken = [condition.takes(value) for value in (*axis.choices, *axis.specials)]
    if not axis.choices:
        taken += _ends(condition, axis)
    return any(taken), all(taken)


def never_acting(space: Space) -> Iterator[tuple[Place, str]]:
    """Knobs of a space that is right otherwise whose conditions no searched value meets."""
    axes = {axis.name: axis for axis in space.axes()}
    for axis in axes.values():
        on = axis.condition
        if on is not None and not reach(on, axes[on.knob])[0]:
            yield (
                ("knobs", axis.name),
                (
                    f"only acts while {on.knob} {on.said()}, which is not searched here;"
                    f" search that as well or leave {axis.name} out"
                ),
            )


def condition_of(condition: Condition, axis: Axis, child: str, space: ConfigurationSpace) -> Any:
    """`condition` of hyperparameter `child` on `axis`, one of ConfigSpace's; None where it always holds."""
    from ConfigSpace import InCondition, OrConjunction

    if reach(condition, axis)[1]:
        return None
    if axis.choices:
        return InCondition(space[child], space[axis.name], list(filter(condition.takes, axis.choices)))
    places = [str(value) for value in axis.specials if condition.takes(value)]
    parts: list[Any] = []
    if all(_ends(condition, axis)):
        places.append(IN_RANGE)
    elif any(_ends(condition, axis)):
        parts = _of_number(condition, child, axis.name, space)
    if places:
        parts.append(InCondition(space[child], space[axis.name + SPECIAL], places))
    return OrConjunction(*parts) if len(parts) > 1 else parts[0]


def holds(condition: Any, values: Mapping[str, Any]) -> bool:
    """Whether a condition made here holds among values of hyperparameters; not where it is on one that has
    none."""
    if hasattr(condition, "components"):
        return any(holds(part, values) for part in condition.components)
    return condition.parent.name in values and bool(condition.satisfied_by_value(dict(values)))


def _ends(condition: Condition, axis: Axis) -> list[bool]:
    """For both ends of a range, and for the values in between that are named."""
    inside = [v for v in condition.values if _number(v) and axis.minimum <= float(v) <= axis.maximum]
    between = (axis.minimum + axis.maximum) / 2
    return [condition.takes(value) for value in (axis.minimum, between, axis.maximum, *inside)]


def _number(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _of_number(condition: Condition, child: str, parent: str, space: ConfigurationSpace) -> list[Any]:
    from ConfigSpace import GreaterThanCondition, InCondition, LessThanCondition

    one, other = space[child], space[parent]
    if condition.test == "is_over":
        return [GreaterThanCondition(one, other, *condition.values)]
    if condition.test == "is_not":
        # Not ConfigSpace's own, which holds where the other knob does not act.
        return [
            LessThanCondition(one, other, *condition.values),
            GreaterThanCondition(one, other, *condition.values),
        ]
    return [InCondition(one, other, [value for value in condition.values if other.legal_value(value)])]
