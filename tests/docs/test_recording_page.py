"""Every command of docs/recording.md, in its order, in a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.configs.corpus import ROOT


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_commands_of_the_page_run(tmp_path: Path) -> None:
    page = (ROOT / "docs/recording.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```sh\n(.*?)^```", page, re.M | re.S)
    # A command may go on over lines; each begins with the program.
    lines = [
        line.strip() for block in blocks for line in re.split(r"^(?=\.venv/bin/)", block, flags=re.M) if line
    ]
    assert [line for line in lines if not line.startswith(".venv/bin/tiertune ")] == []
    for name in (".venv", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    environment = {**os.environ, "TIERTUNE_RESULTS": str(tmp_path / "results")}
    recorded = True
    for line in lines:
        if "lookups.parquet" in line and not recorded:
            continue
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        if " record " in line and done.returncode == 3:
            # A host that lets nobody look at processes: said in a sentence, and everything else goes on.
            assert re.search("^tiertune: .*(needs|cannot be watched|may not be looked at)", done.stderr, re.M)
            recorded = False
            continue
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        wide = [row for row in done.stdout.splitlines() if len(row) > 80 and not row.startswith("profile ")]
        places = ("report ", "config ", "data ", "browser ", "MLflow ")
        assert [row for row in wide if not row.startswith(places)] == [], line


def test_the_samplers_are_those_of_the_engine() -> None:
    from tiertune import engine

    page = (ROOT / "docs/recording.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z]+)` \|", page, re.M) == list(engine.samplers())
