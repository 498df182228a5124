"""A claim's figures as a picture, with the published ones beside them where they are printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tiertune.tuner.claims.check import Picture
from tiertune.tuner.claims.definition import PERFORMANCE, Claim
from tiertune.tuner.claims.figure import MissingRowError, chosen_by, figure_of
from tiertune.tuner.sweep.measured import Group

MOST_LINES = 14
HIGHEST_BARS_IN = 8.0


class Series(NamedTuple):
    """A line or a bar's group: its name, where its points are, their figures, and those published."""

    name: str
    at: list[str]
    values: list[float | None]
    published: list[float | None]


def picture_of(claim: Claim) -> Picture | None:
    """What is drawn of a claim: what it says, or the figures of its first check; None where nothing runs."""
    if claim.picture is not None:
        return claim.picture
    if not claim.checks:
        return None
    first = claim.checks[0]
    return Picture(metric=first.metric, per=first.per)


def series_of(picture: Picture, groups: Sequence[Group]) -> list[Series]:
    """The figures of the rows that a picture is of; a row without that figure leaves a gap."""
    try:
        chosen = chosen_by(picture.of, groups)
    except MissingRowError:
        return []
    published = {entry.name: entry.values for entry in picture.published}
    places = list(dict.fromkeys(_place(picture, group, chosen) for group in chosen))
    made = []
    for name in dict.fromkeys(group.at.value(picture.by) for group in chosen):
        found = [group for group in chosen if group.at.value(picture.by) == name]
        lines: dict[str, dict[str, Group]] = {}
        for group in found:
            line = lines.setdefault(f"{name} {_beside(picture, group, found)}".strip(), {})
            line[_place(picture, group, chosen)] = group
        for called, mine in lines.items():
            at = [place for place in places if place in mine]
            printed: list[float | None] = [*published.pop(name, [])]  # once, with the first of its lines
            printed += [None] * (len(at) - len(printed))
            figures = [_figure(mine[place], picture) for place in at]
            made.append(Series(called, at, figures, printed[: len(at)]))
    return made


def _beside(picture: Picture, group: Group, groups: Sequence[Group]) -> str:
    """What tells a row from others at the same place of its line: each has a line of its own."""
    if picture.over is None:
        return ""
    at = group.at.value(picture.over)
    rivals = [other for other in groups if other.at.value(picture.over) == at]
    if len(rivals) < 2:
        return ""
    own = {"page_bytes" if name == "page_size" else name for name in (picture.by, picture.over)}
    names = [name for name in group.at.__dataclass_fields__ if name not in (*own, "seed")]
    varying = [name for name in names if len({getattr(other.at, name) for other in rivals}) > 1]
    return " ".join(str(getattr(group.at, name)) for name in varying)


def _place(picture: Picture, group: Group, groups: Sequence[Group]) -> str:
    """Where a row stands on its line; for bars, in what it differs from others beside the bars' own name."""
    if picture.over is not None:
        return group.at.value(picture.over)
    own = "page_bytes" if picture.by == "page_size" else picture.by
    names = [name for name in group.at.__dataclass_fields__ if name not in ("part", "seed", own)]
    # A system that has its own config is told apart by its name already.
    others = [other for other in groups if other.at.value(picture.by) == group.at.value(picture.by)]
    varying = [name for name in names if len({getattr(other.at, name) for other in others}) > 1]
    return " ".join(str(getattr(group.at, name)) for name in varying)


def _figure(group: Group, picture: Picture) -> float | None:
    try:
        return figure_of(group, picture.metric, picture.per)
    except MissingRowError:
        return None


def draw(picture: Picture, series: Sequence[Series], name: str) -> str:
    """The picture as SVG; empty text where no row has its figure."""
    shown = [one for one in series if any(value is not None for value in one.values)][:MOST_LINES]
    if not shown:
        return ""
    label = label_of(picture)
    return _lines(picture, shown, name, label) if picture.over else _bars(picture, shown, name, label)


def label_of(picture: Picture) -> str:
    """What the figures are, with their unit where the engine declares one: `fast latency (ns)`."""
    from tiertune import engine
    from tiertune.tuner.report.figures.comparison import metric_words

    if picture.per is not None:
        return f"{picture.metric} / {picture.per}"
    if picture.metric == PERFORMANCE:
        return "performance (1 = all-fast)"
    units = {declared.name: declared.unit for declared in engine.metrics()}
    return metric_words(picture.metric, units.get(picture.metric, ""))


def _lines(picture: Picture, series: Sequence[Series], name: str, label: str) -> str:
    from tiertune.tuner.report.figures import style

    places = list(dict.fromkeys(place for one in series for place in one.at))
    with style.canvas(3.6) as (figure, (axes,)):
        for number, one in enumerate(series):
            colour, shape, dash = style.line_look(number)
            points = [(places.index(at), value) for at, value in zip(one.at, one.values, strict=True)]
            known = [(place, value) for place, value in points if value is not None]
            axes.plot(
                [place for place, _ in known], [value for _, value in known], dash + shape, color=colour,
                markersize=5, label=one.name,
            )  # fmt: skip
            printed = [
                (places.index(a), v) for a, v in zip(one.at, one.published, strict=True) if v is not None
            ]
            axes.plot(
                [place for place, _ in printed], [value for _, value in printed], ":" + shape, color=colour,
                markerfacecolor="none", linewidth=1.0, markersize=7,
            )  # fmt: skip
        axes.set_xticks(range(len(places)), places, rotation=30 if max(map(len, places)) > 8 else 0)
        axes.set_xlabel(str(picture.over).replace("_", " "))
        axes.set_ylabel(label)
        _scale(picture, axes)
        figure.legend(loc="outside upper left", ncols=4, columnspacing=1.2, handletextpad=0.4)
        return style.to_svg(figure, name, f"{label} over {picture.over}", _told(series))


def _bars(picture: Picture, series: Sequence[Series], name: str, label: str) -> str:
    from tiertune.tuner.report.figures import style

    rows = [
        (f"{one.name} {at}".strip(), value, printed)
        for one in series
        for at, value, printed in zip(one.at, one.values, one.published, strict=True)
        if value is not None
    ][:40]
    height_in = min(HIGHEST_BARS_IN, 0.9 + 0.26 * len(rows))
    with style.canvas(height_in) as (figure, (axes,)):
        spots = list(range(len(rows)))
        axes.barh(spots, [value for _, value, _ in rows], color=style.TUNED, height=0.62, label="here")
        printed = [
            (value, spot) for spot, (_, _, value) in zip(spots, rows, strict=True) if value is not None
        ]
        if printed:
            axes.plot(
                [value for value, _ in printed], [spot for _, spot in printed], "D", color=style.DEFAULT,
                markerfacecolor="none", markersize=7, markeredgewidth=1.8, label="published",
            )  # fmt: skip
            figure.legend(loc="outside upper left", ncols=2)
        axes.set_yticks(spots, [text for text, _, _ in rows])
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set_xlabel(label)
        if picture.log and all(value > 0 for _, value, _ in rows):
            axes.set_xscale("log")
        return style.to_svg(figure, name, label, _told(series))


def _scale(picture: Picture, axes: object) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    if picture.log and axes.get_ylim()[0] > 0:
        axes.set_yscale("log")
    elif picture.metric != PERFORMANCE and axes.get_ylim()[0] > 0:
        axes.set_ylim(bottom=0)


def _told(series: Sequence[Series]) -> str:
    return "; ".join(
        f"{one.name}: " + ", ".join("none" if value is None else f"{value:.4g}" for value in one.values)
        for one in series
    )
