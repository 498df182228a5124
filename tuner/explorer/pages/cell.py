"""What the pages of a cell have in common, and the first of them: how its search goes."""

from __future__ import annotations

from typing import Any

from tiertune.tuner.explorer.campaign import campaign_state, cell_state
from tiertune.tuner.explorer.figures.convergence import convergence, validation
from tiertune.tuner.explorer.figures.front import trade
from tiertune.tuner.explorer.page import Page, Parts, address, bar, facts, link, named, plain_table
from tiertune.tuner.explorer.pages.campaign import state_block
from tiertune.tuner.explorer.trials import measured
from tiertune.tuner.explorer.view import OpenCell, View, opened
from tiertune.tuner.report.data import report_cell
from tiertune.tuner.report.document import Cell, FrontPart, FrontPoint, FrontShare
from tiertune.tuner.report.metrics import metric_of
from tiertune.tuner.report.numbers import exact, quantity

PAGES = (("", "progress"), ("trials", "trials"), ("knobs", "knobs"), ("memory", "memory"))
"""Last part of the address and name of the pages of a cell."""


def head(cell: OpenCell, here: str) -> list[Any]:
    """Heading and links to the other pages of the cell."""
    from dash import html

    several = len(cell.claim.document["cells"]) > 1
    contents = cell.contents
    rows = cell.journal.rows(cell.key, "search", before=1)
    scenario = rows[0].trial.scenario if rows else None
    system = str(contents["space"].get("system", ""))
    shown = [
        ("system", system),
        ("workload", contents["workload"]["name"]),
        ("machine", contents["machine"]["name"]),
    ]
    if scenario is not None:
        shown.append(("fast:slow", scenario.ratio))
    campaign = link(cell.campaign, address("campaign", cell.campaign)) if several else cell.campaign
    return [
        html.H1([campaign, f", cell {cell.number}" if several else ""]),
        facts(shown),
        html.Nav(
            [
                link(
                    name,
                    f"{cell.address}/{last}" if last else cell.address,
                    **({"aria-current": "page"} if last == here else {}),
                )
                for last, name in PAGES
            ],
            className="pages",
            **named("pages of this cell"),
        ),
    ]


def title_of(cell: OpenCell, name: str) -> str:
    """What the browser's tab says."""
    several = len(cell.claim.document["cells"]) > 1
    return f"{name} · {cell.campaign}" + (f" {cell.number}" if several else "")


def progress_page(view: View, campaign: str, number: str) -> Page:
    """Verdict, convergence, validation and the winner's knobs; with two objectives the front and what to
    choose from. Raises InputError."""
    from dash import html

    parts = Parts()
    with opened(view.results, campaign, number) as cell:
        body = head(cell, "")
        several = len(cell.claim.document["cells"]) > 1
        if several:
            state = cell_state(cell.journal, cell.claim, cell.key, cell.number)
            told = [("phase", state.phase), ("trials", f"{state.done} of {state.planned}")]
            body.append(
                parts.text("state", [bar(state.done, state.planned, "progress of the cell"), facts(told)])
            )
        else:
            body.append(parts.text("state", state_block(campaign_state(view.results.path / campaign))))
        if not cell.begun:
            return Page(
                campaign, [*body, parts.text("verdict", html.P("No trial has begun yet."))], parts.live
            )
        made = report_cell(cell.journal, cell.claim, cell.key, cell.journal.environments())
        search = cell.rows("search")
        short = frozenset(row.trial.number for row in search if row.trial.fidelity != 1.0)
        objectives = cell.objectives
        title = title_of(cell, "progress")
        where = cell.address
    body.append(parts.text("verdict", _verdict(made)))
    words = _search_words(made, len(short))
    if objectives is not None:
        first, second = (metric_of(objective) for objective in objectives)
        drawn = trade(measured(search), objectives, (first, second), made.front, view.look)
        body.append(parts.figure("front", drawn, "Both objectives", _trade_words(made.front), 440))
        body.append(parts.text("choice", _choice(made, where)))
        words += f" Drawn is {first.name} alone, the first of the two objectives."
    figure = convergence(made, view.look, short)
    body.append(parts.figure("convergence", figure, "Search", words))
    if objectives is not None:
        return Page(title, body, parts.live)
    caption = (
        "Every dot is default over tuned on one seed that the search never saw; right of 1, tuned is better."
        if made.validation
        else "Nothing is validated yet: after the search the best are measured again on fresh seeds."
    )
    body.append(parts.figure("validation", validation(made, view.look), "Validation", caption, 220))
    body.append(parts.text("winner", _winner(made, where)))
    return Page(title, body, parts.live)


def _verdict(made: Cell) -> Any:
    from dash import html

    improved = " improved" if made.outcome == "improved" else ""
    return html.Div(html.P(made.verdict), className=f"verdict{improved}", role="status")


def _search_words(made: Cell, short: int) -> str:
    failed = sum(trial.value is None and trial.status != "running" for trial in made.search)
    running = sum(trial.status == "running" for trial in made.search)
    text = f"{len(made.search)} of {made.budget_trials} trials, {failed} failed"
    if short:
        text += f", {short} short runs are not drawn: they do a share of the work"
    return text + (f", {running} running." if running else ".")


def _trade_words(front: FrontPart | None) -> str:
    if front is None:
        return (
            "Every circle is one search trial on one seed. Nothing is validated yet:"
            " after the search those near the front are measured again on fresh seeds."
        )
    return (
        f"Filled points are means over {front.seeds} seeds that the search never saw, with"
        f" {front.confidence:.0%} intervals; circles are search trials, of which some lie outside."
        " A double click shows them all."
    )


def _choice(made: Cell, where: str) -> Any:
    """Configurations on the front, and what was taken for one and is beaten."""
    from dash import html

    front = made.front
    if front is None:
        return None

    def name(point: FrontPoint) -> Any:
        if point.trial is None:
            return "default"
        return link(point.label or f"trial {point.trial}", f"{where}/trial/search/{point.trial}")

    metrics = (front.first, front.second)
    rows = [
        [
            name(point),
            *(
                text
                for metric, share in zip(metrics, (point.first, point.second), strict=True)
                for text in (quantity(share.mean, metric.unit), _times(share))
            ),
            "yes" if point.on_front else point.reason,
        ]
        for point in front.points
    ]
    heads = ["configuration"]
    for metric in metrics:
        heads += [metric.name, "of the default's, interval"]
    return [
        html.H2("Configurations to choose from"),
        plain_table(
            "Means over the validation seeds. A name leads to the trial that found it, and its configuration",
            [*heads, "on the front"],
            rows,
            (1, 2, 3, 4),
        ),
        html.Ul([html.Li(line) for line in front.failed]) if front.failed else None,
    ]


def _times(share: FrontShare) -> str:
    if share.ratio is None or share.low is None or share.high is None:
        return "-"
    return f"{share.ratio:.3f}x, {share.low:.3f} to {share.high:.3f}"


def _winner(made: Cell, where: str) -> Any:
    from dash import html

    changed = [knob for knob in made.knobs if knob.changed]
    if not changed:
        return None
    rows = [
        [
            knob.name,
            exact(knob.default),
            html.Span(exact(knob.tuned), className="tuned"),
            knob.unit,
            "on the end of its range" if knob.at_bound else "" if knob.active else "not in use",
            knob.meaning,
        ]
        for knob in changed
    ]
    metrics = [
        [
            one.metric.name,
            quantity(one.default, one.metric.unit),
            quantity(one.tuned, one.metric.unit),
            one.metric.meaning,
        ]
        for one in made.metrics
    ]
    return [
        html.H2("The winner"),
        html.P(
            [
                "It is ",
                link(f"search trial {made.winner_trial}", f"{where}/trial/search/{made.winner_trial}"),
                ".",
            ]
        ),
        plain_table(
            "Knobs that it changes", ["knob", "default", "tuned", "unit", "note", "meaning"], rows, (1, 2)
        ),
        plain_table("Medians over validation", ["metric", "default", "tuned", "meaning"], metrics, (1, 2)),
    ]
