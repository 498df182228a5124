"""The scoreboard as one HTML file: every claim with its verdict and a picture, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tiertune.tuner.claims.definition import Claims
from tiertune.tuner.claims.picture import draw, picture_of, series_of
from tiertune.tuner.claims.verdict import Judged, Verdict
from tiertune.tuner.report.environment import report_environment
from tiertune.tuner.sweep.measured import Group

GATES = ("must", "should", "report")
MOST_CHARACTERS = 400
"""Of a claim's figures in Markdown; the other files have all."""


class Entry(NamedTuple):
    """A claim as the report shows it; `svg` is empty where there is nothing to draw."""

    judged: Judged
    svg: str
    has_published: bool


def score(judged: Sequence[Judged]) -> dict[str, dict[str, int]]:
    """By gate: how many claims are met, missed and not checkable."""
    there = {entry.claim.gate for entry in judged}
    return {
        gate: {
            str(verdict): sum(entry.claim.gate == gate and entry.verdict == verdict for entry in judged)
            for verdict in Verdict
        }
        for gate in GATES
        if gate in there
    }


def render_markdown(claims: Claims, judged: Sequence[Judged]) -> str:
    """The scoreboard as Markdown: counts by gate, then every claim with what was measured or why not."""
    lines = ["| gate | met | missed | not checkable |", "|---|---|---|---|"]
    lines += [
        f"| {gate} | {counts['met']} | {counts['missed']} | {counts['not-checkable']} |"
        for gate, counts in score(judged).items()
    ]
    for gate in score(judged):
        lines += [
            "",
            f"## {gate.capitalize()}",
            "",
            "| claim | verdict | what was found, and here |",
            "|---|---|---|",
        ]
        for entry in judged:
            if entry.claim.gate == gate:
                told = [entry.claim.statement]
                if entry.measured:
                    told.append(f"Here: {_cut(entry.measured)}")
                if entry.verdict == Verdict.MISSED:
                    told.append(f"Expected: {_cut(entry.expected)}")
                if entry.reason:
                    told.append(f"Because: {entry.reason}")
                text = "<br>".join(told).replace("|", "\\|")
                lines.append(f"| {entry.claim.id} | {entry.verdict} | {text} |")
    return "\n".join([f"# {claims.description}", "", *lines, ""])


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS].rsplit(";", 1)[0] + "; ..."


def render_html(claims: Claims, judged: Sequence[Judged], groups: Mapping[str, Sequence[Group]]) -> str:
    """The report as HTML; `groups` are the measured ones by id of the claim."""
    from markupsafe import Markup

    environment = report_environment()
    entries = []
    for number, entry in enumerate(judged, start=1):
        picture = picture_of(entry.claim)
        found = groups.get(entry.claim.id, ())
        svg = draw(picture, series_of(picture, found), f"claim-{number}") if picture and found else ""
        entries.append(Entry(entry, Markup(svg), bool(picture and picture.published)))
    template = environment.get_template("claims.html.j2")
    return template.render(claims=claims, entries=entries, score=score(judged), gates=GATES)
