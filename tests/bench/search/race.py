"""One search of one cell, and all of them on several processes; what ran before is read back, not run
again."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from tests.bench.search.cells import Cell, cells
from tiertune.tuner.optimiser.base import Observation
from tiertune.tuner.optimiser.warm import Remembered
from tiertune.tuner.trial import Status, canonical, derive_seed
from tiertune.tuner.validation import FINALISTS, SELECTION_SEEDS


@dataclass(frozen=True)
class Race:
    """A search that was made. `truths` is, after each trial, the true log cost of the config handed over."""

    variant: str
    cell: str
    seed: int
    truths: list[float]
    visited: float
    ask_cpu_s: float
    configs: list[str]
    costs: list[float]

    @property
    def key(self) -> tuple[str, str, int]:
        return self.variant, self.cell, self.seed


def run(variant_name: str, cell: Cell, seed: int) -> Race:
    """Search the cell once."""
    from tests.bench.search.variants import VARIANTS

    variant = VARIANTS[variant_name]
    make = variant.make
    if variant.belief is not None:
        cell = replace(cell, belief=(variant.belief, seed))
    if variant.source is not None:
        near = cell.neighbour()
        make = partial(variant.make, memory_of(run(variant.source, near, seed), near))
    optimiser = cell.optimiser(make, seed, variant.initial, variant.random_share)
    history: list[Observation] = []
    truths: list[float] = []
    best: tuple[float, int] | None = None
    asking_s = 0.0
    for number in range(variant.trials):
        began = time.thread_time()
        proposal = optimiser.ask(number, history)
        asking_s += time.thread_time() - began
        repeat = proposal.repeat
        place = number if repeat is None else f"race {repeat}"
        cost = cell.measured(proposal.config, derive_seed(seed, cell.name, place))
        history.append(Observation(number, proposal.config, Status.OK, cost, repeat=repeat))
        handed = getattr(optimiser, "handed_over", None)
        at = handed(history) if handed else min(history, key=lambda o: (o.cost, o.number)).number
        if best is None or best[1] != at:
            best = (cell.true(history[at].config), at)
        truths.append(best[0])
    visited = min(range(len(history)), key=lambda n: history[n].cost or 0.0)
    configs = [canonical(o.config) for o in history]
    costs = [o.cost for o in history if o.cost is not None]
    return Race(
        variant_name, cell.name, seed, truths, cell.true(history[visited].config),
        asking_s / variant.trials, configs, costs,
    )  # fmt: skip


def memory_of(race: Race, cell: Cell) -> list[Remembered]:
    """What a campaign would remember of a search: every config but the default, the best three ranked.

    As a campaign does, the best `FINALISTS` are measured again on `SELECTION_SEEDS` seeds before that.
    """
    found: dict[str, list[float]] = {}
    for text, cost in zip(race.configs, race.costs, strict=True):
        found.setdefault(text, []).append(cost)
    default = race.costs[0]
    means = {text: sum(costs) / len(costs) for text, costs in found.items() if text != race.configs[0]}
    finalists = sorted(means, key=lambda text: means[text])[:FINALISTS]
    seeds = [derive_seed(race.seed, cell.name, "selection", block) for block in range(SELECTION_SEEDS)]
    again = {
        text: sum(cell.measured(json.loads(text), seed) for seed in seeds) / len(seeds) for text in finalists
    }
    best = sorted(finalists, key=lambda text: again[text])[:3]
    return [
        Remembered(json.loads(text), mean - default, best.index(text) if text in best else None)
        for text, mean in means.items()
    ]


def stored(path: Path) -> Iterator[Race]:
    """Races that were made before."""
    if path.exists():
        for line in path.read_text().splitlines():
            yield Race(**json.loads(line))


def run_all(path: Path, variants: Iterable[str], seeds: int, processes: int, only: list[str]) -> list[Race]:
    """Every variant on every cell (or those in `only`) with every seed; `path` takes a line each."""
    known = {race.key: race for race in stored(path)}
    wanted = [
        (variant, cell, seed)
        for seed in range(seeds)
        for variant in variants
        for cell in cells()
        if not only or cell.name in only
    ]
    missing = [(v, c, s) for v, c, s in wanted if (v, c.name, s) not in known]
    path.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(processes) as pool, path.open("a") as out:
        waiting = [pool.submit(run, *one) for one in missing]
        for count, future in enumerate(as_completed(waiting), 1):
            race = future.result()
            known[race.key] = race
            out.write(json.dumps(asdict(race)) + "\n")
            out.flush()
            if os.isatty(1) or count % 20 == 0:
                print(f"{count} of {len(missing)} searches", flush=True)
    return [known[v, c.name, s] for v, c, s in wanted]
