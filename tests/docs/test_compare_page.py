"""Every command of docs/compare.md."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.configs.corpus import ROOT


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/compare.md").read_text(), re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    assert [line for line in lines if not line.startswith(".venv/bin/tiertune compare ")] == []
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    for line in lines:
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert len(lines) == 2
