"""The commands of docs/live.md that run on any machine; the others are of the kinds that host tests run."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.configs.corpus import ROOT

PAGE = (ROOT / "docs/live.md").read_text()


def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    assert lines
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env={**os.environ}, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
    assert done.stdout.strip()


def test_options_that_the_page_names_are_there() -> None:
    from typer.main import get_command

    from tiertune.tuner.cli.app import app

    command = get_command(app)
    named = re.findall(r"^    tiertune (\w+) .*?$", PAGE, re.M)
    assert {"doctor", "tune"} <= set(named)
    for line in re.findall(r"^    (tiertune .*?)(?:  |$)", PAGE, re.M):
        words = line.split()
        known = {option for parameter in command.commands[words[1]].params for option in parameter.opts}  # type: ignore[attr-defined]
        assert {word for word in words if word.startswith("--")} <= known, line
