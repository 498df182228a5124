"""In the guest: systems that the kernel runs, held by the daemon: NUMA balancing and migration by DAMON."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.host.guest import inside, policies

BALANCING = "/sys/kernel/debug/sched/numa_balancing"
MONITOR = "/sys/kernel/mm/damon/admin/kdamonds"
CONTEXT = f"{MONITOR}/0/contexts/0"
SCHEME = f"{CONTEXT}/schemes/0"
MOST = str(2**32 - 1)


def balancing() -> list[dict[str, Any]]:
    """Balancing for memory tiers, which promotes what faults within a second of a scan, and demotion."""
    pairs = [
        (f"{BALANCING}/scan_delay_ms", "100"),
        (f"{BALANCING}/scan_period_min_ms", "100"),
        (f"{BALANCING}/scan_period_max_ms", "500"),
        (f"{BALANCING}/hot_threshold_ms", "1000"),
        ("/sys/kernel/mm/numa/demotion_enabled", "true"),
        ("/proc/sys/kernel/numa_balancing", "2"),
    ]
    return [{"path": path, "value": value} for path, value in pairs]


def migration() -> list[dict[str, Any]]:
    """A scheme of DAMON that moves what half of its looks find touched from the slow node to the fast one."""
    start, end = (frame * inside.PAGE_BYTES for frame in inside.slow_frames())
    pairs = [
        # It would move pages by itself.
        ("/proc/sys/kernel/numa_balancing", "0"),
        (f"{MONITOR}/nr_kdamonds", "1"),
        (f"{MONITOR}/0/contexts/nr_contexts", "1"),
        (f"{CONTEXT}/operations", "paddr"),
        (f"{CONTEXT}/monitoring_attrs/intervals/sample_us", "20000"),
        (f"{CONTEXT}/monitoring_attrs/intervals/aggr_us", "400000"),
        (f"{CONTEXT}/monitoring_attrs/intervals/update_us", "1000000"),
        (f"{CONTEXT}/monitoring_attrs/nr_regions/min", "100"),
        (f"{CONTEXT}/targets/nr_targets", "1"),
        (f"{CONTEXT}/targets/0/regions/nr_regions", "1"),
        (f"{CONTEXT}/targets/0/regions/0/start", str(start)),
        (f"{CONTEXT}/targets/0/regions/0/end", str(end)),
        (f"{CONTEXT}/schemes/nr_schemes", "1"),
        (f"{SCHEME}/action", "migrate_hot"),
        (f"{SCHEME}/target_nid", str(inside.FAST)),
        (f"{SCHEME}/access_pattern/sz/max", str(2**64 - 1)),
        (f"{SCHEME}/access_pattern/nr_accesses/max", MOST),
        (f"{SCHEME}/access_pattern/nr_accesses/min", "10"),
        (f"{SCHEME}/access_pattern/age/max", MOST),
        (f"{MONITOR}/0/state", "on"),
    ]
    return [{"path": path, "value": value} for path, value in pairs]


def held(binaries: str, name: str, settings: list[dict[str, Any]]) -> dict[str, Any]:
    """What a system of the kernel does with the hot set."""
    folder = Path(f"/run/systems/{name}")
    folder.mkdir(parents=True)
    (folder / "settings.json").write_text(json.dumps(settings))
    files = ["--settings", f"{folder}/settings.json", "--report", f"{folder}/report.json"]
    prefix = (f"{binaries}/tierd", "hold", *files, "--state", "/run/tierd", "--")
    arguments = (f"{binaries}/examples/hotset", folder / "hotset", policies.SIZE_BYTES, policies.HOT_BYTES)
    hotset = inside.Hotset(*arguments, node=inside.SLOW, prefix=prefix)
    hotset.tell(f"hot {policies.FIRST_HOT}")
    begin = time.monotonic()
    inside.waited(lambda: hotset.hot_in_fast() >= policies.ENOUGH, policies.PATIENCE_S)
    told = {"moved": hotset.hot_in_fast(), "moved_s": round(time.monotonic() - begin, 1)}
    hotset.tell("exit 0")
    code = hotset.process.wait(60)
    report = folder / "report.json"
    return {
        **told,
        "code": code,
        "said": hotset.said(),
        "report": json.loads(report.read_text()) if report.exists() else None,
    }


def main(binaries: str) -> None:
    """Both of them."""
    before = inside.settings()
    for name, settings in (("balancing", balancing), ("damon", migration)):
        try:
            result = held(binaries, name, settings())
        except (OSError, RuntimeError, TimeoutError) as error:
            result = {"broke": f"{type(error).__name__}: {error}"}
        changed = inside.differences(before, inside.settings())
        inside.emit(scenario="system", name=name, changed=changed, **result)


if __name__ == "__main__":
    main(*sys.argv[1:])
