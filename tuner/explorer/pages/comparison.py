"""A comparison: systems over scenarios as matrices, and their ranks."""

from __future__ import annotations

from typing import Any

from tiertune.tuner.explorer.figures.matrices import comparison_matrix
from tiertune.tuner.explorer.page import Page, address, figure_box, link, plain_table
from tiertune.tuner.explorer.span import span_words
from tiertune.tuner.explorer.view import View

MATRICES = (
    (
        "slowdown_default",
        "Slowdown at defaults",
        "Against all memory being fast: 1 is as fast as that, lower is better.",
    ),
    (
        "slowdown_tuned",
        "Slowdown when tuned",
        "The same, each system with the best settings found for it there.",
    ),
    ("gain", "What tuning gained", "Default over tuned on validation seeds; above 1 tuned is faster."),
)


def comparison_page(view: View, name: str) -> Page:
    """Raises InputError where there is no such comparison."""
    from dash import html

    document = view.results.comparison(name)
    body: list[Any] = [
        html.H1(f"Comparison {name}"),
        html.Div(html.P(document["verdict"]), className="verdict"),
    ]
    body += [html.P(reason, className="problem") for reason in document["void"]]
    body.append(
        plain_table(
            "Systems over all scenarios, geometric means",
            ["system", "slowdown at default", "tuned", "gain", "rank at default", "rank tuned", "better in"],
            [
                [
                    one["name"],
                    span_words(one["slowdown_default"]),
                    span_words(one["slowdown_tuned"]),
                    span_words(one["gain"]),
                    f"{one['rank_default']:.2f}",
                    f"{one['rank_tuned']:.2f}",
                    f"{one['improved']} of {len(document['setting']['scenarios'])}",
                ]
                for one in document["contenders"]
            ],
            (1, 2, 3, 4, 5),
        )
    )
    for figure_of, title, caption in MATRICES:
        body.append(figure_box(comparison_matrix(document, figure_of, view.look), title, caption))
    body.append(html.P(link("The campaign behind it", address("campaign", name))))
    return Page(f"Comparison {name}", body)
