"""Metrics as reports name them."""

from __future__ import annotations

from tiertune import engine
from tiertune.tuner.report.document import Metric
from tiertune.tuner.trial import Objective


def metric_of(objective: Objective) -> Metric:
    """The declared metric that a campaign improves, with the campaign's direction."""
    for declared in engine.metrics():
        if declared.name == objective.metric:
            return Metric(
                name=declared.name,
                unit=declared.unit,
                direction=objective.direction,
                meaning=declared.meaning,
            )
    return Metric(name=objective.metric, unit="", direction=objective.direction, meaning="")
