"""What a machine file holds: cores, last-level cache and memory tiers, every figure with its source."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from tiertune.document import Path as Place
from tiertune.fields import Flag, Integer, Name, Number, Size, Text
from tiertune.files import Strict, find, load
from tiertune.nearest import nearest

HUGE_BYTES = 2 << 20
"""Pages from this size on do not pay for page-table walks."""

CurvePoint = tuple[Annotated[Number, Field(ge=0, le=1)], Annotated[Number, Field(ge=1, le=100)]]

TIER_FIGURES = ("capacity_bytes", "latency_ns", "read_gbps", "write_gbps", "curve")
TIER_FIGURES_OF_SOME = ("sequential_latency_ns", "random_read_gbps", "random_write_gbps")
MACHINE_FIGURES = ("cores", "clock_ghz", "llc_bytes", "llc_hit_ns", "fill_buffers", "sample_assist_ns")
FIGURES_WITH_DEFAULTS = ("window_instructions", "tlb_entries")
# Older files have them without a source.
FIGURES_THAT_MAY_HAVE_A_SOURCE = ("parallelism",)


class Tier(Strict):
    """One memory tier."""

    name: Name = Field(description="name of the tier in reports")
    capacity_bytes: Size = Field(description="installed memory, such as 96GB")
    latency_ns: Number = Field(ge=1, le=100_000, description="unloaded latency of a random read, in ns")
    sequential_latency_ns: Number | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="unloaded latency of sequential reads where the medium differs",
    )
    read_gbps: Number = Field(ge=0.01, le=10_000, description="peak read bandwidth, in 1e9 bytes/s")
    write_gbps: Number = Field(ge=0.01, le=10_000, description="peak write bandwidth, in 1e9 bytes/s")
    random_read_gbps: Number | None = Field(
        default=None,
        ge=0.01,
        le=10_000,
        description="peak read bandwidth of single lines at random, in 1e9 bytes/s; absent: as in sequence",
    )
    random_write_gbps: Number | None = Field(
        default=None,
        ge=0.01,
        le=10_000,
        description="peak write bandwidth of single lines at random, in 1e9 bytes/s; absent: as in sequence",
    )
    duplex: Flag = Field(
        default=False,
        description="whether reads and writes have separate channels (UPI, CXL) or share a bus (DDR)",
    )
    curve: list[CurvePoint] = Field(
        min_length=2,
        max_length=100,
        description="loaded latency: pairs of utilisation of peak bandwidth and multiple of unloaded latency",
    )
    sources: dict[str, Text] = Field(description="where each figure comes from, in words")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Shape of the curve, order of the latencies, a source for every figure."""
        yield from _curve_mistakes(self.curve)
        for figure in ("read_gbps", "write_gbps"):
            random, most = getattr(self, f"random_{figure}"), getattr(self, figure)
            if random is not None and random > most:
                yield (
                    (f"random_{figure}",),
                    f"{random:g} is above {figure}; the largest valid value is {most:g}",
                )
        if self.sequential_latency_ns is not None and self.sequential_latency_ns > self.latency_ns:
            yield (
                ("sequential_latency_ns",),
                (
                    f"{self.sequential_latency_ns:g} is above latency_ns; the largest valid value is"
                    f" {self.latency_ns:g}"
                ),
            )
        given = tuple(figure for figure in TIER_FIGURES_OF_SOME if getattr(self, figure) is not None)
        yield from _source_mistakes(self.sources, TIER_FIGURES + given)


class Parallelism(Strict):
    """Demand misses that a core of this machine keeps in flight, by class; absent: what the model has."""

    gather: Number | None = Field(
        default=None, ge=1, le=64, description="of gathers; absent: a fiftieth of `window_instructions`"
    )
    random: Number | None = Field(default=None, ge=1, le=64, description="of independent random reads")
    update: Number | None = Field(default=None, ge=1, le=64, description="of independent random updates")
    locked: Number | None = Field(
        default=None,
        ge=1,
        le=64,
        description="of independent updates by locked instructions; absent: the model's share of `update`",
    )


class Machine(Strict):
    """A modelled machine; tiers from fastest to slowest."""

    name: Name = Field(description="name of the machine, as campaigns use it")
    description: Text = Field(description="one line on the machine")
    source: Text = Field(description="paper or document that the machine comes from")
    cores: Integer = Field(
        ge=1, le=4096, description="cores that the application and the tiering threads share"
    )
    clock_ghz: Number = Field(ge=0.1, le=20, description="clock in GHz")
    llc_bytes: Size = Field(description="last-level cache, such as 13.75MiB")
    llc_hit_ns: Number = Field(ge=1, le=1000, description="latency of a last-level cache hit, in ns")
    fill_buffers: Number = Field(ge=1, le=1024, description="first-level misses that a core keeps in flight")
    window_instructions: Number = Field(
        default=224,
        ge=1,
        le=1_000_000,
        description="instructions that a core holds in its reorder buffer; what comes behind a miss and waits"
        " for none runs while it is under way; the default is Skylake's",
    )
    sample_assist_ns: Number = Field(
        ge=0, le=100_000, description="time that the sampled thread loses per hardware sample, in ns"
    )
    hint_fault_ns: Number = Field(
        default=1500,
        ge=0,
        le=100_000,
        description="time that a thread loses per NUMA hint fault, in ns; a minor fault on bare metal takes"
        " 500 to 1500, a hint fault 1000 to 2000",
    )
    repeated_fault_ns: Number | None = Field(
        default=None,
        ge=0,
        le=100_000,
        description="the same for a fault that follows at once on the same page, in ns; absent: 0.57 of"
        " hint_fault_ns, as minor faults were measured over few pages and over many",
    )
    tlb_entries: Number | None = Field(
        default=None,
        ge=16,
        le=1_000_000,
        description="pages whose translations a core keeps; others are read from page tables where pages are"
        " smaller than 2 MiB; absent: that costs nothing",
    )
    shootdown_ns: Number | None = Field(
        default=None,
        ge=0,
        le=100_000,
        description="time that a core loses to the interrupt by which it forgets a page that is moved, in ns;"
        " published are 500 to 1000 for each core; absent: 750",
    )
    migration_cost: Number | None = Field(
        default=None,
        ge=0.01,
        le=100,
        description="time of page moves, in multiples of what systems declare; absent: 1",
    )
    parallelism: Parallelism | None = Field(
        default=None, description="misses in flight by class; streams with an mlp of their own keep it"
    )
    sources: dict[str, Text] = Field(description="where each figure outside the tiers comes from, in words")
    tiers: list[Tier] = Field(min_length=2, max_length=16, description="memory tiers, fastest first")
    notes: list[Text] = Field(default=[], description="remarks for readers")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Order and names of the tiers, a source for every figure."""
        given = tuple(figure for figure in FIGURES_WITH_DEFAULTS if figure in self.model_fields_set)
        yield from _source_mistakes(self.sources, MACHINE_FIGURES + given, FIGURES_THAT_MAY_HAVE_A_SOURCE)
        for number, (faster, tier) in enumerate(zip(self.tiers, self.tiers[1:], strict=False), start=1):
            if tier.latency_ns < faster.latency_ns:
                yield (
                    ("tiers", number, "latency_ns"),
                    (
                        f"{tier.latency_ns:g} is below the tier before; tiers go from fastest to slowest"
                        f" and the smallest valid value here is {faster.latency_ns:g}"
                    ),
                )
        seen: set[str] = set()
        for number, tier in enumerate(self.tiers):
            if tier.name in seen:
                yield (
                    ("tiers", number, "name"),
                    f"'{tier.name}' names two tiers; '{tier.name}-{number}' is free",
                )
            seen.add(tier.name)

    def relevant(self, page_bytes: int) -> dict[str, Any]:
        """What a run on such pages depends on: `document` without what only smaller pages go by."""
        document = self.document()
        if page_bytes >= HUGE_BYTES:
            document.pop("tlb_entries", None)
        return document

    def document(self) -> dict[str, Any]:
        """The machine as the engine takes it: plain data, sizes in bytes, without the sources."""
        plain = self.model_dump(mode="json", exclude={"sources": True, "tiers": {"__all__": {"sources"}}})
        assert isinstance(plain, dict)
        for tier in plain["tiers"]:
            # Keys that came later: without them a machine is what it was, also to those who stored it.
            for figure in ("random_read_gbps", "random_write_gbps"):
                if tier[figure] is None:
                    del tier[figure]
        # What is not given is the engine's to say.
        return {key: value for key, value in plain.items() if value is not None}


def load_machine(name_or_path: str, base: Path | None = None) -> Machine:
    """Reads a machine by name (`./machines` first, then the packaged ones) or path; raises `InputError`."""
    return load(Machine, find("machines", name_or_path, base))


def _curve_mistakes(curve: list[tuple[float, float]]) -> Iterator[tuple[Place, str]]:
    if tuple(curve[0]) != (0, 1):
        yield (
            ("curve", 0),
            f"[{curve[0][0]:g}, {curve[0][1]:g}] starts the curve; the first point is always [0, 1]",
        )
    for number, ((u0, m0), (u1, m1)) in enumerate(itertools.pairwise(curve), start=1):
        if u1 <= u0:
            yield (
                ("curve", number, 0),
                f"utilisation {u1:g} does not rise above {u0:g}, that of the point before",
            )
        if m1 < m0:
            yield (
                ("curve", number, 1),
                (
                    f"multiplier {m1:g} is below {m0:g}, the point before; latency never falls with load"
                    f" and the smallest valid value is {m0:g}"
                ),
            )


def _source_mistakes(
    sources: dict[str, str], figures: tuple[str, ...], others: tuple[str, ...] = ()
) -> Iterator[tuple[Place, str]]:
    for figure in figures:
        if figure not in sources:
            yield ("sources", figure), f"is missing: where {figure} comes from, in words"
    for key in sources:
        if key not in figures + others:
            yield ("sources", key), f"is no figure of this part; did you mean '{nearest(key, figures)}'?"
