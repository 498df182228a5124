"""Nights that never were: a suite of realistic size as numbers, with known noise and a known slowdown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tiertune.tuner.nightly.alarms import Alarm, Track, Watch, observe
from tiertune.tuner.nightly.detection import Kind, Reading
from tiertune.tuner.nightly.figures import FIGURES

PERFORMANCE = Kind()
LUCK = {"gain": 0.03, "trials_to_reach": 0.6, "proposal_cpu_s": 0.1, "trial_wall_s": 0.1}
"""How much figures of the tuner differ from round to round, as natural logs."""


@dataclass(frozen=True)
class World:
    """`noise`: standard deviation of a run, by workloads in turn; `night`: of whole nights, one draw for all
    seeds of a figure.

    6 workloads x 2 systems x default and tuned, on 10 seeds, and four figures of each of three tuners: 36
    series. From night `slower_from` on the second workload is slower by `slowdown`. `heavy` noise is
    Student's t with 4 degrees of freedom.
    """

    noise: tuple[float, ...]
    night: float = 0.0
    seeds: int = 10
    workloads: int = 6
    slower_from: int | None = None
    slower_until: int = 10**6
    slowdown: float = 0.05
    heavy: bool = False


SLOWED = "workload 1"


def live(world: World, nights: int, seed: int) -> tuple[Alarm, ...]:
    """All alarms of that many nights; a night is called by its number, five digits long."""
    random = np.random.default_rng(seed)
    names = [
        (f"workload {w}", f"workload {w}, {system}, {role}")
        for w in range(world.workloads)
        for system in ("a", "b")
        for role in ("default", "tuned")
    ]
    figures = [(f"tuner {t}", f"tuner {t}, {name}", name) for t in range(3) for name in LUCK]
    history: dict[str, list[Reading]] = {
        key: [] for key in [*(k for _, k in names), *(k for _, k, _ in figures)]
    }
    watch = Watch()
    for number in range(nights):
        date = f"{number:05d}"
        slower = world.slower_from is not None and world.slower_from <= number < world.slower_until
        for place, (subject, key) in enumerate(names):
            draw = random.standard_t(4, world.seeds) / np.sqrt(2) if world.heavy else None
            noise = world.noise[place // 4 % len(world.noise)]
            values = noise * (random.standard_normal(world.seeds) if draw is None else draw)
            values += world.night * random.standard_normal()
            values += np.log1p(world.slowdown) if slower and subject == SLOWED else 0.0
            history[key].append(Reading(date, tuple(values.tolist())))
        for _, key, name in figures:
            history[key].append(Reading(date, (LUCK[name] * float(random.standard_normal()),)))
        tracks = [Track(key, subject, PERFORMANCE, history[key]) for subject, key in names]
        tracks += [Track(key, subject, FIGURES[name].kind, history[key]) for subject, key, name in figures]
        watch, _ = observe(watch, date, tracks)
    return watch.alarms
