"""A whole campaign through the command line: wall seconds, and the share of each part."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

from tests.bench.trials import Section

CAMPAIGN = """\
name: bench
seed: 1
scenarios:
  - {{workload: {workload}, machine: skx-numa, ratio: "1:8", threads: 12, page_size: 2MiB}}
systems:
  - {{system: hemem, space: hemem}}
budget: {{trials: {trials}, initial: 20, random_share: 0.2}}
optimiser: {{name: {optimiser}}}
validation: {{seeds: 10}}
tracking: {{mlflow: {mlflow}}}
workers: {workers}
"""

WORKLOAD = """\
name: bench-updates
version: 1
description: 60 simulated seconds of random updates of 64 GiB, 8 GiB of them hot
source: made for the benchmark
metric: {name: throughput_mops, direction: maximize}
threads: 12
sim:
  streams:
    objects:
      - {name: table, bytes: 64GiB}
    blocks:
      - phases:
          - name: timed
            seconds: 60
            groups:
              - name: workers
                threads: 12
                cpu_ns_per_op: 2
                streams:
                  - {object: table, law: {kind: uniform, from: 0, to: 0.125}, class: update,
                     reads_per_op: 0.9, writebacks_per_op: 0.9, stores_per_op: 0.9}
                  - {object: table, law: {kind: uniform}, class: update,
                     reads_per_op: 0.1, writebacks_per_op: 0.1, stores_per_op: 0.1}
"""


def seconds_per_campaign(trials: int) -> Section:
    """``tiertune tune`` with optimiser, tracking and validation, from start to end."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        wall_s = _tuned(here, trials)
        with closing(sqlite3.connect(here / "results" / "bench" / "journal.sqlite")) as store:
            stages = store.execute(
                "SELECT purpose, count(*), sum(wall_s), sum(ask_cpu_s) FROM trial GROUP BY purpose"
            ).fetchall()
    rows = []
    ask_s = sum(stage[3] or 0.0 for stage in stages)
    for purpose, count, trial_s, _ in stages:
        rows.append([f"{count} trials, {purpose}", f"{trial_s:.1f} s of trials on 2 workers", ""])
    rows.append(["optimiser", f"{ask_s:.1f} s CPU", f"{1000 * ask_s / trials:.0f} ms a trial"])
    rows.append(["everything, from command to report", f"{wall_s:.1f} s wall", ""])
    promise = 60.0 * trials / 100
    rows.append(
        [f"promise ({trials} trials)", f"{promise:.0f} s wall", "met" if wall_s <= promise else "missed"]
    )
    return (
        f"A campaign of {trials} trials with optimiser, tracking and validation",
        ["part", "time", ""],
        rows,
    )


def throughput_by_workers(trials: int) -> Section:
    """Trials a second of one campaign with one and with two workers; random search, so that what the
    optimiser takes is next to nothing."""
    rates: list[float] = []
    for workers in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            _tuned(Path(folder), trials, optimiser="random", mlflow="false", workers=workers)
            with closing(sqlite3.connect(Path(folder, "results/bench/journal.sqlite"))) as store:
                (count, seconds) = store.execute(
                    "SELECT count(*), (julianday(max(finished_at)) - julianday(min(started_at))) * 86400"
                    " FROM trial"
                ).fetchone()
        rates.append(count / seconds)
    rows = [[str(workers), f"{rate:.2f}", f"{rate / rates[0]:.2f}"] for workers, rate in enumerate(rates, 1)]
    title = f"A campaign of {trials} trials of random search, by workers"
    return title, ["workers", "trials a second", "of one worker's"], rows


def _tuned(here: Path, trials: int, optimiser: str = "smac", mlflow: str = "true", workers: int = 2) -> float:
    """Runs the campaign in `here` through the command line; its wall seconds."""
    (here / "updates.yaml").write_text(WORKLOAD)
    text = CAMPAIGN.format(
        workload="updates.yaml", trials=trials, optimiser=optimiser, mlflow=mlflow, workers=workers
    )
    (here / "bench.yaml").write_text(text)
    began = time.perf_counter()
    command = [str(Path(sys.executable).with_name("tiertune")), "tune", str(here / "bench.yaml")]
    subprocess.run([*command, "--results", str(here / "results")], check=True, capture_output=True)
    return time.perf_counter() - began
