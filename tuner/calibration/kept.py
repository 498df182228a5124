"""Measurements of `tiertune calibrate` that were kept, to be fitted again: the form of their file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError

from tiertune.document import Document
from tiertune.document import Path as Place
from tiertune.mistakes import InputError, Strict, sentences_of

SCHEMA = 1


class _Kept(Strict):
    """A later version may write more than this one reads."""

    model_config = ConfigDict(extra="ignore")


class _Sample(_Kept):
    round: int = Field(ge=0, description="number of the round, from 0")


class _Loaded(_Sample):
    measure: Literal["loaded"]
    label: Literal["cache"] | None = Field(default=None, description="what was chased, where not memory")
    threads: int = Field(ge=0, description="threads that stream beside the chase")
    undisturbed: int = Field(default=1, ge=0, description="slots in which no thread was held up")
    latency_ns: float | None = Field(default=None, gt=0, description="of a dependent read, in ns")
    write_share: float = Field(default=0.0, ge=0, description="lines written for each line read")
    read_gbps: float | None = Field(default=None, ge=0, description="bandwidth of reads, in 1e9 bytes/s")
    write_gbps: float | None = Field(default=None, ge=0, description="bandwidth of writes, in 1e9 bytes/s")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        yield from _missing(self, "latency_ns", *(() if self.label else ("read_gbps", "write_gbps")))


class _Stream(_Sample):
    measure: Literal["stream"]
    threads: int = Field(ge=1, description="threads that stream")
    undisturbed: int = Field(default=1, ge=0, description="slots in which no thread was held up")
    write_share: float = Field(ge=0, description="lines written for each line read")
    read_gbps: float | None = Field(default=None, ge=0, description="bandwidth of reads, in 1e9 bytes/s")
    write_gbps: float | None = Field(default=None, ge=0, description="bandwidth of writes, in 1e9 bytes/s")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        yield from _missing(self, "read_gbps", "write_gbps")


def _missing(sample: _Loaded | _Stream, *names: str) -> Iterator[tuple[Place, str]]:
    """Figures of a sample that was undisturbed; others have none."""
    for name in names if sample.undisturbed else ():
        if getattr(sample, name) is None:
            yield (name,), "is missing, though the sample has undisturbed slots"


class _Updates(_Sample):
    measure: Literal["updates"]
    kind: Literal["chase", "read", "update", "locked"] = Field(description="what was done to random lines")
    ns_per_access: float = Field(gt=0, description="time of one, in ns")


class _Moves(_Sample):
    measure: Literal["moves"]
    page_bytes: int = Field(gt=0, description="size of the pages that were moved, in bytes")
    way: Literal["copy", "move_pages"] = Field(description="whether the kernel moved them")
    move_ns: float | None = Field(default=None, gt=0, description="time of a page, in ns")
    copy_ns: float | None = Field(default=None, gt=0, description="time of copying a page, in ns")
    replace_ns: float | None = Field(default=None, gt=0, description="time of replacing its frame, in ns")


class _Node(_Kept):
    number: int = Field(ge=0, description="number of the memory node")
    capacity_bytes: int = Field(gt=0, description="its memory, in bytes")
    processors: int = Field(ge=0, description="its processors that could be used")
    samples: list[Annotated[_Loaded | _Stream | _Updates | _Moves, Field(discriminator="measure")]] = Field(
        min_length=1, description="what tierload measured there"
    )


class _Cpu(_Kept):
    name: str = Field(description="name of the processor")
    cores: int = Field(ge=1, description="processors that could be used")
    clock_ghz: float = Field(gt=0, description="highest clock, in GHz")
    llc_bytes: int = Field(ge=1, description="last-level cache, in bytes")
    inner_cache_bytes: int = Field(ge=0, description="cache before the last level, in bytes")


class _Host(_Kept):
    system: str = Field(description="the operating system")


class _Environment(_Kept):
    host: _Host = Field(description="the host that was measured")


class Measurements(_Kept):
    """All that `measure_host` gives, as its file must have it."""

    cpu: _Cpu = Field(description="the processor")
    nodes: list[_Node] = Field(min_length=1, description="memory nodes, the measuring threads' own first")
    environment: _Environment = Field(description="versions and host")


def read_measurements(path: Path) -> dict[str, Any]:
    """The measurements in a file of `results/calibrations`, as they were written.

    Raises `InputError` with every mistake of a file that is none, or was damaged.
    """
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: no measurements of tiertune calibrate ({error})") from error
    if not isinstance(read, dict) or read.get("schema") != SCHEMA:
        raise InputError(f"{path}: no measurements of tiertune calibrate: 'schema' must be {SCHEMA}")
    try:
        Measurements.model_validate(read)
    except ValidationError as error:
        raise InputError(*sentences_of(error, Measurements, str(path), Document(read, {}))) from error
    return read
