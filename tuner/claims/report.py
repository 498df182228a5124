"""The scoreboard as one HTML file: every claim with its verdict and a picture, no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tiertune.tuner.claims.definition import Claim, Claims
from tiertune.tuner.claims.picture import MOST_LINES, draw, label_of, picture_of, series_of
from tiertune.tuner.claims.verdict import Judged, Verdict
from tiertune.tuner.report.environment import Figure, report_environment
from tiertune.tuner.report.plain import csv_text
from tiertune.tuner.sweep.measured import Group

LIMITS = (
    "Real hardware: every number comes from the modelled machine; its file has the source of each figure.",
    "Other seeds: figures are medians over each claim's seeds. Where one alone says otherwise, that is told.",
)
GATES = ("must", "should", "report")
MOST_CHARACTERS = 400
"""Of a claim's figures in Markdown; the other files have all."""


class Entry(NamedTuple):
    """A claim as the report shows it; without a figure where there is nothing to draw."""

    judged: Judged
    figure: Figure | None


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
                if entry.split:
                    told.append(f"But {entry.split}")
                if entry.verdict == Verdict.MISSED:
                    told.append(f"Expected: {_cut(entry.expected)}")
                if entry.reason:
                    told.append(f"Because: {entry.reason}")
                if entry.would_take:
                    told.append(f"It would take: {entry.would_take}")
                text = "<br>".join(told).replace("|", "\\|")
                lines.append(f"| {entry.claim.id} | {entry.verdict} | {text} |")
    return "\n".join([f"# {claims.description}", "", *lines, ""])


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else text[:MOST_CHARACTERS].rsplit(";", 1)[0] + "; ..."


def render_html(
    claims: Claims, judged: Sequence[Judged], groups: Mapping[str, Sequence[Group]], commands: Sequence[str]
) -> str:
    """The report as HTML; `groups` are the measured ones by id of the claim, `commands` make them again."""
    entries = _entries(judged, groups)
    template = report_environment().get_template("claims.html.j2")
    return template.render(
        claims=claims,
        entries=entries,
        score=score(judged),
        gates=GATES,
        verdict=verdict_of(judged),
        not_measured=[*(f"{e.claim.id}: {e.reason}" for e in judged if e.reason and _unchecked(e)), *LIMITS],
        reproduce=commands,
    )


def figures_of(judged: Sequence[Judged], groups: Mapping[str, Sequence[Group]]) -> list[Figure]:
    """All figures of the report."""
    return [entry.figure for entry in _entries(judged, groups) if entry.figure is not None]


def _entries(judged: Sequence[Judged], groups: Mapping[str, Sequence[Group]]) -> list[Entry]:
    return [
        Entry(entry, _figure(entry.claim, groups.get(entry.claim.id, ()), f"claim-{number}"))
        for number, entry in enumerate(judged, start=1)
    ]


def verdict_of(judged: Sequence[Judged]) -> str:
    """The sentence at the top."""
    checked = [entry for entry in judged if not _unchecked(entry)]
    met = sum(entry.verdict == Verdict.MET for entry in checked)
    text = f"{met} of {len(checked)} claims that can be checked are met"
    first = [entry for entry in checked if entry.claim.gate == GATES[0]]
    if first:
        text += f", {sum(entry.verdict == Verdict.MET for entry in first)} of {len(first)} that must be"
    return text


def _unchecked(entry: Judged) -> bool:
    return entry.verdict == Verdict.NOT_CHECKABLE


def _figure(claim: Claim, groups: Sequence[Group], name: str) -> Figure | None:
    from markupsafe import Markup

    picture = picture_of(claim)
    if picture is None or not groups:
        return None
    series = series_of(picture, groups)
    svg = draw(picture, series, name)
    if not svg:
        return None
    rows = [
        [one.name, at, value, published]
        for one in series
        for at, value, published in zip(one.at, one.values, one.published, strict=True)
    ]
    metric = picture.metric if picture.per is None else f"{picture.metric} per {picture.per}"
    head = [picture.by, picture.over or "at", metric, "published"]
    caption = "Medians over seeds." + (" Hollow: as published." if picture.published else "")
    if len(series) > MOST_LINES:
        caption += f" {MOST_LINES} of {len(series)} are drawn."
    return Figure(
        name,
        f"{claim.id}: {label_of(picture)}",
        caption,
        Markup(svg),
        csv_text([head, *rows]),
        f"{claim.id}.csv",
    )
