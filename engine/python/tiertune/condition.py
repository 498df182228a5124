"""What another knob must be for a knob to act: declared by the engine, asked and worded here alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from tiertune.mistakes import shown

Value = bool | int | float | str
Test = Literal["is", "is_not", "is_one_of", "is_over"]


@dataclass(frozen=True)
class Condition:
    """`test` says how the value of `knob` is compared with `values`; only `is_one_of` has several."""

    knob: str
    test: Test
    values: tuple[Value, ...]

    def takes(self, value: Value | None) -> bool:
        """Whether it holds where the other knob has `value`; None where that does not act itself."""
        if value is None:
            return False
        if self.test == "is_over":
            (bound,) = self.values
            numbers = isinstance(value, (int, float)) and isinstance(bound, (int, float))
            return numbers and value > bound  # type: ignore[operator]
        return (value in self.values) is (self.test != "is_not")

    def said(self, spell: Callable[[Value], str] = shown) -> str:
        """The end of a sentence that the other knob's name begins: `is not 'off'`."""
        words = [spell(value) for value in self.values]
        listed = f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]
        return f"{ {'is_not': 'is not', 'is_over': 'is over'}.get(self.test, 'is') } {listed}"

    def example(self, default: Value, others: Sequence[Value]) -> Value:
        """A value of the other knob for which it holds: its default if it does, else the first of the
        condition's own and of `others` that will do."""
        return next(value for value in (default, *self.values, *others) if self.takes(value))


def is_not(knob: str, value: Value) -> Condition:
    """`knob` is anything but `value`."""
    return Condition(knob, "is_not", (value,))


def is_one_of(knob: str, *values: Value) -> Condition:
    """`knob` is one of `values`."""
    return Condition(knob, "is_one_of", values)


def is_over(knob: str, bound: float) -> Condition:
    """`knob` is above `bound`."""
    return Condition(knob, "is_over", (bound,))
