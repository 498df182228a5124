"""What a claims file holds: measured results, each with the sweep and the checks that repeat it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr

from tiertune.document import Path as Place
from tiertune.fields import Integer, Name, Number, PageSize, Text
from tiertune.files import Strict, find, load
from tiertune.nearest import nearest
from tiertune.tuner.sweep.axes import Axes, Coordinate
from tiertune.tuner.sweep.definition import GAUGE, Sweep, known_values, outside_mistakes

PERFORMANCE = "performance"
"""Beside what sweeps measure: 1 / slowdown, the share of all-fast performance that is left."""


class Selector(Strict):
    """Which row is meant: the one with these coordinates."""

    system: Name | None = Field(default=None, description="its system")
    config: Name | None = Field(default=None, description="its config")
    workload: Text | None = Field(default=None, description="its workload")
    override: Name | None = Field(default=None, description="its override")
    machine: Text | None = Field(default=None, description="its machine")
    fast: Text | None = Field(default=None, description="its ratio or fast_bytes, as rows spell it")
    threads: Annotated[Integer, Field(ge=1, le=4096)] | None = Field(default=None, description="its threads")
    contention: Name | None = Field(default=None, description="its level of contention")
    page_size: PageSize | None = Field(default=None, description="its page size")

    def coordinates(self) -> dict[str, str | int]:
        """What is given, by name of the coordinate (`page_bytes` for `page_size`)."""
        given = self.model_dump(exclude={"page_size"}, exclude_none=True)
        return given | ({} if self.page_size is None else {"page_bytes": self.page_size})

    def said(self) -> str:
        """The selector in words."""
        return " ".join(str(value) for value in self.coordinates().values()) or "all rows"


class Check(Strict):
    """One comparison, on medians over seeds."""

    kind: Literal["value", "ratio", "order"] = Field(
        description="value: of one row, or of all that fit; ratio: of one row to another; order: of several"
    )
    metric: Text = Field(description="slowdown, slowdown_pct, performance, a metric of the engine, gauge.X")
    of: Selector = Field(default=Selector(), description="the row, or all that fit")
    to: Selector | None = Field(default=None, description="ratio: the row that is divided by")
    rows: list[list[Selector]] = Field(
        default=[],
        max_length=100,
        description="order: groups of rows, the lowest first; within a group any order will do",
    )
    expected: Number | None = Field(default=None, description="the published figure")
    within_pct: Annotated[Number, Field(ge=0, le=1000)] | None = Field(
        default=None, description="how far off it may be, in percent of it"
    )
    least: Number | None = Field(default=None, description="the lowest that will do")
    most: Number | None = Field(default=None, description="the highest that will do")
    each: list[Coordinate] = Field(
        default=[], max_length=4, description="checked for each value of these coordinates, such as fast"
    )
    misses_allowed: Annotated[Integer, Field(ge=0, le=1000)] = Field(
        default=0, description="of the values of `each`, how many may fail"
    )

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Each kind has what it compares and what it is held to."""
        if self.kind == "order":
            if len(self.rows) < 2:
                yield ("rows",), "is missing: at least two groups of rows, the lowest first"
            return
        if self.rows:
            yield ("rows",), f"is for kind order; a {self.kind} has 'of'"
        if self.kind == "ratio" and self.to is None:
            yield ("to",), "is missing: the row that is divided by"
        if self.expected is not None and self.within_pct is None:
            yield ("within_pct",), "is missing: how far from 'expected' the figure may be, in percent"
        if self.expected is None and self.least is None and self.most is None:
            yield ("expected",), "is missing: a figure, or 'least' or 'most'"

    def bounds(self) -> tuple[float, float]:
        """Lowest and highest figure that will do."""
        low = float("-inf") if self.least is None else self.least
        high = float("inf") if self.most is None else self.most
        if self.expected is not None and self.within_pct is not None:
            span = abs(self.expected) * self.within_pct / 100
            low, high = max(low, self.expected - span), min(high, self.expected + span)
        return low, high


class Claim(Strict):
    """A result: what was found, where it is printed, and how to repeat it here."""

    id: Text = Field(max_length=40, description="name of the claim, unique in the file")
    paper: Name = Field(description="the paper, or whoever measured it")
    where: Text = Field(description="section, figure or table")
    gate: Literal["must", "should", "report"] = Field(
        default="should", description="must: a model that misses it is wrong; report: shown only"
    )
    statement: Text = Field(description="what was found, in a sentence")
    sweep: Axes | None = Field(default=None, description="what is run: the axes of a sweep")
    checks: list[Check] = Field(default=[], max_length=100, description="all must hold")
    not_checkable: Text | None = Field(
        default=None, description="why it cannot be checked here, instead of sweep and checks"
    )
    if_missed: Text | None = Field(default=None, description="what is known of the cause of a miss")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Either it can be checked or there is a reason why not."""
        if self.not_checkable is not None:
            if self.sweep is not None or self.checks:
                yield ("not_checkable",), "cannot stand beside 'sweep' and 'checks'; keep one of them"
            return
        if self.sweep is None:
            yield ("sweep",), "is missing: what to run, or 'not_checkable' with a reason"
        else:
            for key in ("systems", "workloads", "machines"):
                if getattr(self.sweep, key) is None:
                    yield ("sweep", key), f"is missing: {Axes.model_fields[key].description}"
            if self.sweep.ratios is None and self.sweep.fast_bytes is None:
                yield ("sweep", "ratios"), "is missing: fast:slow shares of the footprint, or fast_bytes"
        if not self.checks:
            yield ("checks",), "is missing: at least one check"


class Claims(Strict):
    """A file of claims."""

    name: Name = Field(description="name of the file and of its results")
    description: Text = Field(default="no description", description="one line on the claims")
    claims: list[Claim] = Field(min_length=1, max_length=10_000, description="the claims")

    _folder: Path = PrivateAttr(default=Path())

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """An id is there once; every sweep is one."""
        seen: set[str] = set()
        for number, claim in enumerate(self.claims):
            if claim.id in seen:
                yield ("claims", number, "id"), f"'{claim.id}' is there twice; '{claim.id}-b' is free"
            seen.add(claim.id)

    def sweep_of(self, claim: Claim) -> Sweep:
        """The claim's sweep, called like the claim."""
        assert claim.sweep is not None
        given = {key: getattr(claim.sweep, key) for key in Axes.model_fields}
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
        if claim.sweep is None:
            continue
        sweep = claims.sweep_of(claim)
        for place, text in outside_mistakes(sweep):
            yield ("claims", number, "sweep", *place), text
        values = [PERFORMANCE, *known_values(sweep)]
        for position, check in enumerate(claim.checks):
            if check.metric not in values and not check.metric.startswith(GAUGE):
                near = nearest(check.metric, values)
                text = f"'{check.metric}' is nothing that a sweep measures; did you mean '{near}'?"
                yield ("claims", number, "checks", position, "metric"), text
