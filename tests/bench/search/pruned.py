"""Whether a search gains from leaving knobs alone that show no effect: `python -m tests.bench.search.pruned`
prints a line of JSON for each cell, with the true log cost after 20, 30 and 40 trials of both ways.

From trial `AFTER` on, proposals of the model keep the best configuration's value of each knob that a forest
never ranks above shuffled columns.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from ConfigSpace import Configuration
from ConfigSpace.exceptions import ForbiddenValueError

from tests.bench.search.cells import cells
from tests.bench.search.race import run
from tests.bench.search.variants import VARIANTS
from tiertune.spaces.configspace import values_of
from tiertune.tuner.optimiser.base import Observation, Optimiser, Proposal
from tiertune.tuner.optimiser.imputation import told
from tiertune.tuner.optimiser.portfolio import PortfolioOptimiser
from tiertune.tuner.optimiser.racing import Racing
from tiertune.tuner.trial import Config, canonical, derive_seed

AFTER, PROBES, FITS, TREES = 20, 3, 5, 60
CELLS = (
    *("sparse/memtis", "moving/arms", "moving/hemem", "moving/memtis", "burst/memtis"),
    *("mix/arms", "mix/tpp", "scan/nbt", "write/arms", "write/autonuma"),
)


class Pruned(Optimiser):
    """Wraps an optimiser and freezes knobs of what it proposes."""

    name: ClassVar[str] = "pruned"

    def __init__(self, inner: Optimiser) -> None:
        super().__init__(inner.space, inner.settings, inner.decode)
        self.inner = inner

    def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
        proposal = self.inner.ask(number, history)
        if number < AFTER or proposal.origin != "model":
            return proposal
        frozen, best = self._frozen(history)
        values = dict(values_of(self.space, proposal.config))
        kept = values_of(self.space, best)
        values |= {name: kept[name] for name in frozen if name in values and name in kept}
        try:
            config = self.decode(Configuration(self.space, values=values))
        except ForbiddenValueError:
            return proposal
        tried = {canonical(observation.config) for observation in history}
        return proposal if canonical(config) in tried else replace(proposal, config=config)

    def _frozen(self, history: Sequence[Observation]) -> tuple[list[str], Config]:
        from sklearn.ensemble import RandomForestRegressor

        pairs = told(history)
        costs = np.array([cost for _, cost in pairs])
        points = np.array([self._row(observation.config) for observation, _ in pairs])
        ranks, width = np.argsort(np.argsort(costs)), points.shape[1]
        ahead = np.zeros(width)
        for fit in range(FITS):
            random = np.random.default_rng(
                derive_seed(self.settings.seed, "prune", len(history), fit) % 2**32
            )
            columns = [random.permutation(points[:, random.integers(width)]) for _ in range(PROBES)]
            forest = RandomForestRegressor(
                TREES, random_state=int(random.integers(2**31)), n_jobs=1, max_features=0.5
            )
            weights = forest.fit(np.column_stack([points, *columns]), ranks).feature_importances_
            ahead += weights[:width] > weights[width:].max()
        names = list(self.space)
        parents = {condition.parent.name for name in names for condition in self._conditions(name)}
        best = pairs[int(costs.argmin())][0].config
        return [
            name for name, wins in zip(names, ahead, strict=True) if not wins and name not in parents
        ], best

    def _conditions(self, name: str) -> list[Any]:
        return list(self.space.parent_conditions_of[name])

    def _row(self, config: Config) -> np.ndarray:
        array = Configuration(self.space, values=values_of(self.space, config)).get_array()
        return np.nan_to_num(array, nan=-1.0)


def _pruned(*arguments: Any) -> Optimiser:
    return Racing(Pruned(PortfolioOptimiser(*arguments)))


def main(wanted: Sequence[str]) -> None:
    """Measures the cells `wanted`, all of `CELLS` where there is none."""
    VARIANTS["pruned"] = replace(VARIANTS["default"], name="pruned", make=_pruned)
    for cell in (cell for cell in cells() if cell.name in (wanted or CELLS)):
        line: dict[str, object] = {"cell": cell.name}
        for way in ("default", "pruned"):
            truths = run(way, cell, 0).truths
            line[way] = [round(truths[trials - 1], 4) for trials in (20, 30, 40)]
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
