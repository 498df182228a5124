"""One row of a sweep: where it stands in the matrix, and the run that measures it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tiertune import engine
from tiertune.machines.definition import Machine
from tiertune.tuner.sweep.window import Window
from tiertune.tuner.trial import Config, canonical, fingerprint
from tiertune.units import fast_tier_bytes, format_size
from tiertune.workloads.definition import Workload
from tiertune.workloads.profile_file import UnreadableProfile, read_head

NOT_APPLICABLE = "not-applicable"
"""Beside the statuses of trials: a combination that cannot be run, with the reason in `error`."""

ALL_FAST = "all-fast"
"""The system that slowdowns are against."""

ORACLE = "oracle"
YARDSTICKS = (ALL_FAST, ORACLE)
"""What systems are held against: memory as it is nowhere, and choices that know what comes."""

RESULT_VERSION = 3
"""Raised whenever stored results of runs mean something else."""


@dataclass(frozen=True)
class Coordinates:
    """Where a row stands. `fast` is a ratio or a size as text; `page_bytes` 0 where no page size fits."""

    part: str
    system: str
    config: str
    workload: str
    override: str
    machine: str
    fast: str
    threads: int
    contention: str
    page_bytes: int
    seed: int

    def value(self, coordinate: str) -> str:
        """A coordinate as tables print it."""
        if coordinate == "page_size":
            return format_size(self.page_bytes) if self.page_bytes else "-"
        return str(getattr(self, coordinate))

    def without_seed(self) -> Coordinates:
        """What rows share that differ in their seed alone."""
        return replace(self, seed=-1)


@dataclass(frozen=True, eq=False)
class Setting:
    """What runs share that use one prepared workload: it is loaded once for all of them."""

    workload: Workload
    machine: Machine
    threads: int
    page_bytes: int

    @cached_property
    def documents(self) -> tuple[str, str]:
        """Hashes of the workload's and machine's documents, with what a measured profile holds now."""
        workload, machine = self.workload.model_dump(mode="json"), self.machine.model_dump(mode="json")
        profile = self.workload.sim.profile
        if profile is not None and profile.digest is None:
            workload["sim"]["profile"]["digest"] = _content(Path(profile.file))
        return fingerprint(workload), fingerprint(machine)

    @cached_property
    def key(self) -> str:
        """Equal for settings that prepare the same."""
        return fingerprint(*self.documents, self.threads, self.page_bytes)

    @cached_property
    def machine_document(self) -> dict[str, Any]:
        """The machine as the engine takes it."""
        return self.machine.document()


def _content(path: Path) -> str:
    """The digest in a profile; empty where there is none, which measuring says."""
    try:
        return read_head(path)[1]
    except (OSError, UnreadableProfile):
        return ""


@dataclass(frozen=True, eq=False)
class Run:
    """One simulated run; `fast` is a ratio, or bytes of fast memory."""

    setting: Setting
    system: str
    config: Config
    fast: str | int
    contention: tuple[Mapping[str, float], ...]
    seed: int
    mode: str
    noise: str
    timeline_points: int
    observe: tuple[str, ...] = ()
    windows: tuple[Window, ...] = ()

    @cached_property
    def key(self) -> str:
        """Content address: equal exactly where everything that decides the result is equal."""
        setting = self.setting
        # A policy written in Python has no version: its results are of this code only.
        code = engine.registered().get(self.system)
        return fingerprint(
            [RESULT_VERSION, engine.version(), engine.profile_version(), engine.sources()],
            [*setting.documents, setting.threads, setting.page_bytes],
            [self.system, self.config, self.fast, [dict(entry) for entry in self.contention]],
            [self.seed, self.mode, self.noise, self.timeline_points],
            *([] if code is None else [code]),
            *([["observe", *self.observe]] if self.observe else []),
            *([["windows", *(window.model_dump() for window in self.windows)]] if self.windows else []),
        )

    def request(self, footprint_bytes: int) -> dict[str, Any]:
        """What the engine is asked to run."""
        return {
            "machine": self.setting.machine_document,
            "system": self.system,
            "config": self.config,
            "page_bytes": self.setting.page_bytes,
            "fast_bytes": self.fast_bytes(footprint_bytes),
            "seed": self.seed,
            "noise": self.noise,
            "mode": self.mode,
            "timeline_points": self.timeline_points,
            "contention": [dict(entry) for entry in self.contention],
            "observe": list(self.observe),
        }

    def fast_bytes(self, footprint_bytes: int) -> int:
        """Bytes of fast memory, in whole pages."""
        page = self.setting.page_bytes
        if isinstance(self.fast, int):
            return self.fast // page * page
        return fast_tier_bytes(footprint_bytes, self.fast, page)

    def baseline(self) -> Run:
        """The same with everything in fast memory; how much of it there is does not matter then."""
        return replace(self, system=ALL_FAST, config={}, fast=0)


@dataclass(frozen=True)
class PlannedRow:
    """A row to measure, or the reason why it cannot be (`run` is None then)."""

    at: Coordinates
    run: Run | None
    config: Config
    reason: str = ""
    contention: tuple[Mapping[str, float], ...] = ()

    @property
    def id(self) -> str:
        """Short name of the row; the same as long as its coordinates are."""
        text = canonical([getattr(self.at, name) for name in self.at.__dataclass_fields__])
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Result:
    """What a run came to. `metrics` and the rest are empty unless the status is `ok`."""

    status: str
    metrics: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    timeline: dict[str, list[float]] = field(default_factory=dict)
    footprint_bytes: int = 0
    fast_bytes: int = 0
    convergence_s: float | None = None
    last_change_s: float | None = None
    early_promotion_share: float | None = None
    error: str | None = None
    wall_s: float = 0.0
    observed: dict[str, float] = field(default_factory=dict)
