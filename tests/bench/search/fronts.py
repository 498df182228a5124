"""How much of a front ways of searching find: `python -m tests.bench.search.fronts` prints a line of JSON for
each cell, with a share after 20, 40 and 60 trials for each way.

The share is of the area that all searches of the cell dominate together, without noise: time as a log from
1.22 times the default's, bytes migrated as a log of their ratio to the default's plus 0.01 from three times.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence

import numpy as np

from tests.bench.search.cells import NOISE, Cell, _backend, cells
from tiertune.tuner.backend import TrialTimeout
from tiertune.tuner.optimiser.base import Observation
from tiertune.tuner.optimiser.registry import optimiser_class
from tiertune.tuner.optimiser.scalarised import Scalarised
from tiertune.tuner.search.objectives import FLOOR, Objectives, Pair
from tiertune.tuner.trial import Objective, Status, Trial, derive_seed

OBJECTIVES = Objectives(Objective("runtime_s", "minimize"), Objective("migrated_bytes", "minimize"))
WAYS = ("random", "smac", "portfolio")
CELLS = (
    *("sparse/memtis", "moving/hemem", "moving/memtis", "burst/memtis"),
    *("mix/arms", "mix/nbt", "scan/tpp", "write/nbt"),
)
TRIALS, INITIAL, RANDOM_SHARE, SEARCHES = 60, 15, 0.2, 3
CORNER = 0.2, math.log(3.0)


def main(wanted: Sequence[str], searches: int = SEARCHES, trials: int = TRIALS) -> None:
    """Measures the cells `wanted`, all of `CELLS` where there is none."""
    for cell in (cell for cell in cells() if cell.name in (wanted or CELLS)):
        made = {(way, seed): search(cell, way, seed, trials) for way in WAYS for seed in range(searches)}
        default = made[WAYS[0], 0][0]
        assert default is not None, f"the default of {cell.name} was given up"
        moved = {key: [placed(pair, default) for pair in pairs] for key, pairs in made.items()}
        whole = area([pair for pairs in moved.values() for pair in pairs])
        line: dict[str, object] = {"cell": cell.name}
        for way in WAYS:
            line[way] = [
                round(float(np.mean([area(moved[way, seed][:n]) / whole for seed in range(searches)])), 3)
                for n in (trials // 3, 2 * trials // 3, trials)
            ]
        print(json.dumps(line), flush=True)


def search(cell: Cell, way: str, seed: int, trials: int) -> list[Pair | None]:
    """Runtime and bytes of each trial without noise; None where it was given up."""
    optimiser = cell.optimiser(optimiser_class(way), seed, INITIAL, RANDOM_SHARE)
    if way != "random":
        optimiser = Scalarised(optimiser, OBJECTIVES)
    backend = _backend()
    backend.prepare(cell.scenario, lambda _: None)
    history: list[Observation] = []
    found: list[Pair | None] = []
    for number in range(trials):
        config = optimiser.ask(number, history).config
        trial = Trial("", cell.name, 0, cell.scenario, cell.system, config, derive_seed("pb", seed, number))
        try:
            metrics = backend.run(trial).metrics
        except TrialTimeout:
            history.append(Observation(number, config, Status.TIMEOUT))
            found.append(None)
            continue
        noise = NOISE * np.random.default_rng(derive_seed(cell.name, seed, number)).standard_normal(2)
        cost = math.log(metrics["runtime_s"]) + float(noise[0])
        second = metrics["migrated_bytes"] * math.exp(float(noise[1]))
        history.append(Observation(number, config, Status.OK, cost, second=second))
        found.append((metrics["runtime_s"], metrics["migrated_bytes"]))
    return found


def placed(pair: Pair | None, default: Pair) -> Pair:
    """Logs relative to the default; nowhere for a trial that was given up."""
    if pair is None:
        return math.inf, math.inf
    return math.log(pair[0] / default[0]), math.log(pair[1] / (default[1] or 1.0) + FLOOR)


def area(points: Sequence[Pair]) -> float:
    """What `points` dominate of all that is better than `CORNER`."""
    found, lowest = 0.0, CORNER[1]
    for first, second in sorted(points):
        if first < CORNER[0] and second < lowest:
            found += (CORNER[0] - first) * (lowest - second)
            lowest = second
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
