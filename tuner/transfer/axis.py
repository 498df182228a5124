"""Axes along which a tuned config can be moved while all else of its context stays.

Values are positive numbers and axes are logarithmic: half way between 1:2 and 1:8 is 1:4.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import ClassVar

from tiertune import engine
from tiertune.files import InputError
from tiertune.nearest import nearest
from tiertune.tuner.sweep.override import overridden
from tiertune.tuner.sweep.row import Setting
from tiertune.tuner.transfer.context import Context
from tiertune.tuner.transfer.measuring import Place
from tiertune.units import UnitError, parse_ratio


class Axis(ABC):
    """One axis. `snap` gives the nearest value that can be run and is worth telling from its neighbours."""

    name: ClassVar[str]
    example: ClassVar[str]

    @abstractmethod
    def parse(self, text: str) -> float:
        """The value of an end as people write it. Raises `InputError`."""

    @abstractmethod
    def text(self, value: float) -> str:
        """A value as people write it."""

    @abstractmethod
    def own(self, context: Context) -> float:
        """Where a context stands by itself."""

    @abstractmethod
    def place(self, context: Context, value: float) -> Place:
        """The context moved to a value. Raises `InputError` where it cannot be."""

    def snap(self, value: float) -> float:
        """Three digits: nobody sets more."""
        return float(f"{value:.3g}")


class RatioAxis(Axis):
    """Fast to slow memory; the value is slow for each byte of fast."""

    name = "ratio"
    example = "2:1"

    def parse(self, text: str) -> float:
        """Reads `1:8`."""
        try:
            fast, slow = parse_ratio(text)
        except UnitError as error:
            raise InputError(f"'{text}' {error}") from error
        if not fast or not slow:
            raise InputError(f"'{text}': a ratio on the way needs both kinds of memory, such as 1:8")
        return slow / fast

    def text(self, value: float) -> str:
        """Writes `1:8`, or `2:1` where there is more fast memory."""
        return f"1:{value:.3g}" if value >= 1 else f"{1 / value:.3g}:1"

    def own(self, context: Context) -> float:
        """Its ratio."""
        return context.traits.slow_per_fast

    def place(self, context: Context, value: float) -> Place:
        """Another split of the footprint."""
        share = Fraction(value).limit_denominator(1000)
        ratio = f"{share.denominator}:{share.numerator}"
        return Place(context, context.setting, ratio, self.text(value))


class ThreadsAxis(Axis):
    """Threads of the application."""

    name = "threads"
    example = "4"

    def parse(self, text: str) -> float:
        """Reads a whole number."""
        if not text.isdecimal() or not 1 <= int(text) <= 4096:
            raise InputError(f"'{text}' is no number of threads; write one from 1 to 4096")
        return float(text)

    def text(self, value: float) -> str:
        """Writes a whole number."""
        return f"{value:.0f}"

    def own(self, context: Context) -> float:
        """Its threads."""
        return float(context.threads)

    def snap(self, value: float) -> float:
        """Whole threads."""
        return float(round(value))

    def place(self, context: Context, value: float) -> Place:
        """The same program on other threads."""
        threads, setting, workload = round(value), context.setting, context.workload
        if threads > context.machine.cores:
            raise InputError(
                f"{threads} threads are more than the {context.machine.cores} cores of"
                f" {context.machine.name};"
                f" the largest valid value is {context.machine.cores}"
            )
        if workload.sim.streams is not None and threads != workload.threads:
            raise InputError(
                f"the streams of {workload.name} run on {workload.threads} threads; no other number"
                " can be run"
            )
        try:
            if workload.sim.record is not None:
                workload.record_plan(context.machine.llc_bytes, threads)
        except engine.EngineError as error:
            raise InputError(f"{workload.name} on {threads} threads: {error}") from error
        moved = Setting(workload, context.machine, threads, setting.page_bytes)
        return Place(context, moved, context.scenario.ratio, self.text(value))


class LatencyGapAxis(Axis):
    """How many times the latency of the fast tier the next one has; tiers below it move along."""

    name = "latency-gap"
    example = "1.5"

    def parse(self, text: str) -> float:
        """Reads a factor."""
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 1.0 <= value <= 1000.0:
            raise InputError(f"'{text}' is no latency gap; write slow over fast latency, from 1 to 1000")
        return value

    def text(self, value: float) -> str:
        """Writes a factor."""
        return f"{value:.3g}x"

    def own(self, context: Context) -> float:
        """The gap of its machine."""
        return context.traits.latency_gap

    def place(self, context: Context, value: float) -> Place:
        """The machine with slower or faster slow tiers: unloaded latencies change, bandwidths stay."""
        machine, setting = context.machine, context.setting
        factor = value / context.traits.latency_gap
        changes = {}
        for number, tier in enumerate(machine.tiers[1:], start=1):
            changes[f"tiers[{number}].latency_ns"] = tier.latency_ns * factor
            if tier.sequential_latency_ns is not None:
                changes[f"tiers[{number}].sequential_latency_ns"] = tier.sequential_latency_ns * factor
        changed = overridden(machine, changes, f"--along {self.name}: machine {machine.name}")
        moved = Setting(context.workload, changed, setting.threads, setting.page_bytes)
        return Place(context, moved, context.scenario.ratio, self.text(value))


AXES: dict[str, Axis] = {axis.name: axis for axis in (RatioAxis(), ThreadsAxis(), LatencyGapAxis())}


def axis_called(name: str) -> Axis:
    """The axis of a name. Raises `InputError`."""
    if name not in AXES:
        raise InputError(f"--along: there is no '{name}'; did you mean '{nearest(name, AXES)}'?")
    return AXES[name]
