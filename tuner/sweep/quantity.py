"""A figure of a sweep in words: what it is, its unit, and which way is better."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tiertune.tuner.sweep.definition import COUNTER, GAUGE, OBJECT, Table
from tiertune.tuner.sweep.window import WINDOW

MINIMIZE, MAXIMIZE = "minimize", "maximize"

NOT_RANKED = ("rank", "status")
"""What a table can show and no axis can."""

_DERIVED = {
    "slowdown": ("slowdown against all-fast", "times"),
    "slowdown_pct": ("slowdown against all-fast", "%"),
    "convergence_s": ("time to settle", "s"),
    "last_change_s": ("last change", "s"),
    "early_promotion_share": ("early promotions", "share of all"),
    "early_promotions": ("early promotions", "pages"),
}
_DIRECTIONS = {
    "slowdown": MINIMIZE,
    "slowdown_pct": MINIMIZE,
    "slowdown_points": MINIMIZE,
    "convergence_s": MINIMIZE,
    "speedup": MAXIMIZE,
}


@dataclass(frozen=True)
class Quantity:
    """`direction` is empty where neither way is better."""

    name: str
    words: str
    unit: str
    direction: str

    @property
    def short(self) -> str:
        """As a sentence has it."""
        return self.words.removesuffix(" against all-fast")

    @property
    def label(self) -> str:
        """As an axis has it: with its unit and, on a line of its own, which way is better."""
        unit = f" ({self.unit})" if self.unit else ""
        better = {MINIMIZE: "\nlower is better", MAXIMIZE: "\nhigher is better"}.get(self.direction, "")
        return f"{self.words}{unit}{better}"


def direction_of(name: str, directions: Mapping[str, str]) -> str:
    """Which way a figure is better; `directions` has that of every metric."""
    last = name if name.startswith((GAUGE, COUNTER, OBJECT, WINDOW)) else name.rpartition(".")[2]
    return _DIRECTIONS.get(last) or directions.get(last, "")


def leading(table: Table) -> str:
    """The figure by which a table ranks: the first that it shows which has a size."""
    return next((name for name in table.show if name not in NOT_RANKED), "slowdown")


def quantity_of(name: str) -> Quantity:
    """The figure of this name, with what the engine declares of its metric."""
    from tiertune import engine
    from tiertune.tuner.report.figures.comparison import metric_words

    declared = {metric.name: metric for metric in engine.metrics()}
    direction = direction_of(name, {metric.name: metric.direction for metric in declared.values()})
    if name.startswith(GAUGE):
        return Quantity(name, name.removeprefix(GAUGE).replace("_", " "), "", direction)
    if name.startswith(WINDOW):
        window, column, statistic = name.removeprefix(WINDOW).rsplit(".", 2)
        return Quantity(name, f"{statistic} {column.replace('_', ' ')} ({window})", "", "")
    if name.startswith((COUNTER, OBJECT)):
        kind, _, figure = name.partition(".")
        of, _, figure = figure.rpartition(".")
        unit = next((known.unit for known in engine.observed()[kind] if known.name == figure), "")
        words = metric_words(figure, unit).removesuffix(f" ({unit})")
        return Quantity(name, f"{words} of {of}" if of else words, unit, direction)
    reference, _, last = name.rpartition(".")
    reference = reference.removeprefix("vs-")
    if last in declared:
        unit = declared[last].unit
        words = metric_words(last, unit).removesuffix(f" ({unit})")
        if reference:
            return Quantity(name, f"{words} relative to {reference}", "ratio", direction)
        return Quantity(name, words, unit, direction)
    if last == "speedup":
        return Quantity(name, f"speedup over {reference}", "times", direction)
    if last == "slowdown_points":
        return Quantity(name, f"slowdown less that of {reference}", "% points", direction)
    words, unit = _DERIVED.get(last, (last.replace("_", " "), ""))
    return Quantity(name, words, unit, direction)
