"""A space against what the engine declares: known knobs, ranges no wider, values of the right type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tiertune.document import Path as Place
from tiertune.mistakes import shown
from tiertune.nearest import nearest
from tiertune.spaces.conditions import never_acting
from tiertune.spaces.forbidden import forbid_mistakes
from tiertune.spaces.preset import preset_mistakes
from tiertune.spaces.prior import prior_mistakes

if TYPE_CHECKING:
    from tiertune.engine import KnobInfo, Value
    from tiertune.spaces.definition import KnobRange, Space

_TYPES = {"int": "a whole number", "float": "a number", "bool": "a switch", "choice": "a word"}

Broken = Iterator[tuple[Place, str]]


def mistakes_against_engine(space: Space) -> Broken:
    """Where and what, for everything in `space` that the engine does not declare like that."""
    from tiertune.engine import EngineError, system

    try:
        declared = {knob.name: knob for knob in system(space.system).knobs}
    except EngineError as error:
        yield ("system",), str(error)
        return
    for name, narrowed in space.knobs.items():
        if name not in declared:
            near = nearest(name, declared)
            hint = f"did you mean '{near}'?" if near else "it has none"
            yield ("knobs", name), f"{space.system} has no such knob; {hint}"
            continue
        for place, text in _knob_mistakes(declared[name], narrowed):
            yield ("knobs", name, *place), text
        yield from _condition_mistakes(declared[name], declared, space)


def all_mistakes(space: Space) -> Broken:
    """Those, and where there are none, what is wrong with advice that stands on the knobs."""
    found = list(mistakes_against_engine(space))
    never = [] if found else list(never_acting(space))
    advice = (prior_mistakes, preset_mistakes, forbid_mistakes)
    yield from found or never or [mistake for broken in advice for mistake in broken(space)]


def _knob_mistakes(knob: KnobInfo, narrowed: KnobRange) -> Broken:
    if narrowed.fixed is not None:
        text = _value_mistake(knob, narrowed.fixed, specials=True)
        if text:
            yield ("fixed",), text
        return
    number = knob.type in ("int", "float")
    if narrowed.special is not None and not knob.special:
        yield (
            ("special",),
            "has nothing to try: the engine declares no special value of this knob; leave it out",
        )
    for key in ("min", "max", "log") if not number else ("choices",):
        if getattr(narrowed, key) is not None:
            takes = (
                "'min' and 'max'"
                if number
                else "'choices'"
                if knob.type == "choice"
                else "'fixed' or 'default'"
            )
            yield (key,), f"does not fit a knob that is {_TYPES[knob.type]}; it takes {takes}"
            return
    broken = False
    for key in ("min", "max"):
        bound = getattr(narrowed, key)
        text = _value_mistake(knob, bound, specials=False) if bound is not None else None
        if text:
            broken = True
            yield (key,), text
    for position, choice in enumerate(narrowed.choices or []):
        text = _value_mistake(knob, choice, specials=False)
        if text:
            broken = True
            yield ("choices", position), text
    if not broken:
        yield from _range_mistakes(knob, narrowed)


def _range_mistakes(knob: KnobInfo, narrowed: KnobRange) -> Broken:
    """Bounds and choices are right one by one; do they leave something, and is the default among it?"""
    if knob.type in ("int", "float"):
        assert knob.min is not None
        assert knob.max is not None
        low = narrowed.min if narrowed.min is not None else knob.min
        high = narrowed.max if narrowed.max is not None else knob.max
        if low >= high:
            key, bound = ("min", high) if narrowed.min is not None else ("max", low)
            yield (key,), f"leaves the one value {bound:g}; to pin the knob write 'fixed'"
            return
        if narrowed.log and low <= 0:
            yield (
                ("log",),
                f"a range that starts at {low:g} has no ratios; write false or raise 'min' above 0",
            )
    specials = [value for value, _ in knob.special] if narrowed.special is not None else []
    if narrowed.default is not None:
        text = _value_mistake(knob, narrowed.default, specials=bool(specials))
        if text:
            yield ("default",), text
            return
    default = narrowed.default if narrowed.default is not None else knob.default
    what = "" if narrowed.default is not None else "the declared default "
    if knob.type in ("int", "float") and default not in specials and not low <= float(default) <= high:
        near = min(max(float(default), low), high)
        yield (
            ("default",),
            f"{what}{shown(default)} lies outside {low:g} to {high:g}; the nearest valid default is {near:g}",
        )
    elif narrowed.choices is not None and default not in narrowed.choices:
        near_word = nearest(str(default), [str(choice) for choice in narrowed.choices])
        yield (
            ("default",),
            f"{what}{shown(default)} is not among 'choices'; the nearest that is: '{near_word}'",
        )


def _value_mistake(knob: KnobInfo, value: Value, *, specials: bool) -> str | None:
    """What is wrong with one value of `knob`; None when it is fine."""
    if knob.type == "bool":
        return None if isinstance(value, bool) else f"{shown(value)} is not true or false"
    if knob.type == "choice":
        if value in knob.choices and isinstance(value, str):
            return None
        near = nearest(str(value), knob.choices)
        return f"{shown(value)} is not one of {', '.join(knob.choices)}; did you mean '{near}'?"
    assert knob.min is not None
    assert knob.max is not None
    kind = "a whole number" if knob.type == "int" else "a number"
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"{shown(value)} is not {kind}; {knob.name} takes {knob.min:g} to {knob.max:g}"
    if specials and any(value == special for special, _ in knob.special):
        return None
    if not knob.min <= value <= knob.max:
        near_bound = min(max(value, knob.min), knob.max)
        declared = f"{knob.min:g} to {knob.max:g}"
        return f"{value:g} is outside the declared {declared}; the nearest valid value is {near_bound:g}"
    if knob.type == "int" and value != int(value):
        return f"{value:g} is not a whole number; the nearest valid value is {round(value)}"
    return None


def _condition_mistakes(knob: KnobInfo, declared: dict[str, KnobInfo], space: Space) -> Broken:
    """A searched knob that can never act would make the optimiser learn from noise."""
    if knob.condition is None or space.knobs[knob.name].fixed is not None:
        return
    condition, other = knob.condition, knob.condition.knob
    in_space = space.knobs.get(other)
    if in_space is not None and in_space.fixed is None:
        return
    value = in_space.fixed if in_space is not None else declared[other].default
    if not condition.takes(value):
        wanted = shown(declared[other].example(condition))
        yield (
            ("knobs", knob.name),
            (
                f"only acts while {other} {condition.said()}, and here it is {shown(value)};"
                f" add '{other}: {{fixed: {wanted}}}' or leave {knob.name} out"
            ),
        )
