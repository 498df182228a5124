"""A small fleet campaign: one live scenario and one simulated, and the command that runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.cli.small import WORKLOAD as SIMULATED
from tests.configs.corpus import ROOT
from tests.host.fleet.hosts import Fleet

COMMAND = [sys.executable, "-c", "from tiertune.tuner.cli import main; main()"]

LIVE = """\
name: live
version: 1
description: Random updates of 16 MiB, run on a host
source: made up for this test
metric: {name: throughput_mops, direction: maximize}
threads: 1
sim:
  record: {kernel: gups, table_bytes: 16MiB, hot_bytes: 2MiB, updates: 100000, seed: 1}
host:
  command: [tierload, gups, gups, --table-bytes, 16MiB, --hot-bytes, 2MiB, --updates, "UPDATES",
            --seed, "{seed}", --threads, "{threads}", --json]
  footprint: 16MiB
  timeout_s: 60
"""

CAMPAIGN = """\
name: rack
description: A campaign for tests
seed: 3
scenarios: SCENARIOS
systems:
  - {system: hemem, space: hemem}
budget: {trials: 2, initial: 1, random_share: 0.2}
optimiser: {name: random}
validation: {seeds: 5}
tracking: {mlflow: MLFLOW}
workers: 2
"""


def write_campaign(
    folder: Path,
    *,
    simulated: bool = False,
    mlflow: bool = False,
    updates: int = 3_000_000,
    talkative: bool = False,
) -> Path:
    """Writes the campaign with its workloads; returns its path. A talkative one prints its environment."""
    live = LIVE.replace("UPDATES", str(updates))
    if talkative:
        live = live.replace("[tierload,", "[sh, -c, 'env; exec \"$@\"', sh, tierload,")
    (folder / "live.yaml").write_text(live)
    (folder / "simulated.yaml").write_text(SIMULATED.replace("name: small", "name: simulated"))
    scenarios = ['{workload: ./live.yaml, machine: skx-numa, ratio: "1:4"}']
    if simulated:
        scenarios.append('{workload: ./simulated.yaml, machine: skx-numa, ratio: "1:4"}')
    text = CAMPAIGN.replace("SCENARIOS", f"[{', '.join(scenarios)}]").replace("MLFLOW", str(mlflow).lower())
    path = folder / "rack.yaml"
    path.write_text(text)
    return path


def tiertune(fleet: Fleet, folder: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    """Starts `tiertune` where the hosts can be reached."""
    paths = os.pathsep.join([str(ROOT / "engine" / "python"), str(ROOT)])
    return subprocess.Popen(
        fleet.command(*COMMAND, *words),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
