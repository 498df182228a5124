"""How the output of a program that is not ours is read: pure functions, so that stored output can be read
again."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from pydantic import Field

from tiertune.document import Path as Place
from tiertune.fields import Flag, Integer, Number, Text
from tiertune.files import Strict

Stream = Literal["stdout", "stderr"]

AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "harmonic": statistics.harmonic_mean,
    "sum": sum,
}


GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d*)?")
"""A number whose commas stand between thousands; any other comma may be a decimal one."""


class NoMetrics(ValueError):
    """The output is not what the workload's file says; a sentence."""


class _Expression(Strict):
    regex: Text = Field(description="regular expression with one group; ^ and $ are ends of lines")
    stream: Stream = Field(default="stdout", description="where the program says it: stdout or stderr")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """The expression is one, with one group."""
        try:
            groups = re.compile(self.regex).groups
        except re.error as error:
            yield ("regex",), f"'{self.regex}' is no regular expression: {error}"
        else:
            if groups != 1:
                yield ("regex",), f"'{self.regex}' has {groups} groups; it needs one, around the number"

    def hits(self, output: str, errors: str) -> list[str]:
        """What the group holds, match by match; a progress line that is overwritten counts as a line."""
        text = output if self.stream == "stdout" else errors
        return re.findall(self.regex, text.replace("\r", "\n"), re.MULTILINE)


class Reading(_Expression):
    """A number in the output of a program. Commas between its thousands are dropped."""

    pick: Literal["last", "first", "all"] = Field(
        default="last", description="which match counts; programs print intermediate ones before the last"
    )
    aggregate: Literal["mean", "median", "harmonic", "sum"] = Field(
        default="mean", description="what is made of all"
    )
    discard: Integer = Field(default=0, ge=0, le=1000, description="first matches that are left out")
    scale: Number = Field(
        default=1.0, gt=0, description="what the number is multiplied by, to be in the unit of the metric"
    )


class Check(_Expression):
    """Something that the output has to say. Where it says nothing of the kind, that is no mistake unless
    `needed`."""

    equals: Text = Field(description="what every match has to be")
    needed: Flag = Field(default=False, description="whether there has to be a match")

    def look(self, name: str, output: str, errors: str) -> None:
        """Raises NoMetrics where the result is wrong."""
        found = self.hits(output, errors)
        wrong = next((hit for hit in found if hit != self.equals), None)
        if wrong is not None:
            raise NoMetrics(f"the program computed a wrong result: {name} is {wrong}, not {self.equals}")
        if self.needed and not found:
            raise NoMetrics(f"nothing in the output matches '{self.regex}', which is the check {name}")


def number_in(name: str, reading: Reading, output: str, errors: str) -> float:
    """The number that `reading` finds for `name`; raises NoMetrics."""
    hits = reading.hits(output, errors)[reading.discard :]
    if not hits:
        raise NoMetrics(f"nothing in the output matches '{reading.regex}', which is {name}")
    chosen = {"last": hits[-1:], "first": hits[:1], "all": hits}[reading.pick]
    values = []
    for hit in chosen:
        try:
            values.append(_number(hit))
        except ValueError as error:
            raise NoMetrics(f"'{hit}', which '{reading.regex}' finds for {name}, is no number") from error
    if reading.aggregate == "harmonic" and min(values) < 0.0:
        raise NoMetrics(f"{name} is a harmonic mean, and {min(values):g} is among its numbers")
    return AGGREGATES[reading.aggregate](values) * reading.scale


def _number(text: str) -> float:
    """Raises `ValueError` also for what `float` takes and no program measures, and for decimal commas."""
    text = text.strip()
    if "_" in text or ("," in text and not GROUPED.fullmatch(text)):
        raise ValueError
    value = float(text.replace(",", ""))
    if not math.isfinite(value):
        raise ValueError
    return value
