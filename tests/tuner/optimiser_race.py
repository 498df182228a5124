"""Races optimisers on the surfaces: `python -m tests.tuner.optimiser_race VARIANT[,VARIANT] SEEDS`.

Not a test: the table in `tuner/optimiser/smac.py` comes from here. Prints regret in percent, of the config
that is handed over (the best observed) after 50 and 100 trials and of the best visited, and CPU s per ask.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import dataclass

import numpy as np
from smac.acquisition.maximizer import LocalAndSortedRandomSearch
from smac.acquisition.maximizer.abstract_acquisition_maximizer import AbstractAcquisitionMaximizer

from tests.tuner import surfaces
from tiertune.tuner.optimiser.acquisition import IsNew
from tiertune.tuner.optimiser.base import Observation, Optimiser, Settings
from tiertune.tuner.optimiser.random import RandomOptimiser
from tiertune.tuner.optimiser.smac import SmacOptimiser
from tiertune.tuner.trial import Status

TRIALS = 100
NOISE = 0.04


class TenTrees(SmacOptimiser):
    trees = 10


class LargeLeaves(SmacOptimiser):
    min_leaf = 3


class OwnSearch(TenTrees):
    """SMAC's own acquisition search, with the settings that its measurements recommend."""

    def _maximizer(self, seed: int, is_new: IsNew) -> AbstractAcquisitionMaximizer:
        return LocalAndSortedRandomSearch(self.space, challengers=2000, local_search_iterations=10, seed=seed)


VARIANTS: dict[str, type[Optimiser]] = {
    "random": RandomOptimiser,
    "smac": SmacOptimiser,
    "ten-trees": TenTrees,
    "large-leaves": LargeLeaves,
    "own-search": OwnSearch,
}


@dataclass(frozen=True)
class Race:
    """One optimiser on one surface with one seed; regrets as shares of the optimum."""

    at_50: float
    at_100: float
    visited: float
    ask_cpu_s: float


def race(variant: str, surface: str, seed: int) -> Race:
    optimiser = VARIANTS[variant](surfaces.space(), Settings(seed))
    noise = np.random.default_rng(seed + 999)
    history: list[Observation] = []
    truths: list[float] = []
    costs: list[float] = []
    handed: list[float] = []
    asks: list[float] = []
    for number in range(TRIALS):
        began = time.thread_time()
        proposal = optimiser.ask(number, history)
        if proposal.origin == "model":
            asks.append(time.thread_time() - began)
        truths.append(surfaces.SURFACES[surface](proposal.config))
        cost = math.log(truths[-1]) + NOISE * noise.standard_normal()
        costs.append(cost)
        history.append(Observation(number, proposal.config, Status.OK, cost))
        handed.append(truths[int(np.argmin(costs))] - 1.0)
    return Race(handed[49], handed[-1], min(truths) - 1.0, float(np.mean(asks)) if asks else 0.0)


def main(variants: str, seeds: str) -> None:
    print("variant, surface: regret % at 50, at 100 (mean), visited; CPU s per proposal")
    for variant in variants.split(","):
        for surface in surfaces.SURFACES:
            races = [race(variant, surface, seed) for seed in range(int(seeds))]
            means = [
                float(np.mean([getattr(r, field) for r in races])) for field in Race.__dataclass_fields__
            ]
            print(
                f"{variant:14} {surface:12} " + " ".join(f"{100 * mean:5.1f}" for mean in means[:3]), end=" "
            )
            print(f"{means[3]:.3f}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
