"""docs/troubleshooting.md knows what doctor finds, what set-up complains of and what campaigns say."""

from __future__ import annotations

import errno
import inspect
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.small import tiertune, write_small
from tests.source_tree import ROOT
from tiertune.files import InputError
from tiertune.memory_limit import too_little
from tiertune.tuner import memory_need
from tiertune.tuner.backend import HostUnfit
from tiertune.tuner.cli import doctor, failures
from tiertune.tuner.journal import Journal
from tiertune.tuner.journal_claim import differences, refusal
from tiertune.tuner.journal_lock import ProcessLock
from tiertune.tuner.live import readiness
from tiertune.tuner.statistics import effect, verdict
from tiertune.tuner.trial import Objective

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


def refused(what: Callable[[], object]) -> str:
    with pytest.raises((InputError, HostUnfit)) as error:
        what()
    return str(error.value)


def told(folder: Path, patch: pytest.MonkeyPatch) -> list[str]:
    """What campaigns say, in the order of the page."""
    results, path = folder / "results", write_small(folder)
    misspelt = folder / "misspelt.yaml"
    misspelt.write_text(path.read_text().replace("seed:", "sed:"))
    newer, held = folder / "newer.sqlite", folder / "held.sqlite"
    with sqlite3.connect(newer) as store:
        store.executescript("create table schema_version (version); insert into schema_version values (999)")
    lock = ProcessLock(held)
    denied = PermissionError(errno.EACCES, "Permission denied", str(results / "small"))
    changed = differences({"campaign": {"seed": 3}}, {"campaign": {"seed": 4}})
    alike = effect([1.0, 1.01, 1.02, 1.03, 1.01], [1.01, 1.0, 1.03, 1.02, 1.01])
    said = [
        tiertune("tune", misspelt, "--dry-run", "--results", results).stderr,
        tiertune("tune", "demmo", "--results", results).stderr,
        failures.sentence(denied) + failures._elsewhere(denied, {"results": results}),
        tiertune("report", "small", "--results", results).stderr,
        refusal(held, "small", changed, extend=False),
        refused(lambda: ProcessLock(held)),
        refused(lambda: Journal(newer, writer=False)),
        verdict(alike, Objective("runtime_s", "minimize")),
        too_little("one run", 2**30, 2**29, memory_need.SMALLER),
    ]
    lock.release()
    patch.setattr(memory_need, "free_bytes", lambda: 2**20)
    patch.setattr("tempfile.gettempdir", lambda: str(folder))
    said.append(refused(memory_need.check_campaign_memory))
    said.append(failures.sentence(MemoryError()))
    said.append(failures._bug(ValueError("odd")))
    return said


def test_what_campaigns_say_has_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for row, said in zip(rows("Campaigns"), told(tmp_path, monkeypatch), strict=True):
        # A row leaves out what differs from one time to the next.
        assert re.search(".+".join(map(re.escape, row.split("…"))), said), (row, said)
