"""What a sweep file holds: a matrix of experiments, comparisons between its rows, and the printed table."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, PrivateAttr

from tiertune.document import Path as Place
from tiertune.fields import Flag, Integer, Name, Text
from tiertune.files import InputError, Strict, find, load
from tiertune.machines.definition import Machine, load_machine
from tiertune.nearest import nearest
from tiertune.tuner.sweep.axes import ALL, DEFAULT, Axes, ConfigEntry, Coordinate, Part, Reference
from tiertune.tuner.sweep.window import Window
from tiertune.tuner.sweep.window import names as window_figures
from tiertune.workloads.definition import Workload, load_workload

if TYPE_CHECKING:
    from tiertune.engine import SystemInfo

DERIVED = (
    "slowdown",
    "slowdown_pct",
    "rank",
    "convergence_s",
    "last_change_s",
    "early_promotion_share",
    "early_promotions",
    "status",
)
"""What can be shown beside the metrics of the engine."""

RELATIVE = ("speedup", "slowdown_points")
"""What a comparison gives beside the ratio of every metric."""

CACHE = "cache.sqlite"
"""The file that all sweeps of a results folder share; it stands beside their folders."""

GAUGE = "gauge."
COUNTER, OBJECT = "counter.", "object."

Observe = Annotated[list[Literal["counters", "objects", "gauges"]], Field(max_length=3)]
"""What is counted beside metrics and gauges: it costs time or memory, and few need it."""

_OBSERVED_BY = {COUNTER: "counters", OBJECT: "objects"}
_OVER_TIME = (".lowest", ".mean", ".highest")
"""What a gauge's name ends with where it is not its last value."""


class Table(Strict):
    """The table that is printed; statistics are over the seeds of each of its cells."""

    by: list[Coordinate] = Field(
        default=["system"], min_length=1, max_length=8, description="coordinates that make the lines"
    )
    across: Coordinate | None = Field(
        default=None, description="coordinate that makes the columns; absent: the shown values do"
    )
    show: list[Text] = Field(
        default=["slowdown"],
        min_length=1,
        max_length=20,
        description=(
            "metrics, slowdown, slowdown_pct, rank, convergence_s, early_promotion_share, early_promotions,"
            " status, gauge.X, counter.X, object.OBJECT.X, window.NAME.X, REF.speedup"
        ),
    )
    sort: Literal["file", "best"] = Field(
        default="file", description="order of the lines: as in the file, or by the first shown value"
    )


class Sweep(Axes):
    """A sweep: every combination of systems, configs, workloads, machines and conditions, measured."""

    name: Name = Field(description="name of the sweep and of its results folder")
    description: Text = Field(default="no description", description="one line on the sweep")
    parts: list[Part] = Field(default=[], max_length=1000, description="matrices of their own")
    relative_to: list[Reference] = Field(
        default=[], max_length=100, description="what rows are compared with"
    )
    table: Table = Field(default=Table(), description="the table that is printed")
    mode: Literal["fast", "reference"] = Field(
        default="fast", description="fast, or reference: every access, for small workloads"
    )
    noise: Literal["independent", "paired"] = Field(
        default="independent", description="paired: configs at one seed share their random numbers"
    )
    observe: Observe = Field(
        default=[],
        description=(
            "what is counted beside metrics: counters: counter.X; objects: object.OBJECT.X of each object of"
            " the workload; gauges: gauge.X.lowest, gauge.X.mean and gauge.X.highest over time"
        ),
    )
    windows: list[Window] = Field(
        default=[],
        max_length=100,
        description=(
            "stretches of each run that figures of its time series are of: window.NAME.COLUMN.mean, .lowest"
            " and .highest"
        ),
    )
    timelines: Flag = Field(default=False, description="whether time series are kept")
    timeline_points: Integer = Field(
        default=200, ge=10, le=100_000, description="points of a time series, from which convergence is read"
    )

    _folder: Path = PrivateAttr(default=Path())
    # Read once, so that a sweep stays what it was when its files change under it.
    _workloads: dict[str, Workload] = PrivateAttr(default_factory=dict)
    _machines: dict[str, Machine] = PrivateAttr(default_factory=dict)

    def mistakes(self) -> Iterator[tuple[Place, str]]:
        """Every matrix has what it needs; names are there once."""
        if self.name.startswith(CACHE):
            yield ("name",), f"'{self.name}' is the cache's place; 'my-{self.name}' is free"
        for place, axes in self.matrices():
            for key, what in (("systems", Axes), ("workloads", Axes), ("machines", Axes)):
                if getattr(axes, key) is None:
                    yield (*place, key), f"is missing: {what.model_fields[key].description}"
            if axes.ratios is None and axes.fast_bytes is None:
                yield (*place, "ratios"), "is missing: fast:slow shares of the footprint, or fast_bytes"
            for key in ("configs", "overrides", "contention"):
                yield from _twice((*place, key), [entry.name for entry in getattr(axes, key) or ()])
        yield from _twice(("windows",), [window.name for window in self.windows])
        yield from _twice(("parts",), [part.name for part in self.parts])
        yield from _twice(("relative_to",), [reference.label for reference in self.relative_to])

    def matrices(self) -> list[tuple[Place, Axes]]:
        """The matrices with the place that each has in the file: the parts, or the sweep itself."""
        if not self.parts:
            return [((), self)]
        return [(("parts", number), self.merged(part)) for number, part in enumerate(self.parts)]

    def workload(self, name_or_path: str) -> Workload:
        """The workload that the sweep names; paths are relative to its file."""
        if name_or_path not in self._workloads:
            self._workloads[name_or_path] = load_workload(name_or_path, self._folder)
        return self._workloads[name_or_path]

    def machine(self, name_or_path: str) -> Machine:
        """The machine that the sweep names; paths are relative to its file."""
        if name_or_path not in self._machines:
            self._machines[name_or_path] = load_machine(name_or_path, self._folder)
        return self._machines[name_or_path]


def load_sweep(name_or_path: str) -> Sweep:
    """Reads a sweep by name (`./sweeps` first, then the packaged ones) or path.

    Raises `InputError`: for the file, for the files that it names, and where these do not fit together.
    Campaigns are looked for when rows are planned, because where results are is not in the file.
    """
    path = find("sweeps", name_or_path)

    def outside(sweep: Sweep) -> list[tuple[Place, str]]:
        sweep._folder = path.parent
        return list(dict.fromkeys(outside_mistakes(sweep)))

    return load(Sweep, path, outside)


def systems_of(axes: Axes) -> list[str]:
    """The systems of a matrix, `all` replaced by every registered one."""
    from tiertune.engine import systems

    named = axes.systems or []
    every = [info.name for info in systems()] if ALL in named else []
    return list(dict.fromkeys([*(name for name in named if name != ALL), *every]))


def configs_of(axes: Axes) -> list[ConfigEntry]:
    """The configs of a matrix; without any, every knob at its default."""
    return axes.configs or [ConfigEntry(name=DEFAULT)]


def known_values(sweep: Sweep) -> list[str]:
    """Everything that a table can show, gauges and objects aside: systems name the first when they run."""
    from tiertune.engine import metrics, observed

    measured = [metric.name for metric in metrics()]
    relative = [
        f"{reference.label}.{name}" for reference in sweep.relative_to for name in (*RELATIVE, *measured)
    ]
    counted = [f"{COUNTER}{figure.name}" for figure in observed()["counter"]]
    observed_here = counted if "counters" in sweep.observe else []
    return [*DERIVED, *measured, *observed_here, *window_figures(sweep.windows), *relative]


def unmeasured(sweep: Sweep, name: str, values: Sequence[str]) -> str | None:
    """What is wrong with a figure that is none of `values`; None where nothing is."""
    if name in values:
        return None
    over_time = name.startswith(GAUGE) and name.endswith(_OVER_TIME)
    wanted = "gauges" if over_time else _OBSERVED_BY.get(f"{name.partition('.')[0]}.")
    if wanted is not None and wanted not in sweep.observe:
        return f"'{name}' is counted where it is asked for; add observe: [{wanted}]"
    if name.startswith(GAUGE):
        return None
    if name.startswith(OBJECT):
        return _no_object_figure(name)
    return f"'{name}' is nothing that a sweep measures; did you mean '{nearest(name, values)}'?"


def _no_object_figure(name: str) -> str | None:
    """Objects have their names from workloads as they are prepared; what is said of each is known before."""
    from tiertune.engine import observed

    figures = [figure.name for figure in observed()["object"]]
    of, _, figure = name.removeprefix(OBJECT).rpartition(".")
    if of and figure in figures:
        return None
    near = nearest(figure, figures)
    return f"'{name}' is no figure of an object; write {OBJECT}NAME.FIGURE, such as {OBJECT}NAME.{near}"


def _twice(place: Place, labels: list[str]) -> Iterator[tuple[Place, str]]:
    for number, label in enumerate(labels):
        if label in labels[:number]:
            yield (*place, number, "name"), f"'{label}' is there twice; '{label}-{number}' is free"


def outside_mistakes(sweep: Sweep) -> Iterator[tuple[Place, str]]:
    """Where the files and systems that a sweep names are not there, or do not fit together."""
    from tiertune.engine import systems

    known = {info.name: info for info in systems()}
    for _, axes in sweep.matrices():
        known |= _compositions(axes.systems or [], known)
    for where, axes in sweep.matrices():
        for key in ("systems", "workloads", "machines", "configs"):
            # What a part takes from the sweep is wrong there, and said once.
            inherited = where and getattr(sweep.parts[int(where[1])], key) is None
            place = (key,) if inherited else (*where, key)
            if key == "systems":
                yield from _unknown_systems(place, axes.systems or [], known)
            elif key == "configs":
                yield from _config_mistakes(place, axes, known)
            else:
                yield from _file_mistakes(sweep, place, key, getattr(axes, key))
    for number, reference in enumerate(sweep.relative_to):
        yield from _reference_mistakes(sweep, ("relative_to", number), reference)
    values = known_values(sweep)
    for number, shown in enumerate(sweep.table.show):
        if text := unmeasured(sweep, shown, values):
            yield ("table", "show", number), text


def _compositions(names: Iterable[str], known: dict[str, SystemInfo]) -> dict[str, SystemInfo]:
    """Systems that hold systems: more of them are sensible than are listed."""
    from tiertune.engine import EngineError, system

    found = {}
    for name in names:
        if "+" in name and name not in known:
            # What makes no sense is said with the other unknown names.
            with contextlib.suppress(EngineError):
                found[name] = system(name)
    return found


def _unknown_systems(
    place: Place, names: Iterable[str], known: dict[str, Any]
) -> Iterator[tuple[Place, str]]:
    for number, name in enumerate(names):
        if name not in known and name != ALL:
            yield (*place, number), f"there is no system '{name}'; did you mean '{nearest(name, known)}'?"


def _file_mistakes(sweep: Sweep, place: Place, key: str, names: list[str]) -> Iterator[tuple[Place, str]]:
    read = sweep.workload if key == "workloads" else sweep.machine
    called: dict[str, str] = {}
    for number, name in enumerate(names):
        try:
            found = read(name).name
        except InputError as error:
            yield (*place, number), "; ".join(error.sentences)
            continue
        if called.setdefault(found, name) != name:
            yield (*place, number), f"'{name}' is called {found} like '{called[found]}'; rename one"


def _config_mistakes(place: Place, axes: Axes, known: dict[str, SystemInfo]) -> Iterator[tuple[Place, str]]:
    """Systems and knobs that nothing here has, and values that a system refuses."""
    from tiertune.engine import EngineError, check_config

    here = [name for name in systems_of(axes) if name in known]
    for number, entry in enumerate(axes.configs or ()):
        at = (*place, number)
        yield from _unknown_systems((*at, "systems"), entry.systems or (), known)
        for position, name in enumerate(entry.systems or ()):
            if name in known and name not in here:
                yield (*at, "systems", position), f"'{name}' is none of the systems of this matrix"
        meant = [known[name] for name in here if entry.systems is None or name in entry.systems]
        if not meant:
            continue
        knobs = list(dict.fromkeys(knob.name for info in meant for knob in info.knobs))
        names: list[tuple[Place, str]] = [(("knobs", name), name) for name in entry.knobs]
        names += [(("defaults", index), name) for index, name in enumerate(entry.defaults)]
        unknown = [(inner, name) for inner, name in names if name not in knobs]
        for inner, name in unknown:
            near = nearest(name, knobs)
            hint = f"did you mean '{near}'?" if near else "they have no knobs"
            yield (*at, *inner), f"'{name}' is no knob of the systems that this config is for; {hint}"
        for info in meant if entry.knobs and not unknown else ():
            if all(any(knob.name == name for knob in info.knobs) for name in entry.knobs):
                try:
                    check_config(info.name, entry.knobs)
                except EngineError as error:
                    wrong = [name for name in entry.knobs if re.search(rf"\b{re.escape(name)}\b", str(error))]
                    yield (*at, "knobs", *wrong[:1]), str(error)


def _names(read: Callable[[str], Workload | Machine], files: list[str] | None) -> set[str]:
    found = set()
    for file in files or ():
        # A file that cannot be read has its own sentence.
        with contextlib.suppress(InputError):
            found.add(read(file).name)
    return found


def _reference_mistakes(sweep: Sweep, place: Place, reference: Reference) -> Iterator[tuple[Place, str]]:
    """A named row that no matrix has."""
    there: dict[str, set[str]] = {key: set() for key in ("system", "config", "workload", "machine")}
    for _, axes in sweep.matrices():
        there["system"] |= set(systems_of(axes))
        there["workload"] |= _names(sweep.workload, axes.workloads)
        there["machine"] |= _names(sweep.machine, axes.machines)
        for entry in configs_of(axes):
            there["config"].add(entry.name)
            ablated = reference.config is not None and reference.config.startswith(f"{entry.name}-without-")
            if entry.ablate and ablated and reference.config is not None:
                there["config"].add(reference.config)
    for key, names in there.items():
        given = getattr(reference, key)
        if given is not None and given not in names:
            near = nearest(given, sorted(names))
            yield (*place, key), f"no row has the {key} '{given}'; did you mean '{near}'?"
