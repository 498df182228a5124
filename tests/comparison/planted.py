"""A comparison's figures and journals with a planted truth: no engine, no files."""

from __future__ import annotations

from typing import Any

import numpy as np

from tiertune.tuner.comparison.measured import Measured, Scene
from tiertune.tuner.trial import Scenario

WORKLOADS = ("w1", "w2", "w3", "w4", "w5", "w6")
MACHINES = ("m1", "m2")


def figures(
    default: dict[str, float], gain: dict[str, float], noise: float = 0.01, luck: float = 0.01, seed: int = 1,
    searches: int = 3, seeds: int = 5,
) -> Measured:  # fmt: skip
    """Runs of systems whose slowdown at default and gain by tuning are given, in all scenarios alike.

    `noise` is the deviation of runs, `luck` that between searches, both in logs.
    """
    random = np.random.default_rng(seed)
    names = list(default)
    scenes = [
        Scene(Scenario(workload, machine, "1:4"), workload, machine, "runtime_s", "minimize")
        for machine in MACHINES
        for workload in WORKLOADS
    ]
    shape = len(scenes), len(names)

    def runs(*more: int) -> np.ndarray:
        return noise * random.standard_normal((*shape, *more, seeds))

    base = np.log([default[name] for name in names])
    tuned = base - np.log([gain[name] for name in names])
    lucky = luck * random.standard_normal((*shape, searches, 1))
    yardstick = np.zeros((len(scenes), seeds))
    return Measured(
        scenes=scenes,
        contenders=names,
        default=base[None, :, None] + runs(),
        again=base[None, :, None] + runs(),
        tuned=tuned[None, :, None, None] + lucky + runs(searches),
        all_fast=yardstick,
        oracle=yardstick + np.log(1.05),
        kept=np.zeros((*shape, searches), dtype=bool),
    )


def changed(measured: Measured, **arrays: Any) -> Measured:
    """The same with other arrays."""
    return Measured(**{**vars(measured), **arrays})
