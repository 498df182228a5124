"""What `tierd` reports of a run, as metrics, a timeline, and the part that is kept."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tiertune.workloads.phases import PhaseRun, bytes_moved

SERIES = "series"
COUNTED = ("samples", "hint_faults")
"""Metrics that a simulated run has as well."""


def parsed(text: str) -> dict[str, Any]:
    """A report of `tierd run --report`; empty where there is none, or no whole one."""
    try:
        document = json.loads(text or "{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def kept(report: Mapping[str, Any]) -> dict[str, Any]:
    """A report without its series, which a timeline holds where one was asked for."""
    return {name: value for name, value in report.items() if name != SERIES}


def metrics(report: Mapping[str, Any]) -> dict[str, float]:
    """What the daemon did and cost, beside the workload's own metrics: bytes moved, samples, processes left
    out, CPU seconds."""
    points = report.get(SERIES) or []
    found: dict[str, float] = {}
    if points:
        last = points[-1]
        for name in ("promoted_bytes", "demoted_bytes", *COUNTED):
            found[name] = float(last[name])
    unmanaged = report.get("counts", {}).get("unmanaged_processes")
    if unmanaged is not None:
        found["unmanaged_processes"] = float(unmanaged)
    cpu_s = report.get("overhead", {}).get("cpu_s")
    return found if cpu_s is None else {**found, "tierd_cpu_s": float(cpu_s)}


def of_phases(report: Mapping[str, Any], trials: Sequence[Sequence[PhaseRun]]) -> dict[str, float]:
    """What the daemon moved in each phase of the program."""
    return bytes_moved(trials, report.get(SERIES) or [])


def timeline(report: Mapping[str, Any], points: int) -> dict[str, list[float]]:
    """Columns over about `points` moments, named as a simulated timeline names them where they mean the same:
    `time_s` (s), `fast_used_bytes`, `promotions_per_s` and `demotions_per_s` (managed pages a second)."""
    series: Sequence[Mapping[str, Any]] = report.get(SERIES) or []
    page_bytes = float(report.get("page_bytes") or 1)
    step = max(1, len(series) // max(points, 1))
    moments = [series[0], *series[step::step]] if series else []
    columns: dict[str, list[float]] = {
        "time_s": [],
        "fast_used_bytes": [],
        "promotions_per_s": [],
        "demotions_per_s": [],
    }
    for before, now in itertools.pairwise(moments):
        seconds = now["at_s"] - before["at_s"]
        columns["time_s"].append(float(now["at_s"]))
        columns["fast_used_bytes"].append(float(now["fast_bytes"]))
        for name, moved in (("promotions_per_s", "promoted_bytes"), ("demotions_per_s", "demoted_bytes")):
            columns[name].append((now[moved] - before[moved]) / page_bytes / max(seconds, 1e-9))
    return columns
