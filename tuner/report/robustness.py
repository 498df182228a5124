"""What `tiertune sensitivity` found out about a campaign, as its report has it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tiertune.tuner.report.data import ROBUSTNESS
from tiertune.tuner.report.document import Report, Robustness

FOLDER = "sensitivity"


def sensitivity_folder(results: Path, source: str) -> Path:
    """Where studies of a sweep or campaign are written, a folder for each claim."""
    return results / FOLDER / source


def read_robustness(folder: Path) -> list[Robustness]:
    """The studies of the campaign whose results folder this is, a line for each scene, in order of claims."""
    paths = sorted(sensitivity_folder(folder.parent, folder.name).glob("*/sensitivity.json"))
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return [_line(document["claim"], scene) for document in documents for scene in document["scenes"]]


def with_robustness(report: Report, lines: Sequence[Robustness]) -> Report:
    """The report with these lines, if there are any, in place of the remark that there are none."""
    if not lines:
        return report
    left = [line for line in report.not_measured if line != ROBUSTNESS]
    return report.model_copy(update={"robustness": list(lines), "not_measured": left})


def _line(claim: str, scene: Mapping[str, Any]) -> Robustness:
    ends = [one[key] for one in scene["one_at_a_time"] for key in ("lead_at_low_pct", "lead_at_high_pct")]
    all_leads = [scene["nominal_lead_pct"], *ends, *scene["together_lead_pct"]]
    leads = [lead for lead in all_leads if lead is not None]
    return Robustness(
        claim=claim,
        scene=scene["scene"],
        verdict=scene["verdict"],
        models=scene["models"],
        models_where_it_holds=scene["models_where_it_holds"],
        nominal_lead_pct=scene["nominal_lead_pct"],
        lowest_lead_pct=min(leads, default=None),
        highest_lead_pct=max(leads, default=None),
    )
