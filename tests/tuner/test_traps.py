"""The eleven measured traps of SMAC and MLflow (design notes on tuning, section 0), each shown to be
avoided."""

from __future__ import annotations

import builtins
import math
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from smac.model.random_forest import RandomForest

from tests.contracts.optimiser import campaign, observation
from tests.tuner import surfaces
from tests.tuner.toy import SCENARIO, ToyBackend, toy_plan
from tiertune.tuner.journal import Journal
from tiertune.tuner.journal_claim import JournalError
from tiertune.tuner.loop import journal_path, tune
from tiertune.tuner.optimiser.base import Settings
from tiertune.tuner.optimiser.random import RandomOptimiser
from tiertune.tuner.optimiser.smac import SmacOptimiser
from tiertune.tuner.statistics import effect
from tiertune.tuner.trial import Config, Status
from tiertune.tuner.validation import best_rows

ROOT = Path(__file__).resolve().parents[2]
CELL = f"{SCENARIO.key}/toy-system"


def rows_of(results: Path, purpose: Any = None) -> list[Any]:
    with Journal(journal_path(results, "toy"), writer=False) as journal:
        return journal.rows(CELL, purpose)


def test_trap_1_a_proposal_costs_less_than_a_trial() -> None:
    """Out of the box an ask takes 5 to 6 CPU seconds; the budget is 0.7 at 100 trials and 10 knobs."""
    draws = campaign(RandomOptimiser(surfaces.space(), Settings(1)), 100)
    history = [observation(number, proposal) for number, proposal in enumerate(draws)]
    optimiser = SmacOptimiser(surfaces.space(), Settings(1, 20, 0.0))
    optimiser.ask(100, history)  # imports and caches
    began = time.process_time()
    assert optimiser.ask(100, history).origin == "model"
    assert time.process_time() - began < 0.7


def test_trap_1_the_forest_reserves_no_leaf_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    options = []
    train = RandomForest._train

    def spy(self: RandomForest, X: np.ndarray, y: np.ndarray) -> RandomForest:
        options.append(self._rf_opts)
        return train(self, X, y)

    monkeypatch.setattr(RandomForest, "_train", spy)
    campaign(SmacOptimiser(surfaces.space(), Settings(1, 4, 0.0)), 6)
    assert len(options) == 2
    assert {(o["max_leaf_nodes"], o["n_jobs"]) for o in options} == {(None, 1)}


def test_trap_2_one_seed_is_one_sequence_in_any_process() -> None:
    """SMAC's own search depends on string hashes, which differ from process to process."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "engine" / "python")])
    said = []
    for hash_seed in ("0", "1", "random"):
        ran = subprocess.run(
            [sys.executable, "-m", "tests.tuner.ask_sequence"],
            capture_output=True,
            text=True,
            check=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": hash_seed},
        )
        said.append(ran.stdout)
    assert said[0].count("sample_period") == 18
    assert said[0] == said[1] == said[2]


def test_trap_3_parallel_trials_of_log_integers_are_all_counted(tmp_path: Path) -> None:
    """SMAC's Dask runner ended 30-trial runs after 16, leaving 16 orphans."""
    tune(toy_plan(optimiser="smac", trials=30, initial=10, workers=3), tmp_path, ToyBackend(run_s=0.01))
    rows = rows_of(tmp_path, "search")
    assert [row.trial.number for row in rows] == list(range(30))
    assert {row.status for row in rows} == {Status.OK}


def test_trap_4_nothing_is_kept_where_a_crash_could_spoil_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SMAC rewrites its state in place; a cut file kills the reload. Ours is gone after each ask."""
    here, scratch = tmp_path / "here", tmp_path / "scratch"
    here.mkdir()
    scratch.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    campaign(SmacOptimiser(surfaces.space(), Settings(1, 4, 0.0)), 7)
    assert list(here.iterdir()) == []
    assert list(scratch.iterdir()) == []


def test_trap_4_leftovers_of_smac_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = campaign(SmacOptimiser(surfaces.space(), Settings(1, 4, 0.0)), 7)
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path / "smac3_output" / "scratch" / "0", tmp_path / "scratch" / "0"):
        folder.mkdir(parents=True)
        for name in ("scenario", "configspace", "optimization", "runhistory", "intensifier"):
            (folder / f"{name}.json").write_text('{"data": [[1, ')
    assert campaign(SmacOptimiser(surfaces.space(), Settings(1, 4, 0.0)), 7) == expected


def test_trap_5_a_changed_campaign_is_refused_and_nobody_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SMAC calls input(), which ends an unattended run."""

    def asked(*_: object) -> str:
        raise AssertionError("somebody was asked")

    monkeypatch.setattr(builtins, "input", asked)
    tune(toy_plan(optimiser="smac", trials=6), tmp_path, ToyBackend())
    with pytest.raises(JournalError, match=r"campaign\.initial: 4 -> 3.*--name OTHER"):
        tune(toy_plan(optimiser="smac", trials=6, initial=3), tmp_path, ToyBackend())
    with pytest.raises(JournalError, match=r"budget\.trials: 6 -> 8.*--extend"):
        tune(toy_plan(optimiser="smac", trials=8), tmp_path, ToyBackend())
    tune(toy_plan(optimiser="smac", trials=8), tmp_path, ToyBackend(), extend=True)
    assert len(rows_of(tmp_path, "search")) == 8


def test_trap_6_the_model_never_sees_infinity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash told as infinity or NaN kills the next ask. 25 % crash here, 10 % pass their limit."""
    seen: list[np.ndarray] = []
    train = RandomForest._train

    def spy(self: RandomForest, X: np.ndarray, y: np.ndarray) -> RandomForest:
        seen.append(y)
        return train(self, X, y)

    monkeypatch.setattr(RandomForest, "_train", spy)
    backend = ToyBackend(crash_share=0.25, timeout_share=0.10)
    tune(toy_plan(optimiser="smac", trials=40, initial=10, random_share=0.0), tmp_path, backend)
    rows = rows_of(tmp_path, "search")
    counts = {status: sum(row.status is status for row in rows) for status in Status}
    assert len(rows) == 40
    assert counts[Status.CRASHED] >= 4
    assert counts[Status.TIMEOUT] >= 1
    assert counts[Status.OK] + counts[Status.CRASHED] + counts[Status.TIMEOUT] == 40
    assert len(seen) == 30
    assert all(np.isfinite(y).all() for y in seen)
    # Failures are told, not dropped: the last model knows of every trial but the one in flight.
    assert len(seen[-1]) == 38
    assert all(row.cost is None for row in rows if row.status is not Status.OK)


def flat(config: Config) -> float:
    return 1.0


def test_trap_7_the_reported_gain_is_not_that_of_the_luckiest_run(tmp_path: Path) -> None:
    """Of 60 equal configs at 5 % noise, the best single run looks 10 % better than the default's."""
    improved = 0
    for seed in range(8):
        folder = tmp_path / str(seed)
        plan = toy_plan(trials=60, validation_seeds=10, seed=seed)
        found = tune(plan, folder, ToyBackend(surface=flat, noise=0.05))[CELL]
        search = rows_of(folder, "search")
        (best,) = best_rows(search, 1)
        assert best.cost is not None
        median = float(np.median([row.cost for row in search]))
        assert math.exp(median - best.cost) > 1.05
        assert found.effect is not None
        assert 0.95 < found.effect.ratio < 1.05
        improved += found.improved
    assert improved <= 1


def test_trap_8_a_against_a_is_not_an_improvement_and_a_planted_gain_is() -> None:
    """Nobody in the field tests default against tuned for significance. More in `test_statistics.py`."""
    random = np.random.default_rng(5)

    def verdicts(gain: float) -> int:
        pairs = [0.02 * random.standard_normal((2, 10)) for _ in range(200)]
        judged = [effect(list(default), list(tuned - math.log1p(gain))) for default, tuned in pairs]
        return sum(found is not None and found.improved for found in judged)

    assert verdicts(0.0) <= 10
    assert verdicts(0.03) >= 150


def test_trap_10_the_optimisers_time_is_stored_with_each_trial(tmp_path: Path) -> None:
    tune(toy_plan(optimiser="smac", trials=8), tmp_path, ToyBackend())
    by_origin: dict[str, list[float]] = {}
    for row in rows_of(tmp_path, "search"):
        by_origin.setdefault(row.trial.origin, []).append(row.ask_cpu_s)
    assert min(by_origin["model"]) > max(by_origin["default"])


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    """Results of another campaign, on the opposite surface."""
    plan = toy_plan(name="other", optimiser="smac", trials=12, initial=6)
    tune(plan, tmp_path, ToyBackend(surface=lambda config: 3.0 - surfaces.smooth(config) / 2))
    return tmp_path


def test_trap_11_no_trial_of_another_campaign_is_told(poisoned: Path, tmp_path_factory: Any) -> None:
    """Merged trials of an unlike campaign cost 14.6 % of regret where none cost 3.5 %."""
    clean = tmp_path_factory.mktemp("clean")
    plan = toy_plan(optimiser="smac", trials=12, initial=6)
    tune(plan, poisoned, ToyBackend())
    tune(plan, clean, ToyBackend())
    configs = [[row.trial.config for row in rows_of(folder, "search")] for folder in (poisoned, clean)]
    assert configs[0] == configs[1]
