"""What a sweep varies: the entries of its lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from tiertune.document import Path as Place
from tiertune.fields import Flag, Integer, Name, Number, PageSize, Ratio, Size, Text
from tiertune.files import Strict, sentence
from tiertune.workloads.kernels import MAX_SEED

ALL = "all"
DEFAULT = "default"
NONE = "none"
MOST_SEEDS = 10_000

Value = bool | int | float | str
Share = Annotated[Number, Field(ge=0, le=0.99)]
Gbps = Annotated[Number, Field(ge=0, le=10_000)]
Lines = Annotated[Number, Field(ge=0, le=100_000)]
Seconds = Annotated[Number, Field(ge=0, le=1_000_000)]


def _knob_value(value: object) -> object:
    if not isinstance(value, (bool, int, float, str)):
        raise sentence("is no value of a knob; write a number, true, false or a word")
    return value


KnobValue = Annotated[
    Value, BeforeValidator(_knob_value), WithJsonSchema({"type": ["boolean", "integer", "number", "string"]})
]


def _systems(value: object) -> object:
    if isinstance(value, str):
        if value != ALL:
            raise sentence("is not a list of systems; write [hemem, notier], or all for every system")
        return [ALL]
    return value


Systems = Annotated[
    list[Name],
    BeforeValidator(_systems),
    Field(min_length=1, max_length=1000),
    WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"const": ALL}]}),
]
"""Names of systems; `all` stands for every registered one."""


def _seeds(value: object) -> object:
    if not isinstance(value, str):
        return value
    first, dash, last = value.strip().partition("-")
    if not first.isdecimal() or not last.isdecimal() or not dash or len(first + last) > 30:
        raise sentence('is no range of seeds; write it as "1-5", or a list such as [1, 7, 9]')
    low, high = int(first), int(last)
    if high < low:
        raise sentence(f'runs backwards; the nearest valid range is "{high}-{low}"')
    if high - low >= MOST_SEEDS:
        raise sentence(
            f'is more than {MOST_SEEDS} seeds; the nearest valid range is "{low}-{low + MOST_SEEDS - 1}"'
        )
    return list(range(low, high + 1))


Seeds = Annotated[
    list[Annotated[Integer, Field(ge=0, le=MAX_SEED)]],
    BeforeValidator(_seeds),
    Field(min_length=1, max_length=MOST_SEEDS),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": MAX_SEED}},
                {"type": "string", "pattern": "^[0-9]+-[0-9]+$"},
            ]
        }
    ),
]


class ConfigEntry(Strict):
    """Knobs under a name: explicit ones, those that a campaign found, or both, less what is ablated."""

    name: Name = Field(description="name of the config in rows and tables")
    systems: list[Name] | None = Field(
        default=None, min_length=1, description="the systems it is for; absent: every system of the sweep"
    )
    campaign: Text | None = Field(
        default=None,
        description="start from what this campaign found, as its results folder holds it: its winner, or the"
        " default where that was no worse when the best were measured again",
    )
    cell: Text | None = Field(
        default=None,
        description="cell of the campaign; absent: the one tuned for the row's scenario, or the only one",
    )
    knobs: dict[Text, KnobValue] = Field(default={}, description="values of knobs; the others keep theirs")
    defaults: list[Text] = Field(
        default=[], description="knobs that are put back to their default: an ablation"
    )
    ablate: Flag = Field(
        default=False,
        description="adds NAME-without-KNOB for each knob off its default: that one put back, others kept",
    )

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """A cell is one of a campaign; only the plain default has no content."""
        if self.cell is not None and self.campaign is None:
            yield ("cell",), "needs 'campaign', the name of the campaign that the cell is of"
        if self.name == DEFAULT and (self.campaign or self.knobs or self.defaults):
            yield ("name",), "default is every knob at its default; give this config another name"


class Traffic(Strict):
    """Traffic of a co-runner on one tier: constant, or of threads that wait for their lines in flight."""

    tier: Integer = Field(ge=0, le=15, description="number of the tier, 0 is the fastest")
    read_gbps: Gbps = Field(default=0.0, description="reads in 1e9 bytes/s")
    write_gbps: Gbps = Field(default=0.0, description="writes in 1e9 bytes/s")
    read_share: Share = Field(default=0.0, description="reads as a share of the tier's peak reads")
    write_share: Share = Field(default=0.0, description="writes as a share of the tier's peak writes")
    read_lines: Lines = Field(
        default=0.0, description="cache lines always in flight for reads, so many for each loaded latency"
    )
    write_lines: Lines = Field(default=0.0, description="cache lines always in flight for writes")
    from_s: Seconds = Field(default=0.0, description="when it begins, in seconds of the run")
    until_s: Seconds | None = Field(default=None, description="when it ends; absent: with the run")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Absolute or relative, not both."""
        for word in ("read", "write"):
            if getattr(self, f"{word}_gbps") and getattr(self, f"{word}_share"):
                yield (f"{word}_share",), f"cannot stand beside {word}_gbps; keep one of the two"
        if self.until_s is not None and self.until_s <= self.from_s:
            yield ("until_s",), f"must be more than from_s, which is {self.from_s:g}"


class Contention(Strict):
    """A level of contention: the traffic of co-runners, under a name."""

    name: Name = Field(description="name of the level in rows and tables")
    traffic: list[Traffic] = Field(default=[], max_length=16, description="traffic by tier; absent: none")


class Override(Strict):
    """Changed values of a workload or machine file, under a name."""

    name: Name = Field(description="name of the override in rows and tables")
    workload: dict[Text, Any] = Field(
        default={},
        description="values by their place in the workload file, such as sim.record.hot_share: 0.8",
    )
    machine: dict[Text, Any] = Field(
        default={}, description="values by their place in the machine file, such as tiers[1].latency_ns: 250"
    )


class Reference(Strict):
    """Which row each row is compared with: the one that differs in these coordinates alone."""

    name: Name | None = Field(default=None, description="name of the comparison; absent: made of its values")
    system: Name | None = Field(default=None, description="system of the row that is compared with")
    config: Name | None = Field(default=None, description="its config")
    workload: Text | None = Field(default=None, description="its workload")
    override: Name | None = Field(default=None, description="its override")
    machine: Text | None = Field(default=None, description="its machine")
    fast: Text | None = Field(default=None, description="its ratio or fast_bytes, as rows spell it")
    threads: Annotated[Integer, Field(ge=1, le=4096)] | None = Field(default=None, description="its threads")
    contention: Name | None = Field(default=None, description="its level of contention")
    page_size: PageSize | None = Field(default=None, description="its page size")
    seed: Annotated[Integer, Field(ge=0, le=MAX_SEED)] | None = Field(default=None, description="its seed")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Without a coordinate a row would be compared with itself."""
        if not self.coordinates():
            yield (
                (),
                "names no coordinate, so every row would be compared with itself; add one, such as system",
            )

    def coordinates(self) -> dict[str, str | int]:
        """What is given, by name of the coordinate (`page_bytes` for `page_size`)."""
        given = self.model_dump(exclude={"name", "page_size"}, exclude_none=True)
        return given | ({} if self.page_size is None else {"page_bytes": self.page_size})

    @property
    def label(self) -> str:
        """`name`, or the given values joined."""
        return self.name or "-".join(str(value).replace(":", "to") for value in self.coordinates().values())


class Axes(Strict):
    """What is varied; rows are every combination."""

    systems: Systems | None = Field(default=None, description="names of systems; all: every system there is")
    configs: list[ConfigEntry] | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="configs of the systems; absent: the default one",
    )
    workloads: list[Text] | None = Field(
        default=None, min_length=1, max_length=1000, description="names or paths of workloads"
    )
    overrides: list[Override] | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="changed values of workload and machine files",
    )
    machines: list[Text] | None = Field(
        default=None, min_length=1, max_length=1000, description="names or paths of machines"
    )
    ratios: list[Ratio] | None = Field(
        default=None, min_length=1, max_length=1000, description="fast:slow shares of the footprint"
    )
    fast_bytes: list[Size] | None = Field(
        default=None,
        min_length=1,
        max_length=1000,
        description="fast memory given as sizes, beside or for ratios",
    )
    threads: list[Annotated[Integer, Field(ge=1, le=4096)]] | None = Field(
        default=None, min_length=1, max_length=1000, description="threads; absent: as the workload says"
    )
    contention: list[Contention] | None = Field(
        default=None, min_length=1, max_length=1000, description="levels of contention; absent: none"
    )
    page_sizes: list[PageSize] | None = Field(
        default=None,
        min_length=1,
        max_length=16,
        description="page sizes; absent: the first that a system supports",
    )
    seeds: Seeds | None = Field(default=None, description='seeds, a list or a range such as "1-5"; absent: 1')

    def merged(self, part: Axes) -> Axes:
        """These axes with what `part` gives in their place; its ratios or sizes replace both."""
        given = {key: getattr(part, key) for key in Axes.model_fields if getattr(part, key) is not None}
        if given.keys() & {"ratios", "fast_bytes"}:
            given = {"ratios": None, "fast_bytes": None, **given}
        own = {key: getattr(self, key) for key in Axes.model_fields}
        return Axes.model_construct(**{**own, **given})


class Part(Axes):
    """A matrix of its own: what it does not give is as the sweep says."""

    name: Name = Field(description="name of the part in rows")


Coordinate = Literal[
    "part",
    "system",
    "config",
    "workload",
    "override",
    "machine",
    "fast",
    "threads",
    "contention",
    "page_size",
    "seed",
]
