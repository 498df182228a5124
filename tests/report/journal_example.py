"""A journal by formula: a search of twelve trials with two failures, selection and five validation pairs.

No tiering system produced its numbers; what reports make of a journal can be tested without running anything.
"""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path
from typing import Any

from tiertune.tuner.journal import Journal
from tiertune.tuner.trial import Config, Measurement, Objective, Origin, Purpose, Scenario, Status, Trial
from tiertune.tuner.validation import FINALISTS, SELECTION_SEEDS, best_rows, selected

SCENARIO = Scenario("made-up", "nowhere", "1:8", 12)
KEY = f"{SCENARIO.key}/hemem"
DEFAULT: Config = {"read_hot_threshold": 8, "migration_period_ms": 10.0}
OBJECTIVE = Objective("runtime_s", "minimize")
SEARCH_TRIALS = 12
VALIDATION_SEEDS = 5


def document() -> dict[str, Any]:
    """The part of a resolved campaign that reports and pages read."""
    return {
        "campaign": {
            "seed": 7,
            "budget": {"trials": SEARCH_TRIALS, "initial": 4, "random_share": 0.2},
            "optimiser": {"name": "random"},
            "validation": {"seeds": VALIDATION_SEEDS},
        },
        "cells": {
            KEY: {
                "workload": {
                    "name": "made-up",
                    "threads": 12,
                    "metric": {"name": "runtime_s", "direction": "minimize"},
                },
                "machine": {"name": "nowhere"},
                "space": {
                    "name": "two",
                    "description": "Two knobs of HeMem",
                    "system": "hemem",
                    "knobs": {"read_hot_threshold": {}, "migration_period_ms": {}},
                },
                "default": DEFAULT,
            }
        },
    }


def write_journal(folder: Path, *, gain: float = 1.25, until: Purpose = "validation") -> Path:
    """A journal in `folder`, finished or stopped after `until`; `gain` is how much the winner gains."""
    path = folder / "journal.sqlite"
    folder.mkdir(parents=True, exist_ok=True)
    with Journal(path) as journal:
        journal.claim("made-up", document())
        environment = journal.environment(
            {
                "host": {"name": "testhost", "memory_bytes": 1024},
                "packages": {"tiertune": "0.1.0"},
                "git": {"commit": "0123abcd", "modified": False},
                "backend": {"backend": "sim", f"notes of {SCENARIO.key}": "scaled by 2\nassumed <nothing>"},
            }
        )
        _search(journal, environment, gain)
        if until != "search":
            _judge(journal, environment, gain, until)
    # Dates are the one thing that no formula can give.
    with sqlite3.connect(path) as database:
        database.execute("update campaign set created_at = '2026-01-01T00:00:00.000+00:00'")
    return path


def runtime_s(config: Config, seed: int, gain: float) -> float:
    """100 s by default; the more of `gain` the nearer read_hot_threshold is to 2."""
    threshold = float(config["read_hot_threshold"])
    share = max(0.0, 1.0 - abs(math.log2(threshold / 2.0)) / 2.0)
    return 100.0 / (1.0 + (gain - 1.0) * share) * (1.0 + 0.004 * math.sin(seed))


def _search(journal: Journal, environment: int, gain: float) -> None:
    for number in range(SEARCH_TRIALS):
        origin: Origin = (
            "default" if number == 0 else "initial" if number < 4 else "random" if number == 8 else "model"
        )
        config: Config = (
            DEFAULT
            if number == 0
            else {"read_hot_threshold": 1 + number % 9, "migration_period_ms": 10.0 * number}
        )
        status = {3: Status.CRASHED, 7: Status.TIMEOUT}.get(number, Status.OK)
        _store(journal, environment, "search", number, number, origin, config, gain, status=status)


def _judge(journal: Journal, environment: int, gain: float, until: Purpose) -> None:
    finalists = best_rows(journal.rows(KEY, "search"), FINALISTS)
    contenders: list[tuple[Origin, Config]] = [("default", DEFAULT)]
    contenders += [("candidate", row.trial.config) for row in finalists]
    number = 0
    for block in range(SELECTION_SEEDS):
        for origin, config in contenders:
            _store(journal, environment, "selection", number, 100 + block, origin, config, gain)
            number += 1
    winner = selected(journal, KEY, 0)
    if until == "selection" or winner is None:
        return
    for block in range(VALIDATION_SEEDS):
        pair: list[tuple[Origin, Config]] = [("default", DEFAULT), ("winner", winner.trial.config)]
        for slot, (origin, config) in enumerate(pair):
            timeline = _timeline(100.0 / (1 + slot), slot) if block == 0 else {}
            _store(
                journal,
                environment,
                "validation",
                2 * block + slot,
                200 + block,
                origin,
                config,
                gain,
                timeline=timeline,
            )


def _store(
    journal: Journal,
    environment: int,
    purpose: Purpose,
    number: int,
    seed: int,
    origin: Origin,
    config: Config,
    gain: float,
    *,
    status: Status = Status.OK,
    timeline: dict[str, list[float]] | None = None,
) -> None:
    noise = "independent" if purpose == "search" else "paired"
    trial = Trial("made-up", KEY, number, SCENARIO, "hemem", config, seed, noise, purpose, origin)  # type: ignore[arg-type]
    journal.start(trial, ask_cpu_s=0.01 * number, environment=environment, decision="by formula")
    if status is Status.OK:
        value = runtime_s(config, seed, gain)
        metrics = {"runtime_s": value, "fast_hit_ratio": 50.0 / value, "migrated_bytes": 1e9 + 1e7 * number}
        measurement = Measurement(status, metrics, timeline or {}, wall_s=0.25 + 0.01 * number)
    else:
        measurement = Measurement(status, error=f"said <{status}> & stopped", wall_s=0.5)
    journal.finish(trial, measurement, OBJECTIVE.cost(measurement.metrics))


def _timeline(runtime: float, slot: int) -> dict[str, list[float]]:
    return {
        "time_s": [runtime * step / 4 for step in range(1, 5)],
        "fast_hit_ratio": [0.1, 0.4, 0.5, 0.5 + 0.2 * slot],
        "promotions_per_s": [100.0, 50.0, 10.0, 5.0],
        "demotions_per_s": [90.0, 50.0, 10.0, 5.0],
        "fast_latency_ns": [95.0, 100.0, 110.0, 110.0],
        "slow_latency_ns": [250.0, 220.0, 200.0, 190.0],
    }
