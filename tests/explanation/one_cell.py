"""A campaign of one cell that is tuned in a second, with a gain."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.cli.small import CAMPAIGN, WORKLOAD

SPACE = """\
name: five
description: Five knobs of HeMem, so that tests are quick
system: hemem
knobs:
  sampling_period: {}
  read_hot_threshold: {}
  cooling_threshold: {}
  migration_period_ms: {}
  max_migration_rate_gib: {}
"""
QUICK = ("--seeds", "5", "--slices", "2", "--points", "5", "--grid", "3")


FORBIDDEN = {
    "sampling_period": 20_000,
    "read_hot_threshold": 40,
    "cooling_threshold": 100,
    "migration_period_ms": 2000,
    "max_migration_rate_gib": 16,
}
"""What a space may forbid: values of each knob above these."""


def write_one(folder: Path, forbid: Mapping[str, float] | None = None) -> Path:
    """Writes workload, space and campaign into `folder`; returns the campaign's path."""
    clauses = [f"{knob} > {value}" for knob, value in (forbid or {}).items()]
    (folder / "small-workload.yaml").write_text(WORKLOAD)
    (folder / "five.yaml").write_text(SPACE + f"forbid: {json.dumps(clauses)}\n")
    changes = (
        ("name: small", "name: mine"),
        ('"1:4"', '"1:12"'),
        ("space: hemem", "space: ./five.yaml"),
        ("trials: 8", "trials: 20"),
    )
    text = CAMPAIGN
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = folder / "mine.yaml"
    path.write_text(text)
    return path
