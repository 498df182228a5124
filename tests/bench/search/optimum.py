"""Near-optima of the cells: `python -m tests.bench.search optima` finds those that
are not stored yet.

Recipe: the default, `DRAWS` random configs, then local search from the `STARTS` best, each on one judge
seed: of `NEIGHBOURS` configs that differ in one knob the best is the next place, until `ROUNDS` are over or
none is better. The best ten are judged on all judge seeds. The file also takes any config that a race found
to be better.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np

from tests.bench.search.cells import HERE, Cell, cells
from tiertune.tuner.trial import Config, canonical, derive_seed, plain_config

FILE = HERE / "near_optima.json"
DRAWS = 400
STARTS = 3
NEIGHBOURS = 24
ROUNDS = 5


def near_optima() -> dict[str, dict[str, Any]]:
    """What is stored: by cell name the config, its runtime and the default's runtime (s), and who found
    it."""
    stored: dict[str, dict[str, Any]] = json.loads(FILE.read_text())
    return stored


def store(found: dict[str, dict[str, Any]]) -> None:
    """Write the file, one cell a line."""
    lines = [f"  {json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found)]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def find_all(processes: int, wanted: list[str]) -> None:
    """Find the near-optima of all cells (or those `wanted`) and store them."""
    found = near_optima() if FILE.exists() else {}
    chosen = [c for c in cells() if (c.name in wanted if wanted else c.name not in found)]
    with ProcessPoolExecutor(processes) as pool:
        for cell, entry in zip(chosen, pool.map(find, chosen), strict=True):
            found[cell.name] = entry
            gain = entry["default_s"] / entry["runtime_s"]
            print(
                f"{cell.name:24} {entry['runtime_s']:8.3f} s, default {gain:.3f}x, {entry['trials']} trials",
                flush=True,
            )
            store(found)


def find(cell: Cell) -> dict[str, Any]:
    """The near-optimum of one cell by the recipe."""
    from tiertune.spaces.configspace import config_of, to_configspace
    from tiertune.tuner.optimiser.cube import Cube

    space = to_configspace(cell.space, derive_seed("optimum", cell.name) % 2**32)
    random = np.random.default_rng(derive_seed("optimum", cell.name))
    cube = Cube(space)
    seed = derive_seed("judge", 0)
    costs: dict[str, float] = {}

    def cost(point: np.ndarray) -> tuple[float, Config]:
        from ConfigSpace import Configuration

        config = plain_config(
            config_of(cell.space, Configuration(space, vector=cube.deactivated(point[None])[0]))
        )
        text = canonical(config)
        if text not in costs:
            costs[text] = cell._run(config, seed)
        return costs[text], config

    default = cell.default()
    costs[canonical(default)] = cell._run(default, seed)
    drawn = cube.sample(DRAWS, random)
    values = np.array([cost(point)[0] for point in drawn])
    for index in np.argsort(values)[:STARTS]:
        for _ in _climb(drawn[index], values[index], cube, random, cost):
            pass
    best = sorted(costs, key=lambda text: costs[text])[:10]
    judged = {text: cell.true(json.loads(text)) for text in best}
    text = min(judged, key=lambda t: judged[t])
    return {
        "runtime_s": float(np.exp(judged[text])),
        "default_s": float(np.exp(cell.true(default))),
        "trials": len(costs),
        "by": "recipe",
        "config": json.loads(text),
    }


def _climb(
    point: np.ndarray, value: float, cube: Any, random: np.random.Generator, cost: Any
) -> Iterator[float]:
    for _ in range(ROUNDS):
        around = cube.neighbours(point[None], random)[0]
        around = around[random.permutation(len(around))[:NEIGHBOURS]]
        scored = [cost(neighbour)[0] for neighbour in around]
        if min(scored) >= value:
            return
        value, point = min(scored), around[int(np.argmin(scored))]
        yield value
