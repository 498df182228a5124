"""In the guest: a campaign whose trials run in containers on both nodes, by the command that users have.

Everything here runs on the checkout's own Python, which has the engine's client.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.host.container.running import running
from tests.host.guest import campaign, inside

NAME = "boxed"
GROUPS = "/sys/fs/cgroup"
BALANCING = Path("/proc/sys/kernel/numa_balancing")
PATIENCE_S = 300.0
LIMITS = {"memory": "160MiB", "cpus": 1.75, "processors": "0-1", "pids": 64}
UPDATES = 12_000_000
"""Some seconds under the daemon, so that it sees the whole table."""
# The workload's table is smaller than what HeMem leaves alone by default.
SPACE = """\
name: small
description: One threshold of HeMem, which looks after small mappings, too
system: hemem
knobs:
  read_hot_threshold: {}
  mmap_filter_size_bytes: {fixed: 0}
"""


def told(raw: dict[str, Any]) -> dict[str, Any]:
    """What the test asserts on: the container as it was from inside, and what the daemon did in it."""
    report = raw.get("report", {})
    kept = {key: report.get(key) for key in ("tiers", "counts", "migrations")}
    return {"container": raw.get("container"), **kept}


def main(binaries: str, checkout: str) -> None:
    """HeMem under the daemon inside, until a trial has ended."""
    campaign.FOLDER.mkdir(parents=True)
    subprocess.run(["mount", "-t", "cgroup2", "none", GROUPS], check=True)
    campaign.PAGES.write_text("madvise")
    # What a container cannot switch off itself.
    BALANCING.write_text("0")
    begin = time.monotonic()
    with running() as engine:
        up_s = time.monotonic() - begin
        before = inside.settings()
        tiertune = campaign.Tiertune(binaries, checkout, {"DOCKER_HOST": engine.address})
        nodes = f"{inside.FAST},{inside.SLOW}"
        (campaign.FOLDER / "space.yaml").write_text(SPACE)
        systems = {"hemem": "./space.yaml"}
        process = tiertune.started(NAME, systems, "--container", nodes, limits=LIMITS, updates=UPDATES)
        until = time.monotonic() + PATIENCE_S
        while process.poll() is None and time.monotonic() < until and not campaign.rows(NAME):
            time.sleep(1)
        process.send_signal(signal.SIGINT)
        code = process.wait(120)
        left = [box.name for box in engine.client.containers.list(all=True)]
    rows = campaign.rows(NAME)
    trials = [{key: row[key] for key in ("status", "error", "number")} | told(row["raw"]) for row in rows]
    inside.emit(
        scenario="containers",
        code=code,
        said=(campaign.FOLDER / f"{NAME}.log").read_text(errors="replace")[-3000:],
        engine=engine.log() if not trials else "",
        trials=trials,
        left=left,
        up_s=round(up_s, 1),
        changed=inside.differences(before, inside.settings()),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
