"""Whether a host is still what it was: the latency of its memory, measured before every trial."""

from __future__ import annotations

import json
import statistics
import threading

YARDSTICK = ["tierload", "measure", "loaded", "--threads", "0", "--buffer-bytes", "67108864"]
YARDSTICK += ["--samples", "5", "--window-s", "0.04"]
"""A chase through 64 MiB of idle memory, a fifth of a second; it goes to wherever the kernel puts it."""

FIRST = 3
"""Measurements that say what a host is like."""


class Drift:
    """The measurements of one host. Safe to use from several threads."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._first: list[float] = []
        self._mutex = threading.Lock()

    def seen(self, output: str) -> str | None:
        """Takes note of a measurement; a sentence where the host drifts. An empty output says nothing."""
        latency_ns = latency_of(output)
        if latency_ns is None:
            return None
        with self._mutex:
            if len(self._first) < FIRST:
                self._first.append(latency_ns)
                return None
            usual_ns = statistics.median(self._first)
        change = latency_ns / usual_ns - 1.0
        if abs(change) <= self.limit:
            return None
        return (
            f"its memory drifts: a latency of {latency_ns:.1f} ns, {change * 100:+.0f} % from the"
            f" {usual_ns:.1f} ns at first (tiertune_drift_limit is {self.limit:g})"
        )


def latency_of(output: str) -> float | None:
    """The least latency (ns) in what `tierload measure` said, None where there is none.

    The least, since whatever else a host does only ever adds to it. A window in which the chase never had a
    processor has none, which is no fault of the trial that follows.
    """
    found = []
    for line in output.splitlines():
        try:
            document = json.loads(line)
        except ValueError:
            continue
        if isinstance(document, dict) and document.get("event") == "sample":
            latency_ns = document.get("latency_ns")
            if isinstance(latency_ns, (int, float)):
                found.append(float(latency_ns))
    return min(found, default=None)
