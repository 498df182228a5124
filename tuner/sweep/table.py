"""The printed table of a sweep: lines, columns and cells as text, cut into pieces that fit a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from tiertune.tuner.report.numbers import number
from tiertune.tuner.sweep.definition import Table
from tiertune.tuner.sweep.measured import Group, Spread, spread
from tiertune.tuner.sweep.quantity import MINIMIZE, direction_of, leading
from tiertune.tuner.sweep.row import NOT_APPLICABLE
from tiertune.tuner.trial import Status
from tiertune.units import binary_unit

SHORT = {NOT_APPLICABLE: "n/a"}
GAP = 2
SMALL = 0.01


@dataclass(frozen=True)
class Grid:
    """A table as text; the first `keys` columns name the line, the others belong together by `across`."""

    columns: list[str]
    rows: list[list[str]]
    keys: int
    bunches: list[int]
    """How many columns each value of `across` takes; a piece never cuts through one."""


@dataclass(frozen=True)
class _Cell:
    """What one line has for one column value: its groups' figures together."""

    spreads: dict[str, Spread]
    statuses: dict[str, int]
    partly: frozenset[str]
    """Figures that some of the rows measured have not."""


class Detail(IntEnum):
    """How much a cell says of its seeds."""

    MEDIANS = 0
    LARGE_RANGES = 1
    """Lowest and highest where they differ by more than `SMALL` of the median, in three digits."""
    RANGES = 2


def grid_of(
    table: Table, groups: Sequence[Group], directions: dict[str, str], detail: Detail = Detail.RANGES
) -> Grid:
    """The table over `groups`; `directions` has `minimize` or `maximize` by metric, for `rank` and the order.

    A cell that takes in several groups, because a coordinate of theirs is neither in `by` nor `across`, shows
    the median of their medians.
    """
    lines = list(dict.fromkeys(_key(table.by, group) for group in groups))
    heads = list(dict.fromkeys(group.at.value(table.across) if table.across else "" for group in groups))
    members: dict[tuple[tuple[str, ...], str], list[Group]] = {}
    for group in groups:
        head = group.at.value(table.across) if table.across else ""
        members.setdefault((_key(table.by, group), head), []).append(group)
    cells = {place: _cell(found) for place, found in members.items()}
    first = leading(table)
    lower = direction_of(first, directions) == MINIMIZE
    ranks = {head: _ranks(cells, lines, head, first, lower) for head in heads}
    if table.sort == "best":
        lines.sort(key=lambda line: _score(cells, line, heads, first, lower))
    rows = []
    for line in lines:
        row = list(line)
        for head in heads:
            cell = cells.get((line, head))
            row += [_text(name, cell, ranks[head].get(line), detail) for name in table.show]
        rows.append(row)
    titles = []
    for head in heads:
        if head and len(table.show) > 1:
            titles += [f"{head if not number else ''}\n{name}" for number, name in enumerate(table.show)]
        else:
            titles += [head] if head else table.show
    return Grid([*table.by, *titles], rows, len(table.by), [len(table.show)] * len(heads))


def pieces(grid: Grid, width: int) -> list[tuple[list[str], list[list[str]]]]:
    """The grid cut into tables at most `width` wide, each with the naming columns; a bunch stays together.

    Without `across` there is one bunch, which is cut anywhere rather than printed too wide.
    """
    bunches = grid.bunches if len(grid.bunches) > 1 else [1] * sum(grid.bunches)
    widths = [
        max(len(text) for text in column) for column in zip(_heads(grid.columns), *grid.rows, strict=True)
    ]
    names = sum(widths[: grid.keys]) + GAP * grid.keys
    made: list[list[int]] = []
    used, start = 0, grid.keys
    for bunch in bunches:
        wide = sum(widths[start : start + bunch]) + GAP * bunch
        if not made or used + wide > width + GAP:
            made.append([])
            used = names
        made[-1] += range(start, start + bunch)
        used += wide
        start += bunch
    key_columns = list(range(grid.keys))
    return [
        (
            [grid.columns[i] for i in key_columns + some],
            [[row[i] for i in key_columns + some] for row in grid.rows],
        )
        for some in made
    ]


def widest_range(groups: Sequence[Group], names: Sequence[str]) -> float:
    """The largest distance between lowest and highest of a figure, as a share of its median."""
    shares = [0.0]
    for group in groups:
        found = [group.spreads[name] for name in names if name in group.spreads]
        shares += [(one.highest - one.lowest) / abs(one.median) for one in found if one.median]
    return max(shares)


def _heads(columns: Iterable[str]) -> list[str]:
    """Widest line of each title."""
    return [max(title.split("\n"), key=len) for title in columns]


def _key(by: Sequence[str], group: Group) -> tuple[str, ...]:
    return tuple(group.at.value(name) for name in by)


def _cell(groups: Sequence[Group]) -> _Cell:
    statuses: dict[str, int] = {}
    for group in groups:
        for status, count in group.statuses.items():
            statuses[status] = statuses.get(status, 0) + count
    names = dict.fromkeys(name for group in groups for name in group.spreads)
    partly = frozenset(name for name in names if any(lacks(group, name) for group in groups))
    if len(groups) == 1:
        return _Cell(groups[0].spreads, statuses, partly)
    spreads = {
        name: spread([group.spreads[name].median for group in groups if name in group.spreads])
        for name in names
    }
    return _Cell(spreads, statuses, partly)


def lacks(group: Group, name: str) -> bool:
    """Whether some rows of a group were measured and have no such figure."""
    found = group.spreads.get(name)
    return (found.seeds if found else 0) < group.statuses.get(Status.OK, 0)


def _ranks(
    cells: dict[tuple[tuple[str, ...], str], _Cell],
    lines: Sequence[tuple[str, ...]],
    head: str,
    first: str,
    lower: bool,
) -> dict[tuple[str, ...], int]:
    """1 is the best; equal figures share a rank."""
    values = {
        line: cells[line, head].spreads[first].median
        for line in lines
        if (line, head) in cells and first in cells[line, head].spreads
    }
    signed = {line: value if lower else -value for line, value in values.items()}
    return {line: 1 + sum(other < value for other in signed.values()) for line, value in signed.items()}


def _score(
    cells: dict[tuple[tuple[str, ...], str], _Cell],
    line: tuple[str, ...],
    heads: Sequence[str],
    first: str,
    lower: bool,
) -> tuple[int, float]:
    """Lines with most columns measured first, then by the mean over columns, geometric where it can be."""
    values = [
        cells[line, head].spreads[first].median
        for head in heads
        if (line, head) in cells and first in cells[line, head].spreads
    ]
    if not values:
        return len(heads), 0.0
    positive = all(value > 0 for value in values)
    mean = sum(math.log(value) if positive else value for value in values) / len(values)
    return len(heads) - len(values), mean if lower else -mean


def _text(name: str, cell: _Cell | None, rank: int | None, detail: Detail) -> str:
    if cell is None:
        return "-"
    if name == "status":
        return ", ".join(f"{count} {SHORT.get(status, status)}" for status, count in cell.statuses.items())
    if name == "rank":
        return "-" if rank is None else str(rank)
    found = cell.spreads.get(name)
    if found is None:
        failed = [status for status in cell.statuses if status != Status.OK]
        return SHORT.get(failed[0], failed[0]) if failed and Status.OK not in cell.statuses else "-"
    size, unit = 1.0, ""
    if name.endswith("_bytes") and "." not in name:
        factor, spelled = binary_unit(found.median)
        size, unit = float(factor), f" {spelled}"
    shown = number if detail is Detail.RANGES else _short
    middle, low, high = (shown(value / size) for value in (found.median, found.lowest, found.highest))
    small = found.highest - found.lowest <= SMALL * abs(found.median)
    alone = low == high or detail is Detail.MEDIANS or (small and detail is Detail.LARGE_RANGES)
    text = middle if alone else f"{middle} ({low}-{high})"
    lost = sum(count for status, count in cell.statuses.items() if status != Status.OK)
    return f"{text}{unit}{'*' if lost or name in cell.partly else ''}"


def _short(value: float) -> str:
    if (value == round(value) and abs(value) > 99) or abs(value) >= 999.5:
        return number(round(value))
    return f"{value:#.3g}".rstrip(".")
