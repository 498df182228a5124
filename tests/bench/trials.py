"""Single trials: seconds by page size and sampling period, memory per page, trials per hour, scale."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import Any

from tiertune import engine
from tiertune.machines.definition import load_machine
from tiertune.spaces.configspace import config_of, to_configspace
from tiertune.spaces.definition import load_space
from tiertune.tuner.memory_need import BYTES_PER_PAGE

GIB = 2**30
PAGE_BYTES = {"2 MiB": 2 << 20, "4 KiB": 4 << 10}
Section = tuple[str, list[str], list[list[str]]]


def updates(table_bytes: int, seconds: float, threads: int = 12) -> dict[str, Any]:
    """GUPS with a hot eighth that moves by a quarter half-way, for a fixed simulated time."""
    hot = 1 / 8

    def phase(start: float) -> dict[str, Any]:
        def stream(law: dict[str, Any], share: float) -> dict[str, Any]:
            rates = {"reads_per_op": share, "writebacks_per_op": share, "stores_per_op": share}
            return {"object": "table", "law": law, "class": "update", **rates}

        streams = [
            stream({"kind": "uniform", "from": start, "to": start + hot}, 0.9),
            stream({"kind": "uniform"}, 0.1),
        ]
        group = {"name": "workers", "threads": threads, "cpu_ns_per_op": 2.0, "streams": streams}
        return {"name": f"hot from {start:g}", "seconds": seconds / 2, "groups": [group]}

    return {
        "objects": [{"name": "table", "bytes": table_bytes}],
        "blocks": [{"phases": [phase(0.0), phase(hot / 4)]}],
    }


def request(config: dict[str, Any], page_bytes: int, table_bytes: int, **more: Any) -> dict[str, Any]:
    """HeMem on the Skylake machine with a ninth of the table in fast memory."""
    machine = load_machine("skx-numa").document()
    for tier in machine["tiers"]:
        tier["capacity_bytes"] = max(tier["capacity_bytes"], 2 * table_bytes)
    return {
        "machine": machine,
        "system": "hemem",
        "config": config,
        "page_bytes": page_bytes,
        "fast_bytes": table_bytes // 9,
        "seed": 1,
        **more,
    }


def seconds_per_trial(repetitions: int) -> Section:
    """60 simulated seconds of 64 GiB on 12 threads, one core, with the share of each part."""
    rows = []
    table_bytes = 64 * GIB
    for page_name, page_bytes in PAGE_BYTES.items():
        workload = engine.EngineWorkload.from_streams(updates(table_bytes, 60))
        for period in (500, 2000, 5000, 50000):
            # Low thresholds find the hot set at once, so that the machine runs near full speed and
            # the trial has as many accesses as the promise speaks of.
            config = {"sampling_period": period, "read_hot_threshold": 2, "write_hot_threshold": 2}
            timed = []
            for _ in range(repetitions):
                began = time.process_time()
                result = engine.run(workload, request(config, page_bytes, table_bytes, timings=True))
                timed.append((time.process_time() - began, result))
            cpu_s, result = min(timed, key=lambda pair: pair[0])
            metrics, parts = result["metrics"], result["timings"]
            whole = sum(parts.values())
            shares = ", ".join(
                f"{name.removesuffix('_s')} {100 * value / whole:.0f} %"
                for name, value in parts.items()
                if value > 0.02 * whole
            )
            promise = 0.3 if period >= 2000 else 1.0
            rows.append(
                [
                    f"{page_name}, period {period}",
                    f"{cpu_s:.2f} s",
                    f"{promise} s",
                    "met" if cpu_s <= promise else "missed",
                    f"{metrics['simulated_accesses']:.2g}",
                    f"{metrics['samples'] / 1e6:.1f} M",
                    shares,
                ]
            )
    head = [
        "trial (64 GiB, 60 s, 12 threads)",
        "CPU",
        "promise",
        "",
        "accesses",
        "samples",
        "where the time goes",
    ]
    return "Seconds per trial on one core (least of the repetitions)", head, rows


def fast_against_reference(repetitions: int) -> Section:
    """The same run in both modes, and the fast mode on a whole trial: accesses simulated in a CPU second."""
    rows = []
    small, whole = (GIB, 0.1), (64 * GIB, 60.0)
    rates = {}
    for name, mode, (table_bytes, seconds) in (
        ("reference mode, 1 GiB, 0.1 s", "reference", small),
        ("fast mode, 1 GiB, 0.1 s", "fast", small),
        ("fast mode, 64 GiB, 60 s", "fast", whole),
    ):
        workload = engine.EngineWorkload.from_streams(updates(table_bytes, seconds))
        config = {"sampling_period": 5000, "read_hot_threshold": 2, "write_hot_threshold": 2}
        asked = request(config, PAGE_BYTES["2 MiB"], table_bytes, mode=mode)
        timed = []
        for _ in range(repetitions):
            began = time.process_time()
            result = engine.run(workload, asked)
            timed.append((time.process_time() - began, result))
        cpu_s, result = min(timed, key=lambda pair: pair[0])
        metrics = result["metrics"]
        rates[name] = metrics["simulated_accesses"] / cpu_s
        rows.append(
            [
                name,
                f"{metrics['simulated_accesses']:.2g}",
                f"{cpu_s:.4f} s",
                f"{rates[name]:.2g}",
                f"{rates[name] / next(iter(rates.values())):,.0f}",
                f"{metrics['throughput_mops']:.1f}",
            ]
        )
    head = [
        "run (12 threads, period 5000)",
        "accesses",
        "CPU",
        "accesses/s",
        "times reference",
        "Mops/s found",
    ]
    return "Fast mode beside the reference mode, which executes every access (least CPU)", head, rows


def _peak_bytes(code: str) -> tuple[int, float]:
    """Peak resident memory and CPU seconds of a fresh Python process that runs `code`."""
    # VmHWM, not ru_maxrss: the latter starts from the parent's peak.
    report = (
        "import resource; u = resource.getrusage(resource.RUSAGE_SELF); "
        "hwm = next(l for l in open('/proc/self/status') if l.startswith('VmHWM')).split()[1]; "
        "print(int(hwm) * 1024, u.ru_utime + u.ru_stime)"
    )
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\n{report}"], check=True, capture_output=True, text=True
    ).stdout.split()
    return int(out[-2]), float(out[-1])


def _run_code(table_bytes: int, page_bytes: int, seconds: float) -> str:
    return (
        "from tiertune import engine\nfrom tests.bench.trials import request, updates\n"
        f"w = engine.EngineWorkload.from_streams(updates({table_bytes}, {seconds}))\n"
        f"engine.run(w, request({{'sampling_period': 5000}}, {page_bytes}, {table_bytes}))"
    )


def memory_per_page() -> Section:
    """Peak memory of a trial over that of one with next to no pages."""
    base, _ = _peak_bytes(_run_code(GIB, PAGE_BYTES["2 MiB"], 1))
    rows = []
    for page_name, page_bytes in PAGE_BYTES.items():
        table_bytes = 64 * GIB if page_name == "4 KiB" else 4096 * GIB
        peak, _ = _peak_bytes(_run_code(table_bytes, page_bytes, 60))
        pages = table_bytes / page_bytes
        each = (peak - base) / pages
        rows.append(
            [
                f"{page_name}, {pages:,.0f} pages",
                f"{each:.1f} B",
                f"{BYTES_PER_PAGE} B",
                "met" if each <= BYTES_PER_PAGE else "missed",
            ]
        )
    return "Memory per page (all of a trial)", ["pages", "per page", "promise", ""], rows


def trials_per_hour(repetitions: int) -> Section:
    """Random configurations of the whole space on 2 cores."""
    space = load_space("hemem")
    drawn = iter(to_configspace(space, 1).sample_configuration(16 * repetitions))
    table_bytes = 64 * GIB
    rows = []
    for page_name, page_bytes in PAGE_BYTES.items():
        workload = engine.EngineWorkload.from_streams(updates(table_bytes, 60))
        requests = []
        for _ in range(8 * repetitions):
            requests.append(request(config_of(space, dict(next(drawn))), page_bytes, table_bytes))
        began = time.perf_counter()
        results = engine.run_many(workload, requests, 2)
        wall_s = time.perf_counter() - began
        hourly = 3600 * len(requests) / wall_s
        median = statistics.median(r["metrics"]["samples"] for r in results)
        rows.append(
            [
                page_name,
                f"{hourly:,.0f}",
                "10,000",
                "met" if hourly >= 10_000 else "missed",
                f"{median / 1e6:.1f} M",
            ]
        )
    return (
        "Trials per hour on 2 cores (random configs of spaces/hemem.yaml)",
        ["pages", "trials/h", "promise", "", "median samples"],
        rows,
    )


def scale() -> Section:
    """The largest footprints promised, on this machine's memory."""
    rows = []
    for page_name, table_bytes in (("2 MiB", 1024 * GIB), ("4 KiB", 256 * GIB)):
        peak, cpu_s = _peak_bytes(_run_code(table_bytes, PAGE_BYTES[page_name], 60))
        rows.append(
            [f"{table_bytes // GIB} GiB in {page_name} pages", f"{cpu_s:.1f} s", f"{peak / GIB:.1f} GiB"]
        )
    return "Scale (60 simulated seconds, period 5000)", ["footprint", "CPU", "peak memory"], rows
