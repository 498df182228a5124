"""What a claims file holds: measured results, each with the sweep and the checks that repeat it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr

from tiertune.document import Path as Place
from tiertune.fields import Integer, Name, Text, name_mistake
from tiertune.files import Strict, find, load
from tiertune.nearest import nearest
from tiertune.tuner.claims.check import Check, Picture
from tiertune.tuner.sweep.axes import Axes, ConfigEntry, Part, Reference, Seeds
from tiertune.tuner.sweep.definition import (
    Observe,
    Sweep,
    known_values,
    outside_mistakes,
    systems_of,
    unmeasured,
)
from tiertune.tuner.sweep.measured import KNOB
from tiertune.tuner.sweep.window import Window

PERFORMANCE = "performance"
"""Beside what sweeps measure: 1 / slowdown, the share of all-fast performance that is left."""


class Scene(Axes):
    """What is run: the axes of a sweep, or several sweeps of their own."""

    parts: list[Part] = Field(
        default=[], max_length=1000, description="matrices of their own; the rest is as here"
    )
    relative_to: list[Reference] = Field(
        default=[], max_length=100, description="what rows are compared with: checks may name REF.speedup"
    )
    observe: Observe | None = Field(
        default=None, description="what is counted beside metrics, as in a sweep; absent: nothing"
    )
    windows: list[Window] = Field(
        default=[], max_length=100, description="stretches of each run that figures are of, as in a sweep"
    )
    timeline_points: Annotated[Integer, Field(ge=10, le=100_000)] | None = Field(
        default=None, description="points of a time series, from which convergence is read; absent: 200"
    )

    def with_changes(self, other: Scene | None) -> Scene:
        """This scene with what `other` gives in its place."""
        if other is None:
            return self
        merged = self.merged(other)
        axes = {key: getattr(merged, key) for key in Axes.model_fields}
        if merged.systems is not None and merged.configs is not None and other.configs is None:
            axes["configs"] = _of_systems(merged.configs, merged.systems)
        return Scene.model_construct(
            **axes,
            parts=other.parts or self.parts,
            relative_to=other.relative_to or self.relative_to,
            windows=other.windows or self.windows,
            observe=self.observe if other.observe is None else other.observe,
            timeline_points=other.timeline_points or self.timeline_points,
        )


def _of_systems(configs: list[ConfigEntry], systems: list[str]) -> list[ConfigEntry] | None:
    """The configs that are for `systems`: a claim that runs fewer than its scene has no use for others."""
    kept = []
    for entry in configs:
        mine = entry.systems and [name for name in entry.systems if name in systems]
        if mine or entry.systems is None:
            kept.append(entry.model_copy(update={"systems": mine}))
    return kept or None


class NamedScene(Scene):
    """A scene that several claims share."""

    name: Name = Field(description="name that claims call it by")


class Claim(Strict):
    """A result: what was found, where it is printed, and how to repeat it here."""

    id: Text = Field(max_length=40, description="name of the claim, unique in the file")
    paper: Name = Field(description="the paper, or whoever measured it")
    where: Text = Field(description="section, figure or table")
    gate: Literal["must", "should", "report"] = Field(
        default="should", description="must: a model that misses it is wrong; report: shown only"
    )
    statement: Text = Field(description="what was found, in a sentence")
    scene: Name | None = Field(default=None, description="one of the file's scenes is run")
    sweep: Scene | None = Field(default=None, description="what is run, or changes to the scene")
    checks: list[Check] = Field(default=[], max_length=100, description="all must hold")
    picture: Picture | None = Field(
        default=None, description="what the report draws; absent: the figures of the first check"
    )
    not_checkable: Text | None = Field(
        default=None, description="why it cannot be checked here, instead of sweep and checks"
    )
    if_missed: Text | None = Field(default=None, description="what is known of the cause of a miss")
    would_take: Text | None = Field(
        default=None, description="what the model, or somebody's measurement, lacks for a miss to be met"
    )

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Either it can be checked or there is a reason why not."""
        if mistake := name_mistake(self.id.lower()):
            yield ("id",), f"names files, and '{self.id.lower()}' {mistake}"
        if self.not_checkable is not None:
            if self.sweep is not None or self.scene is not None or self.checks:
                yield ("not_checkable",), "cannot stand beside 'sweep' and 'checks'; keep one of them"
            return
        if self.would_take is not None and self.if_missed is None:
            yield ("if_missed",), "is missing: the cause that 'would_take' is about"
        if self.scene is None:
            if self.sweep is None:
                yield ("sweep",), "is missing: what to run, or 'not_checkable' with a reason"
            else:
                yield from _incomplete(("sweep",), self.sweep)
        if not self.checks:
            yield ("checks",), "is missing: at least one check"


def _incomplete(place: Place, scene: Scene) -> Iterator[tuple[Place, str]]:
    for axes in [scene.merged(part) for part in scene.parts] or [scene]:
        for key in ("systems", "workloads", "machines"):
            if getattr(axes, key) is None:
                yield (*place, key), f"is missing: {Axes.model_fields[key].description}"
        if axes.ratios is None and axes.fast_bytes is None:
            yield (*place, "ratios"), "is missing: fast:slow shares of the footprint, or fast_bytes"


class Claims(Strict):
    """A file of claims."""

    name: Name = Field(description="name of the file and of its results")
    description: Text = Field(default="no description", description="one line on the claims")
    seeds: Seeds | None = Field(default=None, description="seeds of every sweep that gives none; absent: 1")
    seeds_if_split: Seeds | None = Field(
        default=None, description="`seeds` and more, for a claim on which one of them alone says otherwise"
    )
    scenes: list[NamedScene] = Field(
        default=[], max_length=1000, description="what several claims run, under names"
    )
    claims: list[Claim] = Field(min_length=1, max_length=10_000, description="the claims")

    _folder: Path = PrivateAttr(default=Path())

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """An id is there once; every sweep is one; seeds that are added to others have these."""
        if self.seeds_if_split is not None and (
            lost := sorted({*(self.seeds or [1])} - {*self.seeds_if_split})
        ):
            yield ("seeds_if_split",), f"lacks {lost[0]}, which is one of 'seeds'; name these as well"
        scenes = [scene.name for scene in self.scenes]
        for number, name in enumerate(scenes):
            if name in scenes[:number]:
                yield ("scenes", number, "name"), f"'{name}' is there twice; '{name}-{number}' is free"
        seen: set[str] = set()
        for number, claim in enumerate(self.claims):
            if claim.id in seen:
                yield ("claims", number, "id"), f"'{claim.id}' is there twice; '{claim.id}-b' is free"
            seen.add(claim.id)
            if claim.scene is None:
                continue
            if claim.scene not in scenes:
                near = nearest(claim.scene, scenes)
                hint = f"did you mean '{near}'?" if near else "the file has no scenes"
                yield ("claims", number, "scene"), f"there is no scene '{claim.scene}'; {hint}"
            else:
                yield from _incomplete(("claims", number, "sweep"), self._scene_of(claim))

    def _scene_of(self, claim: Claim) -> Scene:
        named = [scene for scene in self.scenes if scene.name == claim.scene]
        if not named:
            assert claim.sweep is not None
            return claim.sweep
        return named[0].with_changes(claim.sweep)

    def sweep_of(self, claim: Claim, split: bool = False) -> Sweep | None:
        """The claim's sweep, called like the claim; None for one that cannot be checked.

        With `split` that of a claim on which seeds say different things, unless it has seeds of its own.
        """
        if claim.not_checkable is not None:
            return None
        scene = self._scene_of(claim)
        given: dict[str, Any] = {key: getattr(scene, key) for key in Scene.model_fields}
        if given["seeds"] is None:
            given["seeds"] = (self.seeds_if_split if split else None) or self.seeds
        sweep = Sweep(
            name=claim.id.lower(), **{key: value for key, value in given.items() if value is not None}
        )
        sweep._folder = self._folder
        return sweep


def load_claims(name_or_path: str) -> Claims:
    """Reads claims by name (`./claims` first, then the packaged ones) or path; raises `InputError`."""
    path = find("claims", name_or_path)

    def outside(claims: Claims) -> list[tuple[Place, str]]:
        claims._folder = path.parent
        return list(dict.fromkeys(_cross_file_mistakes(claims)))

    return load(Claims, path, outside)


def _cross_file_mistakes(claims: Claims) -> Iterator[tuple[Place, str]]:
    """Sweeps that do not fit what there is, and figures that nothing measures."""
    for number, claim in enumerate(claims.claims):
        sweep = claims.sweep_of(claim)
        if sweep is None:
            continue
        for place, text in outside_mistakes(sweep):
            yield ("claims", number, "sweep", *place), text
        values = [PERFORMANCE, *known_values(sweep), *_knobs(sweep)]
        named: list[tuple[Place, str | None]] = [
            (("checks", position, key), getattr(check, key))
            for position, check in enumerate(claim.checks)
            for key in ("metric", "per", "beside", "beside_per", "corrected_by")
        ]
        if claim.picture is not None:
            named += [(("picture", key), getattr(claim.picture, key)) for key in ("metric", "per")]
        for place, metric in named:
            if metric is not None and (said := unmeasured(sweep, metric, values)):
                yield ("claims", number, *place), said


def campaigns_of(sweep: Sweep) -> list[str]:
    """The campaigns whose winners a sweep runs, each once."""
    entries = [entry for _, axes in sweep.matrices() for entry in axes.configs or ()]
    return list(dict.fromkeys(entry.campaign for entry in entries if entry.campaign is not None))


def _knobs(sweep: Sweep) -> list[str]:
    """Figures that are settings: knobs of the sweep's systems, those that are words aside."""
    from tiertune.engine import EngineError, system

    found: dict[str, None] = {}
    for _, axes in sweep.matrices():
        for name in systems_of(axes):
            with suppress(EngineError):  # an unknown system is said elsewhere
                found |= dict.fromkeys(f"{KNOB}{knob.name}" for knob in system(name).knobs)
    return list(found)
