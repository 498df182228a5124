"""What a campaign's coordinator spends on a trial, and from that how many workers it can keep busy."""

from __future__ import annotations

import heapq
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.bench.trials import Section
from tiertune.machines.definition import load_machine
from tiertune.spaces.configspace import config_of, to_configspace
from tiertune.spaces.definition import load_space
from tiertune.tuner.journal import Journal
from tiertune.tuner.optimiser.base import Observation, Settings
from tiertune.tuner.optimiser.registry import optimiser_class
from tiertune.tuner.trial import Measurement, Scenario, Status, Trial
from tiertune.workloads.definition import load_workload

SPACE = "hemem"
SCENARIO = Scenario("gups", "skx-numa", "1:8")
TRIAL_S = {"simulated": 0.3, "live": 600.0}
"""How long a trial takes: as promised for a simulated one, and as the tuning study took for one on a host."""

WORKERS = (8, 100, 1000)
MANY = 1_000_000


def sections(repetitions: int) -> Iterator[Section]:
    """CPU seconds of the coordinator for one trial, by step, and what that means for many workers."""
    costs = {
        "proposal of SMAC's model after 100 trials": _proposal_s("smac", repetitions),
        "proposal at random": _proposal_s("random", repetitions),
        "journal: start and finish": _journal_s(30 * repetitions),
        "trial to a worker of a Dask scheduler and back": _errand_s(100 * repetitions),
    }
    rows = [[name, f"{1000 * cost:.1f} ms"] for name, cost in costs.items()]
    yield "What a campaign's coordinator spends on a trial", ["step", "CPU a trial"], rows
    smac, random, *rest = costs.values()
    rows = []
    for kind, seconds in TRIAL_S.items():
        for workers in WORKERS:
            for name, proposal in (("smac", smac), ("random", random)):
                rate, busy = many_workers(workers, seconds, proposal + sum(rest))
                days = MANY / rate / 86_400
                rows.append([f"{workers}, {kind}", name, f"{100 * busy:.0f} %", f"{rate:.2f}", f"{days:.1f}"])
    head = ["workers", "proposals", "workers busy", "trials a second", f"days for {MANY:,} trials"]
    yield "One coordinator and many workers, simulated with the costs above", head, rows


def many_workers(
    workers: int, trial_s: float, coordinator_s: float, trials: int = 20_000
) -> tuple[float, float]:
    """Trials a second and the share of workers that are busy, when one coordinator serves all of them.

    Whoever is done waits for the coordinator, which serves one at a time in the order of arrival. Trials take
    `trial_s` give or take a tenth. The first pass of all workers, when all of them wait, is left out.
    """
    rng = np.random.default_rng(1)
    lengths = trial_s * rng.uniform(0.9, 1.1, trials + workers)
    done = [0.0] * workers  # when each worker is done; a heap
    free_s = began_s = worked_s = 0.0
    for number, length in enumerate(lengths):
        free_s = max(free_s, heapq.heappop(done)) + coordinator_s
        heapq.heappush(done, free_s + length)
        if number == workers - 1:
            began_s = free_s
        elif number >= workers:
            worked_s += length
    spent_s = free_s - began_s
    return trials / spent_s, min(1.0, worked_s / (workers * spent_s))


def _cpu_s(times: int, act: Callable[[int], object]) -> float:
    act(-1)  # imports and first connections
    began = time.process_time()
    for number in range(times):
        act(number)
    return (time.process_time() - began) / times


def _proposal_s(name: str, repetitions: int) -> float:
    space = load_space(SPACE)
    made = optimiser_class(name)(
        to_configspace(space, 1),
        Settings(seed=1, initial=20, random_share=0.0),
        lambda configuration: config_of(space, configuration),
    )
    rng = np.random.default_rng(1)
    history = [
        Observation(number, config_of(space, configuration), Status.OK, float(rng.normal(3.0, 0.3)))
        for number, configuration in enumerate(to_configspace(space, 2).sample_configuration(100))
    ]
    return _cpu_s(5 * repetitions, lambda number: made.ask(100 + max(number, 0), history))


def _trial(number: int) -> Trial:
    return Trial("bench", "cell", number, SCENARIO, "hemem", {"sampling_period": 5003}, number)


def _journal_s(times: int) -> float:
    found = Measurement(Status.OK, {f"metric_{n}": float(n) for n in range(60)})
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "journal.sqlite") as journal:
        journal.claim("bench", {"campaign": {}, "cells": {}}, 0)
        environment = journal.environment({})

        def store(number: int) -> None:
            trial = _trial(number + 1)
            journal.start(trial, ask_cpu_s=0.0, environment=environment, decision="for the clock")
            journal.finish(trial, found, 1.0)

        return _cpu_s(times, store)


def _errand_s(times: int) -> float:
    """Of this process, which holds the scheduler as well; the worker has next to nothing to do, as it refuses
    the config."""
    from tiertune.tuner.simulation import SimBackend
    from tiertune.tuner.spread.address import LOCAL
    from tiertune.tuner.spread.backend import DaskBackend

    workload, machine = load_workload(SCENARIO.workload), load_machine(SCENARIO.machine)
    files: dict[str, Any] = {
        "workload": workload.model_dump(mode="json"),
        "machine": machine.document(),
    }
    with tempfile.TemporaryDirectory() as folder:
        here = SimBackend(Path(folder))
        backend = DaskBackend(here, LOCAL, {SCENARIO.key: files}, 1, Path(folder), lambda sentence: None)
        try:
            return _cpu_s(
                times, lambda number: backend.run(replace(_trial(number + 1), config={"none": number}))
            )
        finally:
            backend.close()
