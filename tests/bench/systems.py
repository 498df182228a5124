"""One trial of every system at its defaults, the same machine and workload for all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from tests.bench.trials import GIB, PAGE_BYTES, Section, request, updates
from tiertune import engine

TABLE_BYTES = 64 * GIB
SECONDS = 60.0
MOST = 3.0
"""The slowest may take so many times as long as the fastest."""


def _cpu_s(system: str, page_bytes: int, workload: engine.EngineWorkload) -> tuple[float, dict[str, Any]]:
    began = time.process_time()
    result = engine.run(workload, request({}, page_bytes, TABLE_BYTES, system=system))
    return time.process_time() - began, result["metrics"]


def seconds_by_system(repetitions: int) -> Iterator[Section]:
    """A table per page size; the ratio is over systems that learn from the run, since others do nothing."""
    workload = engine.EngineWorkload.from_streams(updates(TABLE_BYTES, SECONDS))
    for page_name, page_bytes in PAGE_BYTES.items():
        timed = {}
        for system in engine.systems():
            if page_bytes in system.page_bytes:
                runs = [_cpu_s(system.name, page_bytes, workload) for _ in range(repetitions)]
                timed[system.name] = (min(cpu_s for cpu_s, _ in runs), runs[0][1], system.signal)
        fastest = min(cpu_s for cpu_s, metrics, _ in timed.values() if _learns(metrics))
        rows = []
        for name, (cpu_s, metrics, _) in sorted(timed.items(), key=lambda pair: pair[1][0]):
            times = cpu_s / fastest
            verdict = ("met" if times <= MOST else "missed") if _learns(metrics) else ""
            events = [metrics[event] / 1e6 for event in ("samples", "hint_faults", "promotions", "demotions")]
            rows.append(
                [name, f"{cpu_s:.2f} s", f"{times:.1f}", verdict, *(f"{count:.2f} M" for count in events)]
            )
        head = ["system", "CPU", "times the fastest", f"at most {MOST:g}", "samples", "faults", "up", "down"]
        title = f"Seconds per trial by system, {page_name} pages (64 GiB, 60 s, 12 threads; least)"
        yield title, head, rows


def _learns(metrics: dict[str, Any]) -> bool:
    return bool(metrics["samples"] + metrics["hint_faults"] + metrics["promotions"])
