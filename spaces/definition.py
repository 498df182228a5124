"""What a space file holds: knobs of one system, their ranges as declared by the engine or narrower."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer

from tiertune.document import Path as Place
from tiertune.fields import Flag, Name, Number, Text
from tiertune.files import Strict, find, load
from tiertune.mistakes import shown
from tiertune.nearest import nearest
from tiertune.spaces.declared import all_mistakes
from tiertune.spaces.preset import Preset
from tiertune.spaces.prior import Prior
from tiertune.spaces.value import Scalar, Value

if TYPE_CHECKING:
    from tiertune.condition import Condition
    from tiertune.engine import KnobInfo


def _nothing_is_declared(value: object) -> object:
    return {} if value is None else value


LATER = {"forbid", "presets", "prior", "special"}
"""Keys of space files that came later."""


class KnobRange(Strict):
    """How one knob is searched; what is left out is as the engine declares it."""

    min: Number | None = Field(default=None, description="smallest value that is tried")
    max: Number | None = Field(default=None, description="largest value that is tried")
    log: Flag | None = Field(default=None, description="whether ratios rather than differences matter")
    default: Scalar | None = Field(default=None, description="value that is tried first")
    choices: list[Scalar] | None = Field(default=None, min_length=2, description="words that are tried")
    fixed: Scalar | None = Field(default=None, description="the one value, instead of a search")
    special: Annotated[Number, Field(ge=0.01, le=0.5)] | None = Field(
        default=None,
        description="share of draws at a declared special value, such as 0 for off; absent: none",
    )
    prior: Prior | None = Field(
        default=None, description="where the best value is believed to be, if a campaign follows it"
    )

    @model_serializer(mode="wrap")
    def _as_of_old(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As that of a space: keys that came later are left out where they say nothing."""
        plain: dict[str, Any] = whole(self)
        return {key: value for key, value in plain.items() if value is not None or key not in LATER}

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """A fixed knob has no range; a range is not empty; log ranges are above 0."""
        if self.fixed is not None:
            for key in ("min", "max", "log", "default", "choices", "special", "prior"):
                if getattr(self, key) is not None:
                    yield (key,), "cannot stand beside 'fixed'; keep one of the two"
        if self.min is not None and self.max is not None and self.min >= self.max:
            yield (
                ("min",),
                f"{self.min:g} does not lie below max, {self.max:g}; to pin the knob write 'fixed'",
            )


class Space(Strict):
    """The knobs of one system that a campaign searches; all others stay at their declared defaults."""

    name: Name = Field(description="name of the space, as campaigns use it")
    description: Text = Field(description="one line on the space")
    system: Name = Field(description="tiering system whose knobs these are")
    knobs: dict[str, Annotated[KnobRange, BeforeValidator(_nothing_is_declared)]] = Field(
        min_length=1, description="knobs that are searched, each with a range or nothing (as declared)"
    )
    forbid: list[Text] = Field(
        default=[],
        max_length=50,
        description="combinations that are never tried: KNOB < KNOB, or with values",
    )
    presets: list[Preset] = Field(
        default=[],
        max_length=50,
        description="published configurations, tried first if a campaign says so",
    )

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Something is left to search."""
        if all(knob.fixed is not None for knob in self.knobs.values()):
            yield ("knobs",), "holds only fixed values; leave at least one knob to search"

    @model_serializer(mode="wrap")
    def _as_of_old(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Keys that came later are left out where they say nothing: it is the space that it was, so that
        campaigns of older versions go on."""
        plain: dict[str, Any] = whole(self)
        return {key: value for key, value in plain.items() if value or key not in LATER}

    def searched(self, *, presets: bool, priors: bool, special: float | None) -> Space:
        """The space as a campaign searches it: without the advice that it does not take, and with the share
        of `special` values for knobs that declare some and of which the space says nothing."""
        from tiertune.engine import system

        declared = {knob.name for knob in system(self.system).knobs if knob.special} if special else set()
        knobs = {
            name: knob.model_copy(
                update={
                    "prior": knob.prior if priors else None,
                    "special": special if self._may_be_special(name, declared) else knob.special,
                }
            )
            for name, knob in self.knobs.items()
        }
        return self.model_copy(update={"knobs": knobs, "presets": self.presets if presets else []})

    def _may_be_special(self, name: str, declared: set[str]) -> bool:
        return name in declared and self.knobs[name].special is None and self.knobs[name].fixed is None

    def start(self, knobs: Mapping[str, Value] | None = None) -> dict[str, Value]:
        """The configuration with `knobs`, all others where the space starts, and without those that do not
        act then."""
        given = knobs or {}
        config: dict[str, Value] = {}
        waiting = list(self.axes())
        while waiting:  # a knob follows the one that its condition names
            left = []
            for axis in waiting:
                if axis.condition and any(other.name == axis.condition.knob for other in waiting):
                    left.append(axis)
                elif axis.acts(config):
                    config[axis.name] = axis.plain(given.get(axis.name, axis.default))
            waiting = left
        return {**config, **self.fixed}

    @property
    def fixed(self) -> dict[str, Value]:
        """Knobs that are pinned."""
        return {name: knob.fixed for name, knob in self.knobs.items() if knob.fixed is not None}

    def axes(self) -> tuple[Axis, ...]:
        """The knobs that are searched, ranges merged with the engine's declaration; order of the file."""
        from tiertune.engine import system

        declared = {knob.name: knob for knob in system(self.system).knobs}
        return tuple(
            _axis(declared[name], narrowed, self)
            for name, narrowed in self.knobs.items()
            if narrowed.fixed is None
        )


def contender_name(system: str, space: Space) -> str:
    """What competes: the system, with its space where that has a name of its own."""
    return system if space.name == system else f"{system}:{space.name}"


@dataclass(frozen=True)
class Axis:
    """One searched knob with everything an optimiser has to know.

    `minimum` and `maximum` are set for `int` and `float`, `choices` for `choice` and `bool`. `condition`
    is on another axis. `prior` is what a search follows.
    `specials` are values outside the range that are tried as well, in `special_share` of the draws.
    """

    name: str
    type: str
    minimum: float
    maximum: float
    log: bool
    choices: tuple[Value, ...]
    default: Value
    condition: Condition | None
    prior: Prior | None = None
    specials: tuple[Value, ...] = ()
    special_share: float = 0.0

    def acts(self, config: Mapping[str, Value]) -> bool:
        """Whether the knob matters beside those of `config`, in which what does not act is left out."""
        return self.condition is None or self.condition.takes(config.get(self.condition.knob))

    def plain(self, value: object) -> Value:
        """`value` as Python's own int, float, bool or str, a special one or inside the range; takes numpy
        scalars too."""
        for special in self.specials:
            if special == value:
                return special
        if self.type == "int":
            return int(min(max(round(float(value)), self.minimum), self.maximum))  # type: ignore[arg-type]
        if self.type == "float":
            return min(max(float(value), self.minimum), self.maximum)  # type: ignore[arg-type]
        return next(choice for choice in self.choices if choice == value)

    def mistake(self, value: Value) -> str | None:
        """Why `value` cannot be tried on this axis, with the nearest that can; None where it can."""
        if self.type in ("bool", "choice"):
            if any(choice == value and type(choice) is type(value) for choice in self.choices):
                return None
            if self.type == "bool":
                return f"{shown(value)} is not true or false"
            words = [str(choice) for choice in self.choices]
            near = nearest(str(value), words)
            return f"{shown(value)} is not one of {', '.join(words)}; did you mean '{near}'?"
        if not isinstance(value, bool) and value in self.specials:
            return None
        searched = f"{self.minimum:g} to {self.maximum:g}"
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            kind = "a whole number" if self.type == "int" else "a number"
            return f"{shown(value)} is not {kind}; {self.name} is searched from {searched}"
        if not self.minimum <= value <= self.maximum:
            bound = min(max(value, self.minimum), self.maximum)
            return f"{value:g} is outside the searched {searched}; the nearest valid value is {bound:g}"
        if self.type == "int" and value != int(value):
            return f"{value:g} is not a whole number; the nearest valid value is {round(value)}"
        return None


def load_space(name_or_path: str, base: Path | None = None) -> Space:
    """Reads a space by name (`./spaces` first, then the packaged ones) or path; raises `InputError`.

    Every knob is checked against what the engine declares for the system.
    """
    return load(Space, find("spaces", name_or_path, base), all_mistakes)


def _typed(declared: KnobInfo, value: Value) -> Value:
    return float(value) if declared.type == "float" else value


def _axis(declared: KnobInfo, narrowed: KnobRange, space: Space) -> Axis:
    number = declared.type in ("int", "float")
    choices: tuple[Value, ...] = ()
    if declared.type == "bool":
        choices = (False, True)
    elif declared.type == "choice":
        choices = tuple(narrowed.choices or declared.choices)
    minimum = narrowed.min if narrowed.min is not None else declared.min
    maximum = narrowed.max if narrowed.max is not None else declared.max
    default = narrowed.default if narrowed.default is not None else declared.default
    condition = declared.condition
    searched = (
        condition is not None and condition.knob in space.knobs and space.knobs[condition.knob].fixed is None
    )
    return Axis(
        name=declared.name,
        type=declared.type,
        minimum=float(minimum) if number and minimum is not None else 0.0,
        maximum=float(maximum) if number and maximum is not None else 0.0,
        log=bool(narrowed.log if narrowed.log is not None else declared.log) if number else False,
        choices=choices,
        default=float(default) if declared.type == "float" else default,
        condition=condition if searched else None,
        prior=narrowed.prior,
        specials=tuple(_typed(declared, value) for value, _ in declared.special) if narrowed.special else (),
        special_share=narrowed.special or 0.0,
    )
