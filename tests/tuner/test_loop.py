"""A whole campaign on the toy: what is stored, in which order, and what may change on the way."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from tests.tuner import surfaces
from tests.tuner.toy import DEFAULTS, RUNTIME, SCENARIO, ToyBackend, table, toy_plan
from tiertune.tuner.events import Event, Finished, Phase, Plan, Started
from tiertune.tuner.journal import Journal
from tiertune.tuner.journal_claim import JournalError
from tiertune.tuner.loop import journal_path, timed_ask, tune
from tiertune.tuner.optimiser.base import Observation, Proposal, Settings
from tiertune.tuner.optimiser.random import RandomOptimiser
from tiertune.tuner.trial import Measurement, Status, Trial, canonical
from tiertune.tuner.validation import FINALISTS, SELECTION_SEEDS, STAGE, outcome

CELL = f"{SCENARIO.key}/toy-system"


def rows_of(results: Path, purpose: Any = None, name: str = "toy") -> list[Any]:
    with Journal(journal_path(results, name), writer=False) as journal:
        return journal.rows(CELL, purpose)


def test_a_campaign_is_search_then_selection_then_validation(tmp_path: Path) -> None:
    outcomes = tune(toy_plan(), tmp_path, ToyBackend())
    search, selection, validation = (rows_of(tmp_path, p) for p in ("search", "selection", "validation"))
    assert [row.trial.number for row in search] == list(range(12))
    assert search[0].trial.origin == "default"
    assert len(selection) == (FINALISTS + 1) * SELECTION_SEEDS
    assert len(validation) == 2 * 5
    assert {row.status for row in search + selection + validation} == {Status.OK}
    found = outcomes[CELL]
    assert found.complete
    assert found.effect is not None
    assert found.effect.pairs == 5
    assert found.winner is not None
    assert canonical(found.winner.trial.config) in {canonical(r.trial.config) for r in validation}


def test_an_optimiser_computes_in_one_thread_and_others_as_before() -> None:
    """In OpenBLAS, one that is spread over threads never ends where another thread forks meanwhile."""
    import scipy.linalg  # noqa: F401 (has an OpenBLAS of its own)

    def threads() -> list[int]:
        return [found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"]

    class Asked(RandomOptimiser):
        def random(self, number: int, history: Sequence[Observation]) -> Proposal:
            seen.extend(threads())
            return super().random(number, history)

    seen: list[int] = []
    with threadpool_limits(2, user_api="blas"):
        asked = Asked(surfaces.space(1), Settings(seed=1))
        timed_ask(asked, 1, [])
        assert set(threads()) == {2}
    assert set(seen) == {1}


def test_seeds_of_search_selection_and_validation_never_meet(tmp_path: Path) -> None:
    tune(toy_plan(), tmp_path, ToyBackend())
    seeds = [{r.trial.seed for r in rows_of(tmp_path, p)} for p in ("search", "selection", "validation")]
    assert [len(s) for s in seeds] == [12, SELECTION_SEEDS, 5]
    assert len(set.union(*seeds)) == 12 + SELECTION_SEEDS + 5


def test_judgement_is_paired_and_its_order_turns(tmp_path: Path) -> None:
    tune(toy_plan(), tmp_path, ToyBackend())
    rows = rows_of(tmp_path, "validation")
    assert {row.trial.noise for row in rows} == {"paired"}
    assert {row.trial.noise for row in rows_of(tmp_path, "search")} == {"independent"}
    blocks = [rows[i : i + 2] for i in range(0, len(rows), 2)]
    assert all(len({row.trial.seed for row in block}) == 1 for block in blocks)
    assert [block[0].trial.origin for block in blocks] == [
        "default",
        "winner",
        "default",
        "winner",
        "default",
    ]


def test_only_the_first_validation_pair_has_timelines(tmp_path: Path) -> None:
    tune(toy_plan(), tmp_path, ToyBackend())
    with_timeline = [
        entry["trial"].origin for entry in table(journal_path(tmp_path, "toy")) if entry["timeline"]
    ]
    assert sorted(with_timeline) == ["default", "winner"]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_do_not_depend_on_who_finishes_first(tmp_path: Path, workers: int) -> None:
    tables = []
    for number, run_s in enumerate((0.0, 0.01)):
        folder = tmp_path / str(number)
        tune(toy_plan(workers=workers, trials=20), folder, ToyBackend(run_s=run_s))
        tables.append(table(journal_path(folder, "toy")))
    assert tables[0] == tables[1]


def test_smac_is_asked_from_the_same_rows_however_trials_end(tmp_path: Path) -> None:
    tables = []
    for number, run_s in enumerate((0.0, 0.05)):
        folder = tmp_path / str(number)
        tune(toy_plan(optimiser="smac", workers=3, trials=14), folder, ToyBackend(run_s=run_s))
        tables.append(table(journal_path(folder, "toy")))
    assert tables[0] == tables[1]


class _Counting(ToyBackend):
    """Counts trials that run at the same time."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.now = self.most = self.runs = 0
        self.mutex = threading.Lock()

    def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
        with self.mutex:
            self.now += 1
            self.runs += 1
            self.most = max(self.most, self.now)
        try:
            return super().run(trial, timeline_points)
        finally:
            with self.mutex:
                self.now -= 1


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_as_many_trials_run_at_once_as_there_are_workers(tmp_path: Path, workers: int) -> None:
    backend = _Counting(run_s=0.02)
    tune(toy_plan(workers=workers), tmp_path, backend)
    assert backend.most == workers


def test_a_finished_campaign_is_not_run_again(tmp_path: Path) -> None:
    first = tune(toy_plan(), tmp_path, ToyBackend())
    backend = _Counting()
    assert tune(toy_plan(), tmp_path, backend) == first
    assert backend.runs == 0


def test_every_cell_is_searched_as_if_it_were_alone(tmp_path: Path) -> None:
    tune(toy_plan(systems=("toy-system", "other")), tmp_path / "both", ToyBackend())
    tune(toy_plan(), tmp_path / "alone", ToyBackend())
    assert rows_of(tmp_path / "both")[0].trial.seed == rows_of(tmp_path / "alone")[0].trial.seed
    configs = [[r.trial.config for r in rows_of(tmp_path / f, "search")] for f in ("both", "alone")]
    assert configs[0] == configs[1]


def test_systems_are_compared_on_equal_seeds(tmp_path: Path) -> None:
    tune(toy_plan(systems=("a", "b")), tmp_path, ToyBackend())
    with Journal(journal_path(tmp_path, "toy"), writer=False) as journal:
        seeds = [[r.trial.seed for r in journal.rows(f"{SCENARIO.key}/{s}")] for s in ("a", "b")]
    assert seeds[0] == seeds[1]


def test_an_extended_budget_keeps_the_old_trials_and_judges_afresh(tmp_path: Path) -> None:
    tune(toy_plan(), tmp_path, ToyBackend())
    before = table(journal_path(tmp_path, "toy"))
    larger = toy_plan(trials=20)
    with pytest.raises(JournalError, match=r"trials: 12 -> 20.*--extend"):
        tune(larger, tmp_path, ToyBackend())
    assert table(journal_path(tmp_path, "toy")) == before
    outcomes = tune(larger, tmp_path, ToyBackend(), extend=True)
    after = table(journal_path(tmp_path, "toy"))
    assert all(entry in after for entry in before)
    assert [row.trial.number for row in rows_of(tmp_path, "search")] == list(range(20))
    fresh = [row for row in rows_of(tmp_path, "validation") if row.trial.number >= STAGE]
    old = [row for row in rows_of(tmp_path, "validation") if row.trial.number < STAGE]
    assert not {row.trial.seed for row in fresh} & {row.trial.seed for row in old}
    assert {row.trial.key for row in outcomes[CELL].winner_rows} <= {row.trial.key for row in fresh}
    # The longer search is the one that would have been made at once.
    tune(replace(larger, name="toy"), tmp_path / "at-once", ToyBackend())
    configs = [[r.trial.config for r in rows_of(f, "search")] for f in (tmp_path, tmp_path / "at-once")]
    assert configs[0] == configs[1]


def test_a_refused_campaign_makes_no_trial(tmp_path: Path) -> None:
    tune(toy_plan(), tmp_path, ToyBackend())
    backend = _Counting()
    with pytest.raises(JournalError, match="seed: 1 -> 2"):
        tune(toy_plan(seed=2), tmp_path, backend)
    assert backend.runs == 0
    assert backend.prepared == []


def test_an_interrupt_keeps_what_was_measured(tmp_path: Path) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, Started) and event.trial.number == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(toy_plan(), tmp_path, ToyBackend(), stop)
    assert [row.trial.number for row in rows_of(tmp_path) if row.status is Status.OK] == list(range(6))
    tune(toy_plan(), tmp_path, ToyBackend())
    tune(toy_plan(), tmp_path / "whole", ToyBackend())
    assert table(journal_path(tmp_path, "toy")) == table(journal_path(tmp_path / "whole", "toy"))


def test_events_add_up(tmp_path: Path) -> None:
    events: list[Event] = []
    tune(toy_plan(), tmp_path, ToyBackend(crash_share=0.2), events.append)
    (plan,) = [event for event in events if isinstance(event, Plan)]
    finished = [event for event in events if isinstance(event, Finished)]
    assert (plan.trials, plan.done) == (len(finished), 0)
    assert [event.purpose for event in events if isinstance(event, Phase)] == [
        "search",
        "selection",
        "validation",
    ]
    assert sum(event.value is None for event in finished) == sum(
        r.status is Status.CRASHED for r in rows_of(tmp_path)
    )
    again: list[Event] = []
    tune(toy_plan(), tmp_path, ToyBackend(crash_share=0.2), again.append)
    (plan,) = [event for event in again if isinstance(event, Plan)]
    assert plan.done == plan.trials


def test_every_trial_knows_its_environment_and_the_optimisers_time(tmp_path: Path) -> None:
    tune(toy_plan(optimiser="smac", trials=8), tmp_path, ToyBackend())
    with Journal(journal_path(tmp_path, "toy"), writer=False) as journal:
        environments = journal.environments()
        rows = journal.rows(CELL)
        assert all(journal.decisions(row.trial) for row in rows)
    assert {row.environment for row in rows} == set(environments)
    (facts,) = environments.values()
    assert facts["host"]["memory_bytes"] > 0
    assert facts["packages"]["smac"][0].isdigit()
    assert len(facts["git"].get("commit", "0" * 40)) == 40
    model = [row.ask_cpu_s for row in rows if row.trial.origin == "model"]
    assert model
    assert all(0.0 < seconds < 5.0 for seconds in model)


def test_a_campaign_in_which_the_default_never_works_ends_in_words(tmp_path: Path) -> None:
    class NoDefault(ToyBackend):
        def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
            if trial.origin == "default":
                raise RuntimeError("the default crashes")
            return super().run(trial, timeline_points)

    found = tune(toy_plan(), tmp_path, NoDefault())[CELL]
    assert found.verdict.startswith("not validated")
    assert not found.improved


def test_a_campaign_in_which_only_the_default_works_ends_in_words(tmp_path: Path) -> None:
    class OnlyDefault(ToyBackend):
        def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
            if trial.origin != "default":
                raise RuntimeError("all else crashes")
            return super().run(trial, timeline_points)

    found = tune(toy_plan(), tmp_path, OnlyDefault())[CELL]
    assert found.verdict == "no improvement found: no configuration but the default worked"
    assert not rows_of(tmp_path, "validation")


def test_an_outcome_before_the_end_says_that_it_is_not_complete(tmp_path: Path) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, Started) and event.trial.purpose == "validation" and event.trial.number == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(toy_plan(workers=1), tmp_path, ToyBackend(), stop)
    with Journal(journal_path(tmp_path, "toy"), writer=False) as journal:
        found = outcome(journal, CELL, RUNTIME, 0)
    assert not found.complete
    assert found.effect is None
    assert found.winner is not None


def test_the_winner_is_found_where_there_is_something_to_find(tmp_path: Path) -> None:
    plan = toy_plan(optimiser="smac", trials=40, initial=12, validation_seeds=10)
    found = tune(plan, tmp_path, ToyBackend(surface=surfaces.conditional))[CELL]
    assert found.improved
    assert found.effect is not None
    assert found.winner is not None
    default = surfaces.conditional(rows_of(tmp_path, "search")[0].trial.config)
    truth = default / surfaces.conditional(found.winner.trial.config)
    assert found.effect.low * 0.98 <= truth <= found.effect.high * 1.02


def test_winners_are_compared_with_the_systems_own_default_wherever_the_space_starts(tmp_path: Path) -> None:
    # By itself the system is near the best there is, outside the space; the space starts far from there.
    default = {**DEFAULTS, "sample_period": 1_585, "cooling_threshold": 45, "migration_kib": 63_096}
    default["decay"] = 0.0631
    assert surfaces.smooth(default) < 1.001 < surfaces.smooth(DEFAULTS)
    found = tune(toy_plan(default=default), tmp_path, ToyBackend())[CELL]
    rows = rows_of(tmp_path)
    assert (rows[0].trial.origin, rows[0].trial.config) == ("initial", DEFAULTS)
    judged = [row.trial.config for row in rows if row.trial.origin == "default"]
    assert judged == [default] * (SELECTION_SEEDS + 5)
    assert found.effect is not None
    assert found.effect.high < 1.0
    assert not found.improved


@pytest.mark.parametrize("last", [1, 7, 10, 18, 19])
def test_validation_without_its_last_runs_is_no_verdict(tmp_path: Path, last: int) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, Started) and event.trial.purpose == "validation" and event.trial.number == last:
            raise KeyboardInterrupt

    plan = toy_plan(workers=1, validation_seeds=10)
    with pytest.raises(KeyboardInterrupt):
        tune(plan, tmp_path, ToyBackend(surface=surfaces.smooth), stop)
    for state in ("interrupted", "never started"):
        with Journal(journal_path(tmp_path, "toy")) as journal:
            if state == "never started":
                journal._db.execute(
                    "delete from decision where trial in (select id from trial where status <> 'ok')"
                )
                journal._db.execute("delete from trial where status <> 'ok'")
            found = outcome(journal, CELL, RUNTIME, 0)
        assert not found.complete
        assert not found.improved
        ended = sum(row.status.finished for row in rows_of(tmp_path, "validation"))
        assert last <= ended < 20
        assert found.verdict == f"not validated: {ended} of 20 validation runs have ended so far"
    assert tune(plan, tmp_path, ToyBackend())[CELL].complete


def test_an_interrupted_judgement_starts_nothing_more(tmp_path: Path) -> None:
    def stop(event: Event) -> None:
        if isinstance(event, Started) and event.trial.purpose == "validation" and event.trial.number == 0:
            raise KeyboardInterrupt

    backend = _Counting(run_s=0.05)
    with pytest.raises(KeyboardInterrupt):
        tune(toy_plan(workers=1, validation_seeds=20), tmp_path, backend, stop)
    # The worker may have taken the next one or two before the queue was emptied.
    assert len(rows_of(tmp_path, "validation")) <= 4


def test_the_announcement_has_the_lag_that_the_campaign_was_started_with(tmp_path: Path) -> None:
    events: list[Event] = []
    tune(toy_plan(workers=3), tmp_path, ToyBackend())
    tune(toy_plan(workers=1), tmp_path, ToyBackend(), events.append)
    assert [event.lag for event in events if isinstance(event, Plan)] == [2]
