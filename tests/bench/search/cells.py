"""The cells of the search benchmark: small simulated scenarios, each with a system whose knobs matter there.

A trial costs 1 to 60 ms. The engine's own noise is far below that of a host, so each measurement is
multiplied by log-normal noise of `NOISE`, which the true cost does not have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tiertune.spaces.definition import Axis, Space, load_space
from tiertune.spaces.prior import Prior
from tiertune.spaces.value import Value
from tiertune.tuner.backend import TrialTimeout
from tiertune.tuner.explanation.scale import place_on, value_at
from tiertune.tuner.optimiser.base import Optimiser, Settings
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.trial import Config, Objective, Scenario, Trial, canonical, derive_seed

HERE = Path(__file__).parent
NOISE = 0.02
JUDGE_SEEDS = 3
SPREAD = 0.15  # of the range, of priors
RUNTIME = Objective("runtime_s", "minimize")

Belief = tuple[str, int]  # kind and seed of the priors


def _scenario(workload: str, machine: str, ratio: str) -> Scenario:
    path = str(HERE / "workloads" / f"{workload}.yaml")
    return Scenario(workload=path, machine=machine, ratio=ratio, page_bytes=2 * 2**20)


# Beside each scenario its neighbour, where an earlier campaign ran: another ratio, and another machine in
# half of them. Only warm starts look at it.
SCENARIOS: dict[str, tuple[Scenario, Scenario]] = {
    "sparse": (_scenario("sparse", "skx-numa", "1:8"), _scenario("sparse", "skx-numa", "1:6")),
    "moving": (_scenario("moving", "clx-optane", "1:3"), _scenario("moving", "skx-numa", "1:4")),
    "burst": (_scenario("burst", "icx-upi", "1:5"), _scenario("burst", "icx-upi", "1:4")),
    "mix": (_scenario("mix", "spr-cxl", "1:3"), _scenario("mix", "skx-cxl-emul", "1:3")),
    "scan": (_scenario("scan", "icx-upi", "1:3"), _scenario("scan", "skx-numa", "1:4")),
    "write": (_scenario("write", "clx-optane", "1:4"), _scenario("write", "clx-optane", "1:3")),
}

SYSTEMS: dict[str, tuple[str, ...]] = {
    "sparse": ("memtis", "colloid+hemem", "mru"),
    "moving": ("hemem", "arms", "memtis", "tpp", "nbt", "autonuma"),
    "burst": ("memtis",),
    "mix": ("arms", "memtis", "tpp", "nbt", "autonuma"),
    "scan": ("arms", "tpp", "nbt", "autonuma", "hmsdk"),
    "write": ("arms", "tpp", "nbt", "autonuma", "mru"),
}


@dataclass(frozen=True)
class Cell:
    """One scenario x system of the benchmark; `neighbour` is the cell of the earlier campaign."""

    name: str
    scenario: Scenario
    system: str

    belief: Belief | None = None

    @property
    def space(self) -> Space:
        plain = _space(self.system)
        return plain if self.belief is None else believed(plain, self.name, *self.belief)

    def measured(self, config: Config, seed: int) -> float:
        """Log of the runtime of one run as a search sees it, with the noise of a host."""
        noise = np.random.default_rng(derive_seed(self.name, seed, canonical(config)))
        return self._run(config, seed) + NOISE * float(noise.standard_normal())

    def true(self, config: Config) -> float:
        """Mean log of the runtime over the judge's seeds, which no search sees."""
        return _true(self, canonical(config), lambda: self._judged(config))

    def default(self) -> Config:
        """The declared default, as the space starts there."""
        return self.optimiser(lambda *arguments: _Start(*arguments), 0, 1, 0.0).ask(0, []).config

    def optimiser(
        self, make: Callable[..., Optimiser], seed: int, initial: int, random_share: float
    ) -> Optimiser:
        """An optimiser over this cell's space."""
        from tiertune.spaces.configspace import config_of, to_configspace

        own = derive_seed("search benchmark", self.name, seed)
        settings = Settings(seed=own, initial=initial, random_share=random_share)
        space = self.space
        return make(to_configspace(space, own % 2**32), settings, lambda c: config_of(space, c))

    def neighbour(self) -> Cell:
        """The cell of the earlier campaign."""
        scenario = SCENARIOS[self.name.split("/")[0]][1]
        return Cell(f"{self.name}/neighbour", scenario, self.system)

    def _judged(self, config: Config) -> float:
        return float(np.mean([self._run(config, derive_seed("judge", k)) for k in range(JUDGE_SEEDS)]))

    def _run(self, config: Config, seed: int) -> float:
        backend = _backend()
        backend.prepare(self.scenario, lambda _: None)
        trial = Trial("bench-search", self.name, 0, self.scenario, self.system, config, seed)
        try:
            metrics = backend.run(trial).metrics
        except TrialTimeout as slow:  # its bound will do: no search hands over what is that slow
            metrics = slow.metrics
        cost = RUNTIME.cost(metrics)
        if cost is None:
            raise RuntimeError(f"{self.name} has no runtime with {config}")
        return cost


class _Start(Optimiser):
    name = "start"

    def _ask(self, number: int, history: object) -> object:  # type: ignore[override]
        raise AssertionError("only the default is asked for")


def cells() -> list[Cell]:
    """All cells, by name."""
    return [
        Cell(f"{name}/{system}", SCENARIOS[name][0], system)
        for name, systems in SYSTEMS.items()
        for system in systems
    ]


def believed(space: Space, cell: str, kind: str, seed: int) -> Space:
    """The space with a prior on every knob that acts at the near-optimum: `good` ones are around its values,
    a tenth of the range off as a standard deviation; `bad` ones half a range away, and as sure of it."""
    from tests.bench.search.optimum import near_optima

    best = near_optima()[cell]["config"]
    random = np.random.default_rng(derive_seed("belief", cell, seed))
    knobs = dict(space.knobs)
    for axis in space.axes():
        if axis.name in best:
            prior = _prior(axis, best[axis.name], kind, float(random.standard_normal()))
            knobs[axis.name] = knobs[axis.name].model_copy(update={"prior": prior})
    return space.model_copy(update={"knobs": knobs})


def _prior(axis: Axis, best: Value, kind: str, luck: float) -> Prior:
    if axis.choices:
        other = next(choice for choice in axis.choices if choice != best)
        return Prior(around=best if kind == "good" else other, chance=0.7)
    place = place_on(axis, best)
    moved = min(max(place + 0.1 * luck, 0.0), 1.0) if kind == "good" else (place + 0.5) % 1.0
    wide = axis.maximum / axis.minimum if axis.log else axis.maximum - axis.minimum
    return Prior(around=value_at(axis, moved), spread=wide**SPREAD if axis.log else wide * SPREAD)


@cache
def _space(system: str) -> Space:
    return load_space(system)


@cache
def _backend() -> SimBackend:
    return SimBackend(Path("results") / "profiles")


_TRUE: dict[tuple[str, str], float] = {}


def _true(cell: Cell, text: str, judge: Callable[[], float]) -> float:
    key = (cell.name, text)
    if key not in _TRUE:
        _TRUE[key] = judge()
    return _TRUE[key]
