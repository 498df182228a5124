"""The commands that a page of the documentation shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.small import tiertune
from tests.configs.corpus import ROOT


def check_commands(page: str, number: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs the `number` commands of `page` one after the other in `folder`, with results in its `results`.

    What they print fits 80 columns.
    """
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) == number
    monkeypatch.chdir(folder)
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == ".venv/bin/tiertune"
        ran = tiertune(*arguments, env={"TIERTUNE_RESULTS": "results"})
        assert ran.exit_code == 0, f"{line}\n{ran.stderr}"
        assert max(map(len, ran.stdout.splitlines())) <= 80, line
