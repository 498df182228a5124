"""All trials of a cell as a table, and one trial by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, get_args

from tiertune.files import InputError
from tiertune.tuner.explorer.figures.timeline import over_time, timelines
from tiertune.tuner.explorer.page import Page, Parts, address, facts, figure_box, link, plain_table
from tiertune.tuner.explorer.pages.cell import head, title_of
from tiertune.tuner.explorer.trials import KNOB, axes_of, trial_rows
from tiertune.tuner.explorer.view import View, opened, trial_number
from tiertune.tuner.journal import Row
from tiertune.tuner.report.document import Metric
from tiertune.tuner.report.figures.comparison import metric_words
from tiertune.tuner.report.metrics import metric_of
from tiertune.tuner.report.numbers import exact, quantity
from tiertune.tuner.trial import Purpose


def trials_page(view: View, campaign: str, number: str) -> Page:
    """The table. Raises InputError."""
    from dash import html

    parts = Parts()
    with opened(view.results, campaign, number) as cell:
        rows = cell.rows()
        second = cell.second
        table = trial_rows(rows, cell.objective, cell.address, second)
        axes = axes_of(cell.contents)
        metric = metric_of(cell.objective)
        body, title = head(cell, "trials"), title_of(cell, "trials")
    columns: list[dict[str, Any]] = [
        {
            "field": "trial",
            "headerName": "trial",
            "cellRenderer": "markdown",
            "pinned": "left",
            "minWidth": 130,
        },
        {"field": "origin", "headerName": "origin"},
        {"field": "status", "headerName": "status"},
        _number("value", _words(metric), metric.meaning),
        *([_number("second", _words(metric_of(second)), metric_of(second).meaning)] if second else []),
        _number(
            "gain",
            f"gain in {metric.name}" if second else "gain over default",
            "Default over this trial; above 1 is better. One run, no proof.",
        ),
        *(
            {"field": f"{KNOB}{axis.name}", "headerName": axis.name}
            | (
                {"filter": "agNumberColumnFilter", "type": "rightAligned"}
                if axis.type in ("int", "float")
                else {}
            )
            | ({"valueFormatter": _FORMAT} if axis.type == "float" else {})
            for axis in axes
        ),
        {"field": "seed", "headerName": "seed", "headerTooltip": "Seed of the trial's random numbers"},
        _number("wall_s", "wall (s)", "How long the trial took"),
        {
            "field": "worker",
            "headerName": "worker",
            "headerTooltip": "Who ran it, where that was not the process of the campaign",
        },
    ]
    body.append(
        html.P(
            "Click a heading to sort, its menu to filter. A link shows one trial with all of its metrics,"
            " why it was made, and its MLflow run."
        )
    )
    body.append(parts.table("trials", table, columns, view.scheme))
    return Page(title, body, parts.live)


def _words(metric: Metric) -> str:
    return metric_words(metric.name, metric.unit)


_FORMAT = {"function": "params.value == null ? '' : d3.format('.5~g')(params.value)"}


def _number(field: str, name: str, meaning: str) -> dict[str, Any]:
    return {
        "field": field,
        "headerName": name,
        "headerTooltip": meaning,
        "filter": "agNumberColumnFilter",
        "type": "rightAligned",
        "valueFormatter": _FORMAT,
    }


def trial_page(view: View, campaign: str, number: str, purpose: str, trial: str) -> Page:
    """One trial: what was set, what was measured, why. Raises InputError."""
    from dash import html

    identity = trial_number(trial)
    if purpose not in get_args(Purpose) or identity is None:
        raise InputError(
            f"'{purpose} {trial}' is no trial; they are called search 0, selection 0, validation 0"
        )
    with opened(view.results, campaign, number) as cell:
        row = cell.journal.row(cell.key, purpose, identity)  # type: ignore[arg-type]
        if row is None:
            raise InputError(f"cell {number} of {campaign} has no {purpose} trial {trial} yet")
        body, title = head(cell, "trial"), title_of(cell, f"{purpose} {trial}")
        why, columns = cell.journal.decisions(row.trial), cell.journal.timeline(row.trial)
        live = cell.live
        objectives, default = tuple(cell.objectives or (cell.objective,)), cell.contents["default"]
    body += [
        html.H2(f"{purpose.capitalize()} trial {trial}"),
        facts(_facts(row, [objective.metric for objective in objectives])),
        html.P(["Made because: ", "; ".join(why) or "nobody wrote it down", "."]),
    ]
    if row.error:
        body.append(html.P(row.error, className="problem"))
    body.append(html.P(link("Its MLflow run", address("mlflow", campaign, number, purpose, trial))))
    if columns:
        figure = timelines({f"{purpose} {trial}": columns}, view.look, live=live)
        body.append(figure_box(figure, over_time(live), "What the run did, slice by slice."))
    body.append(
        plain_table(
            "Configuration",
            ["knob", "this trial", "default"],
            [
                [name, exact(value), exact(default[name]) if name in default else ""]
                for name, value in row.trial.config.items()
            ],
            (1, 2),
        )
    )
    if row.metrics:
        body.append(_metrics(row))
    return Page(title, body)


def _facts(row: Row, metrics: Sequence[str]) -> list[tuple[str, Any]]:
    told: list[tuple[str, Any]] = [("status", row.status.value), ("origin", row.trial.origin)]
    told += [(metric, f"{row.metrics[metric]:.6g}") for metric in metrics if metric in row.metrics]
    told += [("seed", str(row.trial.seed)), ("started", row.started_at[:19].replace("T", " ") + " UTC")]
    if row.wall_s is not None:
        told.append(("took", f"{row.wall_s:.3g} s"))
    if row.trial.fidelity != 1.0:
        told.append(("share of the run", f"{row.trial.fidelity:g}"))
    if row.worker:
        told.append(("ran on", row.worker))
    if row.attempt > 1:
        told.append(("attempt", str(row.attempt)))
    return told


def _metrics(row: Row) -> Any:
    from tiertune.workloads.metrics import declared

    rows = []
    for name, value in row.metrics.items():
        told = declared(name)
        unit, meaning = ("", "") if told is None else (told.unit, told.meaning)
        rows.append([name, quantity(value, unit) if math.isfinite(value) else "not finite", meaning])
    return plain_table("Metrics", ["metric", "value", "meaning"], rows, (1,))
