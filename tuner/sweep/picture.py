"""The figures of a sweep: lines over what grows, bars by contender, and who is how far behind where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from tiertune.tuner.report.figures import style
from tiertune.tuner.report.figures.heat import HeatCell, Side, heat
from tiertune.tuner.report.numbers import number
from tiertune.tuner.sweep.outcome import Estimate, Outcome, Standing, estimate
from tiertune.tuner.sweep.quantity import MINIMIZE, Quantity
from tiertune.tuner.sweep.scenario import ORDERED, Axis, Plane

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_LINES, MOST_PANELS = 8, 6
MOST_BARS = 40
COLUMNS = 3
MOST_HEAT_ROWS, MOST_HEAT_COLUMNS = 40, 16
LOG_FROM = 20.0
"""Values that differ by so many times and more stand on a logarithmic scale."""
LEAST_COLOUR, MOST_COLOUR = math.log(2.0), math.log(10.0)
"""The deepest colour of the map is for the largest difference, but for no less than a factor of two and for
all that is ten times as bad as the first, and worse."""
AIR = 1.07
"""What an axis is longer than what stands on it, so that no mark is cut."""
MOST_REACH = 1.6
"""An axis shows intervals up to this multiple of the largest mean."""
LONG_NAME = 7
"""With names of so many letters and more at its ticks, an axis has them slanted."""


class Point(NamedTuple):
    """A figure of one contender at one place."""

    place: tuple[str, ...]
    contender: str
    estimate: Estimate


def points_of(plane: Plane, quantity: Quantity) -> list[Point]:
    """Means over seeds of all that have the figure, in the order of the axes; places as `plane.varying`."""
    values: dict[tuple[tuple[str, ...], str], list[float]] = {}
    for row in plane.rows:
        if row.ok and quantity.name in row.values:
            place = tuple(row.at.value(axis.name) for axis in plane.varying)
            values.setdefault((place, plane.contender_of(row.at)), []).append(row.values[quantity.name])
    order = [
        (place, contender)
        for place in product(*(axis.values for axis in plane.varying))
        for contender in plane.contenders
    ]
    return [Point(*key, estimate(values[key])) for key in order if key in values]


def along_of(plane: Plane) -> Axis | None:
    """The axis that lines are drawn over: of those along which something grows, the one that varies most.

    None where there is none, or where it would take too many lines or panels.
    """
    grows = [axis for axis in plane.varying if axis.name in ORDERED]
    if not grows or len(plane.contenders) > MOST_LINES:
        return None
    along = max(grows, key=lambda axis: len(axis.values))
    panels = math.prod(len(axis.values) for axis in plane.varying if axis is not along)
    return along if panels <= MOST_PANELS else None


def lines(plane: Plane, along: Axis, quantity: Quantity, name: str) -> str:
    """A line for each contender over `along`, a panel for each combination of the others; empty without."""
    points = points_of(plane, quantity)
    if not points:
        return ""
    at = plane.varying.index(along)
    panels = list(dict.fromkeys(_without(point.place, at) for point in points))
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    legend_rows = -(-len(plane.contenders) // 4)
    height_in = 0.5 + 0.2 * legend_rows + (2.1 if rows > 1 else 2.7) * rows
    with style.canvas(height_in, rows, True, columns, True) as (figure, grid):
        for axes, panel in zip(grid, panels, strict=False):
            for turn, contender in enumerate(plane.contenders):
                mine = [p for p in points if p.contender == contender and _without(p.place, at) == panel]
                spots = [_spot(along, point.place[at]) for point in mine]
                _line(axes, spots, [point.estimate for point in mine], turn, contender)
            _ticks(axes, along)
            if panel:
                axes.set_title(", ".join(panel), fontsize=9.5)
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        _scale(grid[0], [point.estimate for point in points])
        figure.supxlabel(along.words, fontsize=10)
        figure.supylabel(quantity.label, fontsize=10, multialignment="center")
        if len(plane.contenders) > 1:
            handles, labels = grid[0].get_legend_handles_labels()
            figure.legend(handles, labels, loc="outside upper left", ncols=4, columnspacing=1.2)
        return style.to_svg(figure, name, escape(f"{quantity.words} over {along.words}"), _told(points))


def bars(outcome: Outcome, name: str) -> str:
    """A bar for each contender with its interval, a panel for each scenario; empty where none has a figure.

    With too many scenarios for panels, bars are of all of them, the best first.
    """
    scenes = [scene for scene in outcome.scenes if any(entry.estimate for entry in scene.entries)]
    if not scenes:
        return ""
    if len(scenes) > MOST_PANELS:
        return _ranking(outcome, name)
    order = _by_mean_place(outcome)[:MOST_BARS]
    columns = min(COLUMNS, len(scenes))
    rows = -(-len(scenes) // columns)
    height_in = 0.7 + rows * (0.45 + 0.22 * len(order))
    # Scenarios have scales of their own: what is slow in one would flatten another.
    with style.canvas(height_in, rows, False, columns, True) as (figure, grid):
        for axes, scene in zip(grid, scenes, strict=False):
            for entry in scene.entries:
                if entry.subject not in order:
                    continue
                spot = order.index(entry.subject)
                if entry.estimate is None:
                    axes.annotate(
                        "failed" if entry.standing is Standing.FAILED else "none", (0, spot), xytext=(3, 0),
                        textcoords="offset points", va="center", fontsize=8, color=style.BAD,
                    )  # fmt: skip
                else:
                    _bar(axes, spot, entry.estimate, entry.subject in scene.firsts)
            if scene.name:
                axes.set_title(scene.name, fontsize=9.5)
            _from_zero(axes, [entry.estimate for entry in scene.entries if entry.estimate])
            axes.grid(axis="y", visible=False)
        _upright(grid[0], order)
        for axes in grid[len(scenes) :]:
            axes.set_visible(False)
        figure.supxlabel(outcome.quantity.label, fontsize=10)
        return style.to_svg(
            figure, name, escape(f"{outcome.quantity.words} by {outcome.subject.words}"), _told_bars(outcome)
        )


def behind(outcome: Outcome, name: str) -> str:
    """How many times worse than the first everybody is in each scenario; empty where that says nothing."""
    subjects, scenes = _by_mean_place(outcome), outcome.scenes
    if min(len(subjects), len(scenes)) < 2 or not any(
        entry.times for scene in scenes for entry in scene.entries
    ):
        return ""
    turned = len(scenes) > len(subjects)
    long, short = (len(scenes), len(subjects)) if turned else (len(subjects), len(scenes))
    if long > MOST_HEAT_ROWS or short > MOST_HEAT_COLUMNS:
        return ""
    known = [abs(math.log(entry.times.value)) for scene in scenes for entry in scene.entries if entry.times]
    deepest = min(max([LEAST_COLOUR, *known]), MOST_COLOUR)
    entries = {(scene.place, entry.subject): entry for scene in scenes for entry in scene.entries}

    def cell_at(row: int, column: int) -> HeatCell:
        scene, subject = (scenes[row], subjects[column]) if turned else (scenes[column], subjects[row])
        entry = entries.get((scene.place, subject))
        if entry is None:
            return HeatCell(None, "-")
        framed = subject in scene.firsts
        if entry.standing is Standing.FIRST:
            return HeatCell(0.0, "1", framed)
        if entry.times is None:
            return HeatCell(None, "failed" if entry.standing is Standing.FAILED else "-")
        return HeatCell(-math.log(entry.times.value) / deepest, _times(entry.times.value), framed)

    by_scene = Side([scene.name for scene in scenes], ", ".join(axis.words for axis in outcome.axes))
    by_subject = Side(subjects, outcome.subject.words)
    rows, columns = (by_scene, by_subject) if turned else (by_subject, by_scene)
    told = "; ".join(
        f"{scene.name}: "
        + ", ".join(
            f"{entry.subject} {_times(entry.times.value) if entry.times else entry.standing}"
            for entry in scene.entries
        )
        for scene in scenes
    )
    title = f"{outcome.quantity.short}: times worse than the first"
    return heat(cell_at, rows, columns, name, escape(title), escape(told))


def _without(place: tuple[str, ...], at: int) -> tuple[str, ...]:
    return place[:at] + place[at + 1 :]


def _spot(along: Axis, value: str) -> float:
    sizes, turn = along.sizes, along.values.index(value)
    return float(turn) if sizes is None else sizes[turn]


def _line(axes: Axes, spots: Sequence[float], found: Sequence[Estimate], turn: int, contender: str) -> None:
    colour, shape, dash = style.line_look(turn)
    axes.plot(
        spots, [one.value for one in found], dash + shape, color=colour, markersize=4.5, linewidth=1.4,
        label=contender,
    )  # fmt: skip
    for spot, one in zip(spots, found, strict=True):
        if one.low is not None and one.high is not None:
            axes.plot([spot, spot], [one.low, one.high], color=colour, linewidth=1.2)


def _ticks(axes: Axes, along: Axis) -> None:
    sizes = along.sizes
    ticks = [(_spot(along, value), value) for value in along.values]
    if sizes is not None and min(sizes) > 0.0:
        axes.set_xscale("log")
        axes.minorticks_off()
        ticks = style.ticks_apart(ticks)
    slanted = sizes is None and max(map(len, along.values)) >= LONG_NAME
    axes.set_xticks([spot for spot, _ in ticks], [text for _, text in ticks], rotation=30 if slanted else 0)
    axes.margins(x=0.08)


def _scale(axes: Axes, found: Sequence[Estimate]) -> None:
    """From 0, so that differences look as large as they are; in powers where values are far apart."""
    values = [one.value for one in found]
    if min(values) > 0.0 and max(values) >= LOG_FROM * min(values):
        axes.set_yscale("log")
    elif min(values) >= 0.0:
        axes.set_ylim(0.0, _end(found))


def _end(found: Sequence[Estimate]) -> float:
    """Where an axis from 0 ends: with the intervals, unless they are so wide that they would flatten all."""
    highest = max(one.value for one in found)
    ends = [one.value if one.high is None else one.high for one in found]
    return AIR * min(max(ends), MOST_REACH * highest) or 1.0


def _bar(axes: Axes, spot: int, one: Estimate, first: bool) -> None:
    """Those that are first, or not told apart from it, are filled: print tells them without colours."""
    axes.barh(
        spot, one.value, height=0.62, facecolor=style.TUNED if first else style.GRID,
        edgecolor=style.TUNED if first else style.MUTED, linewidth=0.8,
    )  # fmt: skip
    if one.low is not None and one.high is not None:
        axes.plot([one.low, one.high], [spot, spot], color=style.INK, linewidth=1.4)


def _from_zero(axes: Axes, found: Sequence[Estimate]) -> None:
    if found and min(one.value for one in found) >= 0.0:
        axes.set_xlim(0.0, _end(found))


def _upright(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), list(names))
    axes.set_ylim(len(names) - 0.4, -0.6)


def _ranking(outcome: Outcome, name: str) -> str:
    """The best entries of all scenarios in one panel."""
    sign = 1.0 if outcome.quantity.direction in (MINIMIZE, "") else -1.0
    known = [
        (entry.estimate, f"{entry.subject}, {scene.name}", entry.subject in scene.firsts)
        for scene in outcome.scenes
        for entry in scene.entries
        if entry.estimate is not None
    ]
    known = sorted(known, key=lambda one: sign * one[0].value)[:MOST_BARS]
    with style.canvas(0.8 + 0.22 * len(known)) as (figure, (axes,)):
        for spot, (found, _, first) in enumerate(known):
            _bar(axes, spot, found, first)
        _from_zero(axes, [found for found, _, _ in known])
        axes.grid(axis="y", visible=False)
        _upright(axes, [text for _, text, _ in known])
        axes.set_xlabel(outcome.quantity.label)
        told = "; ".join(f"{text}: {number(found.value)}" for found, text, _ in known)
        return style.to_svg(figure, name, escape(f"{outcome.quantity.words}, the best"), escape(told))


def _by_mean_place(outcome: Outcome) -> list[str]:
    """Subjects by their mean place over scenarios; without a direction, in the order of the file."""
    subjects = list(dict.fromkeys(entry.subject for scene in outcome.scenes for entry in scene.entries))
    if not outcome.quantity.direction:
        return [value for value in outcome.subject.values if value in subjects]
    places: dict[str, list[int]] = {subject: [] for subject in subjects}
    for scene in outcome.scenes:
        for place, entry in enumerate(scene.entries):
            places[entry.subject].append(place)
    return sorted(subjects, key=lambda subject: sum(places[subject]) / len(places[subject]))


def _times(value: float) -> str:
    return f"{value:.2f}" if value < 10.0 else f"{value:.3g}"


def _told(points: Sequence[Point]) -> str:
    lines_: dict[str, list[str]] = {}
    for point in points:
        at = " ".join(point.place)
        lines_.setdefault(point.contender, []).append(f"{at} {number(point.estimate.value)}")
    return escape("; ".join(f"{contender}: {', '.join(found)}" for contender, found in lines_.items()))


def _told_bars(outcome: Outcome) -> str:
    told = []
    for scene in outcome.scenes:
        found = [f"{e.subject} {number(e.estimate.value)}" for e in scene.entries if e.estimate]
        told.append((f"{scene.name}: " if scene.name else "") + ", ".join(found))
    return escape("; ".join(told))
