"""The trials of a search as a table: where every knob stood, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tiertune.spaces.definition import Axis, Space
from tiertune.tuner.explanation.scale import place_on
from tiertune.tuner.journal import Journal
from tiertune.tuner.search.constraint import Constraint, constraints_of
from tiertune.tuner.transfer.context import Context, complete
from tiertune.tuner.trial import Status, canonical


@dataclass(frozen=True)
class Trials:
    """`places`: different configs x knobs, 0 to 1; `costs`: natural logs, the mean of a config's runs.

    `failed` counts configs that are left out because a run of them did not end well. `space` is what was
    searched.
    """

    space: Space
    axes: tuple[Axis, ...]
    places: np.ndarray
    costs: np.ndarray
    failed: int
    constraints: tuple[Constraint, ...]


def trials_of(context: Context, journal_path: Path) -> Trials:
    """The search trials of a context at full length, from the journal of its campaign."""
    with Journal(journal_path, writer=False) as journal:
        document = journal.claimed().document
        rows = journal.rows(context.cell, "search")
    space = Space.model_validate(document["cells"][context.cell]["space"])
    axes = space.axes()
    runs: dict[str, list[float | None]] = {}
    where: dict[str, list[float]] = {}
    for row in rows:
        if row.trial.fidelity != 1.0 or not row.status.finished or row.status is Status.HOST_UNFIT:
            continue
        config = complete(context.system, row.trial.config)
        text = canonical(config)
        # A knob that does not act says nothing, whatever it was set to.
        settled = {axis.name: config[axis.name] if axis.acts(config) else axis.default for axis in axes}
        where[text] = [place_on(axis, settled[axis.name]) for axis in axes]
        runs.setdefault(text, []).append(row.cost if row.status is Status.OK else None)
    whole = {
        text: [cost for cost in costs if cost is not None]
        for text, costs in runs.items()
        if None not in costs
    }
    return Trials(
        space,
        axes,
        np.array([where[text] for text in whole]).reshape(len(whole), len(axes)),
        np.array([sum(costs) / len(costs) for costs in whole.values()]),
        len(runs) - len(whole),
        constraints_of(document["campaign"]),
    )
