"""What every part of tiertune agrees on: scenario, trial, measurement and the closed list of statuses.

A leaf: it imports nothing of ours, so that adapters, backends, the journal and reports can share it.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Literal

Value = bool | int | float | str
Config = dict[str, Value]
Purpose = Literal["search", "selection", "validation"]
Origin = Literal["default", "preset", "memory", "initial", "random", "model", "race", "candidate", "winner"]
Noise = Literal["independent", "paired"]


class Status(StrEnum):
    """How a trial ended; RUNNING is the only one that is not an end."""

    RUNNING = "running"
    OK = "ok"
    CRASHED = "crashed"
    TIMEOUT = "timeout"
    INVALID_CONFIG = "invalid-config"
    HOST_UNFIT = "host-unfit"
    INTERRUPTED = "interrupted"
    NO_METRIC = "no-metric"

    @property
    def finished(self) -> bool:
        """Whether the trial is never run again: an interrupted one is, with the same proposal."""
        return self not in (Status.RUNNING, Status.INTERRUPTED)

    @property
    def meaning(self) -> str:
        """One sentence for people."""
        return _MEANINGS[self]


_MEANINGS = {
    Status.RUNNING: "It runs, or its campaign was killed while it did: `tiertune resume` runs it again.",
    Status.OK: "It ran to its end and was measured.",
    Status.CRASHED: "The run itself failed; `error` has what it said.",
    Status.TIMEOUT: "It passed the runtime at which it was ended; it is known to be slower than that.",
    Status.INVALID_CONFIG: "The system does not take the configuration; `error` names knob and value.",
    Status.HOST_UNFIT: "The place to run was not in order, which is no fault of the configuration.",
    Status.INTERRUPTED: "It was stopped on purpose: `tiertune resume` runs the same proposal again.",
    Status.NO_METRIC: "It ended, but the objective's metric is missing, not finite or not above 0.",
}


def called(name_or_path: str) -> str:
    """A workload or machine without the folder and ending of its file; a preset stays."""
    if "/" not in name_or_path:
        return name_or_path
    ended = re.fullmatch(r"(.+)\.ya?ml(@[^/.@]+)", name_or_path)
    return PurePath(ended[1]).name + ended[2] if ended else PurePath(name_or_path).stem


@dataclass(frozen=True)
class Contention:
    """Traffic of co-runners on one tier, in 1e9 bytes/s."""

    tier: int
    read_gbps: float
    write_gbps: float


@dataclass(frozen=True)
class Scenario:
    """Workload x machine x fast:slow ratio x threads x contention; everything but the system and its
    config."""

    workload: str
    machine: str
    ratio: str
    threads: int | None = None
    page_bytes: int = 2 * 1024 * 1024
    contention: tuple[Contention, ...] = ()

    @property
    def key(self) -> str:
        """Stable text that names this scenario in journals and reports."""
        return self._text(self.workload, self.machine)

    @property
    def seed_name(self) -> str:
        """What seeds are drawn for: the key without the folders of files, so that the same campaign does the
        same wherever it lies."""
        return self._text(*(called(place) for place in (self.workload, self.machine)))

    def _text(self, workload: str, machine: str) -> str:
        parts = [workload, machine, self.ratio]
        parts.append("default-threads" if self.threads is None else f"{self.threads}t")
        parts.append(_size(self.page_bytes))
        parts += [f"tier{c.tier}+r{c.read_gbps:g}w{c.write_gbps:g}" for c in self.contention]
        return "/".join(parts)

    def document(self) -> dict[str, Any]:
        """The scenario as plain data, `Scenario.parse` reads it back."""
        return asdict(self)

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> Scenario:
        """The inverse of `document`."""
        contention = tuple(Contention(**entry) for entry in document.get("contention", ()))
        return cls(**{**document, "contention": contention})


@dataclass(frozen=True)
class Objective:
    """The metric a campaign improves, always positive, and the direction that is better."""

    metric: str
    direction: Literal["minimize", "maximize"]

    def cost(self, metrics: Mapping[str, float]) -> float | None:
        """Natural log of the metric, signed so that lower is better; None where it is missing, not finite or
        not above 0.

        Differences of costs are log-ratios, which is what both the model and the statistics work on.
        """
        value = metrics.get(self.metric)
        if value is None or not math.isfinite(value) or value <= 0.0:
            return None
        return math.log(value) if self.direction == "minimize" else -math.log(value)

    def value(self, cost: float) -> float:
        """The metric behind a cost, in the metric's unit."""
        return math.exp(cost if self.direction == "minimize" else -cost)


@dataclass(frozen=True)
class Trial:
    """One run to make: scenario + system + config + seed + fidelity, and why it is made.

    `cap` is the runtime (s) at which it may be ended as a timeout, None where it runs to its end.
    """

    campaign: str
    cell: str
    number: int
    scenario: Scenario
    system: str
    config: Config
    seed: int
    noise: Noise = "independent"
    purpose: Purpose = "search"
    origin: Origin = "model"
    fidelity: float = 1.0
    cap: float | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "config", plain_config(self.config))

    @property
    def key(self) -> str:
        """Unique within a results folder; the tracking mirror finds its runs by it."""
        return f"{self.campaign}/{self.cell}/{self.purpose}/{self.number}"


@dataclass(frozen=True)
class Measurement:
    """What a backend says about a trial. `wall_s` is the time it took here, not a simulated time; `worker`
    is who ran it where that was not this process."""

    status: Status
    metrics: dict[str, float] = field(default_factory=dict)
    timeline: dict[str, list[float]] = field(default_factory=dict)
    error: str | None = None
    wall_s: float = 0.0
    raw: str | None = None
    worker: str | None = None


def plain(value: Any) -> Value:
    """A knob value as Python's own bool, int, float or str.

    ConfigSpace hands out `numpy.str_` and numpy scalars, which json or yaml.safe_dump refuse; they stop here.

    Raises TypeError for anything that is no knob value.
    """
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bool | int | float):
        return value
    raise TypeError(f"{value!r} ({type(value).__name__}) is no knob value: bool, int, float or text")


def plain_config(config: Mapping[str, Any]) -> Config:
    """A config with plain values and sorted names, so that equal configs are equal texts."""
    return {str.__str__(name): plain(config[name]) for name in sorted(config)}


def canonical(document: Any) -> str:
    """One text for equal documents: sorted keys, no spaces."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def fingerprint(*parts: Any) -> str:
    """SHA-256 (hex) of the canonical text of `parts`."""
    return hashlib.sha256(canonical(list(parts)).encode()).hexdigest()


def derive_seed(*parts: Any) -> int:
    """A seed of 53 bits from `parts`, so that JSON readers without 64-bit integers keep it exact."""
    return int(fingerprint(*parts)[:16], 16) >> 11


def _size(size_bytes: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return f"{size_bytes}B"
