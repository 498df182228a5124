"""In the guest: what sources see of a known hot set, and whether settings are as found, however they end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.host.guest import inside

MIB = inside.MIB
SIZE_BYTES, HOT_BYTES, HOT_AT = 64 * MIB, 8 * MIB, 24 * MIB
BUCKETS = 64
# The guest's processors are slow, so both see little in a second.
SECONDS = {"hint-faults": 8, "damon": 14}
# Each hot page faults once in a pass of balancing: faults of some passes. Of DAMON's regions some.
ENOUGH = {"hint-faults": 4 * HOT_BYTES // inside.PAGE_BYTES, "damon": 12}


def watch(program: str, source: str, hotset: inside.Hotset, folder: str, seconds: float) -> list[str]:
    state = hotset.state
    where = [str(state["address"]), str(state["bytes"])]
    return [
        program,
        source,
        str(state["pid"]),
        *where,
        str(seconds),
        str(ENOUGH[source]),
        str(BUCKETS),
        folder,
    ]


def main(programs: str) -> None:
    Path("/run/journal").mkdir()
    # Kernels begin with balancing on where there are several nodes, and it moves pages by itself.
    Path("/proc/sys/kernel/numa_balancing").write_text("0")
    hotset = inside.Hotset(f"{programs}/hotset", Path("/run/hotset"), SIZE_BYTES, HOT_BYTES, node=inside.SLOW)
    hotset.tell(f"hot {HOT_AT}")
    # Balancing scans by processor time, of which it has little otherwise: all cold pages fault in one pass.
    hotset.tell("work 6")
    before = inside.settings()
    counters = ("numa_hint_faults", "pgpromote_success", "pgmigrate_success")
    for source, seconds in SECONDS.items():
        counted = inside.vmstat(*counters)
        call = watch(f"{programs}/watch", source, hotset, "/run/journal", seconds)
        done = subprocess.run(call, capture_output=True, text=True)
        after = inside.vmstat(*counters)
        inside.emit(
            scenario="source",
            source=source,
            code=done.returncode,
            said=done.stderr[-1000:],
            found=json.loads(done.stdout) if done.returncode == 0 else None,
            counters={name: after[name] - counted[name] for name in counted},
            changed=inside.differences(before, inside.settings()),
        )
    # Killed in the middle: the next one to open the journal puts the settings back.
    for source in SECONDS:
        killed = subprocess.Popen(watch(f"{programs}/watch", source, hotset, "/run/journal", 60))
        # It may take long to begin where the processors are slow, and is to be killed in the middle.
        deadline = time.monotonic() + 120
        while not inside.differences(before, inside.settings()) and time.monotonic() < deadline:
            time.sleep(0.2)
        time.sleep(1)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        left = inside.differences(before, inside.settings())
        restored = subprocess.run(
            [f"{programs}/watch", "restore", "/run/journal"], capture_output=True, text=True
        )
        inside.emit(
            scenario="source killed",
            source=source,
            left=sorted(left),
            code=restored.returncode,
            said=restored.stderr[-1000:],
            changed=inside.differences(before, inside.settings()),
        )
    hotset.process.kill()


if __name__ == "__main__":
    main(sys.argv[1])
