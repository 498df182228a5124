"""What a report says, as data: the schema of report.json, and all that the HTML and Markdown renderers see.

Field order is key order. A change that readers of report.json can notice raises `SCHEMA_VERSION`.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, SerializerFunctionWrapHandler, model_serializer

SCHEMA_VERSION: Literal[2] = 2

Value: TypeAlias = bool | int | float | str
Role: TypeAlias = Literal["default", "tuned"]


class Part(BaseModel):
    """Base of every part of a report: immutable, and closed to keys nobody declared."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Metric(Part):
    """A measured quantity, as the engine declares it."""

    name: str
    unit: str
    direction: Literal["minimize", "maximize", ""]
    meaning: str


class Effect(Part):
    """How much better the winner is than the default, by validation alone. Above 1 is an improvement."""

    ratio: float
    low: float
    high: float
    confidence: float
    pairs: int
    improved: bool


class SearchTrial(Part):
    """One trial of the search. `value` and `best_so_far` are in the metric's unit; None where it failed.
    What breaks a constraint is not the best.

    A trial of `fidelity` below 1 ran that share of the workload only: its value compares with none of a whole
    run.
    """

    number: int
    origin: str
    status: str
    value: float | None
    best_so_far: float | None
    seed: int
    run_wall_s: float | None
    optimiser_cpu_s: float | None
    fidelity: float = 1.0
    config: dict[str, Value]
    error: str | None


class ValidationPair(Part):
    """Default and winner on one seed that the search never saw; the winner is better above `ratio` 1."""

    seed: int
    default: float | None
    tuned: float | None
    ratio: float | None


class MetricChange(Part):
    """Medians of one metric over the validation seeds."""

    metric: Metric
    default: float | None
    tuned: float | None


class KnobChange(Part):
    """A knob of the winner beside its default. Positions are places in the declared range, 0 to 1."""

    name: str
    meaning: str
    unit: str
    native_name: str | None
    default: Value
    tuned: Value
    changed: bool
    searched: bool
    active: bool
    at_bound: Literal["low", "high", ""]
    default_position: float | None
    tuned_position: float | None


class Timeline(Part):
    """One validation run over its own time: equally long columns, named with their units."""

    role: Role
    seed: int
    columns: dict[str, list[float]]


class HostRun(Part):
    """Who ran a trial."""

    purpose: str
    number: int
    origin: str
    host: str
    status: str
    value: float | None


class HostGain(Part):
    """The gain in the validation pairs of one host, above 1 is better."""

    host: str
    pairs: int
    ratio: float


class HostPart(Part):
    """Where the trials of a cell ran, and what hosts add of their own. `between_pct` and `within_pct` are
    standard deviations of the gain over hosts and over pairs of one host; `note` says what the interval is
    of."""

    live: bool
    runs: list[HostRun]
    gains: list[HostGain]
    between_pct: float | None
    within_pct: float | None
    note: str


class FrontShare(Part):
    """Mean of one objective over the validation seeds; `ratio` to the default's with its interval, None
    where that is 0."""

    mean: float
    ratio: float | None
    low: float | None
    high: float | None


class FrontPoint(Part):
    """A configuration that was validated for two objectives. `label` is its number on the front, `default`,
    or empty where it is not on it; `reason` says why not. `config` holds the knobs that act, `native_block`
    those of one on the front in the names of the system."""

    label: str
    trial: int | None
    on_front: bool
    reason: str
    first: FrontShare
    second: FrontShare
    config: dict[str, Value]
    native_block: str = ""


class FrontTrial(Part):
    """A search trial in both objectives."""

    number: int
    first: float
    second: float


class FrontPart(Part):
    """Two objectives: the points, by the first of them, on as many `seeds`; and who failed meanwhile."""

    first: Metric
    second: Metric
    seeds: int
    confidence: float
    points: list[FrontPoint]
    failed: list[str]
    search: list[FrontTrial]

    @property
    def found(self) -> list[FrontPoint]:
        """The configurations on the front, without the default."""
        return [point for point in self.points if point.on_front and point.trial is not None]

    def name_of(self, trial: int | None) -> str:
        """What the configuration of a search trial is called on the page."""
        for point in self.points:
            if point.trial == trial and point.label:
                return f"configuration {point.label}"
        return f"trial {trial}"


class Cell(Part):
    """One scenario with one system: its search, its winner, its validation."""

    id: str
    system: str
    workload: str
    machine: str
    ratio: str
    threads: int
    page_bytes: int
    metric: Metric
    verdict: str
    outcome: Literal["improved", "no-improvement", "not-validated"]
    effect: Effect | None
    winner_trial: int | None
    budget_trials: int
    statuses: dict[str, int]
    search: list[SearchTrial]
    validation: list[ValidationPair]
    metrics: list[MetricChange]
    knobs: list[KnobChange]
    native_block: str
    timelines: list[Timeline]
    workload_notes: list[str]
    hosts: HostPart | None = None
    front: FrontPart | None = None

    @property
    def live(self) -> bool:
        """Whether its trials ran on hosts; the time of others is that of a simulated machine."""
        return self.hosts is not None and self.hosts.live

    @model_serializer(mode="wrap")
    def _without_what_is_not(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Reports of trials that ran where the campaign did say nothing of hosts, and those of one objective
        nothing of a front."""
        document: dict[str, Any] = dump(self)
        for name in ("hosts", "front"):
            if document.get(name) is None:
                document.pop(name, None)
        return document


class Fact(Part):
    """A line of the environment table."""

    name: str
    value: str


class Robustness(Part):
    """In how many models a conclusion holds, by `tiertune sensitivity`; leads in percent, over all models."""

    claim: str
    scene: str
    verdict: str
    models: int
    models_where_it_holds: int
    nominal_lead_pct: float | None
    lowest_lead_pct: float | None
    highest_lead_pct: float | None


class Report(Part):
    """A whole report."""

    schema_version: Literal[2] = SCHEMA_VERSION
    campaign: str
    description: str
    verdict: str
    complete: bool
    cells: list[Cell]
    environment: list[Fact]
    robustness: list[Robustness]
    not_measured: list[str]
    reproduce: list[str]
