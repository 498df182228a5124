"""docs/troubleshooting.md knows what doctor finds and what set-up complains of."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from tests.source_tree import ROOT
from tiertune.tuner.cli import doctor
from tiertune.tuner.live import readiness

PAGE = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[str]:
    """First cells of the table under a heading."""
    chapter = PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return [cell for cell in re.findall(r"^\| (.+?) \|", chapter, re.M) if cell not in ("finding", "message")]


def test_every_finding_of_doctor_has_its_row(tmp_path: Path) -> None:
    found = [finding.name for finding in doctor.findings(tmp_path, 5000)]
    assert found == rows("What `tiertune doctor` looks at")


def test_every_finding_about_this_host_has_its_row() -> None:
    source = inspect.getsource(readiness)
    named = set(re.findall(r'Readiness\(f?"([a-z ]+?)(?: \{|")', source)) | {"pages of", "swap", "load"}
    listed = {name for row in rows("What `tiertune doctor --host` adds") for name in row.split(", ")}
    assert named == listed


def test_what_set_up_complains_of_has_its_row() -> None:
    script = (ROOT / ".ci/prerequisites").read_text(encoding="utf-8")
    before_host = script.split("if $for_lint")[0]
    complaints = re.findall(r'^\s*(?:\S+ \S+ \S+ \|\| )?(?:.*\|\| )?lacks "([^"]+)"', before_host, re.M)
    assert len(complaints) >= 6
    for complaint in complaints:
        assert any(row in complaint for row in rows("Setting up")), complaint
