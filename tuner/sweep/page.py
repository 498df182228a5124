"""The page of a sweep: who is first where, in figures and tables, with every row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tiertune.tuner.report.environment import Figure, report_environment
from tiertune.tuner.report.files import write_whole
from tiertune.tuner.report.numbers import number
from tiertune.tuner.report.plain import csv_text
from tiertune.tuner.sweep.definition import Sweep
from tiertune.tuner.sweep.measured import MeasuredRow, groups_of
from tiertune.tuner.sweep.outcome import Outcome, outcome_of
from tiertune.tuner.sweep.picture import MOST_BARS, MOST_PANELS, along_of, bars, behind, lines, points_of
from tiertune.tuner.sweep.quantity import Quantity, leading, quantity_of
from tiertune.tuner.sweep.row import NOT_APPLICABLE
from tiertune.tuner.sweep.scenario import CONTENDER, Plane, plane_of
from tiertune.tuner.sweep.verdict import verdict_of, with_interval
from tiertune.tuner.trial import Status

Data = dict[str, Any]
PAGE = "report.html"
MOST_FIGURES = 3
"""So many of the figures that the table shows are drawn, those first that it shows first."""

NOT_MEASURED = (
    "Real hardware: every number comes from the modelled machine; its file has the source of each figure.",
    "Other workloads, machines and settings than those above, nor what lies between points of a line.",
)
TUNING = "What tuning would gain: each system ran with the settings that its config says."
ONE_SEED = "The luck of the seed: there was one, so nothing has an interval and no order is shown beyond it."
INTERVALS = "Intervals are of each figure by itself: of a hundred, about five are off by chance."

_COORDINATES = (
    *("part", "system", "config", "workload", "override", "machine", "fast", "threads", "contention"),
    "page_size",
)


def write_page(folder: Path, sweep: Sweep, rows: Sequence[MeasuredRow], reproduce: Sequence[str]) -> Path:
    """Writes report.html, whole or not at all; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / PAGE, render_html(sweep, rows, reproduce))
    return folder / PAGE


def render_html(sweep: Sweep, rows: Sequence[MeasuredRow], reproduce: Sequence[str]) -> str:
    """The page as HTML text; equal rows give equal text."""
    from tiertune import engine
    from tiertune.tuner.sweep.files import codes_of

    plane = plane_of(rows)
    outcome = outcome_of(plane, quantity_of(leading(sweep.table)))
    statuses = Counter(str(row.result.status) for row in rows)
    # Never run is not failed: what cannot run is told apart from what did not end well.
    failed = len(rows) - statuses[Status.OK] - statuses[NOT_APPLICABLE]
    environment = report_environment()
    environment.filters.update(with_interval=lambda one: "-" if one is None else with_interval(one))
    return environment.get_template("sweep.html.j2").render(
        sweep=sweep,
        verdict=verdict_of(outcome, failed, len(rows)),
        outcome=outcome,
        ordered=len(outcome.subject.values) > 1,
        multiplied=any(entry.times for scene in outcome.scenes for entry in scene.entries),
        figures=figures_of(sweep, rows),
        facts=_facts(rows),
        statuses=statuses,
        reasons=_reasons(rows),
        conditions=_conditions(sweep, rows),
        table=_rows(sweep, rows),
        versions=[
            ("engine", engine.version()),
            ("engine's sources", engine.sources()),
            *((f"file of {name}", code[:12]) for name, code in codes_of(rows).items()),
        ],
        not_measured=_not_measured(sweep, outcome),
        reproduce=reproduce,
    )


def figures_of(sweep: Sweep, rows: Sequence[MeasuredRow]) -> list[Figure]:
    """The figures that suit what varies: each quantity over what grows or by contender, then who is how far
    behind."""
    plane = plane_of(rows)
    there = {name for row in rows for name in row.values}
    shown = list(dict.fromkeys([leading(sweep.table), *(name for name in sweep.table.show if name in there)]))
    quantities = [quantity_of(name) for name in shown][:MOST_FIGURES]
    made = [_drawn(sweep, plane, quantity) for quantity in quantities]
    outcome = outcome_of(plane, quantities[0])
    name = _plain(f"behind-{quantities[0].name}")
    told = (
        f"By {quantities[0].words}, on the same seeds. Framed: the first of its scenario, and who is not told"
        " apart from it. Orange is behind, the darker the further; purple is ahead, as yardsticks may be;"
        " grey failed, or is not there."
    )
    title = "Times worse than the first of each scenario"
    made.append(_figure(sweep, name, title, told, behind(outcome, name), order_rows(outcome)))
    return [figure for figure in made if figure.svg]


def order_rows(outcome: Outcome) -> list[list[object]]:
    """The order in every scenario, heads first."""
    heads = [*(axis.name for axis in outcome.axes), outcome.subject.name, outcome.quantity.name]
    heads += ["low", "high", "seeds", "times_worse", "times_low", "times_high", "standing"]
    lines_: list[list[object]] = [list(heads)]
    for scene in outcome.scenes:
        for entry in scene.entries:
            mean, times = entry.estimate, entry.times
            ends = [mean.value, mean.low, mean.high, mean.seeds] if mean else [None, None, None, 0]
            worse = [times.value, times.low, times.high] if times else [None, None, None]
            lines_.append([*scene.place, entry.subject, *ends, *worse, str(entry.standing)])
    return lines_


def _drawn(sweep: Sweep, plane: Plane, quantity: Quantity) -> Figure:
    along = along_of(plane)
    if along is None:
        name = _plain(f"bars-{quantity.name}")
        outcome = outcome_of(plane, quantity)
        title = f"{quantity.words} by {outcome.subject.words}"
        told = "Means over seeds; lines are 95 % intervals. " if outcome.seeds > 1 else "One seed. "
        if quantity.direction:
            told += "Blue: the first, and who is not told apart from it."
        panels = len(outcome.scenes) <= MOST_PANELS
        drawn = len(outcome.subject.values) * (1 if panels else len(outcome.scenes))
        if drawn > MOST_BARS:
            told += f" At most {MOST_BARS} are drawn; the tables have all."
        return _figure(sweep, name, title, told, bars(outcome, name), order_rows(outcome))
    name = _plain(f"along-{quantity.name}")
    points = points_of(plane, quantity)
    heads = [*(axis.name for axis in plane.varying), CONTENDER, quantity.name, "low", "high", "seeds"]
    text = [
        [
            *one.place,
            one.contender,
            one.estimate.value,
            one.estimate.low,
            one.estimate.high,
            one.estimate.seeds,
        ]
        for one in points
    ]
    told = "One seed." if all(one.estimate.seeds == 1 for one in points) else (
        "Means over seeds; upright lines are 95 % intervals, which may be smaller than the marks."
    )  # fmt: skip
    svg = lines(plane, along, quantity, name)
    return _figure(sweep, name, f"{quantity.words} over {along.words}", told, svg, [heads, *text])


def _figure(
    sweep: Sweep, name: str, title: str, caption: str, svg: str, rows: Sequence[Sequence[object]]
) -> Figure:
    from markupsafe import Markup

    title = title[:1].upper() + title[1:]
    return Figure(name, title, caption.strip(), Markup(svg), csv_text(rows), f"{sweep.name}-{name}.csv")


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _facts(rows: Sequence[MeasuredRow]) -> list[tuple[str, str]]:
    """What was swept: each coordinate with its values."""
    facts = []
    for name in (*_COORDINATES, "seed"):
        values = list(dict.fromkeys(row.at.value(name) for row in rows))
        if name != "part" or len(values) > 1:
            facts.append((name.replace("_", " "), _several(values)))
    return facts


def _several(values: Sequence[str]) -> str:
    """All values, or with many of them the first, the last and how many."""
    if len(values) <= 12:
        return ", ".join(value or "-" for value in values)
    return f"{', '.join(values[:4])} ... {values[-1]} ({len(values)})"


def _reasons(rows: Sequence[MeasuredRow]) -> list[tuple[str, str, int]]:
    """Why rows did not run or failed: status, sentence, how many."""
    found = Counter((str(row.result.status), row.said or "") for row in rows if row.said or not row.ok)
    return [(status, error, count) for (status, error), count in found.items()]


def _varying(rows: Sequence[MeasuredRow]) -> list[str]:
    names = [name for name in _COORDINATES if len({row.at.value(name) for row in rows}) > 1]
    return names or ["system"]


def _quantities(sweep: Sweep, rows: Sequence[MeasuredRow]) -> list[Quantity]:
    """What tables have: what the sweep shows, slowdowns, and the workloads' own metrics."""
    own = [row.objective.metric for row in rows if row.objective is not None]
    names = dict.fromkeys([leading(sweep.table), *sweep.table.show, "slowdown", *own])
    there = {name for row in rows for name in row.values}
    return [quantity_of(name) for name in names if name in there]


def _conditions(sweep: Sweep, rows: Sequence[MeasuredRow]) -> Data:
    """Every condition over its seeds: medians, lowest and highest."""
    names, quantities = _varying(rows), _quantities(sweep, rows)
    lines_ = []
    for group in groups_of(rows):
        cells: list[tuple[float | None, str, str]] = []
        for quantity in quantities:
            found = group.spreads.get(quantity.name)
            if found is None:
                cells.append((None, "-", ""))
            else:
                span = f"{number(found.lowest)} to {number(found.highest)}"
                cells.append(
                    (found.median, number(found.median), span if found.highest > found.lowest else "")
                )
        status = ", ".join(f"{count} {status}" for status, count in group.statuses.items())
        lines_.append(([group.at.value(name) for name in names], cells, status))
    return {"names": _heads(names), "quantities": quantities, "rows": lines_}


def _rows(sweep: Sweep, rows: Sequence[MeasuredRow]) -> Data:
    """Every row."""
    names, quantities = [*_varying(rows), "seed"], _quantities(sweep, rows)
    lines_ = [
        (
            [row.at.value(name) for name in names],
            [
                (row.values.get(quantity.name), number(row.values.get(quantity.name)))
                for quantity in quantities
            ],
            str(row.result.status),
            row.plan.id,
        )
        for row in rows
    ]
    return {"names": _heads(names), "quantities": quantities, "rows": lines_}


def _heads(names: Sequence[str]) -> list[str]:
    return [name.replace("_", " ") for name in names]


def _not_measured(sweep: Sweep, outcome: Outcome) -> list[str]:
    """What the page says nothing of."""
    said = [*NOT_MEASURED]
    if not any(entry.campaign for _, axes in sweep.matrices() for entry in axes.configs or ()):
        said.append(TUNING)
    return [*said, ONE_SEED if outcome.seeds <= 1 else INTERVALS]
