"""Every command of docs/tutorial.md, in its order, in a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.source_tree import ROOT

NO_GAIN = (
    "nothing better than the default was found",
    "on fresh seeds no gain of tuned is shown",
)
"""What `explain` says of a search that found nothing to divide: 40 trials of a program timed here may."""


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_tutorial_ends_in_a_configuration(tmp_path: Path) -> None:
    text = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    program = re.findall(r"^```python\n# lookups\.py\n(.*?)^```", text, re.M | re.S)
    (tmp_path / "lookups.py").write_text(program[0])
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    environment = {**os.environ, "TIERTUNE_RESULTS": str(tmp_path / "results")}
    lines = [
        line for block in re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S) for line in block.splitlines()
    ]
    assert len(lines) == 7
    printed = {}
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        printed[line.split()[1]] = done.stdout
        if "explain" in line and any(said in done.stderr for said in NO_GAIN):
            (tmp_path / "few-changes.yaml").write_text("{}\n")  # as the page says: the defaults stay
            continue
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert re.search(r"memtis on lookups: (tuned is|no )", printed["tune"])
    assert "htmm_thres_hot" in printed["show"]
