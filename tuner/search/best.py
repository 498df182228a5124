"""Which trials of a search may be its best so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tiertune.tuner.search.constraint import Constraint, counts

if TYPE_CHECKING:
    from tiertune.tuner.journal import Row


def costs_that_count(rows: Sequence[Row], rules: Sequence[Constraint] = ()) -> list[float | None]:
    """The cost of each trial of a search; None where it failed, ran a part of the workload only, which says
    nothing of the whole, or breaks one of `rules`."""
    first = next((row.metrics for row in rows if row.trial.number == 0), None)
    return [
        row.cost
        if row.trial.fidelity == 1.0 and counts(rules, row.trial.number, row.metrics, first)
        else None
        for row in rows
    ]
