"""What a file of the gallery holds: tuned configurations of one system, each with all that it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from tiertune.document import Path as Place
from tiertune.fields import Integer, Name, Number, PageSize, Ratio, Text
from tiertune.files import Strict, find, load
from tiertune.nearest import nearest
from tiertune.spaces.value import Scalar
from tiertune.tuner.transfer.traits import ALONE, Traits

FOLDER = "gallery"
DEFAULT = "default-is-as-good"

Part = Literal["program", "input", "machine", "ratio", "threads", "pages", "contention"]
PARTS: tuple[Part, ...] = ("program", "input", "machine", "ratio", "threads", "pages", "contention")
"""In what two contexts can differ. Another input is one of the same program."""

Factor = Annotated[Number, Field(ge=0, le=1e6)]
Gap = Annotated[Number, Field(ge=0.001, le=1000)]
Count = Annotated[Integer, Field(ge=0, le=1_000_000)]
Seed = Annotated[Integer, Field(ge=0, le=2**53 - 1)]


class Confirmed(Strict):
    """Versions with which the validation was run again, and every run of it came to the same, bit for bit."""

    tiertune: Text = Field(description="version of tiertune")
    engine: Text = Field(description="version of the engine")
    build: Text = Field(description="fingerprint of the sources of the engine")
    code: Text | None = Field(
        default=None, description="digest of the file of the system, where it is a policy written in Python"
    )


class MadeBy(Strict):
    """Versions that measured it."""

    tiertune: Text = Field(description="version of tiertune; several where trials ran with several")
    engine: Text = Field(description="version of the engine")
    builds: list[Text] = Field(max_length=100, description="fingerprints of the sources of the engine")
    code: Text | None = Field(
        default=None, description="digest of the file of the system, where it is a policy written in Python"
    )
    commit: Text | None = Field(default=None, description="commit of the checkout, where it was one")
    modified: bool | None = Field(
        default=None, description="whether it had uncommitted changes, which the commit does not hold"
    )
    command: Text = Field(description="the command that makes it again")
    confirmed: Confirmed | None = Field(
        default=None, description="later versions with which it is the same; `tiertune gallery --renew`"
    )


class Likeness(Strict):
    """What says how like two contexts are, beside the figures above it."""

    program: Text = Field(description="what runs, whatever its input")
    workload_digest: Text = Field(description="digest of the whole workload, as a name may outlive it")
    machine_digest: Text = Field(description="digest of the whole machine")
    latency_gap: Gap = Field(description="latency of the next tier, in that of the fast one")
    bandwidth_gap: Gap = Field(description="read bandwidth of the fast tier, in that of the next one")
    contention: Factor = Field(default=0.0, description="traffic of co-runners, in the tiers' peaks")
    co_runners: Text = Field(default=ALONE, description="the same in words")


class Gain(Strict):
    """Performance over the default, above 1 is better; on seeds that the search never saw."""

    ratio: Factor = Field(description="mean over seeds")
    low: Factor = Field(description="lower end of the interval")
    high: Factor = Field(description="upper end of the interval")
    confidence: Annotated[Number, Field(ge=0.5, le=1)] = Field(description="what the interval promises")
    seeds: Count = Field(description="seeds, each with a run of both")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """The mean lies in its interval."""
        if not self.low <= self.ratio <= self.high:
            yield (
                ("ratio",),
                f"{self.ratio:g} does not lie between low, {self.low:g}, and high, {self.high:g}",
            )


class Validation(Strict):
    """The runs that a gain is of, seed by seed, so that another build can be held against them."""

    seeds: list[Seed] = Field(max_length=1_000_000, description="seeds, each with a run of both")
    default: list[Number | None] = Field(description="metric of the default on each; null: the run failed")
    tuned: list[Number | None] = Field(description="metric of the best that was found")
    knobs: dict[str, Scalar] | None = Field(
        default=None, description="knobs of the best that was found; absent: those of the entry"
    )

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """There is a run of both on every seed."""
        for key in ("default", "tuned"):
            if len(getattr(self, key)) != len(self.seeds):
                text = f"has {len(getattr(self, key))} values for {len(self.seeds)} seeds; give one for each"
                yield (key,), text


class Entry(Strict):
    """What a campaign found for the system in one context."""

    workload: Text = Field(description="name of the workload")
    machine: Text = Field(description="name of the machine")
    ratio: Ratio = Field(description="fast:slow")
    threads: Annotated[Integer, Field(ge=1, le=4096)] = Field(description="threads of the application")
    page_size: PageSize = Field(description="managed page size")
    likeness: Likeness = Field(description="what says how like another context is")
    space: Text = Field(description="name of the space that was searched")
    metric: Text = Field(description="figure that was to get better")
    direction: Literal["minimize", "maximize"] = Field(description="which way is better")
    outcome: Literal["improved", "default-is-as-good"] = Field(
        description="improved: the knobs below are better than the default; else run the default"
    )
    verdict: Text = Field(description="what validation came to, in a sentence")
    gain: Gain | None = Field(
        default=None, description="of the best that was found; absent: nothing but the default worked"
    )
    validation: Validation | None = Field(
        default=None, description="the runs that the gain is of; absent: there are none, or an older file"
    )
    knobs: dict[str, Scalar] = Field(description="knobs off their default and in force")
    native: str = Field(description="the whole configuration in the system's own names")
    campaign: Text = Field(description="campaign that it is of")
    cell: Text = Field(description="its cell there")
    seed: Seed = Field(description="seed of the campaign")
    trials: Count = Field(description="trials of the search")
    other_searches: list[Factor] = Field(
        default=[], max_length=100, description="gains of further searches of the cell, by another seed"
    )
    measured_on: Literal["model", "hosts"] = Field(description="modelled machine, or real hosts")
    made_by: MadeBy = Field(description="versions that measured it")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Whoever is better has a gain and something that was changed."""
        if self.outcome == DEFAULT and self.knobs:
            yield ("knobs",), f"cannot stand beside outcome {DEFAULT}; write {{}}"
        if self.outcome == "improved" and (self.gain is None or self.gain.low <= 1.0):
            yield ("outcome",), f"improved needs a gain whose low is above 1; the other outcome is {DEFAULT}"
        if self.validation is not None and self.outcome == DEFAULT and self.validation.knobs is None:
            yield ("validation", "knobs"), f"is missing: with outcome {DEFAULT} the entry has none of its own"

    @property
    def traits(self) -> Traits:
        """The context, as distances take it."""
        return Traits(
            workload=self.workload,
            machine=self.machine,
            ratio=self.ratio,
            threads=self.threads,
            page_bytes=self.page_size,
            **self.likeness.model_dump(),
        )


class Pair(Strict):
    """What was tuned in one context, run in another."""

    tuned_in: Annotated[Integer, Field(ge=1, le=10_000)] = Field(description="number of a context, from 1")
    run_in: Annotated[Integer, Field(ge=1, le=10_000)] = Field(description="number of another one")
    differs: list[Part] = Field(min_length=1, description="in what the two differ")
    ratio: Factor | None = Field(
        default=None, description="performance there over the default; absent: a run failed"
    )
    worse: bool = Field(default=False, description="whether it is worse than the default, interval and all")
    kept: Factor | None = Field(
        default=None, description="performance there over what was tuned there; absent: a run failed"
    )


class TransferTest(Strict):
    """A test by `tiertune transfer`, from which it is told how far to trust an entry elsewhere."""

    space: Text = Field(description="name of the space that was searched")
    seeds: Count = Field(description="held-back seeds of each pair")
    contexts: list[Text] = Field(min_length=2, max_length=10_000, description="contexts in words")
    pairs: list[Pair] = Field(description="pairs of different contexts")
    made_by: MadeBy = Field(description="versions that measured it")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Pairs are of two contexts that there are."""
        for number, pair in enumerate(self.pairs):
            for key in ("tuned_in", "run_in"):
                if getattr(pair, key) > len(self.contexts):
                    text = f"{getattr(pair, key)} is no context; the last one is {len(self.contexts)}"
                    yield ("pairs", number, key), text
            if pair.tuned_in == pair.run_in:
                yield (
                    ("pairs", number, "run_in"),
                    f"is {pair.run_in} like tuned_in; a pair is of two contexts",
                )


class Gallery(Strict):
    """Tuned configurations of one system; `tiertune gallery` writes it."""

    name: Name = Field(description="the system")
    description: Text = Field(default="no description", description="one line on the file")
    entries: list[Entry] = Field(min_length=1, max_length=10_000, description="what was found, by context")
    tests: list[TransferTest] = Field(
        default=[], max_length=1000, description="what is known of carrying configurations elsewhere"
    )

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """A context is there once for each space."""
        seen: dict[tuple[str, Traits], int] = {}
        for number, entry in enumerate(self.entries):
            first = seen.setdefault((entry.space, entry.traits), number)
            if first != number:
                yield (
                    ("entries", number),
                    f"is of the same context as entries[{first}]; leave one of them out",
                )


def load_gallery(name_or_path: str) -> Gallery:
    """Reads a file of the gallery by name (`./gallery` first, then the packaged ones) or path; raises
    `InputError`."""
    return load(Gallery, find(FOLDER, name_or_path), lambda gallery: list(_outside(gallery)))


def _outside(gallery: Gallery) -> Iterator[tuple[Place, str]]:
    """There is such a system, and it has the knobs and takes their values."""
    from tiertune import engine

    known = {info.name: info for info in engine.systems()}
    if gallery.name not in known:
        if any(entry.made_by.code for entry in gallery.entries):
            text = f"{gallery.name} is a policy written in Python; name its file: --policy-file FILE.py"
            yield ("name",), text
            return
        near = nearest(gallery.name, known)
        yield ("name",), f"there is no system '{gallery.name}'; did you mean '{near}'?"
        return
    knobs = [knob.name for knob in known[gallery.name].knobs]
    configs: list[tuple[Place, dict[str, Scalar]]] = []
    for number, entry in enumerate(gallery.entries):
        configs.append((("entries", number, "knobs"), entry.knobs))
        if entry.validation is not None and entry.validation.knobs is not None:
            configs.append((("entries", number, "validation", "knobs"), entry.validation.knobs))
    for place, config in configs:
        unknown = [name for name in config if name not in knobs]
        for name in unknown:
            text = f"{gallery.name} has no such knob; did you mean '{nearest(name, knobs)}'?"
            yield (*place, name), text
        if unknown:
            continue
        try:
            engine.check_config(gallery.name, dict(config))
        except engine.EngineError as error:
            yield place, str(error)
