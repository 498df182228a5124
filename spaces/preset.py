"""Presets: configurations that somebody published for a system, which a search may try right after the
default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pydantic import Field

from tiertune.document import Path as Place
from tiertune.fields import Name, Text
from tiertune.files import Strict
from tiertune.mistakes import shown
from tiertune.nearest import nearest
from tiertune.spaces.value import Scalar

if TYPE_CHECKING:
    from tiertune.spaces.definition import Axis, Space

Broken = Iterator[tuple[Place, str]]


class Preset(Strict):
    """A published configuration: the knobs that it sets, all others stay where the space starts."""

    name: Name = Field(description="name of the preset, as reports use it")
    source: Text = Field(description="where these values are from")
    knobs: dict[str, Scalar] = Field(min_length=1, description="searched knobs and their values")


def preset_mistakes(space: Space) -> Broken:
    """What is wrong with the presets of a space that is right otherwise."""
    axes = {axis.name: axis for axis in space.axes()}
    named: dict[str, int] = {}
    known = {_frozen(space.start()): "the default of the space"}
    for number, preset in enumerate(space.presets):
        first = named.setdefault(preset.name, number)
        if first != number:
            yield ("presets", number, "name"), f"'{preset.name}' is the name of presets[{first}] too"
        broken = [found for name in preset.knobs for found in _knob_mistakes(space, axes, preset, name)]
        if broken:
            for name, text in broken:
                yield ("presets", number, "knobs", name), text
            continue
        config = _frozen(space.start(preset.knobs))
        if config in known:
            yield (
                ("presets", number),
                f"is the same configuration as {known[config]}; leave one of the two out",
            )
        known.setdefault(config, f"presets[{number}]")


def _knob_mistakes(
    space: Space, axes: dict[str, Axis], preset: Preset, name: str
) -> Iterator[tuple[str, str]]:
    if name in space.fixed:
        yield name, f"is fixed at {shown(space.fixed[name])} in this space and cannot be set; leave it out"
        return
    if name not in axes:
        yield name, f"is not searched by this space; did you mean '{nearest(name, axes)}'?"
        return
    axis, value = axes[name], preset.knobs[name]
    text = axis.mistake(value)
    if text is not None:
        yield name, text
        return
    condition = axis.condition
    if condition is not None and name not in space.start(preset.knobs):
        parent = condition.knob
        others = (*axes[parent].choices, axes[parent].minimum, axes[parent].maximum)
        wanted = shown(condition.example(axes[parent].default, others))
        yield (
            name,
            f"only acts while {parent} {condition.said()}; add '{parent}: {wanted}' or leave it out",
        )


def _frozen(config: dict[str, bool | int | float | str]) -> tuple[tuple[str, object], ...]:
    return tuple(sorted(config.items()))
