"""Every command of the README, in the README's order, in a folder of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

from tiertune import engine

ROOT = Path(__file__).resolve().parents[1]
SWEEP = ".venv/bin/tiertune sweep all-systems --seeds 1"


def commands() -> list[str]:
    """The lines of all `sh` blocks."""
    blocks = re.findall(r"^```sh\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def test_every_command_is_of_a_kind_that_is_run() -> None:
    kinds = ("make ", ".venv/bin/tiertune ", "sed ")
    assert [line for line in commands() if not line.startswith(kinds)] == []


def test_what_is_to_be_replaced_is_there() -> None:
    """Otherwise the command changes nothing, and says nothing of it."""
    lines = [line for line in commands() if line.startswith("sed ")]
    assert lines
    for line in lines:
        script, file = re.fullmatch(r"sed '(.*)' (\S+) > \S+", line).groups()  # type: ignore[union-attr]
        replaced = re.findall(r"s/(.*?)/.*?/", script)
        assert len(replaced) == script.count(";") + 1
        text = (ROOT / file).read_text()
        assert [old for old in replaced if old not in text] == []


def test_make_knows_its_targets() -> None:
    targets = [line.split()[1] for line in commands() if line.startswith("make ")]
    assert targets[0] == "demo"
    for target in targets:
        subprocess.run(["make", "--dry-run", target], cwd=ROOT, check=True, capture_output=True)


def assert_serves(line: str, folder: Path, environment: dict[str, str]) -> None:
    """The pages open at the address that the command prints, and Ctrl-C ends it."""
    command = [*line.split(), "--port", "0", "--json"]  # the usual port may be somebody's
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        with urllib.request.urlopen(json.loads(running.stdout.readline())["url"], timeout=60) as page:
            assert page.status == 200
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 0


def printed_by(lines: list[str], folder: Path) -> dict[str, str]:
    """What each line prints, run in `folder` one after the other; each has to succeed."""
    (folder / ".venv").symlink_to(ROOT / ".venv")
    shutil.copytree(ROOT / "campaigns", folder / "campaigns")
    environment = {**os.environ, "TIERTUNE_RESULTS": str(folder / "results"), "PYTHONPATH": ""}
    printed = {}
    for line in lines:
        if line.endswith("tiertune ui"):
            assert_serves(line, folder, environment)
            continue
        done = subprocess.run(
            ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, timeout=500
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        printed[line] = done.stdout
    return printed


def assert_every_system(table: str, folder: Path) -> None:
    """The sweep over all systems has them all, and none that is better than the best there is."""
    for system in engine.systems():
        assert re.search(rf"^{re.escape(system.name)} ", table, re.M), table
    rows = json.loads((folder / "results/sweeps/all-systems/rows.json").read_text())["rows"]
    best = {row["workload"]: row["derived"]["slowdown"] for row in rows if row["system"] == "all-fast"}
    assert best == {"gups": 1.0, "bc-kron": 1.0, "seq-chase": 1.0}


def test_the_commands_of_seconds_run(tmp_path: Path) -> None:
    """In order, the demo and the search as dry runs. The table of all systems takes half a minute, and the
    searches, with what is shown of their results, take minutes."""
    long = re.compile(r"^make |tiertune (sweep .*|tune mine.yaml|resume mine|report mine)$|results/mine")
    lines = [line for line in commands() if not long.search(line)]
    assert lines[-1] == ".venv/bin/tiertune list systems"
    (tmp_path / "results").mkdir()  # as the demo does
    printed = printed_by([".venv/bin/tiertune demo --dry-run", *lines], tmp_path)
    assert printed[".venv/bin/tiertune tune mine.yaml --dry-run"].startswith("campaign mine")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_commands_run(tmp_path: Path) -> None:
    """The demo first, as `make demo` runs it; then all others in order."""
    lines = [".venv/bin/tiertune demo", *(c for c in commands() if not c.startswith("make "))]
    printed = printed_by(lines, tmp_path)
    verdict = re.search(
        r"tuned is ([\d.]+)x faster than default, 95 % interval\s+([\d.]+)\s+to\s+([\d.]+)",
        printed[".venv/bin/tiertune demo"],
    )
    assert verdict is not None, printed[".venv/bin/tiertune demo"]
    gain, low, high = map(float, verdict.groups())
    assert 1.0 < low <= gain <= high
    quoted = "tuned is {}x faster than default, 95 % interval {} to {}".format(*verdict.groups())
    assert quoted in (ROOT / "README.md").read_text(), f"the demo's figures are others now: {quoted}"
    report = (tmp_path / "results" / "demo" / "report.html").read_text()
    assert "<svg" in report
    assert "http-equiv" not in report
    # A resumed campaign that is finished says the same again.
    said = printed[".venv/bin/tiertune tune mine.yaml"]
    assert printed[".venv/bin/tiertune resume mine"].splitlines()[0] == said.splitlines()[0]
    assert_every_system(printed[SWEEP], tmp_path)
