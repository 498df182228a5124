"""Every command of docs/policies-in-python.md, in its order, in a folder of its own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.small import tiertune
from tests.source_tree import ROOT
from tiertune import engine, unregister

PAGE = (ROOT / "docs/policies-in-python.md").read_text(encoding="utf-8")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_commands_lead_from_a_file_to_a_report(tmp_path: Path) -> None:
    (tmp_path / ".venv").symlink_to(ROOT / ".venv")
    environment = {**os.environ, "TIERTUNE_RESULTS": str(tmp_path / "results")}
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) == 8
    (matrix,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.M | re.S)
    (tmp_path / "against.yaml").write_text(matrix)
    printed = []
    for line in lines:
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"
        printed.append(done.stdout)
    assert "broken" not in printed[1]
    assert "kept  greedy: greedy.golden gives the recorded decisions" in printed[1]
    assert printed[2].startswith("greedy on masim-stairs-ci")
    assert re.match(r"greedy on masim-stairs-ci: (tuned is|no )", printed[5])
    assert printed[6].splitlines()[0] == printed[5].splitlines()[0]
    assert [line.split()[0] for line in printed[7].splitlines()[1:5]] == [
        "greedy",
        "hemem",
        "mru",
        "all-slow",
    ]


def test_what_it_cannot_is_refused_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert tiertune("new-policy", "greedy").exit_code == 0
    given = ("--policy-file", "greedy/greedy.py", "--results", "results")
    try:
        wrapped = tiertune("run", "alto+greedy", "-w", "seq-chase", "-m", "skx-numa", *given)
        assert wrapped.exit_code == 2
        assert "alto goes around policies written in Rust" in wrapped.stderr
        for option, value in (
            ("--scheduler", "local"),
            ("--hosts", "hosts.yml"),
            ("--here", "auto"),
            ("--container", "auto"),
        ):
            assert f"`{option}`" in PAGE
            refused = tiertune("tune", "-w", "seq-chase", "--system", "greedy", option, value, *given)
            assert refused.exit_code == 2
            assert f"not with {option}: workers and daemons run policies written in Rust" in refused.stderr
        text = Path("greedy/greedy.py").read_text()
        Path("again.py").write_text(text)
        again = tiertune(
            "run", "greedy", "-w", "seq-chase", "-m", "skx-numa", "--policy-file", "again.py", *given
        )
        assert again.exit_code == 2
        assert again.stderr == (
            "tiertune: --policy-file greedy/greedy.py: again.py has a policy 'greedy', too; rename one\n"
        )
        Path("again.py").write_text(text.replace('name = "greedy"', 'name = "hemem"'))
        taken = tiertune("run", "hemem", "-w", "seq-chase", "-m", "skx-numa", "--policy-file", "again.py")
        assert taken.exit_code == 2
        assert taken.stderr == (
            "tiertune: --policy-file again.py: there is a system 'hemem'; call the policy my-hemem\n"
        )
        planned = tiertune("tune", "-w", "seq-chase", "--system", "greedy", "--dry-run", *given)
        assert planned.exit_code == 0, planned.stderr
        assert "/greedy: maximize " in planned.stdout or "/greedy: minimize " in planned.stdout
        assert not Path("results").exists()
    finally:
        for name in engine.registered():
            unregister(name)
