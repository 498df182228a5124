"""Every command of docs/sweeps.md, in its order, in a folder of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.configs.corpus import ROOT


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/sweeps.md").read_text(), re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    assert [line for line in lines if not line.startswith((".venv/bin/tiertune ", "sed "))] == []
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    shutil.copytree(ROOT / "sweeps", tmp_path / "sweeps")
    environment = {**os.environ, "TIERTUNE_RESULTS": str(tmp_path / "results")}
    printed, said = {}, {}
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=800
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        printed[line], said[line] = done.stdout, done.stderr
    for line, text in printed.items():
        wide = [row for row in text.splitlines() if len(row) > 80 and not row.startswith(str(tmp_path))]
        assert wide == [], line
    ratios, *again = (text for line, text in said.items() if "sweep mine.yaml" in line)
    assert "runs" in ratios
    assert again == ["", ""]
    assert (tmp_path / "results/sweeps/mine/report.html").is_file()
    assert (tmp_path / "figures/mine-along-slowdown.pdf").is_file()
    assert (tmp_path / "results/sweeps/hemem-ablation/timelines.parquet").is_file()
