"""What a study leaves: one HTML page, JSON, a CSV file of all leads, and a tornado for each scene."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tiertune.tuner.report.environment import Figure, report_environment
from tiertune.tuner.report.files import write_whole
from tiertune.tuner.report.plain import csv_text, json_text
from tiertune.tuner.sensitivity.conclusion import Conclusion
from tiertune.tuner.sensitivity.parameters import Sample, Uncertain
from tiertune.tuner.sensitivity.picture import margins, signed, tornado
from tiertune.tuner.sensitivity.study import SceneStudy, Verdict, overall

Data = dict[str, Any]
PAGE = "report.html"

NOT_MEASURED = (
    "Real hardware: what is varied is the model of a machine, within ranges that its sources leave open.",
    "Parameters that are not in the table above, and values beyond their ranges.",
    "How likely each model is: the ranges are judgements, so the share of models is no probability.",
    "Tuning anew: in every model the same settings are set against each other.",
)
ONE_SEED = "The luck of the seed: each lead is of one seed, so it has no interval."
SEEDS = (
    "The luck of the seeds in changed models: leads are of means over {} paired seeds, and only that"
    " of the machine file's own values has an interval."
)


def document_of(
    source: str,
    conclusion: Conclusion,
    parameters: Sequence[Uncertain],
    samples: Sequence[Sample],
    studies: Sequence[SceneStudy],
    reproduce: Sequence[str],
) -> Data:
    """The study as plain data: what the page, the files and `--json` are made from."""
    seeds = max((study.seeds for study in studies), default=1)
    return {
        "source": source,
        "claim": conclusion.text,
        "better": conclusion.better,
        "worse": conclusion.worse,
        "needed_lead_pct": conclusion.by_pct,
        "verdict": str(overall(studies)),
        "told": told(conclusion, studies),
        "seeds": seeds,
        "parameters": [
            {
                "name": one.name,
                "meaning": one.meaning,
                "low": one.low,
                "high": one.high,
                "unit": one.unit,
                "source": one.source,
            }
            for one in parameters
        ],
        "models": [{"kind": one.kind, "name": one.name, "values": dict(one.values)} for one in samples],
        "scenes": [study.document() for study in studies],
        "not_measured": [*NOT_MEASURED, ONE_SEED if seeds == 1 else SEEDS.format(seeds)],
        "reproduce": list(reproduce),
    }


def told(conclusion: Conclusion, studies: Sequence[SceneStudy]) -> str:
    """The verdict in one sentence."""
    verdict = overall(studies)
    holding, measured = sum(study.holding for study in studies), sum(study.measured for study in studies)
    # Over several scenarios every model counts once in each: there are not so many models.
    counted = "models" if len(studies) == 1 else "pairs of model and scenario"
    of = f"{holding} of {measured} {counted}"
    if len(studies) > 1:
        good = sum(study.verdict == Verdict.ROBUST for study in studies)
        of += f", robust in {good} of {len(studies)} scenarios"
    if verdict == Verdict.ROBUST:
        scenarios = f" in each of {len(studies)} scenarios" if len(studies) > 1 else ""
        return f"{conclusion.text}: robust, it holds in all {studies[0].measured} models{scenarios}"
    if verdict == Verdict.NOT_MEASURED:
        every = sum(study.models for study in studies)
        return f"{conclusion.text}: not known, {every - measured} of {every} {counted} failed"
    said = f"{conclusion.text}: {verdict}, it holds in {of}"
    wrong = [
        study for study in studies if study.nominal_pct is not None and study.nominal_pct <= conclusion.by_pct
    ]
    if wrong:
        where = f" in {len(wrong)} of {len(studies)} scenarios" if len(studies) > 1 else ""
        return f"{said}; not even with the machine file's own values{where}"
    alone = undone_by(conclusion.by_pct, studies)
    if alone:
        return f"{said}; {_names(alone)} alone can undo it"
    return f"{said}; no parameter undoes it alone"


def undone_by(needed_pct: float, studies: Sequence[SceneStudy]) -> list[str]:
    """The parameters of which one end alone undoes the conclusion in some scene."""
    found = [
        swing.parameter.name
        for study in studies
        for swing in study.swings
        for lead in (swing.low_pct, swing.high_pct)
        if lead is not None and lead <= needed_pct
    ]
    return list(dict.fromkeys(found))


def _names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def plain(text: str) -> str:
    """A claim or a scene as the name of a file."""
    return re.sub(r"[^a-z0-9.+]+", "-", text.lower()).strip("-")


def write_files(folder: Path, document: Data) -> list[Path]:
    """Writes the page and what stands beside it, each whole or not at all; the page comes first."""
    from tiertune.tuner.report.figures.style import standalone

    texts = {
        PAGE: render_html(document),
        "sensitivity.json": json_text(document),
        "leads.csv": csv_text(lead_rows(document, document["scenes"])),
    }
    for number, scene in enumerate(document["scenes"], start=1):
        svg = tornado(document, scene, f"s{number}-tornado")
        if svg:
            texts[f"tornado-{plain(scene['scene'])}.svg"] = standalone(svg)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_whole(folder / name, text)
    return [folder / name for name in texts]


def render_html(document: Data) -> str:
    """The page as HTML text; equal documents give equal text."""
    environment = report_environment()
    environment.filters.update(percent=percent)
    leads = [leads_of(document, scene) for scene in document["scenes"]]
    return environment.get_template("sensitivity.html.j2").render(
        **document,
        over_scenes=[figure for figure in [_margins(document)] if figure.svg],
        tornados=[_tornado(document, number) for number in range(len(document["scenes"]))],
        leads=leads,
        spans=[_span(found) for found in leads],
    )


def figures_of(document: Data) -> list[Figure]:
    """All figures of the page."""
    tornados = [one for number in range(len(document["scenes"])) for one in _tornado(document, number)]
    return [figure for figure in [_margins(document), *tornados] if figure.svg]


def leads_of(document: Data, scene: Data) -> list[float | None]:
    """The leads of a scene, one a model, in the order of `models`."""
    swings = {one["parameter"]: one for one in scene["one_at_a_time"]}
    together = iter(scene["together_lead_pct"])
    found: list[float | None] = []
    for model in document["models"]:
        if model["kind"] == "nominal":
            found.append(scene["nominal_lead_pct"])
        elif model["kind"] == "together":
            found.append(next(together))
        else:
            found.append(swings[model["name"]][f"lead_at_{model['kind']}_pct"])
    return found


def lead_rows(document: Data, scenes: Sequence[Data]) -> list[list[object]]:
    """The lead of every model in these scenes with what was changed, heads first."""
    names = [one["name"] for one in document["parameters"]]
    rows: list[list[object]] = [["scene", "model", "changed", *names, "lead_pct", "needed_lead_pct", "holds"]]
    for scene in scenes:
        for model, lead in zip(document["models"], leads_of(document, scene), strict=True):
            holds = None if lead is None else lead > document["needed_lead_pct"]
            values = [model["values"].get(name) for name in names]
            rows.append(
                [
                    scene["scene"],
                    model["kind"],
                    model["name"],
                    *values,
                    lead,
                    document["needed_lead_pct"],
                    holds,
                ]
            )
    return rows


def percent(lead: float | None) -> str:
    """A lead as tables have it, with its sign also where it is next to nothing."""
    return "failed" if lead is None else f"{signed(lead)} %"


def span_with_median(leads: Sequence[float]) -> str:
    """From the lowest lead to the highest, and the median, in words."""
    return f"{percent(min(leads))} to {percent(max(leads))}, median {percent(median(leads))}"


def _span(leads: Sequence[float | None]) -> tuple[float | None, str]:
    """The lowest lead, and from it to the highest in words."""
    known = [lead for lead in leads if lead is not None]
    if not known:
        return None, "-"
    return min(known), f"{signed(min(known))} to {percent(max(known))}"


def _tornado(document: Data, number: int) -> list[Figure]:
    scene, name = document["scenes"][number], f"s{number + 1}-tornado"
    caption = (
        "Each parameter alone at both ends of its range, which stand beside the bars; the widest on top."
        " Solid: the lead as the machine file says; dashed: what the conclusion needs, left of which it is"
        " undone."
    )
    if scene["nominal_interval_pct"]:
        caption += " Seeds: the 95 % interval of the lead as the file says, for comparison."
    svg = tornado(document, scene, name)
    return [_figure(document, name, "What each parameter does", caption, svg, [scene])] if svg else []


def _margins(document: Data) -> Figure:
    caption = (
        "The lowest lead in percent at either end of each parameter alone, and over the models in which"
        " all are changed at once. Purple holds, orange and framed does not."
    )
    svg, scenes = margins(document, "margins"), document["scenes"]
    return _figure(document, "margins", "Lowest lead in each scenario", caption, svg, scenes)


def _figure(document: Data, name: str, title: str, caption: str, svg: str, scenes: Sequence[Data]) -> Figure:
    from markupsafe import Markup

    file = f"{plain(document['claim'])}-{name}.csv"
    return Figure(name, title, caption, Markup(svg), csv_text(lead_rows(document, scenes)), file)
