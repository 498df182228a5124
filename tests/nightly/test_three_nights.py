"""Three nights of the real command: one whole, one killed, one with a workload that got 5 % slower."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.small import tiertune
from tests.nightly.two import night, slow_down, write_two

COMMAND = Path(sys.executable).with_name("tiertune")
MORE_TO_DO = 0.06
"""Makes a run 5 % longer: the first seconds, in which pages find their places, do not get longer."""


def trials(journal: Path) -> list[tuple[object, ...]]:
    """Search trials that ended, with their config and number of attempts."""
    if not journal.is_file():
        return []
    with closing(sqlite3.connect(f"file:{journal}?mode=ro", uri=True)) as store:
        try:
            query = "select number, config, cost from trial where purpose = 'search' and status = 'ok'"
            return store.execute(f"{query} order by number").fetchall()
        except sqlite3.OperationalError:
            return []


def test_one_whole_one_killed_one_slower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    suite, results = write_two(tmp_path), tmp_path / "results"
    told = tmp_path / "told.jsonl"
    with suite.open("a") as stream:
        stream.write(f"notify:\n  - {{command: [sh, -c, 'cat >> {told} && echo >> {told}']}}\n")

    code, first = night(tmp_path, suite, "2026-11-01")
    assert (code, first["outcome"], first["not_measured"]) == (0, "fine", [])
    assert "tiered, skx-numa, 1:4, memtis, tuned" in [one["label"] for one in first["improved"]]

    arguments = [str(COMMAND), "nightly", str(suite), "--date", "2026-11-02", "--results", str(results)]
    killed = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    journal = results / "two-steady-r2" / "journal.sqlite"
    ends_s = time.monotonic() + 60
    while len(trials(journal)) < 3 and killed.poll() is None and time.monotonic() < ends_s:
        time.sleep(0.005)
    os.kill(killed.pid, signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL, killed.stderr and killed.stderr.read()
    before = trials(journal)
    assert 3 <= len(before) < 30
    assert not (results / "nightly/two/2026-11-02/digest.html").exists()

    slow_down(tmp_path, "tiered", MORE_TO_DO)
    code, third = night(tmp_path, suite, "2026-11-03")
    assert (code, third["outcome"], third["not_measured"]) == (4, "regression", [])

    # It went on with the search that was killed, and kept what that had.
    done = {one["campaign"]: one["why"] for one in third["done"]}
    assert done["steady"].startswith("round 2 is complete")
    after = trials(journal)
    assert len(after) == 30
    assert set(before) <= set(after)
    assert "process" in (results / "nightly/two/2026-11-03/night.log").read_text()

    # Exactly one alarm, on the workload that got slower, since the night in which it did, with its cause.
    (alarm,) = third["alarms"]
    assert alarm["subject"] == "workload tiered"
    assert (alarm["news"], alarm["raised"], alarm["since"]) == ("raised", "2026-11-03", "2026-11-03")
    sizes = {one["label"]: one["size"] for one in alarm["affected"]}
    assert set(sizes) == {f"tiered, skx-numa, 1:4, memtis, {role}" for role in ("default", "tuned")}
    assert list(sizes.values()) == pytest.approx([0.05, 0.05], abs=0.01)
    assert [fact.split(":")[0] for fact in alarm["changed"]] == ["workload tiered"]
    (message,) = [json.loads(line) for line in told.read_text().splitlines()]
    assert message["event"] == "alarm 1 raised"
    assert re.match(r"workload tiered: runtime_s [45]\.\d % higher since 2026-11-03", message["verdict"])

    # It is said once; a night later it is still open, until it is accepted.
    with suite.open("a") as stream:
        stream.write("search: false\n")
    code, fourth = night(tmp_path, suite, "2026-11-04")
    assert (code, [one["news"] for one in fourth["alarms"]]) == (0, [""])
    assert len(told.read_text().splitlines()) == 1
    accepted = tiertune("nightly", "accept", "two", "--reason", "more to do", "--results", results)
    assert accepted.stdout == "accepted: 1\n"
    again = tiertune("nightly", "accept", "two", "1", "--results", results)
    assert again.exit_code == 2
    assert "alarm 1 is accepted already; open alarms: none" in again.stderr
