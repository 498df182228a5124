"""What is stored of a live trial: metrics, timeline, what was said, and what the host was like."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from tiertune.tuner.backend import HostUnfit
from tiertune.tuner.host.state import HostState, told
from tiertune.tuner.live import report
from tiertune.tuner.live.fitness import disturbance
from tiertune.tuner.live.launch import MOST_RAW, REPORT, metrics_of
from tiertune.tuner.live.scope import Ended
from tiertune.tuner.trial import Measurement, Status, Trial
from tiertune.workloads.live import HostPart, events_of
from tiertune.workloads.phases import phases_of


def measured(
    trial: Trial,
    part: HostPart,
    ended: Ended,
    fetched: Mapping[str, str],
    host: tuple[HostState, HostState],
    timeline_points: int,
    more: Mapping[str, Any] | None = None,
    busy_share: float = 0.0,
) -> Measurement:
    """The measurement of a command that ended so; `host` before and after, `more` to be stored beside them;
    `busy_share` of the processors was used by others right after it.

    Raises as `metrics_of` does where it is none, and HostUnfit where the host was not in order meanwhile.
    """
    said = {
        "returncode": ended.returncode,
        "ended": "timeout" if ended.timed_out else "finished",
        "output": ended.output,
        "errors": ended.errors,
        "wall_s": ended.wall_s,
        "fetched": fetched,
    }
    of_daemon = report.parsed(fetched.get(REPORT, ""))
    document = {
        "output": ended.output[-MOST_RAW:],
        "errors": ended.errors[-MOST_RAW:],  # where some programs say their metrics
        "report": report.kept(of_daemon),
        "host_state": told(*host),
        **(more or {}),
    }
    metrics, timeline = figures(trial, part, said, of_daemon, timeline_points)
    wrong = disturbance(*host, ended.wall_s, os.cpu_count() or 1, busy_share)
    if wrong is not None:
        raise HostUnfit(f"this host was not in order: {wrong}")
    return Measurement(
        Status.OK,
        metrics,
        timeline,
        wall_s=ended.wall_s,
        raw=json.dumps(document, sort_keys=True),
        worker=host[0].host or None,
    )


def figures(
    trial: Trial,
    part: HostPart,
    said: Mapping[str, Any],
    of_daemon: Mapping[str, Any],
    timeline_points: int,
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Metrics of the program, its phases and the daemon; the daemon's time series where points are asked for.

    `said` is what the command printed and left, `of_daemon` the daemon's report as `report.parsed` has it;
    raises as `metrics_of` does.
    """
    trials = phases_of(events_of(said["output"])) if part.metrics == "tierload" else []
    metrics = {
        **report.metrics(of_daemon),
        **metrics_of(trial, part, said, of_daemon),
        **report.of_phases(of_daemon, trials),
    }
    return metrics, report.timeline(of_daemon, timeline_points) if timeline_points else {}
