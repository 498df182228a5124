"""A campaign of several cells: one line each."""

from __future__ import annotations

from typing import Any

from tiertune.tuner.explorer.campaign import CampaignState, campaign_state
from tiertune.tuner.explorer.page import Page, Parts, address, bar, facts, link, plain_table
from tiertune.tuner.explorer.pages.campaigns import gain_words
from tiertune.tuner.explorer.view import View


def campaign_page(view: View, name: str) -> Page:
    """Cells of a campaign. Raises InputError where there is no such campaign."""
    from dash import html

    folder = view.results.journal(name).parent
    parts = Parts()
    state = campaign_state(folder)
    body: list[Any] = [html.H1(name), parts.text("state", state_block(state))]
    body.append(parts.text("cells", _cells(state)))
    compared = name in view.results.comparisons()
    words = html.P(link("How its systems compare", address("comparison", name))) if compared else None
    body.append(parts.text("comparison", words))
    return Page(name, body, parts.live)


def state_block(state: CampaignState) -> Any:
    """State and progress of a whole campaign."""
    from dash import html

    if state.problem:
        return html.P(state.problem, className="problem", role="status")
    left = state.planned - state.done
    return [
        bar(state.done, state.planned, "progress of the campaign"),
        facts(
            [
                ("state", html.Span(state.state, className=f"state {state.state}")),
                ("trials", f"{state.done} of {state.planned}"),
                *([("left", str(left))] if left and state.state == "running" else []),
                *([("failed", str(state.failed))] if state.failed else []),
                ("gain", gain_words(state.cells) or "none yet"),
                ("started", state.created_at[:16].replace("T", " ") + " UTC"),
            ]
        ),
    ]


def _cells(state: CampaignState) -> Any:
    rows = [
        [
            link(f"{cell.number} {cell.system}", address("campaign", state.name, cell.number)),
            cell.workload,
            cell.machine,
            cell.ratio,
            cell.phase,
            f"{cell.done} of {cell.planned}",
            cell.verdict,
        ]
        for cell in state.cells
    ]
    head = ["cell", "workload", "machine", "ratio", "phase", "trials", "verdict"]
    return plain_table("Cells: one system in one scenario each", head, rows)
