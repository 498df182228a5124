"""In the guest: policies move a known hot set, follow it, and keep the cap, whatever the process does."""

from __future__ import annotations

import json
import resource
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.host.guest import inside

MIB = inside.MIB
SIZE_BYTES, HOT_BYTES, GROWN_BYTES = 24 * MIB, 2 * MIB, 4 * MIB
CAP_BYTES = 6 * MIB
FIRST_HOT, SECOND_HOT = 18 * MIB, 6 * MIB
EXIT_CODE = 7
# What each is run with: knobs for a process and a fast tier a thousandth of what they were made for.
PLAN = Path(__file__).with_name("plan.json")
# The guest's processors are slow. Where pages move at all, they do so within seconds on a quiet machine;
# nothing here is about time.
PATIENCE_S = 150
ENOUGH = 0.9


class CapWatch(threading.Thread):
    """Asks the kernel how much of the processes is on the fast node, time and again.

    The daemon is stopped for the time of a look, which takes a while: what moves meanwhile would count twice.
    """

    def __init__(self, hotset: inside.Hotset) -> None:
        super().__init__(daemon=True)
        self.hotset = hotset
        self.seen: list[tuple[float, int]] = []
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.5):
            with inside.stopped(self.hotset.process.pid):
                self.seen.append((time.monotonic(), inside.bytes_in_fast(self.hotset.pids())))

    def look_again(self) -> None:
        """Waits until it has looked twice more, however fast the rest goes."""
        wanted = len(self.seen) + 2
        inside.waited(lambda: len(self.seen) >= wanted, PATIENCE_S)

    def told(self) -> dict[str, Any]:
        """The most that it saw, and each look: seconds, bytes."""
        self.ended.set()
        self.join()
        looks = [[round(at_s, 2), seen_bytes] for at_s, seen_bytes in self.seen]
        most_bytes = max((seen_bytes for _, seen_bytes in self.seen), default=0)
        return {"most_bytes": most_bytes, "looks": looks}


def daemon(binaries: str, policy: str, folder: Path, plan: dict[str, Any]) -> tuple[str, ...]:
    """The command that starts something under a policy."""
    knobs = folder / "knobs.json"
    knobs.write_text(json.dumps(plan["knobs"]))
    options = ["--page-bytes", "4096", "--sampler", plan["sampler"], "--knobs", str(knobs)]
    nodes = ["--fast", str(inside.FAST), "--slow", str(inside.SLOW), "--fast-bytes", str(CAP_BYTES)]
    files = ["--state", "/run/tierd", "--report", str(folder / "report.json")]
    return (f"{binaries}/tierd", "run", "--policy", policy, *nodes, *files, *options, "--")


def managed(binaries: str, policy: str, plan: dict[str, Any]) -> dict[str, Any]:
    """What a policy does with the hot set."""
    folder = Path(f"/run/policies/{policy}")
    folder.mkdir(parents=True)
    prefix = daemon(binaries, policy, folder, plan)
    arguments = (f"{binaries}/examples/hotset", folder / "hotset", SIZE_BYTES, HOT_BYTES)
    hotset = inside.Hotset(*arguments, node=inside.SLOW, prefix=prefix)
    watch = CapWatch(hotset)
    watch.start()
    told: dict[str, Any] = {"begins_in_fast": hotset.hot_in_fast()}
    both = {"tierd": hotset.process.pid, "workload": hotset.state["pid"]}
    told["rights"] = {name: inside.status(pid) for name, pid in both.items()}
    told["files"] = {name: resource.prlimit(pid, resource.RLIMIT_NOFILE) for name, pid in both.items()}
    told["files_here"] = resource.getrlimit(resource.RLIMIT_NOFILE)
    for name, hot in (("first", FIRST_HOT), ("second", SECOND_HOT)):
        hotset.tell(f"hot {hot}")
        begin = time.monotonic()
        inside.waited(lambda: hotset.hot_in_fast() >= ENOUGH, PATIENCE_S)
        told[name] = hotset.hot_in_fast()
        told[f"{name}_s"] = round(time.monotonic() - begin, 1)
        watch.look_again()
    told["steps_s"] = {}
    for line in (f"grow {GROWN_BYTES}", "fork", "shrink", "reap"):
        told["steps_s"][line] = round(time.monotonic(), 2)
        hotset.tell(line)
        time.sleep(1)
        watch.look_again()
    inside.waited(lambda: hotset.hot_in_fast() >= ENOUGH, PATIENCE_S)
    told["after"] = hotset.hot_in_fast()
    hotset.tell(f"exit {EXIT_CODE}")
    told["code"] = hotset.process.wait(60)
    told["cap"] = watch.told()
    told["said"] = hotset.said()
    report = folder / "report.json"
    told["report"] = json.loads(report.read_text()) if report.exists() else None
    return told


def main(binaries: str, *policies: str) -> None:
    """Runs those policies of the plan that are named, or all."""
    before = inside.settings()
    plan = json.loads(PLAN.read_text())
    for policy in policies or plan:
        try:
            result = managed(binaries, policy, plan[policy])
        except (OSError, RuntimeError, TimeoutError) as error:
            result = {"broke": f"{type(error).__name__}: {error}"}
        changed = inside.differences(before, inside.settings())
        inside.emit(scenario="policy", policy=policy, changed=changed, **result)


if __name__ == "__main__":
    main(*sys.argv[1:])
