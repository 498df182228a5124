"""Trials whose host was not in order: run again within a budget, averaged never, held against no config."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.tuner.toy import SCENARIO, ToyBackend, table, toy_plan
from tiertune.tuner.backend import HostUnfit
from tiertune.tuner.events import Event, Note
from tiertune.tuner.execution import LEAST_REPEATS, MOST_REPEATS, Repeats
from tiertune.tuner.journal import Journal
from tiertune.tuner.loop import journal_path, tune
from tiertune.tuner.trial import Measurement, Status, Trial, canonical

CELL = f"{SCENARIO.key}/toy-system"


@dataclass
class _Disturbed(ToyBackend):
    """The toy on a host that is not in order for the first `times` runs of what `picked` picks."""

    picked: Callable[[Trial], bool] = lambda trial: False
    times: int = 1
    runs: dict[str, int] = field(default_factory=dict)
    settled: int = 0
    mutex: threading.Lock = field(default_factory=threading.Lock)

    def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
        with self.mutex:
            self.runs[trial.key] = self.runs.get(trial.key, 0) + 1
        if self.picked(trial) and self.runs[trial.key] <= self.times:
            raise HostUnfit("this host was not in order: others compute\nand more")
        return super().run(trial, timeline_points)

    def settle(self) -> None:
        with self.mutex:
            self.settled += 1


def winner_on_the_first_seed(trial: Trial) -> bool:
    return trial.purpose == "validation" and trial.origin == "winner" and trial.number < 2


def test_a_disturbed_trial_is_run_again_and_only_the_last_run_counts(tmp_path: Path) -> None:
    plain = tune(toy_plan(), tmp_path / "plain", ToyBackend())[CELL]
    backend = _Disturbed(picked=lambda trial: trial.purpose == "search" and trial.number == 3)
    notes: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, Note):
            notes.append(event.text)

    found = tune(toy_plan(), tmp_path / "again", backend, listen)[CELL]
    again, undisturbed = (table(journal_path(tmp_path / name, "toy")) for name in ("again", "plain"))
    assert again == undisturbed
    assert found.verdict == plain.verdict
    assert backend.settled == 1
    said = "again, as this host was not in order: others compute"
    assert [note for note in notes if note.endswith(said)] != []
    with Journal(journal_path(tmp_path / "again", "toy"), writer=False) as journal:
        (row,) = journal.rows(CELL, "search", before=4, at_least=3)
        assert said in journal.decisions(row.trial)


def test_repeats_are_few_for_a_trial_and_within_the_budget_of_a_cell(tmp_path: Path) -> None:
    backend = _Disturbed(picked=lambda trial: trial.number > 0 and trial.purpose == "search", times=10**9)
    tune(toy_plan(), tmp_path, backend)
    again = [count - 1 for count in backend.runs.values() if count > 1]
    assert max(again) == MOST_REPEATS
    assert sum(again) == backend.settled <= max(LEAST_REPEATS, (12 + 24 + 10) // 10)


@pytest.mark.parametrize("trials", [5, 100])
def test_the_budget_is_a_share_of_the_trials(trials: int) -> None:
    budget = Repeats.of(trials)
    assert sum(budget.take() for _ in range(trials)) == max(LEAST_REPEATS, trials // 10)


def test_a_host_that_stays_out_of_order_is_not_held_against_the_winner(tmp_path: Path) -> None:
    plain = tune(toy_plan(), tmp_path / "plain", ToyBackend())[CELL]
    backend = _Disturbed(picked=winner_on_the_first_seed, times=10**9)
    found = tune(toy_plan(validation_seeds=6), tmp_path / "unfit", backend)[CELL]
    assert plain.improved
    assert found.lost == 0
    assert found.effect is not None
    assert found.effect.pairs == 5
    assert found.improved
    assert "failed" not in found.verdict


def test_a_crash_is_held_against_it_as_before(tmp_path: Path) -> None:
    @dataclass
    class Crashing(ToyBackend):
        def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
            if winner_on_the_first_seed(trial):
                raise RuntimeError("segmentation fault")
            return super().run(trial, timeline_points)

    found = tune(toy_plan(validation_seeds=6), tmp_path, Crashing())[CELL]
    assert found.lost == 1
    assert not found.improved


def test_finalists_are_ranked_over_the_seeds_that_all_have(tmp_path: Path) -> None:
    """The best of them met a host that was not in order: it is still the best."""
    plain = tune(toy_plan(), tmp_path / "plain", ToyBackend())[CELL]
    assert plain.winner is not None
    best = canonical(plain.winner.trial.config)
    backend = _Disturbed(
        picked=lambda trial: (
            trial.purpose == "selection" and canonical(trial.config) == best and trial.number < 6
        ),
        times=10**9,
    )
    found = tune(toy_plan(), tmp_path / "unfit", backend)[CELL]
    assert found.winner is not None
    assert canonical(found.winner.trial.config) == best
    with Journal(journal_path(tmp_path / "unfit", "toy"), writer=False) as journal:
        unfit = [row for row in journal.rows(CELL, "selection") if row.status is Status.HOST_UNFIT]
    assert len(unfit) == 1
