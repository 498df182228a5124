"""Every command of docs/nightly.md, in its order, in a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.configs.corpus import ROOT
from tiertune.document import parse
from tiertune.tuner.nightly.suite import Notify

PAGE = (ROOT / "docs/nightly.md").read_text(encoding="utf-8")


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    lines = [
        line for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S) for line in block.splitlines()
    ]
    assert [line for line in lines if not line.startswith(".venv/bin/tiertune ")] == []
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    environment = {**os.environ, "TIERTUNE_RESULTS": str(tmp_path / "results")}
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=200
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert len(lines) == 5


def test_its_example_is_valid() -> None:
    (block,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)
    assert len([Notify.model_validate(entry) for entry in parse(block).data["notify"]]) == 3
