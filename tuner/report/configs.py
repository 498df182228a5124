"""Tuned configurations as files: what `run --config`, `show --config --native` and a rollout take."""

from __future__ import annotations

import json
import re

from tiertune.tuner.report.document import Cell, FrontPart, FrontPoint, FrontShare, Report
from tiertune.tuner.report.html import cell_names


def config_files(report: Report) -> dict[str, str]:
    """File name to text, one for each cell whose winner beat the default on fresh seeds; with two objectives
    one for each configuration on the front, none of which is called the tuned one."""
    names = cell_names(report.cells)
    texts: dict[str, str] = {}
    for cell in (cell for cell in report.cells if cell.outcome == "improved"):
        name = _plain(names[cell.id])
        if cell.front is None:
            texts[f"{name}.yaml"] = _text(report, cell)
            continue
        for point in cell.front.found:
            texts[f"{name}-front-{point.label}.yaml"] = _point_text(report, cell, cell.front, point)
    return texts


def _point_text(report: Report, cell: Cell, front: FrontPart, point: FrontPoint) -> str:
    shares = [_told(front.first.name, point.first), _told(front.second.name, point.second)]
    lines = [
        f"# Configuration {point.label} of {len(front.found)} on the front: {', '.join(shares)}",
        f"# Campaign {report.campaign}: {cell.system} for {cell.workload} on {cell.machine}, {cell.ratio}",
    ]
    defaults = {knob.name: knob.default for knob in cell.knobs}
    for knob, value in point.config.items():
        was = f"  # default {json.dumps(defaults[knob])}" if value != defaults[knob] else ""
        lines.append(f"{knob}: {json.dumps(value)}{was}")
    return "\n".join(lines) + "\n"


def _told(metric: str, share: FrontShare) -> str:
    if share.ratio is None:
        return f"{metric} {share.mean:.4g} (default 0)"
    return f"{metric} {share.ratio:.3f} times the default's ({share.low:.3f} to {share.high:.3f})"


def _plain(name: str) -> str:
    """`hemem on bc-kron, 1:8` as `hemem-on-bc-kron-1to8`."""
    return re.sub(r"[^A-Za-z0-9.+]+", "-", name.replace(":", "to"))


def _text(report: Report, cell: Cell) -> str:
    lines = [
        f"# {cell.verdict}",
        f"# Campaign {report.campaign}: {cell.system} for {cell.workload} on {cell.machine}, {cell.ratio}",
    ]
    for knob in cell.knobs:
        if knob.active:
            was = f"  # default {json.dumps(knob.default)}" if knob.changed else ""
            lines.append(f"{knob.name}: {json.dumps(knob.tuned)}{was}")
    return "\n".join(lines) + "\n"
