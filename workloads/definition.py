"""What a workload file holds: what is executed and recorded here, and to which size that is carried.

Kernels are declared in the engine. Those whose rules are told in words of their own (bc, pr, gups) have a
class here; the others get one from their declaration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    WithJsonSchema,
    create_model,
    field_serializer,
    model_serializer,
)

from tiertune.document import Path as Place
from tiertune.fields import Integer, Name, Number, Size, Text
from tiertune.files import InputError, Strict, load, sentence
from tiertune.mistakes import explained
from tiertune.nearest import nearest
from tiertune.units import UnitError, format_size, parse_size
from tiertune.workloads.kernels import (
    MAX_SEED,
    KernelRecord,
    carried,
    carry_fields,
    counted,
    loadings,
    one_of,
    record_model,
    takes_threads,
)
from tiertune.workloads.live import HostPart, UpstreamPart
from tiertune.workloads.native import native_part, shorter, smaller
from tiertune.workloads.preset import Preset, PresetName, located
from tiertune.workloads.streams import Streams

if TYPE_CHECKING:
    from tiertune.engine import RecordPlan

FROM_MACHINE = "from-machine"

PROFILE_SUFFIX = ".parquet"

MOST_EDGES = 16 << 24
"""Most edges that are generated, about 8 GB while a graph is built."""

MOST_TABLE_BYTES = 8 * 2**30

ELEMENT_BYTES = 8
"""What gups updates; every thread has hot elements of its own."""

Seed = Annotated[Integer, Field(ge=0, le=MAX_SEED)]


def _llc(value: object) -> object:
    if value == FROM_MACHINE:
        return value
    try:
        return parse_size(value)  # type: ignore[arg-type]
    except UnitError as error:
        raise sentence(f"{error}; or write {FROM_MACHINE}") from error


Llc = Annotated[
    int | str,
    BeforeValidator(_llc),
    WithJsonSchema({"type": ["integer", "string"], "examples": [FROM_MACHINE]}),
]


class GraphRecord(KernelRecord):
    """A graph that is generated here, and how its kernel is run on it."""

    graph: Literal["kron", "uniform", "twitter"] = Field(
        description="kron (skewed degrees), uniform, or "
        "twitter (as skewed as Twitter, popular vertices have low ids)"
    )
    scale: Integer = Field(ge=10, le=24, description="2^scale vertices are generated here")
    degree: Integer = Field(
        default=16, ge=1, le=16_384, description="edges per vertex before they are mirrored"
    )
    seed: Seed = Field(default=1, description="seed of the graph")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """The graph fits in memory while it is built."""
        most = MOST_EDGES >> self.scale
        if self.degree > most:
            yield (
                ("degree",),
                (
                    f"{self.degree} at scale {self.scale} takes more memory than is used to record;"
                    f" the largest valid value is {most}"
                ),
            )


class BcRecord(GraphRecord):
    """Betweenness centrality (Brandes) from a few source vertices."""

    kernel: Literal["bc"] = Field(description="name of the kernel")
    sources: Integer = Field(default=1, ge=1, le=1024, description="source vertices")


class PrRecord(GraphRecord):
    """PageRank, pulling."""

    kernel: Literal["pr"] = Field(description="name of the kernel")
    iterations: Integer = Field(ge=1, le=1000, description="sweeps over all edges")


class GupsRecord(KernelRecord):
    """Random updates of a table with a hot part that moves."""

    kernel: Literal["gups"] = Field(description="name of the kernel")
    table_bytes: Size = Field(description="table that is updated here, such as 256MiB")
    hot_bytes: Size = Field(description="hot part of the table, such as 32MiB")
    hot_share: Number = Field(default=0.9, ge=0, le=1, description="share of updates that go to the hot part")
    updates: Integer = Field(ge=1, le=10**10, description="updates in the recorded run")
    moves: Integer = Field(
        default=0,
        ge=0,
        le=64,
        description="how often a quarter of the hot part moves on, evenly spaced over the run",
    )
    seed: Seed = Field(default=1, description="seed of the updates")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """The table fits in memory, the hot part in the table."""
        if not 2**20 <= self.table_bytes <= MOST_TABLE_BYTES:
            near = format_size(min(max(self.table_bytes, 2**20), MOST_TABLE_BYTES))
            yield (
                ("table_bytes",),
                (
                    f"{format_size(self.table_bytes)} is outside 1MiB to 8GiB, what is recorded;"
                    f" the nearest valid size is {near} (carry.table_bytes may be larger)"
                ),
            )
        if self.hot_bytes > self.table_bytes:
            limit = format_size(self.table_bytes)
            yield (
                ("hot_bytes",),
                f"{format_size(self.hot_bytes)} is more than table_bytes; the largest valid size is {limit}",
            )
        if self.moves >= self.updates:
            text = f"{self.moves} need updates between them, {self.updates} are too few"
            yield ("moves",), f"{text}; the largest valid value is {self.updates - 1}"


def _record_models() -> tuple[type[KernelRecord], ...]:
    from tiertune.engine import kernels

    told: dict[str, type[KernelRecord]] = {"bc": BcRecord, "gups": GupsRecord, "pr": PrRecord}
    return tuple(
        told.get(info.name) or record_model(info) for info in sorted(kernels(), key=lambda k: k.name)
    )


if TYPE_CHECKING:
    Record = KernelRecord
else:
    Record = Annotated[Union[_record_models()], Field(discriminator="kernel")]  # noqa: UP007


if TYPE_CHECKING:
    Loading = str
else:
    Loading = one_of(*loadings())


class CarryBase(Strict):
    """The input that the recorded run stands for."""

    scale: Integer | None = Field(
        default=None, ge=10, le=36, description="scale of the graph; absent: as recorded"
    )
    table_bytes: Size | None = Field(default=None, description="size of the table; absent: as recorded")
    hot_bytes: Size | None = Field(
        default=None, description="size of the hot part; it always grows with the table"
    )
    llc_bytes: Llc = Field(
        default=FROM_MACHINE, description="last-level cache of the carried run: from-machine or a size"
    )
    runs: Integer = Field(default=1, ge=1, le=100_000, description="how often the recorded run repeats")
    loading: Loading | None = Field(
        default=None,
        description="how a program of GAPBS got its graph, which decides where its arrays lie at first: "
        + ", ".join(f"{name} ({meaning})" for name, meaning in loadings().items())
        + "; absent: as if it had always been there",
    )

    def size(self, parameter: str) -> int | None:
        """What a parameter of the kernel is carried to; None: it stays as recorded."""
        value = getattr(self, parameter)
        assert value is None or isinstance(value, int)
        return value

    @classmethod
    def sizes(cls) -> tuple[str, ...]:
        """All parameters that some kernel is carried by."""
        return tuple(key for key in cls.model_fields if key not in ("llc_bytes", "runs", "loading"))


if TYPE_CHECKING:
    Carry = CarryBase
else:
    Carry = create_model(
        "Carry", __base__=CarryBase, __doc__=CarryBase.__doc__, **carry_fields(set(CarryBase.model_fields))
    )


class ProfileFile(Strict):
    """A profile of a real process, made by `tiertune record` or `tiertune profile import`."""

    file: Text = Field(description="the Parquet file, relative to this one or to the current directory")
    digest: Text | None = Field(
        default=None, description="digest of its content, as `profile show` prints it; absent: any content"
    )


class Sim(Strict):
    """How the workload is simulated: a recorded kernel, synthetic streams, or a measured profile."""

    record: Record | None = Field(default=None, description="kernel that is executed and recorded here")
    carry: Carry = Field(default=Carry(), description="input that the recorded run stands for")
    streams: Streams | None = Field(default=None, description="synthetic objects and streams of accesses")
    profile: ProfileFile | None = Field(
        default=None, description="profile of a real process, carried by nothing but 'runs'"
    )
    window_share: Annotated[Number, Field(ge=0.01, le=1)] = Field(
        default=1.0,
        description="for long runs: share of every slice of a phase whose operations are all alike that is"
        " recorded; the rest is executed and taken to do the same",
    )

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Either recorded or synthetic; carried to the same kind of input, never to a smaller one."""
        if self.record is None and self.window_share != 1.0:
            yield ("window_share",), "is for a kernel that is recorded; leave it out"
        if self.record is None and self.streams is None and self.profile is None:
            yield (), "needs either 'record' (a kernel that is executed) or 'streams' (a synthetic workload)"
        if self.profile is not None:
            for other in ("record", "streams"):
                if other in self.model_fields_set:
                    yield (other,), "cannot stand beside 'profile'; keep one of the two"
            for key in (*self.carry.sizes(), "loading"):
                if getattr(self.carry, key) is not None:
                    text = "is for a kernel; a measured process is carried by nothing but 'runs'"
                    yield ("carry", key), text
        if self.streams is not None:
            for key in ("record", "carry"):
                if key in self.model_fields_set:
                    yield (key,), "cannot stand beside 'streams'; keep one of the two"
        if isinstance(self.record, GraphRecord):
            yield from self._graph_mistakes(self.record)
        elif isinstance(self.record, GupsRecord):
            yield from self._gups_mistakes(self.record)
        elif self.record is not None:
            yield from self._carry_mistakes(self.record)

    @model_serializer(mode="wrap")
    def _as_of_old(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """A key that came later is left out where it says nothing."""
        plain: dict[str, Any] = whole(self)
        if self.window_share == 1.0:
            plain.pop("window_share", None)
        carry = plain.get("carry") or {}
        if carry.get("loading", "") is None:
            carry.pop("loading")
        return plain

    def _carry_mistakes(self, record: KernelRecord) -> Iterator[tuple[Place, str]]:
        valid = carried(record.kernel)
        for key in self.carry.sizes():
            asked = self.carry.size(key)
            if asked is None:
                continue
            if key not in valid:
                keys = " or ".join(f"'{name}'" for name in valid) or "nothing but 'runs'"
                yield ("carry", key), f"is for another kernel; {record.kernel} is carried by {keys}"
            elif asked < (least := getattr(record, key)):
                text = f"{asked} is below what is recorded; the smallest valid value is {least}"
                yield ("carry", key), text

    def _graph_mistakes(self, record: GraphRecord) -> Iterator[tuple[Place, str]]:
        for key in self.carry.sizes():
            if key != "scale" and self.carry.size(key) is not None:
                other = "the kernel gups" if key in carried("gups") else "another kernel"
                yield ("carry", key), f"is for {other}; a graph is carried by 'scale'"
        if self.carry.scale is not None and self.carry.scale < record.scale:
            yield (
                ("carry", "scale"),
                f"{self.carry.scale} is below what is recorded; the smallest valid value is {record.scale}",
            )

    def _gups_mistakes(self, record: GupsRecord) -> Iterator[tuple[Place, str]]:
        carry = self.carry
        for key in carry.sizes():
            if key not in carried("gups") and carry.size(key) is not None:
                other = "graph kernels" if key == "scale" else "another kernel"
                yield ("carry", key), f"is for {other}; gups is carried by 'table_bytes' and 'hot_bytes'"
        if carry.table_bytes is not None and carry.table_bytes < record.table_bytes:
            yield (
                ("carry", "table_bytes"),
                (
                    f"{format_size(carry.table_bytes)} is below what is recorded; the smallest valid size is"
                    f" {format_size(record.table_bytes)}"
                ),
            )
        hot = (carry.table_bytes or record.table_bytes) * record.hot_bytes // record.table_bytes
        if carry.hot_bytes is not None and carry.hot_bytes != hot:
            text = f"{format_size(carry.hot_bytes)} is another share of the table than the hot part recorded"
            yield ("carry", "hot_bytes"), f"{text}, and shares are kept; the valid size is {format_size(hot)}"


class Metric(Strict):
    """What campaigns on this workload improve."""

    name: Text = Field(description="metric of the engine, such as runtime_s")
    direction: Literal["minimize", "maximize"] = Field(description="which way is better")


def _absent(value: object) -> object:
    return None if value == {} else value


class Workload(Strict):
    """A workload: what runs, how many threads, and which figure counts."""

    name: Name = Field(description="name of the workload, as campaigns use it")
    version: Integer = Field(ge=1, le=1_000_000, description="raised whenever results stop being comparable")
    description: Text = Field(description="one line on the workload")
    source: Text = Field(description="paper or program that the workload comes from")
    metric: Metric = Field(description="what campaigns improve: name and direction")
    threads: Integer = Field(ge=1, le=4096, description="threads of the application")
    sim: Sim = Field(description="how the workload is simulated")
    host: Annotated[HostPart | None, BeforeValidator(_absent)] = Field(
        default=None, description="how the workload runs on a real host; absent: tierload runs its kernel"
    )

    # Left out of documents, as streams are what results are of: a host runs something like them.
    native: Record | None = Field(
        default=None,
        exclude=True,
        description="for streams: kernel that tierload runs on a host, as under sim.record; absent: none",
    )

    # Left out of documents: a campaign that takes it has it as the host part.
    upstream: UpstreamPart | None = Field(
        default=None, exclude=True, description="the original program; absent: none that is run"
    )

    # Left out of documents, too: what is chosen is the workload, and what is not has no part in a result.
    presets: dict[PresetName, Preset] = Field(
        default={},
        exclude=True,
        description="the workload at other sizes, by name: smoke, ci, paper or yours",
    )

    @field_serializer("host")
    def _host_document(self, host: HostPart | None) -> dict[str, Any]:
        """Journals have had an empty mapping for `absent` since before there were hosts."""
        return {} if host is None else host.model_dump(mode="json", exclude_none=True)

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Streams say themselves how many threads run; each thread of gups has a hot element."""
        streams, record = self.sim.streams, self.sim.record
        if self.native is not None and record is not None:
            text = f"cannot stand beside a kernel that is recorded, {record.kernel}, which hosts run"
            yield ("native",), f"{text}; leave it out"
        if self.native is not None and self.host is not None:
            yield ("native",), "cannot stand beside 'host', which says what is run; keep one of the two"
        for key, part in (("host", self.host), ("upstream", self.upstream)):
            if part is None or part.metrics == "tierload":  # what tierload says depends on its kernel
                continue
            if self.metric.name not in part.measures:
                yield (key, "metrics"), f"lacks {self.metric.name}, which campaigns improve"
        if streams is not None and streams.threads != self.threads:
            yield (
                ("threads",),
                f"{self.threads} is not what the streams add up to; the valid value is {streams.threads}",
            )
        if isinstance(record, GupsRecord) and record.hot_bytes < self.threads * ELEMENT_BYTES:
            least = format_size(self.threads * ELEMENT_BYTES)
            yield (
                ("sim", "record", "hot_bytes"),
                (
                    f"{format_size(record.hot_bytes)} is less than an element of {ELEMENT_BYTES} bytes for"
                    f" each of {self.threads} threads; the smallest valid size is {least}"
                ),
            )

        for name, preset in self.presets.items():
            kernel = None if record is None else record.kernel
            counts = () if self.native is None else counted(self.native.kernel)
            for place, text in preset.fitting(kernel, streams is not None, counts):
                yield ("presets", name, *place), text

    def preset(self, name: str) -> Workload:
        """The workload at the size of a preset, called after both; raises `InputError` for an unknown one,
        `ValidationError` for one that does not go with the rest."""
        chosen = self.presets.get(name)
        if chosen is None:
            near = nearest(name, self.presets)
            hint = f"did you mean '{self.name}@{near}'?" if near else "it has none"
            raise InputError(f"workload {self.name} has no preset '{name}'; {hint}")
        document = self._sized(name, chosen)
        if not chosen.resizes:
            # What it carries is how its input is loaded.
            sim = Workload.model_validate(document).sim if chosen.carry else self.sim
            same: dict[str, Any] = {"sim": sim, "native": self.native, "presets": {}}
            return self.model_copy(update={**document, **same})
        # Neither a command that is written out nor the original program's is one of this size.
        return Workload.model_validate(document)

    def _sized(self, name: str, chosen: Preset) -> dict[str, Any]:
        """What a file would hold of the workload at the size of a preset."""
        sim: dict[str, Any] | Sim = self.sim
        native = self.native
        if native is not None and chosen.size_share is not None:
            native = smaller(native, chosen.size_share)
        if native is not None and chosen.share is not None:
            native = shorter(native, chosen.share)
        if self.sim.streams is not None:
            streams = self.sim.streams
            if chosen.size_share is not None:
                streams = streams.resized(chosen.size_share)
            if chosen.share is not None:
                streams = streams.shortened(chosen.share)
            sim = self.sim.model_copy(update={"streams": streams})
        elif self.sim.record is not None:
            parts = {"record": self.sim.record, "carry": self.sim.carry}
            sim = {
                key: {**part.model_dump(mode="json", exclude_none=True), **getattr(chosen, key)}
                for key, part in parts.items()
            }
            sim["window_share"] = self.sim.window_share
        return {
            "name": f"{self.name}-{name}",
            "version": self.version,
            "description": chosen.description,
            "source": chosen.source or self.source,
            "metric": self.metric,
            "threads": chosen.threads or self.threads,
            "sim": sim,
            "native": None if native is None else native.model_dump(mode="json", exclude_none=True),
        }

    def with_programs(self, folder: str | None) -> Workload:
        """The workload whose live runs are of the original program in `folder`, where there is one."""
        if folder is None or self.upstream is None:
            return self
        return self.model_copy(update={"host": self.upstream.host(folder)})

    @property
    def on_host(self) -> HostPart | None:
        """What a host runs: the `host` part or, where the file has none, our own program for the kernel that
        is recorded or stands beside the streams. None: nothing, as a measured profile is no program."""
        kernel = self.sim.record or self.native
        if self.host is not None or kernel is None:
            return self.host
        carry = self.sim.carry
        sizes = {name: size for name in carry.sizes() if (size := carry.size(name)) is not None}
        record = kernel.model_dump(mode="json", exclude_none=True)
        return native_part(record, sizes, self.footprint_bytes, carry.runs)

    @property
    def footprint_bytes(self) -> int:
        """Bytes of the replayed workload; for graphs the expected value, because edges are drawn."""
        if self.sim.streams is not None:
            return self.sim.streams.footprint_bytes
        if self.sim.profile is not None:
            return _profile_bytes(Path(self.sim.profile.file))
        return self.record_plan().footprint_bytes

    def kernel_request(self, threads: int | None = None) -> dict[str, Any]:
        """What the engine is asked to execute, still without a last-level cache; `ValueError` for streams."""
        if self.sim.record is None:
            raise ValueError(f"workload {self.name} executes no kernel; there is nothing to record")
        request = self.sim.record.model_dump(mode="json")
        if takes_threads(self.sim.record.kernel):
            request["threads"] = threads or self.threads
        if self.sim.window_share < 1.0:
            request["window_share"] = self.sim.window_share
        return request

    def carry_request(self, page_bytes: int) -> dict[str, Any]:
        """The input that a recording is carried to, as the engine reads it."""
        carry = self.sim.carry.model_dump(mode="json", exclude={"llc_bytes"}, exclude_none=True)
        return {**carry, "page_bytes": page_bytes}

    def record_plan(self, machine_llc_bytes: int = 2**20, threads: int | None = None) -> RecordPlan:
        """How large recording and replay are, and the cache to record with; the sizes do not depend on it.

        `machine_llc_bytes` counts unless the file gives a cache of its own. Raises `EngineError` when the
        engine refuses to record this on `threads` threads, `ValueError` for streams.
        """
        from tiertune.engine import plan

        llc = self.sim.carry.llc_bytes
        llc_bytes = machine_llc_bytes if llc == FROM_MACHINE else int(llc)
        # No size depends on the pages.
        return plan(self.kernel_request(threads), self.carry_request(2 * 2**20), llc_bytes)


def load_workload(name_or_path: str, base: Path | None = None) -> Workload:
    """Reads a workload by name (`./workloads` first, then the packaged ones) or path, at the size of a preset
    where one follows (`gups@ci`); raises `InputError`.

    The metric is checked against what the engine measures, the kernel against what it records.
    """
    path, preset = located(name_or_path, base)
    if path.suffix == PROFILE_SUFFIX:
        workload = profile_workload(path)
    else:
        workload = load(Workload, path, lambda loaded: _engine_mistakes(_settled(loaded, path.parent)))
    workload = _settled(workload, path.parent)
    return workload if preset is None else workload.preset(preset)


def _settled(workload: Workload, folder: Path) -> Workload:
    """With the profile's path as it is found from here: relative to the workload's file, or else as it is."""
    profile = workload.sim.profile
    if profile is None or not (folder / profile.file).is_file():
        return workload
    found = profile.model_copy(update={"file": str(folder / profile.file)})
    return workload.model_copy(update={"sim": workload.sim.model_copy(update={"profile": found})})


def profile_workload(path: Path) -> Workload:
    """A workload that replays the measured profile at `path` once; raises `InputError`.

    Profiles of kernels are refused: these are replayed through their workload, which knows their full size.
    """
    from tiertune.workloads.measured import default_name
    from tiertune.workloads.profile_file import UnreadableProfile, read_head

    try:
        metadata, digest = read_head(path)
        told = metadata.get("measured")
        if told is None:
            kernel = metadata.get("request", {}).get("kernel", "a kernel")
            raise InputError(
                f"{path}: this profile was recorded from our kernel {kernel};"
                " give the workload that it was recorded for instead"
            )
        return Workload(
            name=default_name(path),
            version=1,
            description=f"{told['program']}, measured ({told['sampler']})",
            source=f"a real process: {told['program']}",
            metric=Metric(name="runtime_s", direction="minimize"),
            threads=told["threads"],
            sim=Sim(profile=ProfileFile(file=str(path), digest=digest)),
        )
    except (UnreadableProfile, KeyError, TypeError, AttributeError, ValidationError) as error:
        raise InputError(f"{path}: this is not a profile ({str(error).splitlines()[0]})") from error


def _profile_bytes(path: Path) -> int:
    """Footprint of a measured profile; raises `InputError`."""
    from tiertune.workloads.profile_file import UnreadableProfile, read_head

    if not path.is_file():
        raise InputError(f"there is no file {path}")
    try:
        return sum(int(info["bytes"]) for info in read_head(path)[0]["objects"])
    except (UnreadableProfile, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: this is not a profile ({error})") from error


def _place_of(sentence: str) -> tuple[Place, str]:
    """Where the engine's sentence on a request belongs: "record.scale is 29, ..." to the key `scale`."""
    subject, _, rest = sentence.partition(" ")
    part, _, key = subject.partition(".")
    if part in ("record", "carry") and key and rest:
        return ("sim", part, *key.split(".")), rest
    return ("sim", "record"), sentence


def _preset_mistakes(workload: Workload) -> Iterator[tuple[Place, str]]:
    """What each preset makes of the workload that could not stand in a file."""
    from tiertune.engine import EngineError

    for name in workload.presets:
        found: Iterable[tuple[Place, str]]
        try:
            chosen = workload.preset(name)
            if chosen.sim.record is not None:
                chosen.record_plan()
            continue
        except ValidationError as error:
            found = explained(error, Workload, workload._sized(name, workload.presets[name]))
        except EngineError as error:
            found = [_place_of(str(error))]
        for place, text in found:
            # The sim part of a preset has no key of its own, as there is no other part that it could be of.
            inner = place[1:] if place[:1] == ("sim",) else place
            yield ("presets", name, *inner), text


def _engine_mistakes(workload: Workload) -> Iterator[tuple[Place, str]]:
    from tiertune.engine import EngineError, metrics

    yield from _preset_mistakes(workload)
    if workload.sim.profile is not None:
        try:
            workload.footprint_bytes  # noqa: B018 - raises where the file is no profile
        except InputError as error:
            yield ("sim", "profile", "file"), str(error)
    if workload.sim.record is not None:
        try:
            workload.record_plan()
        except EngineError as error:
            yield _place_of(str(error))
    known = {metric.name: metric.direction for metric in metrics()}
    given = workload.metric
    if given.name not in known:
        near = nearest(given.name, (name for name, direction in known.items() if direction))
        yield ("metric", "name"), f"'{given.name}' is not measured; did you mean '{near}'?"
    elif known[given.name] and known[given.name] != given.direction:
        yield (
            ("metric", "direction"),
            f"{given.name} gets better the other way; the valid value is {known[given.name]}",
        )
    elif not known[given.name]:
        near = nearest(given.name, (name for name, direction in known.items() if direction))
        text = f"'{given.name}' has no better direction; the nearest metric that has one is '{near}'"
        yield ("metric", "name"), text
