"""A suite of two tiny campaigns: one whose winner beats the default, and one to be killed in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.small import CAMPAIGN, WORKLOAD, tiertune

SUITE = """\
name: two
description: Two small campaigns
campaigns:
  - {campaign: ./tiered.yaml, priority: 2}
  - {campaign: ./steady.yaml, priority: 1}
panel: {seeds: 5}
tracking: {mlflow: false}
"""


def write_two(folder: Path) -> Path:
    """Writes workloads, campaigns and suite into `folder`; returns the suite's path.

    Workloads are found by name from `folder` as current directory: a path would be part of every seed.
    """
    (folder / "workloads").mkdir()
    for name, system, trials in (("steady", "hemem", 30), ("tiered", "memtis", 8)):
        text = WORKLOAD.replace("name: small", f"name: {name}")
        # The other one is there to be killed in: its trials may be short.
        text = text.replace("ops: 1e9", "ops: 1e8") if name == "steady" else text
        (folder / f"workloads/{name}.yaml").write_text(text)
        campaign = CAMPAIGN.replace("name: small", f"name: {name}").replace("./small-workload.yaml", name)
        campaign = campaign.replace("{system: hemem, space: hemem}", f"{{system: {system}, space: {system}}}")
        (folder / f"{name}.yaml").write_text(campaign.replace("trials: 8", f"trials: {trials}"))
    path = folder / "two.yaml"
    path.write_text(SUITE)
    return path


def slow_down(folder: Path, name: str, by: float) -> None:
    """Gives a workload that much more to do: as much slower as anything that costs as much would make it."""
    path = folder / f"workloads/{name}.yaml"
    text = path.read_text()
    assert "ops: 1e9" in text
    path.write_text(text.replace("ops: 1e9", f"ops: {1e9 * (1 + by):.0f}"))


def night(folder: Path, suite: Path, date: str, *options: str) -> tuple[int, dict[str, Any]]:
    """A night in this process: its exit code and its digest."""
    ran = tiertune("nightly", suite, "--date", date, "--results", folder / "results", "--json", *options)
    assert ran.stdout, ran.stderr
    return ran.exit_code, json.loads(ran.stdout)
