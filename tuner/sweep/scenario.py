"""What a sweep sets against each other: its contenders, and the scenarios in which they stand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tiertune.tuner.sweep.measured import MeasuredRow
from tiertune.tuner.sweep.row import Coordinates

CONTENDER = "contender"
"""The axis of systems with their configs."""

_OTHERS = ("workload", "fast", "threads", "contention", "page_size", "machine", "override")
"""Coordinates of a scenario, those first that a reader asks for first."""

ORDERED = ("fast", "threads", "page_size", "contention")
"""Axes along which something grows, so that a line over them means something."""


@dataclass(frozen=True)
class Axis:
    """A coordinate that varies, and its values in order: by size where they have one, else as in the file."""

    name: str
    values: tuple[str, ...]
    called: str = ""

    @property
    def words(self) -> str:
        """As an axis of a figure or a head of a table has it."""
        return self.called or self.name.replace("_", " ")

    @property
    def sizes(self) -> list[float] | None:
        """The values as numbers, None where they have no common scale."""
        return _sizes(self.name, self.values)


@dataclass(frozen=True)
class Plane:
    """How a sweep is read: who is set against whom (`subject`) and in which scenarios (`scenes`).

    `contender_of` and `scene_of` name the places of a row; `contenders` are all there are, in their order.
    """

    subject: Axis
    contenders: tuple[str, ...]
    scenes: tuple[Axis, ...]
    rows: tuple[MeasuredRow, ...]
    contender_of: Callable[[Coordinates], str]

    def value(self, at: Coordinates, axis: str) -> str:
        """Where a row stands on an axis, in words."""
        return self.contender_of(at) if axis == CONTENDER else at.value(axis)

    def scene_of(self, at: Coordinates) -> tuple[str, ...]:
        """The scenario that a row is of."""
        return tuple(self.value(at, axis.name) for axis in self.scenes)

    @property
    def varying(self) -> list[Axis]:
        """All axes but that of contenders."""
        return [axis for axis in (self.subject, *self.scenes) if axis.name != CONTENDER]


def plane_of(rows: Sequence[MeasuredRow]) -> Plane:
    """How the rows that could run are read. Without two contenders, the axis with the most values is ordered.

    A coordinate that follows from another one tells nothing more and is no axis: the machine, where each
    workload has its own. Page sizes that each system has by itself are not set against each other.
    """
    shown = [row for row in rows if row.plan.run is not None]
    contender_of = _contenders(shown)
    contenders = tuple(dict.fromkeys(contender_of(row.at) for row in shown))
    columns = {name: [row.at.value(name) for row in shown] for name in (*_OTHERS, "part")}
    own = [contender_of(row.at) for row in shown]
    if len(contenders) > 1 and _follows(columns["page_size"], own):
        del columns["page_size"]
    if not _twice(shown, own, columns) and not _other_content(shown, columns):
        del columns["part"]
    axes: list[Axis] = []
    for name, values in columns.items():
        if len(set(values)) > 1 and not any(_follows(values, columns[axis.name]) for axis in axes):
            axes.append(Axis(name, _in_order(name, values), _called(name, values)))
    if len(contenders) > 1 or not axes:
        called = "system" if len({row.at.system for row in shown}) > 1 else "config"
        subject = Axis(CONTENDER, contenders, called)
        return Plane(subject, contenders, tuple(axes), tuple(shown), contender_of)
    subject = max(axes, key=lambda axis: len(axis.values))
    left = tuple(axis for axis in axes if axis is not subject)
    return Plane(subject, contenders, left, tuple(shown), contender_of)


def _sizes(name: str, values: Sequence[str]) -> list[float] | None:
    """Values of an axis as numbers, None where they are none; of a ratio, how often slow is fast."""
    from tiertune.units import parse_ratio, parse_size

    if name == "threads":
        return [float(value) for value in values]
    if name == "fast" and all(":" in value for value in values):
        return [slow / fast for fast, slow in map(parse_ratio, values)]
    if name == "page_size" or (name == "fast" and not any(":" in value for value in values)):
        return [float(parse_size(value)) for value in values]
    return None


def _contenders(rows: Sequence[MeasuredRow]) -> Callable[[Coordinates], str]:
    """What a row's system is called: with its config where it has several, by that alone if all are its."""
    configs: dict[str, set[str]] = {}
    for row in rows:
        configs.setdefault(row.at.system, set()).add(row.at.config)

    def called(at: Coordinates) -> str:
        if len(configs[at.system]) == 1:
            return at.system
        return at.config if len(configs) == 1 else f"{at.system}/{at.config}"

    return called


def _follows(values: Sequence[str], others: Sequence[str]) -> bool:
    """Whether each of `others` comes with one of `values` only."""
    return len(set(zip(others, values, strict=True))) == len(set(others))


def _twice(rows: Sequence[MeasuredRow], own: Sequence[str], columns: dict[str, list[str]]) -> bool:
    """Whether parts have rows that nothing else tells apart, such as overrides of the same name."""
    names = [name for name in columns if name != "part"]
    places = [
        (mine, row.at.seed, row.at.page_bytes, *(columns[name][number] for name in names))
        for number, (row, mine) in enumerate(zip(rows, own, strict=True))
    ]
    return len(set(places)) < len(places)


def _other_content(rows: Sequence[MeasuredRow], columns: dict[str, list[str]]) -> bool:
    """Whether parts mean different things by the same names, so that these are different scenarios."""
    names = [name for name in columns if name not in ("part", "page_size")]
    contents: dict[tuple[str, ...], tuple[object, ...]] = {}
    if len(set(columns["part"])) < 2:
        return False
    for number, row in enumerate(rows):
        if row.plan.run is not None:
            place = tuple(columns[name][number] for name in names)
            content = (*row.plan.run.setting.documents, row.plan.contention)
            if contents.setdefault(place, content) != content:
                return True
    return False


def _called(name: str, values: Sequence[str]) -> str:
    if name != "fast":
        return ""
    return "fast:slow memory" if any(":" in value for value in values) else "fast memory"


def _in_order(name: str, values: Sequence[str]) -> tuple[str, ...]:
    found = list(dict.fromkeys(values))
    sizes = _sizes(name, found)
    if sizes is None:
        return tuple(found)
    return tuple(value for _, value in sorted(zip(sizes, found, strict=True)))
