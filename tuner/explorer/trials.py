"""The trials of a cell as rows of a table, and the values of knobs as columns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tiertune.spaces.definition import Axis, Space
from tiertune.tuner.journal import Row
from tiertune.tuner.trial import Objective, Status, Value

KNOB = "knob "
"""What names of columns of knobs begin with, as a knob may be called like a column."""


def axes_of(contents: dict[str, Any]) -> tuple[Axis, ...]:
    """The searched knobs of a stored cell."""
    return Space.model_validate(contents["space"]).axes()


def trial_rows(
    rows: Sequence[Row], objective: Objective, address: str, second: Objective | None = None
) -> list[dict[str, Any]]:
    """One row a trial, in the order in which they ran; `address` is that of the cell's pages.

    Gains are over the default trial of the search, or that of the same seed in selection and validation;
    short runs have none, as they do a share of the work. They are of the first objective; a second one has
    its values.
    """
    ordered = sorted(rows, key=lambda row: row.id)
    digits = max((len(str(row.trial.number)) for row in ordered), default=1)
    defaults: dict[object, float] = {}
    for row in ordered:
        if row.trial.origin == "default" and row.cost is not None and row.trial.fidelity == 1.0:
            defaults.setdefault(_block(row), row.cost)
    return [
        {
            "id": f"{row.trial.purpose}/{row.trial.number}",
            "trial": f"[{row.trial.purpose} {row.trial.number:0{digits}d}]"
            f"({address}/trial/{row.trial.purpose}/{row.trial.number})",
            "purpose": row.trial.purpose,
            "number": row.trial.number,
            "origin": row.trial.origin,
            "status": row.status.value,
            "value": None if row.cost is None else objective.value(row.cost),
            "gain": _gain(row, defaults.get(_block(row))),
            **({} if second is None else {"second": row.metrics.get(second.metric)}),
            # Seeds have 53 bits, which a browser's numbers hold; as text nobody rounds them.
            "seed": str(row.trial.seed),
            "wall_s": row.wall_s,
            "worker": row.worker or "",
            **{f"{KNOB}{name}": value for name, value in row.trial.config.items()},
        }
        for row in ordered
    ]


def _block(row: Row) -> object:
    """What trials have in common that are compared: the search, or a seed of a later purpose."""
    return row.trial.purpose if row.trial.purpose == "search" else (row.trial.purpose, row.trial.seed)


def _gain(row: Row, default: float | None) -> float | None:
    if row.cost is None or default is None or row.trial.fidelity != 1.0:
        return None
    return math.exp(default - row.cost)


def values_of(rows: Sequence[Row], objective: Objective) -> list[tuple[Row, float]]:
    """`rows` that have the metric of `objective`, with it."""
    known = [(row, row.metrics.get(objective.metric)) for row in rows]
    return [(row, value) for row, value in known if value is not None and math.isfinite(value)]


def measured(rows: Sequence[Row]) -> list[Row]:
    """Search trials at full length that worked, by number."""
    whole = [row for row in rows if row.trial.purpose == "search" and row.trial.fidelity == 1.0]
    return [row for row in whole if row.status is Status.OK and row.cost is not None]


def knob_value(axis: Axis, row: Row) -> Value | None:
    """Where a trial set a knob; None where it left it alone, or where the knob does not act."""
    config = row.trial.config
    return config.get(axis.name) if axis.acts(config) else None
