"""Combinations that a search must not try: clauses such as `mode = sync and batch >= 64`, or `low < high`.

An order says nothing of knobs that do not act, nor of special values: these are named with `=`.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

from tiertune.document import Path as Place
from tiertune.mistakes import shown
from tiertune.nearest import nearest
from tiertune.spaces.value import Value

if TYPE_CHECKING:
    from tiertune.spaces.definition import Axis, Space

TERM = re.compile(r"\s*([A-Za-z0-9_]+)\s*(<=|>=|<|>|=)\s*([^\s<>=]+)\s*")
ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
ORDER_WORDS = {
    "<": "LessThan",
    "<=": "LessThanEquals",
    ">": "GreaterThan",
    ">=": "GreaterThanEquals",
    "=": "Equals",
}
"""As names of ConfigSpace's classes have them."""
ENOUGH = 0.01
"""Share of draws that must be left: of fewer, a search would mostly look for configurations at all."""
DRAWS = 1000


class ClauseError(Exception):
    """A clause that cannot be read; the text says why."""


@dataclass(frozen=True)
class Term:
    """One comparison: of a knob with another one, or with a value."""

    axis: Axis
    order: str
    other: Axis | None
    value: Value | None

    def holds(self, config: Mapping[str, Value]) -> bool:
        """Whether it is true of a config of the system."""
        one = config.get(self.axis.name)
        two = config.get(self.other.name) if self.other is not None else self.value
        if one is None or two is None:
            return False
        if self.order == "=":
            return one == two
        special = one in self.axis.specials or (self.other is not None and two in self.other.specials)
        return not special and bool(ORDERS[self.order](one, two))


Clause = tuple[Term, ...]
"""Forbidden where all terms hold."""


def clauses_of(space: Space) -> list[Clause]:
    """The clauses of a space; raises ClauseError."""
    axes = {axis.name: axis for axis in space.axes()}
    return [clause_of(text, axes, space.fixed) for text in space.forbid]


def clause_of(text: str, axes: Mapping[str, Axis], fixed: Mapping[str, Value]) -> Clause:
    """Reads one clause; raises ClauseError."""
    terms = []
    for part in re.split(r"\sand\s", text):
        found = TERM.fullmatch(part)
        if found is None:
            raise ClauseError(
                f"{shown(part.strip())} is no comparison; write KNOB = VALUE, KNOB < VALUE or KNOB < KNOB"
                " (<, <=, >, >= or =), several joined by 'and'"
            )
        name, order, right = found.groups()
        for knob in (name, right):
            if knob in fixed:
                raise ClauseError(f"{knob} is fixed at {shown(fixed[knob])} in this space; leave it out")
        if name not in axes:
            raise ClauseError(
                f"'{name}' is not searched by this space; did you mean '{nearest(name, axes)}'?"
            )
        terms.append(_term(axes[name], order, right, axes))
    return tuple(terms)


def _term(axis: Axis, order: str, right: str, axes: Mapping[str, Axis]) -> Term:
    words = bool(axis.choices)
    if words and order != "=":
        raise ClauseError(f"values of {axis.name} have no order; write {axis.name} = {right}")
    if right in axes and not words:
        if axes[right].choices:
            raise ClauseError(f"{axis.name} is a number and {right} is none; compare it with a number")
        if axes[right] == axis:
            raise ClauseError(f"{axis.name} is compared with itself; name another knob")
        return Term(axis, order, axes[right], None)
    value = _value(axis, right)
    if value is None:
        near = nearest(right, [other.name for other in axes.values() if not other.choices])
        raise ClauseError(f"'{right}' is neither a number nor a searched knob; did you mean '{near}'?")
    text = axis.mistake(value)
    if text is not None:
        raise ClauseError(f"{axis.name}: {text}")
    if order != "=" and value in axis.specials:
        raise ClauseError(f"{right} is special to {axis.name} and has no order; write {axis.name} = {right}")
    return Term(axis, order, None, axis.plain(value))


def _value(axis: Axis, text: str) -> Value | None:
    if axis.type == "bool":
        return {"true": True, "false": False}.get(text, text)
    if axis.choices:
        return text
    try:
        return float(text)
    except ValueError:
        return None


def forbidden_by(clauses: list[Clause], config: Mapping[str, Value]) -> int | None:
    """The number of the first clause that forbids `config`; None where none does."""
    return next((n for n, clause in enumerate(clauses) if all(t.holds(config) for t in clause)), None)


def forbid_mistakes(space: Space) -> Iterator[tuple[Place, str]]:
    """What is wrong with the clauses of a space that is right otherwise."""
    axes = {axis.name: axis for axis in space.axes()}
    clauses: list[Clause] = []
    for number, text in enumerate(space.forbid):
        try:
            clauses.append(clause_of(text, axes, space.fixed))
        except ClauseError as error:
            yield ("forbid", number), str(error)
    if len(clauses) < len(space.forbid) or not clauses:
        return
    start = forbidden_by(clauses, space.start())
    if start is not None:
        yield ("forbid", start), "forbids the default of the space; give one of its knobs another default"
    for number, preset in enumerate(space.presets):
        broken = forbidden_by(clauses, space.start(preset.knobs))
        if broken is not None:
            text = f"is forbidden by forbid[{broken}], {space.forbid[broken]}; change one of the two"
            yield ("presets", number), text
    left = _share_left(space, clauses)
    if left < ENOUGH:
        yield (
            ("forbid",),
            f"leaves {100 * left:.2g} % of the configurations; a search needs {100 * ENOUGH:g} % or more",
        )


def _share_left(space: Space, clauses: list[Clause]) -> float:
    random = Random(0)
    drawn = [space.start({axis.name: _draw(axis, random) for axis in space.axes()}) for _ in range(DRAWS)]
    return sum(forbidden_by(clauses, config) is None for config in drawn) / DRAWS


def _draw(axis: Axis, random: Random) -> Value:
    if axis.choices:
        return random.choice(axis.choices)
    if axis.specials and random.random() < axis.special_share:
        return random.choice(axis.specials)
    if axis.log:
        return math.exp(random.uniform(math.log(axis.minimum), math.log(axis.maximum)))
    return random.uniform(axis.minimum, axis.maximum)


def to_forbidden(clause: Clause, hyperparameters: Mapping[str, Any], special: str) -> Any:
    """The clause as ConfigSpace has it; `special` is what names of hyperparameters for special values end
    in."""
    from ConfigSpace import ForbiddenAndConjunction

    made = [_forbidden(term, hyperparameters, special) for term in clause]
    return made[0] if len(made) == 1 else ForbiddenAndConjunction(*made)


def _forbidden(term: Term, hyperparameters: Mapping[str, Any], special: str) -> Any:
    import ConfigSpace

    one, word = hyperparameters[term.axis.name], ORDER_WORDS[term.order]
    if term.other is not None:
        relation: Any = getattr(ConfigSpace, f"Forbidden{word}Relation")
        return relation(one, hyperparameters[term.other.name])
    if term.value in term.axis.specials:
        return ConfigSpace.ForbiddenEqualsClause(hyperparameters[term.axis.name + special], str(term.value))
    if term.order in ("<=", ">="):
        # Of ConfigSpace 1.2's own, one forbids what is above and the other prints what it looks at.
        parts = [replace(term, order=order) for order in (term.order[0], "=")]
        return ConfigSpace.ForbiddenOrConjunction(*(_forbidden(p, hyperparameters, special) for p in parts))
    clause: Any = getattr(ConfigSpace, f"Forbidden{word}Clause")
    return clause(one, term.value)
