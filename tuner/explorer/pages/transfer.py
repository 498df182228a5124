"""A transfer test: what was tuned in each context, run in all others."""

from __future__ import annotations

from typing import Any

from tiertune.tuner.explorer.figures.matrices import transfer_matrix
from tiertune.tuner.explorer.page import Page, figure_box, plain_table
from tiertune.tuner.explorer.view import View


def transfer_page(view: View, name: str) -> Page:
    """Raises InputError where there is no such test."""
    from dash import html

    document = view.results.transfer(name)
    title = f"Transfer test {name}"
    body: list[Any] = [html.H1(title), html.Div(html.P(document["verdict"]), className="verdict")]
    for study in document["studies"]:
        body += [html.H2(study["name"]), html.P(study["verdict"]), html.P(study.get("advice", ""))]
        body.append(
            figure_box(
                transfer_matrix(study, "ratio", view.look),
                "Against the default",
                "Performance relative to the default of the context in which it runs; above 1 is better."
                " Empty where nothing better than the default was found, or a run failed.",
            )
        )
        if any(cell["share"] is not None for cell in study["matrix"]):
            body.append(
                figure_box(
                    transfer_matrix(study, "share", view.look),
                    "Share of the gain kept",
                    "How much of what tuning in that context gains comes along; 1 is all of it.",
                )
            )
    for along in document["along"]:
        body += [html.H2(f"Along {along['axis']}"), html.P(along["verdict"])]
        body.append(
            plain_table(
                f"Where each tuned configuration is at least {along['least_pct']:g} % better than default",
                ["tuned in", f"good from, to ({along['axis']})"],
                [[line["label"], line["told"]] for line in along["lines"]],
            )
        )
    return Page(title, body)
