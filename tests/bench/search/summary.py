"""Regret curves over the cells, with intervals, and whether the targets are met."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.bench.search.cells import cells
from tests.bench.search.optimum import near_optima
from tests.bench.search.race import Race

REFERENCE = "study"
REFERENCE_TRIALS = 100


@dataclass(frozen=True)
class Curve:
    """Regrets of a variant: shape (cells, seeds, trials), shares of the near-optimum."""

    variant: str
    cells: tuple[str, ...]
    regrets: np.ndarray

    def median(self) -> np.ndarray:
        """Median over seeds within each cell, shape (cells, trials)."""
        return np.asarray(np.median(self.regrets, axis=1))


def curves(races: Sequence[Race]) -> dict[str, Curve]:
    """Regret of each variant, relative to the best that anything found: recipe or race."""
    stored = near_optima()
    races = [race for race in races if race.cell in {cell.name for cell in cells()}]
    best = {name: math.log(entry["runtime_s"]) for name, entry in stored.items()}
    for race in races:
        best[race.cell] = min(best.get(race.cell, math.inf), *race.truths)
    made: dict[str, Curve] = {}
    for variant in dict.fromkeys(race.variant for race in races):
        mine = [race for race in races if race.variant == variant]
        names = tuple(sorted({race.cell for race in mine}))
        regrets = [
            [[math.expm1(truth - best[name]) for truth in race.truths] for race in mine if race.cell == name]
            for name in names
        ]
        seeds = min(len(row) for row in regrets)
        made[variant] = Curve(variant, names, np.array([row[:seeds] for row in regrets]))
    return made


def trials_to_reach(curve: Curve, reference: Curve, at: int = REFERENCE_TRIALS) -> np.ndarray:
    """For each cell, after how many trials the variant's median regret is at most that of the reference after
    `at` trials; infinity where it never is."""
    goal = reference.median()[:, at - 1]
    reached = curve.median() <= goal[:, None] + 1e-9
    return np.where(reached.any(axis=1), reached.argmax(axis=1) + 1.0, np.inf)


def interval(cells: np.ndarray, resamples: int = 2000) -> tuple[np.ndarray, np.ndarray]:
    """95 % bootstrap interval of the median over cells, at each trial; `cells` has shape (cells, trials)."""
    drawn = np.random.default_rng(0).integers(0, len(cells), (resamples, len(cells)))
    medians = np.median(cells[drawn], axis=1)
    low, high = np.quantile(medians, [0.025, 0.975], axis=0)
    return low, high


def print_summary(races: Sequence[Race]) -> None:
    """A table for people at work on it."""
    all_curves = curves(races)
    points = (10, 15, 20, 30, 40, 60, 100)
    print(
        "median over cells of the median regret in %, after trials; mean over cells; to reach the study's 100"
    )
    reference = all_curves.get(REFERENCE)
    for name, curve in all_curves.items():
        median = curve.median()
        length = median.shape[1]
        cut = [100 * float(np.median(median[:, min(n, length) - 1])) for n in points]
        mean = [100 * float(np.mean(curve.regrets[:, :, min(n, length) - 1])) for n in points]
        line = (
            f"{name:14} " + " ".join(f"{v:6.2f}" for v in cut) + " | " + " ".join(f"{v:6.2f}" for v in mean)
        )
        if reference is not None and reference.cells == curve.cells:
            to = trials_to_reach(curve, reference)
            quartiles = np.quantile(to, [0.25, 0.5, 0.75], method="nearest")
            line += " | reach " + " ".join(f"{value:4.0f}" for value in quartiles)
        ask = np.mean([race.ask_cpu_s for race in races if race.variant == name])
        print(line + f" | ask {1000 * ask:.0f} ms")
