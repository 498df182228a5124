"""A campaign of one cell that is tuned in a second, with a gain."""

from __future__ import annotations

from pathlib import Path

from tests.cli.small import CAMPAIGN, WORKLOAD

QUICK = ("--seeds", "5", "--slices", "2", "--points", "5", "--grid", "3")


def write_one(folder: Path) -> Path:
    """Writes workload and campaign into `folder`; returns the campaign's path."""
    (folder / "small-workload.yaml").write_text(WORKLOAD)
    text = CAMPAIGN
    for old, new in (("name: small", "name: mine"), ('"1:4"', '"1:12"'), ("trials: 8", "trials: 20")):
        assert old in text
        text = text.replace(old, new)
    path = folder / "mine.yaml"
    path.write_text(text)
    return path
