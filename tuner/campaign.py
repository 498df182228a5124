"""What a campaign file holds: scenarios x systems, budget, optimiser, validation, tracking."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlencode, urlsplit

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    model_serializer,
)

from tiertune import files
from tiertune.document import Path as Place
from tiertune.fields import Flag, Integer, Name, Number, PageSize, Ratio, Text
from tiertune.files import InputError, Strict, find, load
from tiertune.machines.definition import Machine, load_machine
from tiertune.nearest import nearest
from tiertune.spaces.definition import Space, contender_name, load_space
from tiertune.tuner.search.fidelity import CannotShorten, shortened
from tiertune.tuner.trial import Contention, Scenario
from tiertune.tuner.upstream import SYSTEMS as PUBLISHED
from tiertune.tuner.upstream import Upstream
from tiertune.units import fast_tier_bytes, format_size
from tiertune.workloads.definition import Workload, load_workload
from tiertune.workloads.kernels import MAX_SEED
from tiertune.workloads.preset import lasting

PRESETS: dict[str, dict[str, int | float | bool]] = {
    # The tuning study (DIMES'25): 100 evaluations, the first 20 an initial design, a fifth of the others
    # random.
    "paper": {"trials": 100, "initial": 20, "random_share": 0.2},
    # What `make bench-search` found to reach as much in fewer trials, with the portfolio for an optimiser:
    # docs/search.md has the curves.
    "lean": {"trials": 40, "initial": 10, "random_share": 0.1, "race": True},
}

LATER = {"programs", "presets", "priors", "special_values", "objectives"}
"""Keys of a campaign that are off unless set, and left out of what is stored then."""

MOST_FRONT_SEEDS = 1_600
"""Validation seeds with two objectives, which have up to six configurations on each: trials are numbered."""

BASELINE = "{0} is a baseline and has nothing to tune; `tiertune run {0}` measures it"

Gbps = Annotated[Number, Field(ge=0, le=10_000)]


class ContentionEntry(Strict):
    """Constant traffic of somebody else on one tier."""

    tier: Integer = Field(ge=0, le=15, description="number of the tier, 0 is the fastest")
    read_gbps: Gbps = Field(default=0.0, description="reads in 1e9 bytes/s")
    write_gbps: Gbps = Field(default=0.0, description="writes in 1e9 bytes/s")


class ScenarioEntry(Strict):
    """What is run where, and with how much fast memory."""

    workload: Text = Field(description="name or path of a workload")
    machine: Text = Field(description="name or path of a machine")
    ratio: Ratio = Field(description='fast:slow, such as "1:8": fast memory is a ninth of the footprint')
    threads: Annotated[Integer, Field(ge=1, le=4096)] | None = Field(
        default=None, description="threads of the application; absent: as the workload says"
    )
    page_size: PageSize = Field(default=2 * 2**20, description="managed page size: 4KiB or 2MiB")
    contention: list[ContentionEntry] = Field(default=[], max_length=16, description="traffic of co-runners")


class SystemEntry(Strict):
    """A tiering system and the space in which it is tuned."""

    system: Name = Field(description="name of a tiering system")
    space: Text = Field(description="name or path of a space")
    upstream: Upstream | None = Field(
        default=None, description="with --here: the authors' own program of it; absent: tierd runs it"
    )

    @model_serializer(mode="wrap")
    def _as_of_old(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The key that came later is left out where it says nothing."""
        plain: dict[str, Any] = whole(self)
        return {key: value for key, value in plain.items() if value is not None}

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Only what is published as a library can be loaded."""
        if self.upstream is not None and self.system not in PUBLISHED:
            yield (
                ("upstream",),
                f"{self.system} is not published as a library to be loaded; {', '.join(PUBLISHED)} is",
            )


class Stop(Strict):
    """When a search ends before its budget."""

    patience: Integer = Field(
        default=25, ge=5, le=1_000_000, description="trials without a gain after which it may end"
    )
    gain: Number = Field(default=0.01, ge=0, le=1, description="share by which a config must be better")


class ConstraintEntry(Strict):
    """A bound that a configuration must keep to be handed over."""

    metric: Text = Field(description="metric of a run, as `tiertune run --json` names it")
    at_most: Number | None = Field(default=None, description="largest value that is allowed")
    at_least: Number | None = Field(default=None, description="smallest value that is allowed")
    of_default: Flag = Field(default=False, description="whether bounds are multiples of the default's value")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """There is a bound, and a metric of that name."""
        from tiertune.engine import metrics

        names = [metric.name for metric in metrics()]
        if self.metric not in names:
            near = nearest(self.metric, names)
            yield ("metric",), f"there is no metric '{self.metric}'; did you mean '{near}'?"
        if self.at_most is None and self.at_least is None:
            yield ("metric",), f"{self.metric} has no bound; add at_most or at_least"


class ObjectiveEntry(Strict):
    """One of two metrics that a campaign improves at the same time."""

    metric: Text = Field(description="metric of a run, as `tiertune run --json` names it")
    direction: Literal["minimize", "maximize"] | None = Field(
        default=None, description="which way is better; absent: as the metric is declared"
    )

    def plain(self) -> dict[str, str]:
        """Metric and direction, also where the file leaves it to the declaration."""
        return {"metric": self.metric, "direction": self.direction or declared_direction(self.metric)}

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """There is a metric of that name, and it is known which way it is better."""
        from tiertune.engine import metrics

        names = [metric.name for metric in metrics()]
        if self.metric not in names:
            near = nearest(self.metric, names)
            yield ("metric",), f"there is no metric '{self.metric}'; did you mean '{near}'?"
            return
        declared = declared_direction(self.metric)
        if not declared and self.direction is None:
            text = "is neither better high nor low by itself; add direction: minimize or maximize"
            yield ("metric",), f"{self.metric} {text}"
        if declared and self.direction not in (None, declared):
            yield ("direction",), f"{self.metric} is declared to {declared}; the valid value is {declared}"


def declared_direction(metric: str) -> str:
    """Which way a metric is better by its declaration; empty where that depends on who asks."""
    from tiertune.engine import metrics

    return next(found.direction for found in metrics() if found.name == metric)


class Budget(Strict):
    """How many trials each scenario x system gets, and how they are proposed."""

    preset: Literal["paper", "lean"] | None = Field(
        default=None,
        description="paper: 100 trials, 20 initial, 20 % random; lean: 40, 10 initial, 10 % random, races",
    )
    trials: Integer = Field(ge=1, le=1_000_000, description="search trials; or name a preset")
    initial: Integer = Field(
        ge=1, le=1_000_000, description="trials of the initial design, the default first"
    )
    random_share: Number = Field(
        default=0.2, ge=0, le=1, description="share of random picks after the initial design"
    )
    race: Flag = Field(
        default=False, description="whether configs that look better than the best run again, on shared seeds"
    )
    stop: Stop | None = Field(
        default=None, description="early end of the search; absent: all trials are made"
    )
    cap: Annotated[Number, Field(ge=1.05, le=1000)] | None = Field(
        default=None, description="multiple of the best runtime at which a trial is given up; absent: never"
    )

    short_runs: Annotated[Number, Field(ge=0.01, le=0.9)] | None = Field(
        default=None,
        description="share of the workload that new configs run first, if it ranks them; absent: none",
    )

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """The initial design is part of the budget; races need whole runs."""
        if self.race and self.short_runs is not None:
            text = "cannot stand beside 'race': races are between whole runs; keep one of the two"
            yield ("short_runs",), text
        if self.initial > self.trials:
            yield (
                ("initial",),
                f"{self.initial} is more than trials; the largest valid value is {self.trials}",
            )


class Optimiser(Strict):
    """Who proposes."""

    name: Literal["smac", "portfolio", "tpe", "random"] = Field(
        default="smac",
        description="smac, portfolio (smac, a Gaussian process and tpe in turns), tpe or random",
    )


class Validation(Strict):
    """How winner and default are judged after the search."""

    seeds: Integer = Field(
        default=10, ge=5, le=5_000, description="fresh seeds, the same for winner and default"
    )


class Tracking(Strict):
    """Where people look at trials; the journal is kept in any case."""

    mlflow: Flag = Field(default=True, description="whether trials are mirrored to MLflow")
    uri: Text | None = Field(
        default=None, description="tracking server or database, no password in it; absent: SQLite in results/"
    )
    experiment: Text = Field(default="tiertune", description="MLflow experiment")

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Campaigns are stored and shown; no secret may be in them."""
        if self.uri is None:
            return
        try:
            parts = urlsplit(self.uri)
        except ValueError as error:
            yield ("uri",), f"is no address: {error}"
            return
        given = parse_qsl(parts.query, keep_blank_values=True)
        secret = [name for name, _ in given if re.search(r"passw|pwd|secret|token", name, re.IGNORECASE)]
        if parts.password is not None or secret:
            rest = urlencode([(name, value) for name, value in given if name not in secret])
            netloc = parts.netloc.replace(f":{parts.password}@", "@")
            bare = parts._replace(netloc=netloc, query=rest).geturl()
            where = "PGPASSWORD or ~/.pgpass"
            if parts.scheme in ("http", "https"):
                bare = parts._replace(netloc=parts.netloc.rpartition("@")[2], query=rest).geturl()
                where = "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
            yield (
                ("uri",),
                f"holds a password, which would be stored with the results; write {bare}, and set {where}",
            )


def _with_preset(budget: object) -> object:
    """Keys of the preset below those that are written out."""
    if isinstance(budget, dict) and isinstance(budget.get("preset"), str):
        return {**PRESETS.get(budget["preset"], {"trials": 1, "initial": 1}), **budget}
    return budget


def _word_off(value: object) -> object:
    """YAML reads a bare `off` as false."""
    return "off" if value is False else value


@dataclass(frozen=True)
class Cell:
    """One search of one scenario x system: the unit that is searched, validated and reported.

    `search` counts the independent searches of a scenario x system from 0.
    """

    scenario: Scenario
    system: str
    space: Space
    search: int = 0

    @property
    def key(self) -> str:
        """Stable text that names this cell within its campaign; first searches are named as if alone."""
        search = f"#{self.search + 1}" if self.search else ""
        return f"{self.scenario.key}/{contender_name(self.system, self.space)}{search}"


class Campaign(Strict):
    """A campaign: every scenario with every system, each tuned with the same budget."""

    name: Name = Field(description="name of the campaign and of its results folder")
    description: Text = Field(default="no description", description="one line on the campaign")
    seed: Annotated[Integer, Field(ge=0, le=MAX_SEED)] = Field(
        default=1, description="seed of everything random"
    )
    scenarios: list[ScenarioEntry] = Field(min_length=1, max_length=1000, description="what is run where")
    systems: list[SystemEntry] = Field(min_length=1, max_length=1000, description="systems that are tuned")
    budget: Annotated[Budget, BeforeValidator(_with_preset)] = Field(
        description="trials, initial, random_share; or a preset"
    )
    searches: Integer = Field(
        default=1, ge=1, le=100, description="independent searches of each scenario x system"
    )
    optimiser: Optimiser = Field(default=Optimiser(), description="who proposes")
    validation: Validation = Field(default=Validation(), description="how winner and default are judged")
    memory: Annotated[Literal["off", "start", "gated"], BeforeValidator(_word_off)] = Field(
        default="off",
        description="off; start: the nearest campaign's best first; gated: all its trials, if ranks agree",
    )
    presets: Flag = Field(
        default=False, description="whether presets of the spaces are tried right after the default"
    )
    priors: Flag = Field(default=False, description="whether priors of the spaces are followed at first")
    special_values: Annotated[Number, Field(ge=0.01, le=0.5)] | None = Field(
        default=None,
        description="share of draws at special values, for knobs that have some; absent: as the spaces say",
    )
    constraints: list[ConstraintEntry] = Field(
        default=[], max_length=20, description="bounds that a configuration must keep"
    )
    objectives: list[ObjectiveEntry] = Field(
        default=[],
        min_length=2,
        max_length=2,
        description="two metrics to trade for each other, the workloads' own first; absent: that one alone",
    )
    tracking: Tracking = Field(default=Tracking(), description="where people look at trials")
    workers: Integer = Field(default=1, ge=1, le=256, description="trials that run at the same time")
    programs: Text | None = Field(
        default=None,
        description="folder of original programs on the hosts, run in live trials; absent: the host parts",
    )

    @model_serializer(mode="wrap")
    def _as_of_old(self, whole: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Keys that came later are left out where they are as they were before there was a choice."""
        plain: dict[str, Any] = whole(self)
        return {key: value for key, value in plain.items() if value or key not in LATER}

    _folder: Path = PrivateAttr(default=Path())
    # Read once, so that a campaign stays what it was when its files change under it.
    _workloads: dict[str, Workload] = PrivateAttr(default_factory=dict)
    _machines: dict[str, Machine] = PrivateAttr(default_factory=dict)
    _spaces: dict[str, Space] = PrivateAttr(default_factory=dict)

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Scenarios and systems are there once; what two objectives have no meaning for is off; programs are
        found from anywhere."""
        if self.objectives:
            yield from self._objectives_mistakes()
        if self.programs is not None and not self.programs.startswith("/"):
            # Trials run in folders of their own, and on hosts: nothing is beside them.
            yield ("programs",), f"'{self.programs}' is not a whole path; it begins with /"
        elif self.programs is not None and "{" in self.programs:
            yield ("programs",), f"'{self.programs}' has a brace, which placeholders begin with"
        for key, entries in (("scenarios", self.scenarios), ("systems", self.systems)):
            seen: list[BaseModel] = []
            for number, entry in enumerate(entries):
                if entry in seen:
                    yield (
                        (key, number),
                        f"is the same as {key}[{seen.index(entry)}]; leave one of the two out",
                    )
                seen.append(entry)
        ways: dict[str, tuple[int, Upstream | None]] = {}
        for number, one in enumerate(self.systems):
            first, way = ways.setdefault(one.system, (number, one.upstream))
            if one.upstream != way:
                yield (
                    ("systems", number, "upstream"),
                    f"is not that of systems[{first}]; a campaign runs {one.system} in one way",
                )

    def upstreams(self) -> dict[str, Upstream]:
        """Systems whose live trials are of the authors' own program."""
        return {entry.system: entry.upstream for entry in self.systems if entry.upstream is not None}

    def _objectives_mistakes(self) -> Iterator[tuple[Place, str]]:
        one, other = (entry.metric for entry in self.objectives)
        if one == other:
            yield ("objectives", 1, "metric"), f"{one} is the first objective already; name another metric"
        text = "cannot stand beside 'objectives': it is a rule for one objective; leave it out"
        if self.budget.race:
            text_race = "cannot stand beside 'objectives': races have one winner; write race: false"
            yield ("budget", "preset" if self.budget.preset == "lean" else "race"), text_race
        for key in ("stop", "cap", "short_runs"):
            if getattr(self.budget, key) is not None:
                yield ("budget", key), text
        if self.memory != "off":
            yield ("memory",), f"{self.memory} {text.replace('leave it out', 'write off')}"
        if self.validation.seeds > MOST_FRONT_SEEDS:
            most = f"the largest valid value beside 'objectives' is {MOST_FRONT_SEEDS}"
            yield ("validation", "seeds"), f"{self.validation.seeds} is too many; {most}"

    def cells(self) -> list[Cell]:
        """All scenarios x systems x searches, scenarios outermost, in the order of the file."""
        spaces = {entry.space: self.space(entry.space) for entry in self.systems}
        return [
            Cell(self._scenario(scenario), entry.system, spaces[entry.space], search)
            for scenario in self.scenarios
            for entry in self.systems
            for search in range(self.searches)
        ]

    def workload(self, name_or_path: str) -> Workload:
        """The workload that a scenario names; paths are relative to the campaign's file."""
        if name_or_path not in self._workloads:
            workload = load_workload(name_or_path, self._folder)
            self._workloads[name_or_path] = workload.with_programs(self.programs)
        return self._workloads[name_or_path]

    def machine(self, name_or_path: str) -> Machine:
        """The machine that a scenario names; paths are relative to the campaign's file."""
        if name_or_path not in self._machines:
            self._machines[name_or_path] = load_machine(name_or_path, self._folder)
        return self._machines[name_or_path]

    def space(self, name_or_path: str) -> Space:
        """The space that a system entry names, as it is searched here; paths are relative to the campaign's
        file."""
        if name_or_path not in self._spaces:
            space = load_space(name_or_path, self._folder)
            self._spaces[name_or_path] = space.searched(
                presets=self.presets, priors=self.priors, special=self.special_values
            )
        return self._spaces[name_or_path]

    def document(self) -> dict[str, Any]:
        """The campaign as resolved: presets and defaults written out, paths absolute.

        As YAML it reads back as the same campaign.
        """
        document = self.model_dump(mode="json")
        for scenario in document["scenarios"]:
            scenario["workload"] = lasting(scenario["workload"], self._folder)
            scenario["machine"] = files.lasting("machines", scenario["machine"], self._folder)
            scenario["page_size"] = format_size(scenario["page_size"])
        for entry in document["systems"]:
            entry["space"] = files.lasting("spaces", entry["space"], self._folder)
        del document["budget"]["preset"]
        return document

    def _scenario(self, entry: ScenarioEntry) -> Scenario:
        return Scenario(
            workload=lasting(entry.workload, self._folder),
            machine=files.lasting("machines", entry.machine, self._folder),
            ratio=entry.ratio,
            threads=entry.threads,
            page_bytes=entry.page_size,
            contention=tuple(Contention(c.tier, c.read_gbps, c.write_gbps) for c in entry.contention),
        )


def load_campaign(name_or_path: str) -> Campaign:
    """Reads a campaign by name (`./campaigns` first, then the packaged ones) or path.

    Raises `InputError`: for the file, for the files that it names, and where these do not fit together.
    """
    path = find("campaigns", name_or_path)

    def outside(campaign: Campaign) -> list[tuple[Place, str]]:
        campaign._folder = path.parent
        return list(_cross_file_mistakes(campaign))

    return load(Campaign, path, outside)


def refuse_objectives(campaign: Campaign, source: str, what: str) -> None:
    """Raises InputError where a campaign has two objectives and `what` is of one, such as "transfer is
    of"."""
    if text := objectives_refusal(campaign, what):
        raise InputError(f"{source}: {text}")


def objectives_refusal(campaign: Campaign, what: str) -> str | None:
    """Why a campaign cannot be used where `what` is of one objective; None where it can."""
    if not campaign.objectives:
        return None
    first = campaign.objectives[0].metric
    return f"objectives: {what} one objective; leave the key out, and it is {first}"


def fit_mistake(footprint_bytes: int, ratio: str, page_bytes: int, machine: Machine) -> str | None:
    """Why a footprint cannot be split over the machine's tiers at this ratio; None when it can.

    `load_campaign` asks with the expected footprint; backends ask again once a graph is recorded.
    """
    fast = fast_tier_bytes(footprint_bytes, ratio, page_bytes)
    if fast == 0:
        fits = f"1:{max(footprint_bytes // page_bytes - 1, 1)}"
        page = format_size(page_bytes)
        return f"{ratio} of {_gib(footprint_bytes)} is less than a page of {page}; {fits} is one"
    room, slow_room = machine.tiers[0].capacity_bytes, sum(tier.capacity_bytes for tier in machine.tiers[1:])
    asked, slow = f"{ratio} of {_gib(footprint_bytes)}", footprint_bytes - fast
    if footprint_bytes > room + slow_room:
        return f"{asked} is more than all tiers of {machine.name} hold, {_gib(room + slow_room)}"

    def enough(fits: str) -> str:
        taken = fast_tier_bytes(footprint_bytes, fits, page_bytes)
        both = 0 < taken <= room and footprint_bytes - taken <= slow_room
        return f"enough for {fits}" if both else f"and neither that ratio nor {fits} fits both tiers"

    if fast > room:
        fits = f"1:{math.ceil(footprint_bytes / room) - 1}"
        return f"{asked} takes {_gib(fast)} of fast memory; {machine.name} has {_gib(room)}, {enough(fits)}"
    if slow > slow_room:
        fits = f"{math.ceil(footprint_bytes / slow_room) - 1}:1"
        has = f"{machine.name} has {_gib(slow_room)}, {enough(fits)}"
        return f"{asked} leaves {_gib(slow)} to slow memory; {has}"
    return None


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.2f} GiB"


def _cross_file_mistakes(campaign: Campaign) -> Iterator[tuple[Place, str]]:
    from tiertune.engine import systems

    known = {info.name: info for info in systems()}
    names: dict[tuple[str, str], int] = {}
    for number, entry in enumerate(campaign.systems):
        if entry.system not in known:
            near = nearest(entry.system, known)
            yield (
                ("systems", number, "system"),
                f"there is no system '{entry.system}'; did you mean '{near}'?",
            )
            continue
        try:
            space = campaign.space(entry.space)
        except InputError as error:
            if not any(knob.tunable for knob in known[entry.system].knobs):
                yield (
                    ("systems", number, "space"),
                    BASELINE.format(entry.system),
                )
                continue
            yield ("systems", number, "space"), "; ".join(error.sentences)
            continue
        if space.system != entry.system:
            yield (
                ("systems", number, "space"),
                f"'{entry.space}' is a space of {space.system}, not of {entry.system}",
            )
        first = names.setdefault((entry.system, space.name), number)
        if first != number:
            text = f"'{entry.space}' is called {space.name} like the space of systems[{first}]; rename one"
            yield ("systems", number, "space"), text
        if len(space.presets) >= campaign.budget.trials:
            least = len(space.presets) + 1
            text = f"{campaign.budget.trials} has no room for the default and the {least - 1} presets of"
            yield ("budget", "trials"), f"{text} {space.name}; the smallest valid value is {least}"
    if campaign.presets and not any(space.presets for space in campaign._spaces.values()):
        yield ("presets",), "true has nothing to try: no space of this campaign has presets; write false"
    if campaign.special_values and not any(
        axis.specials for space in campaign._spaces.values() for axis in space.axes()
    ):
        text = "has nothing to try: no searched knob declares a special value; leave it out"
        yield ("special_values",), f"{campaign.special_values:g} {text}"
    knobs = [knob for space in campaign._spaces.values() for knob in space.knobs.values()]
    if campaign.priors and all(knob.prior is None for knob in knobs):
        yield ("priors",), "true has nothing to follow: no knob of these spaces has a prior; write false"
    sizes = [known[entry.system].page_bytes for entry in campaign.systems if entry.system in known]
    for number, scenario in enumerate(campaign.scenarios):
        for place, text in _scenario_mistakes(campaign, scenario):
            yield ("scenarios", number, *place), text
        yield from _objective_mistakes(campaign, scenario)
        if campaign.budget.short_runs is not None:
            try:
                shortened(campaign.workload(scenario.workload), campaign.budget.short_runs)
            except CannotShorten as error:
                yield ("budget", "short_runs"), str(error)
            except InputError:
                pass  # said above
        for entry, pages in zip([e for e in campaign.systems if e.system in known], sizes, strict=True):
            if scenario.page_size not in pages:
                near_size = min(pages, key=lambda size: abs(size - scenario.page_size))
                yield (
                    ("scenarios", number, "page_size"),
                    (
                        f"{format_size(scenario.page_size)} is not a page size of {entry.system};"
                        f" the nearest valid size is {format_size(near_size)}"
                    ),
                )
                break


def _objective_mistakes(campaign: Campaign, scenario: ScenarioEntry) -> Iterator[tuple[Place, str]]:
    if not campaign.objectives:
        return
    try:
        workload = campaign.workload(scenario.workload)
    except InputError:
        return  # said before
    first, metric = campaign.objectives[0].plain(), workload.metric
    if first["metric"] != metric.name:
        text = f"{first['metric']} is not what {workload.name} is measured by; name {metric.name} first"
        yield ("objectives", 0, "metric"), text
    elif first["direction"] != metric.direction:
        yield ("objectives", 0, "metric"), f"{workload.name} has {metric.name} to {metric.direction}"


def _scenario_mistakes(campaign: Campaign, scenario: ScenarioEntry) -> Iterator[tuple[Place, str]]:
    from tiertune.engine import EngineError

    machine = workload = None
    try:
        machine = campaign.machine(scenario.machine)
    except InputError as error:
        yield ("machine",), "; ".join(error.sentences)
    try:
        workload = campaign.workload(scenario.workload)
    except InputError as error:
        yield ("workload",), "; ".join(error.sentences)
    if machine is None or workload is None:
        return
    threads = scenario.threads or workload.threads
    streams = workload.sim.streams
    if streams is not None and threads != workload.threads:
        yield (
            ("threads",),
            (
                f"{threads} is not what the streams of {workload.name} add up to; the valid value is"
                f" {workload.threads}"
            ),
        )
    if threads > machine.cores:
        what = f"{threads}" if scenario.threads else f"{threads}, from the workload {workload.name},"
        yield (
            ("threads",),
            f"{what} is more than the cores of {machine.name}; the largest valid value is {machine.cores}",
        )
    for number, entry in enumerate(scenario.contention):
        if entry.tier >= len(machine.tiers):
            yield (
                ("contention", number, "tier"),
                f"{entry.tier} is no tier of {machine.name}; the last one is {len(machine.tiers) - 1}",
            )
    if workload.sim.record is not None:
        try:
            workload.record_plan(machine.llc_bytes, threads)
        except EngineError as error:
            yield ("workload",), f"{workload.name} on {threads} threads: {error}"
            return
    text = fit_mistake(workload.footprint_bytes, scenario.ratio, scenario.page_size, machine)
    if text:
        yield ("ratio",), text
