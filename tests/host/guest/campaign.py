"""In the guest: a live campaign by the command line, on the guest's two nodes, with the host's own Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tests.host.guest import inside

HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
RESULTS = Path("/run/campaign")
TIMEOUT_S = 700


def main(python: str, binaries: str, campaign: str, *options: str) -> None:
    """`tiertune tune CAMPAIGN OPTIONS`, with the programs of `binaries` on the path."""
    # Trials with pages of 4 KiB are refused where the kernel makes all memory huge.
    HUGE_PAGES.write_text("madvise")
    before = inside.settings()
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "HOME": "/run"}
    command = [python, "-B", "-c", "from tiertune.tuner.cli import main; main()", "tune", campaign]
    begin = time.monotonic()
    done = subprocess.run(
        [*command, *options, "--results", str(RESULTS), "--json"],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        env=environment,
    )
    reports = sorted(RESULTS.glob("*/report.json"))
    inside.emit(
        scenario="campaign",
        options=list(options),
        code=done.returncode,
        said=done.stderr[-3000:],
        verdict=json.loads(done.stdout) if done.returncode == 0 else done.stdout[-1000:],
        journal=[line for path in RESULTS.glob("*/journal.jsonl") for line in path.read_text().splitlines()],
        report=json.loads(reports[0].read_text()) if reports else None,
        page_bytes=sum(path.stat().st_size for path in RESULTS.glob("*/report.html")),
        seconds=round(time.monotonic() - begin, 1),
        changed=inside.differences(before, inside.settings()),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
