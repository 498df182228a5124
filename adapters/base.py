"""What an adapter is: all that the project knows about ONE system family outside the engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tiertune import engine
from tiertune.nearest import alike, nearest

Value: TypeAlias = bool | int | float | str
Config: TypeAlias = dict[str, Value]


class AdapterError(Exception):
    """A native setting that cannot be read, or a system that did not take its config. One sentence."""


MISSPELT = 0.9
"""How much a name looks like another (`alike`) that it is one misspelt: neighbours that are there as well,
such as scan_period_min_ms and scan_period_max_ms, do less."""


def refuse_misspelt(name: str, known: Iterable[str]) -> None:
    """Raises `AdapterError` where `name` is none of `known`, which are read, but would be one without a slip.

    Other settings of the same file are left alone, and so would this be: the default would run in its place.
    """
    names = list(known)
    near = nearest(name, names)
    if name not in names and alike(name, near) >= MISSPELT:
        raise AdapterError(f"'{name}' is no setting; did you mean '{near}'?")


@dataclass(frozen=True)
class NativeKnob:
    """How a knob is called by the system's own users.

    `name` is the native name, `unit` the native unit ("" when it has none).
    """

    name: str
    unit: str


@dataclass(frozen=True)
class Applied:
    """A config in force: the system, and every knob with its value, defaults filled in."""

    system: str
    config: Mapping[str, Value]


class Adapter(ABC):
    """Knows one system family.

    Translate: `native_knob`, `to_native` and `from_native` (units), `native_block` and `from_block` (text).
    Apply: `start` checks and applies a config, `verify` proves that it is in force, `undo` takes it back. On
    the simulator a config lives only inside one trial, so `start` is the engine's own check and `undo` has
    nothing to restore; both may be called any number of times. Host backends override the three.
    """

    def __init__(self, system: str) -> None:
        """An adapter for the engine system `system`; raises `EngineError` when there is no such system."""
        self.info = engine.system(system)
        self.system = self.info.name

    @abstractmethod
    def native_knob(self, knob: str) -> NativeKnob | None:
        """The native name and unit of `knob`, None where the public system has no such setting."""

    @abstractmethod
    def to_native(self, config: Mapping[str, Value]) -> dict[str, Value]:
        """Native names and values of a resolved config, in the system's own units."""

    @abstractmethod
    def from_native(self, native: Mapping[str, Value]) -> Config:
        """The config behind `native` (as of `to_native`); raises `AdapterError` on an unknown name."""

    @abstractmethod
    def native_block(self, config: Mapping[str, Value]) -> str:
        """Text to paste into the system's own configuration; `config` may leave out defaults."""

    @abstractmethod
    def from_block(self, text: str) -> Config:
        """The config written in a native block; raises `AdapterError` when a line cannot be read."""

    def resolve(self, config: Mapping[str, Value]) -> Config:
        """Every knob of the system with its value; raises `EngineError` naming a bad knob or value."""
        return dict(engine.check_config(self.system, config))

    def start(self, config: Mapping[str, Value]) -> Applied:
        """Checks `config` and puts it in force; raises `EngineError` naming a bad knob or value."""
        return Applied(self.system, self.resolve(config))

    def verify(self, applied: Applied) -> None:
        """Raises `AdapterError` unless the system itself reports exactly `applied.config`."""
        reported = self.resolve(applied.config)
        for knob, value in reported.items():
            if knob not in applied.config:
                raise AdapterError(f"{self.system} reports knob '{knob}' = {value}, which was never applied")
            if applied.config[knob] != value:
                raise AdapterError(
                    f"{self.system} knob '{knob}' is {value}, not {applied.config[knob]} as applied"
                )

    def undo(self, applied: Applied) -> None:
        """Takes back what `start` changed; idempotent."""
        if applied.system != self.system:
            raise AdapterError(f"this adapter runs {self.system}; it cannot undo {applied.system}")
