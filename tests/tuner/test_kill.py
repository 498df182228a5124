"""`kill -9` at any moment: nothing finished is lost or made again, and the end is that of an unbroken run."""

from __future__ import annotations

import json
import os
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.toy import RUNTIME, SCENARIO, table
from tests.tuner.zygote import STATES
from tiertune.tuner import journal_schema
from tiertune.tuner.journal import Journal
from tiertune.tuner.trial import Status
from tiertune.tuner.validation import outcome

ROOT = Path(__file__).resolve().parents[2]
CELL = f"{SCENARIO.key}/toy-system"


class Zygote:
    """The forking process of `zygote.py`."""

    def __init__(self) -> None:
        path = os.pathsep.join([str(ROOT), str(ROOT / "engine" / "python")])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.tuner.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert self._line() == "ready"

    def run(self, folder: Path, kill_after_s: float | None = None, **spec: Any) -> bool:
        """Run a campaign to its end, or kill it after a while; whether it ended by itself."""
        folder.mkdir(parents=True, exist_ok=True)
        assert self._process.stdin is not None
        wanted = {**spec, "kill_after_s": kill_after_s}
        print(folder, json.dumps(wanted), file=self._process.stdin, flush=True)
        end, error = self._line(), folder / "error.txt"
        assert end in ("ended", "killed"), (end, error.read_text() if error.exists() else "")
        return end == "ended"

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    made = Zygote()
    yield made
    made.close()


def journal_of(folder: Path) -> Path:
    return folder / "toy" / "journal.sqlite"


def finished(folder: Path) -> dict[str, tuple[str | None, int]]:
    """When each finished trial finished, and at which attempt: what must never change again."""
    if not journal_of(folder).is_file():
        return {}
    with sqlite3.connect(journal_of(folder)) as database:
        if journal_schema.version_of(database) == 0:  # killed before the tables were made
            return {}
    with Journal(journal_of(folder), writer=False) as journal:
        rows = [row for row in journal.rows() if row.status.finished]
    return {row.trial.key: (row.finished_at, row.attempt) for row in rows}


def assert_same_end(broken: Path, whole: Path) -> None:
    assert table(journal_of(broken)) == table(journal_of(whole))
    ends = []
    for folder in (broken, whole):
        with Journal(journal_of(folder), writer=False) as journal:
            found = outcome(journal, CELL, RUNTIME, 0)
            assert {row.status for row in journal.rows()} <= {Status.OK, Status.CRASHED}
            # Every finished trial is owed to the mirror, once.
            assert len(journal.unsent()) == len(journal.rows()) + 1
            ends.append((found.verdict, found.effect, found.winner and found.winner.trial))
    assert ends[0] == ends[1]


def resume_to_the_end(
    zygote: Zygote, folder: Path, before: dict[str, tuple[str | None, int]], **spec: Any
) -> None:
    assert zygote.run(folder, **spec)
    after = finished(folder)
    assert {key: after[key] for key in before} == before


@pytest.mark.parametrize("optimiser", ["random", "smac"])
def test_killed_at_random_moments(zygote: Zygote, tmp_path: Path, optimiser: str) -> None:
    spec: dict[str, Any] = {"optimiser": optimiser, "run_s": 0.004}
    began = time.monotonic()
    assert zygote.run(tmp_path / "whole", **spec)
    whole_s = time.monotonic() - began
    moments = random.Random(7)
    cuts, wanted, number = 0, 22 if optimiser == "random" else 5, 0
    while cuts < wanted:
        folder, number = tmp_path / f"broken-{number}", number + 1
        assert number <= 2 * wanted, "most kills come too late to cut anything"
        # Up to three kills of the same campaign; the later ones have less left to cut.
        for kill in range(moments.randint(1, 3)):
            before = finished(folder)
            ended = zygote.run(folder, moments.uniform(0.02, 0.9 / (kill + 1)) * whole_s, **spec)
            cuts += not ended
            after = finished(folder)
            assert {key: after[key] for key in before} == before
        resume_to_the_end(zygote, folder, finished(folder), **spec)
        assert_same_end(folder, tmp_path / "whole")


@pytest.mark.parametrize("state", STATES)
def test_killed_in_every_state_of_a_trial(zygote: Zygote, tmp_path: Path, state: str) -> None:
    assert zygote.run(tmp_path / "whole")
    for nth in (4, 20, 40):  # in search, selection, validation
        folder = tmp_path / f"broken-{nth}"
        assert not zygote.run(folder, die_in=[state, nth])
        resume_to_the_end(zygote, folder, finished(folder))
        assert_same_end(folder, tmp_path / "whole")


@pytest.mark.parametrize("nth", [9, 25, 62])  # in search, selection and validation
def test_killed_with_two_objectives(zygote: Zygote, tmp_path: Path, nth: int) -> None:
    spec: dict[str, Any] = {"objectives": True, "optimiser": "smac", "trials": 16, "crash_share": 0.0}
    assert zygote.run(tmp_path / "whole", **spec)
    folder = tmp_path / "broken"
    assert not zygote.run(folder, die_in=["mid-commit", nth], **spec)
    resume_to_the_end(zygote, folder, finished(folder), **spec)
    assert_same_end(folder, tmp_path / "whole")
    with Journal(journal_of(folder), writer=False) as journal:
        front = outcome(journal, CELL, RUNTIME, 0).front
        counts = [len(journal.rows(CELL, kind)) for kind in ("search", "selection", "validation")]
    assert counts[0] < 25 <= counts[0] + counts[1] < 62 <= sum(counts)
    assert front is not None
    assert len(front.points) >= 3


def test_a_killed_trial_is_a_row_and_is_run_again_as_it_was(zygote: Zygote, tmp_path: Path) -> None:
    assert not zygote.run(tmp_path, die_in=["mid-run", 4], workers=1)
    with Journal(journal_of(tmp_path)) as journal:
        (row,) = [row for row in journal.rows() if row.status is Status.INTERRUPTED]
    assert zygote.run(tmp_path, workers=1)
    with Journal(journal_of(tmp_path), writer=False) as journal:
        again = journal.row(CELL, "search", row.trial.number)
        assert again is not None
        assert (again.trial, again.attempt) == (row.trial, 2)
        assert journal.decisions(row.trial)[1:] == ["again, it was interrupted"]


def test_fewer_workers_on_resume_change_nothing(zygote: Zygote, tmp_path: Path) -> None:
    assert zygote.run(tmp_path / "whole", workers=3)
    assert not zygote.run(tmp_path / "broken", workers=3, die_in=["mid-run", 6])
    assert zygote.run(tmp_path / "broken", workers=1)
    assert table(journal_of(tmp_path / "broken")) == table(journal_of(tmp_path / "whole"))
