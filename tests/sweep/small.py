"""A sweep that runs in seconds, and what it left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import Result

from tests.cli.small import WORKLOAD, tiertune

SWEEP = """\
name: small
systems: [hemem, notier]
configs:
  - {name: default}
  - {name: eager, systems: [hemem], knobs: {sampling_period: 1000}}
workloads: [./small-workload.yaml]
machines: [skx-numa]
ratios: ["1:4"]
seeds: [1, 2]
relative_to: [{system: notier}]
table: {by: [system, config], show: [slowdown, rank, notier.speedup]}
"""


def write_sweep(folder: Path, text: str = SWEEP) -> Path:
    """Writes the sweep and its workload into `folder`; returns the sweep's path."""
    (folder / "small-workload.yaml").write_text(WORKLOAD)
    path = folder / "small.yaml"
    path.write_text(text)
    return path


def sweep(path: Path, results: Path, *options: str) -> Result:
    """Runs the command; it has to end well."""
    done = tiertune("sweep", path, "--results", results, *options)
    assert done.exit_code == 0, done.stderr
    return done


def document(results: Path, name: str = "small") -> dict[str, Any]:
    """What rows.json holds."""
    return dict(json.loads((results / "sweeps" / name / "rows.json").read_text()))


def rows(results: Path, name: str = "small") -> list[dict[str, Any]]:
    """Its rows."""
    return list(document(results, name)["rows"])


def one(found: list[dict[str, Any]], **at: object) -> dict[str, Any]:
    """The row with these coordinates."""
    (row,) = [row for row in found if all(row[name] == value for name, value in at.items())]
    return row
