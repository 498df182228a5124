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
    """A table per page size, with two ratios: to the fastest system, and to the fastest that moves pages.

    A trial is the whole call: tables set up, the run, and its figures; the workload is compiled once before.
    """
    workload = engine.EngineWorkload.from_streams(updates(TABLE_BYTES, SECONDS))
    for page_name, page_bytes in PAGE_BYTES.items():
        timed = {}
        for system in engine.systems():
            if page_bytes in system.page_bytes:
                runs = [_cpu_s(system.name, page_bytes, workload) for _ in range(repetitions)]
                timed[system.name] = (min(cpu_s for cpu_s, _ in runs), runs[0][1])
        moves = {name for name, (_, metrics) in timed.items() if metrics["promotions"] + metrics["demotions"]}
        fastest = min(cpu_s for cpu_s, _ in timed.values())
        fastest_mover = min(timed[name][0] for name in moves)
        rows = []
        for name, (cpu_s, metrics) in sorted(timed.items(), key=lambda pair: pair[1][0]):
            of_all = _times(cpu_s / fastest)
            of_movers = _times(cpu_s / fastest_mover) if name in moves else ""
            events = [metrics[event] / 1e6 for event in ("samples", "hint_faults", "promotions", "demotions")]
            rows.append([name, f"{cpu_s:.3f} s", of_all, of_movers, *(f"{count:.2f} M" for count in events)])
        head = ["system", "CPU", f"times the fastest, at most {MOST:g}", "times the fastest that moves pages"]
        head += ["samples", "faults", "up", "down"]
        title = f"Seconds per trial by system, {page_name} pages (64 GiB, 60 s, 12 threads)"
        yield title, head, rows


def _times(ratio: float) -> str:
    return f"{ratio:.1f}, {'met' if ratio <= MOST else 'missed'}"
