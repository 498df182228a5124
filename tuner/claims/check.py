"""Checks of a claim: what is compared with what, and what will do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field

from tiertune.document import Path as Place
from tiertune.fields import Flag, Integer, Name, Number, PageSize, Text
from tiertune.files import Strict
from tiertune.tuner.sweep.axes import Coordinate

Taken = Literal["each", "lowest", "highest", "mean", "median"]
Together = Literal["mean", "geomean", "lowest", "highest", "share_above", "mean_above"]
Correction = Literal["quotient", "saturating"]
COMPARED = ("value", "ratio", "difference")
BOUNDED = (*COMPARED, "correlation", "prediction")
KINDS_OF = {
    "of": (*BOUNDED, "trend", "balance", "optima"),
    "to": ("ratio", "difference", "prediction"),
    "beside": ("balance", "correlation", "prediction"),
    "beside_per": ("prediction",),
    "corrected_by": ("prediction",),
    "correction": ("prediction",),
    "gain": ("prediction",),
    "over": ("trend", "balance", "optima"),
    "direction": ("trend",),
    "slack_pct": ("trend",),
    "expected": BOUNDED,
    "within_pct": BOUNDED,
    "within": BOUNDED,
    "least": (*BOUNDED, "optima"),
    "most": BOUNDED,
}
"""Kinds of checks that heed a key: with another kind it would seem to be checked, and is not."""


def listed(names: Sequence[str]) -> str:
    """Names as a sentence has them: a, b and c."""
    return " and ".join(", ".join(names).rsplit(", ", 1))


class Position(Strict):
    """Coordinates that single rows out."""

    part: Name | None = Field(default=None, description="its part")
    system: Name | None = Field(default=None, description="its system")
    config: Name | None = Field(default=None, description="its config")
    workload: Text | None = Field(default=None, description="its workload")
    override: Name | None = Field(default=None, description="its override")
    machine: Text | None = Field(default=None, description="its machine")
    fast: Text | None = Field(default=None, description="its ratio or fast_bytes, as rows spell it")
    threads: Annotated[Integer, Field(ge=1, le=4096)] | None = Field(default=None, description="its threads")
    contention: Name | None = Field(default=None, description="its level of contention")
    page_size: PageSize | None = Field(default=None, description="its page size")

    def coordinates(self) -> dict[str, str | int]:
        """What is given, by name of the coordinate (`page_bytes` for `page_size`)."""
        given = self.model_dump(include=set(Position.model_fields) - {"page_size"}, exclude_none=True)
        return given | ({} if self.page_size is None else {"page_bytes": self.page_size})


class Selector(Position):
    """Which row is meant: the one with these coordinates."""

    systems: list[Name] | None = Field(
        default=None, min_length=2, max_length=100, description="its system is one of these"
    )
    take: Taken = Field(
        default="each", description="of several rows that fit: each by itself, or one figure of all of them"
    )
    divided_by: Position | None = Field(
        default=None,
        description=(
            "order: the figure of each row is divided by that of the row that differs in these coordinates"
            " alone"
        ),
    )

    best_by: Text | None = Field(
        default=None, description="of several rows that fit, the one with the highest of this metric"
    )

    def said(self) -> str:
        """The selector in words."""
        words = [*self.coordinates().values(), *([", ".join(self.systems)] if self.systems else [])]
        names = " ".join(map(str, words)) or "all rows"
        if self.best_by is not None:
            return f"{names} with the highest {self.best_by}"
        if self.divided_by is not None:
            names += f" / {' '.join(map(str, self.divided_by.coordinates().values()))}"
        return names if self.take == "each" else f"{self.take} of {names}"


class Pair(Strict):
    """Two rows that are compared with each other."""

    of: Selector = Field(description="the row")
    to: Selector = Field(description="the row that is divided by or taken off")


class Check(Strict):
    """One comparison, on medians over seeds."""

    kind: Literal[
        "value", "ratio", "difference", "order", "trend", "balance", "correlation", "prediction", "optima"
    ] = Field(
        description=(
            "value: of one row, or of all that fit; ratio, difference: of one row to another;"
            " order: of several; trend: along a coordinate; balance: the best row is where two figures"
            " meet; correlation: of two figures, by rank; prediction: of two figures over rows, Pearson's,"
            " with one of them as it is and corrected; optima: the best config is another one at"
            " each value of a coordinate"
        )
    )
    metric: Text = Field(
        description="slowdown, slowdown_pct, performance, metric of the engine, gauge.X, knob.X, REF.speedup"
    )
    per: Text | None = Field(default=None, description="the metric is divided by this one of the same row")
    of: Selector = Field(default=Selector(), description="the row, or all that fit")
    to: Selector | None = Field(
        default=None,
        description=(
            "ratio, difference: the row that is divided by or taken off; prediction: in which coordinates"
            " the row whose 'beside' is predicted differs from each row of 'of'; absent: that row itself"
        ),
    )
    against: Pair | None = Field(
        default=None,
        description=(
            "ratio, difference: what is held to the bounds is the ratio or difference divided by that of"
            " these two rows"
        ),
    )
    rows: list[list[Selector]] = Field(
        default=[],
        max_length=100,
        description="order: groups of rows, the lowest first; within a group any order will do",
    )
    beside: Text | None = Field(
        default=None,
        description=(
            "balance: the rows' metric that meets 'per'; correlation: what the metric goes with;"
            " prediction: what it predicts"
        ),
    )
    beside_per: Text | None = Field(
        default=None, description="prediction: 'beside' is divided by this metric of the same row"
    )
    corrected_by: Text | None = Field(
        default=None, description="prediction: the metric x by which what predicts is corrected"
    )
    correction: Correction = Field(
        default="quotient",
        description=(
            "prediction: quotient: divided by x; saturating: times 1 / (a + b / x), with the a and b of the"
            " least squares over the rows"
        ),
    )
    gain: Annotated[Number, Field(ge=0, le=2)] | None = Field(
        default=None, description="prediction: by how much the correction has to raise the correlation"
    )
    over: Coordinate | None = Field(
        default=None, description="trend, balance, optima: the coordinate along which rows follow each other"
    )
    direction: Literal["rising", "falling"] = Field(
        default="rising", description="trend: which way the metric goes along it"
    )
    slack_pct: Annotated[Number, Field(ge=0, le=100)] = Field(
        default=0.0, description="trend: how far a step may go the other way, in percent"
    )
    expected: Number | None = Field(default=None, description="the published figure")
    within_pct: Annotated[Number, Field(ge=0, le=1000)] | None = Field(
        default=None, description="how far off it may be, in percent of it"
    )
    within: Annotated[Number, Field(ge=0, le=1e12)] | None = Field(
        default=None, description="how far off it may be, in its own unit"
    )
    least: Number | None = Field(default=None, description="the lowest that will do")
    most: Number | None = Field(default=None, description="the highest that will do")
    each: list[Coordinate] = Field(
        default=[], max_length=4, description="checked for each value of these coordinates, such as fast"
    )
    misses_allowed: Annotated[Integer, Field(ge=0, le=1000)] = Field(
        default=0, description="of the values of `each`, how many may fail"
    )
    together: Together | None = Field(
        default=None,
        description=(
            "value, ratio, difference: one figure of those of all rows, at all values of `each`, is held to"
            " the bounds; share_above: the share of those above 0 (ratio: above 1), mean_above: their mean"
        ),
    )

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Each kind has what it compares and what it is held to."""
        if self.together is not None and self.kind not in COMPARED:
            yield ("together",), f"is for kinds value, ratio and difference, not {self.kind}"
        if self.together is not None and self.misses_allowed:
            yield ("misses_allowed",), "is for figures by themselves; 'together' makes one of them"
        yield from self._out_of_place()
        if self.kind == "order":
            if len(self.rows) < 2:
                yield ("rows",), "is missing: at least two groups of rows, the lowest first"
            for number, tier in enumerate(self.rows):
                if not tier:
                    yield ("rows", number), "is an empty group; name a row, or leave it out"
            return
        if self.rows:
            yield ("rows",), f"is for kind order; a {self.kind} has 'of'"
        if self.kind in ("trend", "balance", "optima"):
            if self.over is None:
                yield ("over",), "is missing: the coordinate along which rows follow each other"
            if self.kind == "balance" and (self.beside is None or self.per is None):
                yield ("beside",), "is missing: 'beside' and 'per' are the two figures that meet"
            if self.kind == "optima" and self.least is None:
                yield ("least",), "is missing: how many times the worst config the best one has to be"
            return
        if self.kind in ("correlation", "prediction") and self.beside is None:
            yield ("beside",), "is missing: what the metric goes with, or predicts"
        if self.gain is not None and self.corrected_by is None:
            yield ("corrected_by",), "is missing: what raises the correlation by 'gain'"
        if self.kind in ("ratio", "difference") and self.to is None:
            word = "divided by" if self.kind == "ratio" else "taken off"
            yield ("to",), f"is missing: the row that is {word}"
        if self.against is not None and self.kind not in ("ratio", "difference"):
            yield ("against",), f"is for kinds ratio and difference, not {self.kind}"
        if self.expected is not None and self.within_pct is None and self.within is None:
            yield ("within_pct",), "is missing: how far from 'expected' the figure may be, in percent"
        if self.expected is None and self.least is None and self.most is None:
            yield ("expected",), "is missing: a figure, or 'least' or 'most'"
            return
        if self.expected is None:
            for key in ("within_pct", "within"):
                if getattr(self, key) is not None:
                    yield (key,), "is of 'expected', which is missing"
        elif self.within_pct is None and self.within is None:
            return
        low, high = self.bounds()
        if low > high:
            key = "most" if self.most == high else "least"
            yield (key,), f"leaves nothing that would do: at least {low:g} and at most {high:g}"

    def _out_of_place(self) -> Iterator[tuple[Place, str]]:
        """Keys that are for another kind of check."""
        for key, kinds in KINDS_OF.items():
            if self.kind not in kinds and key in self.model_fields_set:
                word = "kind" if len(kinds) == 1 else "kinds"
                yield (key,), f"is for {word} {listed(kinds)}, not {self.kind}"
        for key, given in (("over", [self.over]), ("each", self.each)):
            if "seed" in given:
                yield (key,), "cannot be seed: figures are medians over seeds"
        for key in ("of", "to"):
            selector = getattr(self, key)
            if selector is not None and selector.divided_by is not None:
                yield (key, "divided_by"), f"is for the rows of kind order, not {self.kind}"

    def bounds(self) -> tuple[float, float]:
        """Lowest and highest figure that will do."""
        low = float("-inf") if self.least is None else self.least
        high = float("inf") if self.most is None else self.most
        if self.expected is not None:
            spans = [self.within] if self.within is not None else []
            if self.within_pct is not None:
                spans.append(abs(self.expected) * self.within_pct / 100)
            span = min(spans)
            low, high = max(low, self.expected - span), min(high, self.expected + span)
        return low, high

    def called(self) -> str:
        """The metric in words."""
        return self.metric if self.per is None or self.kind == "balance" else f"{self.metric} / {self.per}"

    def beside_called(self) -> str:
        """What is predicted in words."""
        return f"{self.beside}" if self.beside_per is None else f"{self.beside} / {self.beside_per}"


class Published(Strict):
    """Published figures of one system, to be drawn beside those measured here."""

    name: Text = Field(description="the value of `by` that they are of, such as a system")
    values: list[Number] = Field(
        min_length=1, max_length=1000, description="one for each value of `over`, in the order of the sweep"
    )


class Picture(Strict):
    """A picture of a claim's rows: bars, or a line for each value of a coordinate over another."""

    metric: Text = Field(description="slowdown, slowdown_pct, performance, a metric of the engine, gauge.X")
    per: Text | None = Field(default=None, description="the metric is divided by this one of the same row")
    by: Coordinate = Field(default="system", description="coordinate of the lines or bars")
    over: Coordinate | None = Field(default=None, description="coordinate along which lines go; absent: bars")
    of: Selector = Field(default=Selector(), description="which rows are drawn; absent: all")
    log: Flag = Field(default=False, description="whether the scale of the figures is logarithmic")
    published: list[Published] = Field(
        default=[], max_length=100, description="the published figures, where they are printed"
    )
