"""Nights of a suite: what each figure did over them, and what is alarming."""

from __future__ import annotations

from typing import Any

from tiertune.tuner.explorer.figures.nights import nights
from tiertune.tuner.explorer.page import Page, figure_box, plain_table
from tiertune.tuner.explorer.view import View
from tiertune.tuner.nightly.figures import FIGURES
from tiertune.tuner.nightly.history import History


def nights_page(view: View, suite: str) -> Page:
    """One figure a kind of series and campaign. Raises InputError where there is no such suite."""
    from dash import html

    with History(view.results.history(suite), writer=False) as history:
        dates, followed, readings = history.nights(), history.followed(), history.readings()
        alarms = history.watch().alarms
    body: list[Any] = [html.H1(f"Nights of {suite}")]
    if not dates:
        return Page(suite, [*body, html.P("No night was measured yet.")])
    body.append(html.P(f"{len(dates)} nights, {dates[0]} to {dates[-1]}."))
    if alarms:
        body.append(
            plain_table(
                "Alarms, the latest first",
                ["alarm", "about", "since", "raised", "state", "reason"],
                [
                    [str(one.number), one.subject, one.since, one.raised, one.state, one.reason or ""]
                    for one in reversed(alarms)
                ],
            )
        )
    else:
        body.append(html.P("No alarm was ever raised."))
    for campaign, figure in sorted({(one.campaign, one.figure) for one in followed.values()}):
        some = {key: one for key, one in followed.items() if (one.campaign, one.figure) == (campaign, figure)}
        if not any(reading.values for key in some for reading in readings.get(key, ())):
            continue
        words = FIGURES[figure].words if figure in FIGURES else figure
        body.append(
            figure_box(nights(some, readings, view.look), f"{campaign}: {words}", "", 360 + 16 * len(some))
        )
    return Page(f"Nights of {suite}", body)
