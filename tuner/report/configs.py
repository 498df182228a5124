"""Tuned configurations as files: what `run --config`, `show --config --native` and a rollout take."""

from __future__ import annotations

import json
import re

from tiertune.tuner.report.document import Cell, Report
from tiertune.tuner.report.html import cell_names


def config_files(report: Report) -> dict[str, str]:
    """File name to text, one for each cell whose winner beat the default on fresh seeds."""
    names = cell_names(report.cells)
    return {
        f"{_plain(names[cell.id])}.yaml": _text(report, cell)
        for cell in report.cells
        if cell.outcome == "improved"
    }


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
