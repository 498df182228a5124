"""In the guest: campaigns of live trials, by the command that users have.

`tiertune` runs on the checkout's own Python, this script on Debian's, which reads what came of it.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.host.guest import inside

FOLDER = Path("/run/campaigns")
PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
PATIENCE_S = 900.0
TRIALS = 5
KERNEL_RUNS = {"nbt": "nbt-kernel", "hmsdk": "hmsdk"}
"""Systems with their spaces."""
WORKLOAD = """\
name: tiny
version: 1
description: Random updates of 32 MiB, nine tenths of them to 4 MiB
source: made up for this test
metric: {name: throughput_mops, direction: maximize}
threads: 2
sim:
  record: {kernel: gups, table_bytes: 16MiB, hot_bytes: 2MiB, hot_share: 0.9, updates: 200000, seed: 1}
  carry: {table_bytes: 1GiB, hot_bytes: 128MiB, runs: 20}
host:
  command: [tierload, gups, gups, --table-bytes, 32MiB, --hot-bytes, 4MiB, --hot-share, "0.9",
            --updates, "UPDATES", --seed, "{seed}", --threads, "{threads}", --json]
  footprint: 32MiB
  timeout_s: 120
"""
CAMPAIGN = """\
name: NAME
seed: 1
scenarios: [{workload: ./tiny.yaml, machine: skx-numa, ratio: "1:1", page_size: 4KiB}]
systems: SYSTEMS
budget: {trials: TRIALS, initial: INITIAL}
optimiser: {name: random}
validation: {seeds: 5}
tracking: {mlflow: false}
"""


class Tiertune:
    """The command, of the environment whose programs are in `binaries`, with the code of the checkout."""

    def __init__(self, binaries: str, checkout: str, more: dict[str, str] | None = None) -> None:
        self.program = f"{binaries}/tiertune"
        path = os.pathsep.join([binaries, os.environ.get("PATH", ""), "/usr/sbin:/usr/bin:/sbin:/bin"])
        code = os.pathsep.join([f"{checkout}/engine/python", checkout])
        self.environment = {"PATH": path, "PYTHONPATH": code, "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/root"}
        self.environment.update(more or {})

    def started(
        self,
        name: str,
        systems: dict[str, str],
        *places: str,
        limits: dict[str, Any] | None = None,
        updates: int = 500_000,
        trials: int = TRIALS,
    ) -> subprocess.Popen[bytes]:
        """Starts a campaign of these systems with their spaces; `limits` are those of a container."""
        container = f"  container: {json.dumps(limits)}\n" if limits else ""
        (FOLDER / "tiny.yaml").write_text(WORKLOAD.replace("UPDATES", str(updates)) + container)
        entries = ", ".join(f"{{system: {system}, space: {space}}}" for system, space in systems.items())
        text = CAMPAIGN.replace("NAME", name).replace("SYSTEMS", f"[{entries}]")
        text = text.replace("TRIALS", str(trials)).replace("INITIAL", str(min(2, trials)))
        (FOLDER / f"{name}.yaml").write_text(text)
        words = [self.program, "tune", f"{name}.yaml", *places]
        with (FOLDER / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [*words, "--results", "results"], cwd=FOLDER, env=self.environment, stdout=log, stderr=log
            )


def rows(name: str) -> list[dict[str, Any]]:
    """Trials that have ended, with what was stored of the run."""
    place = FOLDER / "results" / name / "journal.sqlite"
    if not place.exists():
        return []
    try:
        with sqlite3.connect(f"file:{place}?mode=ro", uri=True) as database:
            database.row_factory = sqlite3.Row
            found = [dict(row) for row in database.execute("select * from trial where status != 'running'")]
    except sqlite3.OperationalError:
        return []
    kept = ("system", "purpose", "number", "status", "error", "cost")
    return [{**{key: row[key] for key in kept}, "raw": json.loads(row["raw"] or "{}")} for row in found]


def told(name: str, code: int, before: dict[str, str]) -> None:
    """Passes on what came of a campaign."""
    folder = FOLDER / "results" / name
    page, document = folder / "report.html", folder / "report.json"
    trials = []
    for row in rows(name):
        raw = row.pop("raw")
        report = raw.get("report", {})
        trials.append({**row, "settings": report.get("settings", []), "host_state": "host_state" in raw})
    inside.emit(
        scenario="campaign",
        name=name,
        code=code,
        said=(FOLDER / f"{name}.log").read_text(errors="replace")[-3000:],
        trials=trials,
        page="<!doctype html" in page.read_text()[:200].lower() if page.exists() else False,
        verdict=json.loads(document.read_text()).get("verdict") if document.exists() else None,
        changed=inside.differences(before, inside.settings()),
    )


def main(binaries: str, checkout: str) -> None:
    """HeMem under the daemon to the end; then what the kernel itself runs, a trial of each."""
    FOLDER.mkdir(parents=True)
    # Trials of small pages want a kernel that does not make all memory huge.
    PAGES.write_text("madvise")
    tiertune, before = Tiertune(binaries, checkout), inside.settings()
    here = ("--here", f"{inside.FAST},{inside.SLOW}")
    told("live", tiertune.started("live", {"hemem": "hemem"}, *here).wait(PATIENCE_S), before)
    by_kernel = [word for system in KERNEL_RUNS for word in ("--by-kernel", system)]
    process = tiertune.started("kernel", KERNEL_RUNS, *here, *by_kernel, trials=1)
    until = time.monotonic() + PATIENCE_S
    # It is stopped before it has written its report, which takes minutes in an emulated machine. Looking more
    # often makes the host too busy for a trial.
    while process.poll() is None and time.monotonic() < until:
        if {row["system"] for row in rows("kernel") if row["status"] == "ok"} == KERNEL_RUNS.keys():
            process.send_signal(signal.SIGINT)
            break
        time.sleep(1)
    told("kernel", process.wait(120), before)


if __name__ == "__main__":
    main(*sys.argv[1:])
