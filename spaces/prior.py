"""Priors: where somebody who knows a system believes the best value of a knob to be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from tiertune.document import Path as Place
from tiertune.fields import Number
from tiertune.files import Strict
from tiertune.mistakes import shown
from tiertune.spaces.value import Scalar

if TYPE_CHECKING:
    from tiertune.spaces.definition import Axis, Space

WORDS = ("bool", "choice")


class Prior(Strict):
    """What is believed of one knob before anything is measured; searches follow it less with each trial."""

    around: Scalar = Field(description="value that is believed to be best")
    spread: Number | None = Field(
        default=None,
        description="how far off it may well be: in the knob's unit, a factor where log is true",
    )
    chance: Annotated[Number, Field(ge=0.01, le=0.99)] | None = Field(
        default=None, description="of a word or a switch: how likely it is the best one"
    )


def prior_mistakes(space: Space) -> Iterator[tuple[Place, str]]:
    """What is wrong with the priors of a space that is right otherwise."""
    for axis in space.axes():
        prior = space.knobs[axis.name].prior
        if prior is not None:
            for key, text in _mistakes(axis, prior):
                yield ("knobs", axis.name, "prior", *key), text


def _mistakes(axis: Axis, prior: Prior) -> Iterator[tuple[Place, str]]:
    text = axis.mistake(prior.around)
    if text is not None:
        yield ("around",), text
    elif axis.type not in WORDS and not axis.minimum <= float(prior.around) <= axis.maximum:
        # How likely a special value is, is the share of draws at it: it has no place in the range.
        near = min(max(float(prior.around), axis.minimum), axis.maximum)
        text = f"{shown(prior.around)} is a special value, of which 'special' is the share of draws"
        yield ("around",), f"{text}; the nearest valid value is {near:g}"
    wanted, other = ("chance", "spread") if axis.type in WORDS else ("spread", "chance")
    if getattr(prior, other) is not None:
        what = "words and switches" if axis.type in WORDS else "numbers"
        yield (other,), f"does not fit here; priors of {what} take '{wanted}'"
    elif getattr(prior, wanted) is None:
        yield (), f"has no {wanted}; add '{wanted}: {_usual(axis)}'"
    elif prior.spread is not None and axis.log and prior.spread <= 1.0:
        yield (
            ("spread",),
            f"{prior.spread:g} is no factor above 1, and ratios matter here; write {_usual(axis)}",
        )
    elif prior.spread is not None and prior.spread <= 0.0:
        yield ("spread",), f"{prior.spread:g} is not above 0; write {_usual(axis)}"


def _usual(axis: Axis) -> str:
    """A spread over a fifth of the range, as an example."""
    if axis.type in WORDS:
        return "0.7"
    if axis.log:
        return f"{(axis.maximum / axis.minimum) ** 0.2:.2g}"
    return f"{(axis.maximum - axis.minimum) / 5:.2g}"
