"""A campaign that runs in a second, and the command in this process."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import typer.testing
from typer.main import get_command
from typer.testing import CliRunner, Result

from tiertune.tuner.cli.app import app

# The runner makes all commands out of their functions for every call, which takes longer than most of what is
# asked here.
typer.testing._get_command = cache(get_command)  # type: ignore[attr-defined]

WORKLOAD = """\
name: small
version: 1
description: A table of 2 GiB with a hot tenth at its end
source: made up for this test
metric: {name: runtime_s, direction: minimize}
threads: 4
sim:
  streams:
    objects: [{name: table, bytes: 2GiB}]
    blocks:
      - phases:
          - name: update
            groups:
              - name: updater
                threads: 4
                ops: 1e9
                cpu_ns_per_op: 1
                streams:
                  - object: table
                    law: {kind: pieces, edges: [0, 0.9, 1], weights: [1, 9]}
                    class: random
                    reads_per_op: 1
                    stores_per_op: 0.2
"""

CAMPAIGN = """\
name: small
description: A campaign for tests
seed: 3
scenarios:
  - {workload: ./small-workload.yaml, machine: skx-numa, ratio: "1:4"}
systems:
  - {system: hemem, space: hemem}
budget: {trials: 8, initial: 4, random_share: 0.2}
optimiser: {name: random}
validation: {seeds: 5}
tracking: {mlflow: false}
workers: 2
"""


GAINFUL = "1:15"
"""A ratio at which the small campaign's search finds something three times as fast as the default."""


def write_small(folder: Path, ratio: str = "1:4") -> Path:
    """Writes workload and campaign into `folder`; returns the campaign's path.

    At its own ratio its search finds nothing that beats the default, at `GAINFUL` it does.
    """
    (folder / "small-workload.yaml").write_text(WORKLOAD)
    path = folder / "small.yaml"
    path.write_text(CAMPAIGN.replace("1:4", ratio))
    return path


def tiertune(*arguments: str | Path, env: dict[str, str] | None = None) -> Result:
    """Runs the command in this process; `stdout`, `stderr` and `exit_code` are as a shell would see them."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env=env)
