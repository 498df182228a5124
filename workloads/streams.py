"""Synthetic workloads: objects in memory and the streams of accesses to them, as the engine takes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from tiertune.document import Path as Place
from tiertune.fields import Flag, Integer, Name, Number, Size
from tiertune.files import Strict
from tiertune.nearest import nearest
from tiertune.workloads.measured import PAGE_BYTES

Fraction = Annotated[Number, Field(ge=0, le=1)]
PerOp = Annotated[Number, Field(ge=0, le=1e9)]


class UniformLaw(Strict):
    """All pages of a part of the object alike."""

    kind: Literal["uniform"] = Field(description="popularity law")
    from_: Fraction = Field(
        default=0, alias="from", description="start of the part, as a fraction of the object"
    )
    to: Fraction = Field(default=1, description="end of the part, as a fraction of the object")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """The part is not empty."""
        if self.to <= self.from_:
            yield (
                ("to",),
                f"{self.to:g} does not lie above 'from', {self.from_:g}; the largest valid value is 1",
            )


class PiecesLaw(Strict):
    """Parts with given weights, uniform inside each."""

    kind: Literal["pieces"] = Field(description="popularity law")
    edges: list[Fraction] = Field(
        min_length=2, description="ascending fractions from 0 to 1, one more than weights"
    )
    weights: list[PerOp] = Field(min_length=1, description="relative weight of each part")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Edges ascend from 0 to 1 and bound the weights; some weight is above 0."""
        if self.edges[0] != 0:
            yield ("edges", 0), f"{self.edges[0]:g} is not 0, where the first part starts"
        if self.edges[-1] != 1:
            yield ("edges", len(self.edges) - 1), f"{self.edges[-1]:g} is not 1, where the last part ends"
        for number, (before, edge) in enumerate(zip(self.edges, self.edges[1:], strict=False), start=1):
            if edge <= before:
                yield ("edges", number), f"{edge:g} does not lie above {before:g}, the edge before"
        if len(self.weights) != len(self.edges) - 1:
            yield (
                ("weights",),
                f"has {len(self.weights)} entries; {len(self.edges)} edges take {len(self.edges) - 1}",
            )
        if not any(self.weights):
            yield ("weights",), "holds nothing above 0; give the parts that are used a weight"


class ZipfLaw(Strict):
    """Popularity falls with the position of the page as `position^-theta`."""

    kind: Literal["zipf"] = Field(description="popularity law")
    theta: Annotated[Number, Field(ge=0, le=3)] = Field(description="skew, 0 is uniform")


class SweepLaw(Strict):
    """Front to back over and over; each thread has its own equal part."""

    kind: Literal["sweep"] = Field(description="popularity law")


Law = Annotated[UniformLaw | PiecesLaw | ZipfLaw | SweepLaw, Field(discriminator="kind")]


class Stream(Strict):
    """One homogeneous flow of accesses."""

    object: Name = Field(description="name of the object that is accessed")
    law: Law = Field(description="popularity of the pages of the object")
    class_: Literal["chase", "random", "gather", "update", "stream", "lookup"] = Field(
        alias="class", description="how the accesses depend on each other"
    )
    reads_per_op: PerOp = Field(description="cache lines read per operation, after private caches")
    writebacks_per_op: PerOp = Field(default=0, description="lines written back to memory per operation")
    stores_per_op: PerOp = Field(default=0, description="retired stores per operation, cache hits included")
    mlp: Annotated[Number, Field(ge=1, le=1024)] | None = Field(
        default=None, description="misses in flight per core, instead of the class's value"
    )
    prefetched_share: Fraction | None = Field(
        default=None, description="share of reads that the prefetcher brings in, instead of the class's value"
    )
    random_share: Fraction | None = Field(
        default=None,
        description="share of lines that come alone, none of those beside them in the same 256 bytes soon"
        " before or after; absent: 0 of class stream, 1 of others",
    )
    missed_llc: Flag = Field(
        default=False, description="whether the reads have already missed the last-level cache"
    )
    partitioned: Flag = Field(
        default=False, description="each thread only touches its own equal part, in order of threads"
    )


class Group(Strict):
    """Threads that do the same kind of operation."""

    name: Name = Field(description="name of the group in reports")
    threads: Integer = Field(ge=1, le=4096, description="how many threads")
    ops: Annotated[Number, Field(ge=1, le=1e18)] | None = Field(
        default=None, description="operations of all threads together; absent: as many as fit in the phase"
    )
    cpu_ns_per_op: Annotated[Number, Field(ge=0, le=1e9)] = Field(
        description="compute time per operation, caches warm"
    )
    locked_per_op: PerOp = Field(
        default=0,
        description="locked instructions per operation, which loads behind them wait for; those before which "
        "nothing missed since the last one do not count",
    )
    streams: list[Stream] = Field(min_length=1, description="memory accesses")


class Phase(Strict):
    """A stretch of work; ends when all groups with `ops` are done, or after `seconds`."""

    name: Name = Field(description="name of the phase in reports")
    seconds: Annotated[Number, Field(ge=0.001, le=1e6)] | None = Field(
        default=None, description="fixed duration instead of fixed work"
    )
    groups: list[Group] = Field(min_length=1, description="concurrent groups of threads")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """The phase ends."""
        if self.seconds is None and all(group.ops is None for group in self.groups):
            yield (), "never ends; give the phase 'seconds' or one of its groups 'ops'"


class Block(Strict):
    """Phases that repeat together."""

    repeat: Integer = Field(default=1, ge=1, le=1_000_000, description="how often")
    phases: list[Phase] = Field(min_length=1, description="phases in order")


class MemoryObject(Strict):
    """A contiguous range of memory."""

    name: Name = Field(description="name of the object, for streams to refer to")
    bytes: Size = Field(description="size, such as 2GiB")
    scattered: Flag = Field(
        default=False, description="whether equal popularity is scattered over the object"
    )


class Streams(Strict):
    """A workload as streams; objects are in the order of their first touch."""

    objects: list[MemoryObject] = Field(min_length=1, description="memory of the workload")
    blocks: list[Block] = Field(min_length=1, description="work of the workload")
    first_thread_waits: Flag = Field(
        default=False,
        description="whether the first thread waits for the others (pthreads) or works too (OpenMP)",
    )

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Objects have one name each; streams name an object."""
        known = [entry.name for entry in self.objects]
        for number, name in enumerate(known):
            if name in known[:number]:
                yield ("objects", number, "name"), f"'{name}' names two objects; '{name}-{number}' is free"
        for place, stream in self._streams():
            if stream.object not in known:
                yield (
                    (*place, "object"),
                    f"'{stream.object}' is no object; did you mean '{nearest(stream.object, known)}'?",
                )

    def shortened(self, share: float) -> Streams:
        """The streams with `share` of their operations and seconds."""
        blocks = [
            block.model_copy(update={"phases": [_shorter(phase, share) for phase in block.phases]})
            for block in self.blocks
        ]
        return self.model_copy(update={"blocks": blocks})

    def resized(self, share: float) -> Streams:
        """The streams over objects of `share` of their size."""
        objects = [
            entry.model_copy(update={"bytes": share_of_bytes(entry.bytes, share)}) for entry in self.objects
        ]
        return self.model_copy(update={"objects": objects})

    @property
    def threads(self) -> int:
        """Most threads that run at once."""
        return max(sum(g.threads for g in phase.groups) for block in self.blocks for phase in block.phases)

    @property
    def footprint_bytes(self) -> int:
        """Bytes of all objects."""
        return sum(entry.bytes for entry in self.objects)

    def document(self) -> dict[str, Any]:
        """The streams as the engine takes them: plain data, sizes in bytes."""
        plain = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert isinstance(plain, dict)
        return plain

    @model_serializer(mode="wrap")
    def _as_of_old(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Keys that came later are left out where they say nothing: campaigns and figures of older versions
        are of the same workload."""
        plain: dict[str, Any] = whole(self)
        if not self.first_thread_waits:
            plain.pop("first_thread_waits", None)
        return plain

    def _streams(self) -> Iterator[tuple[Place, Stream]]:
        for b, block in enumerate(self.blocks):
            for p, phase in enumerate(block.phases):
                for g, group in enumerate(phase.groups):
                    for s, stream in enumerate(group.streams):
                        yield ("blocks", b, "phases", p, "groups", g, "streams", s), stream


def share_of_bytes(size: int, share: float) -> int:
    """`share` of `size` bytes in whole pages of 4 KiB, one at least."""
    return max(1, round(size * share / PAGE_BYTES)) * PAGE_BYTES


def _shorter(phase: Phase, share: float) -> Phase:
    groups = [
        group if group.ops is None else group.model_copy(update={"ops": max(1.0, group.ops * share)})
        for group in phase.groups
    ]
    seconds = None if phase.seconds is None else max(0.001, phase.seconds * share)
    return phase.model_copy(update={"groups": groups, "seconds": seconds})
