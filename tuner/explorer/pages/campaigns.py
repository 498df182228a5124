"""The first page: all campaigns, and what else a results folder holds."""

from __future__ import annotations

from typing import Any

from tiertune.tuner.cell_family import ADJUSTMENT, BY_THEMSELVES, improved_together
from tiertune.tuner.explorer.campaign import CampaignState, CellState, campaign_state
from tiertune.tuner.explorer.page import Page, Parts, address, bar, link, plain_table
from tiertune.tuner.explorer.view import View
from tiertune.tuner.front import Front

NOTHING = (
    "Nothing was run yet. `tiertune demo` takes a minute or two, `tiertune tune CAMPAIGN` runs one of yours."
)


def campaigns_page(view: View) -> Page:
    """State, progress and gain of every campaign; links to comparisons, transfer tests and nights."""
    from dash import html

    parts = Parts()
    states = [campaign_state(view.results.path / name) for name in view.results.campaigns()]
    body: list[Any] = [html.H1("Campaigns"), parts.text("campaigns", _campaigns(states))]
    body.append(parts.text("links", _links(view)))
    return Page("Campaigns", body, parts.live)


def _links(view: View) -> list[Any]:
    from dash import html

    kinds = [
        ("Comparisons", "comparison", view.results.comparisons()),
        ("Transfer tests", "transfer", view.results.transfers()),
        ("Nights", "nights", view.results.suites()),
    ]
    shown: list[Any] = []
    for title, kind, names in kinds:
        if names:
            entries = [html.Li(link(name, address(kind, *name.split("/")))) for name in names]
            shown += [html.H2(title), html.Ul(entries)]
    return shown


def _campaigns(states: list[CampaignState]) -> Any:
    from dash import html

    if not states:
        return html.P(NOTHING)
    rows = []
    for state in states:
        name = state.name if state.problem else link(state.name, address("campaign", state.name))
        rows.append(
            [
                name,
                html.Span(state.state, className=f"state {state.state}"),
                ""
                if state.problem
                else [
                    bar(state.done, state.planned, f"progress of {state.name}"),
                    f" {state.done} of {state.planned}",
                ],
                str(state.failed) if state.failed else "",
                state.problem or gain_words(state.cells),
                state.created_at[:16].replace("T", " "),
            ]
        )
    head = ["campaign", "state", "trials", "failed", "gain", "started (UTC)"]
    return plain_table("Campaigns of this folder, the latest first", head, rows, numeric=(3,))


def gain_words(cells: tuple[CellState, ...]) -> str:
    """What tuning gained: validated where it was, else what the search found so far."""
    two = any(cell.second for cell in cells)
    judged = [(cell, cell.effect) for cell in cells if cell.effect is not None and cell.complete]
    alone = f" in {cells[0].metric} alone" if two else ""
    if judged:
        first, best = max(judged, key=lambda entry: entry[1].ratio)
        if len(cells) == 1 and first.front is not None:
            return _front_words(first.front)
        if len(cells) == 1:
            return f"{best.ratio:.3f}x, {best.confidence:.0%} interval {best.low:.3f} to {best.high:.3f}"
        improved, how = [cell.improved for cell in cells], BY_THEMSELVES
        if not two:
            improved, how = improved_together(improved, [cell.chance for cell in cells]), ADJUSTMENT
        return f"{sum(improved)} of {len(cells)} cells improved ({how}), at best {best.ratio:.3f}x{alone}"
    found = [cell.found for cell in cells if cell.found is not None]
    return f"{max(found):.3f}x{alone} in the search so far, not validated" if found else ""


def _front_words(front: Front) -> str:
    """How many configurations there are to choose from, and over what they range in either objective."""
    if not front.improved:
        return "nothing better than the default in either objective"
    count = len(front.found)
    told = [f"{count} configuration{'s' if count > 1 else ''} to choose from"]
    first, last = front.found[0], front.found[-1]
    pairs = ((first.first, last.first), (first.second, last.second))
    for objective, ends in zip(front.objectives, pairs, strict=True):
        words = [f"{end.mean:.3g}" if end.ratio is None else f"{end.ratio:.2f}x" for end in ends]
        told.append(f"{objective.metric} {' to '.join(dict.fromkeys(words))}")
    return ", ".join(told)
