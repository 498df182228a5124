"""What every trial store promises. Inherit `StoreContract` and give the class."""

from __future__ import annotations

import math
import threading
from pathlib import Path

import pytest

from tests.tuner.toy import SCENARIO
from tiertune.tuner.journal import Journal
from tiertune.tuner.journal_claim import JournalError
from tiertune.tuner.trial import Measurement, Purpose, Status, Trial

CELL = f"{SCENARIO.key}/toy"
DOCUMENT = {"campaign": {"seed": 1, "budget": {"trials": 10, "initial": 4}, "validation": {"seeds": 5}}}


def trial(number: int, purpose: Purpose = "search", **changes: object) -> Trial:
    fields = {"config": {"k": number, "mode": "sync"}, "seed": number + 7, **changes}
    return Trial("toy", CELL, number, SCENARIO, "toy", purpose=purpose, **fields)  # type: ignore[arg-type]


def ok(runtime_s: float = 2.0) -> Measurement:
    return Measurement(Status.OK, {"runtime_s": runtime_s}, raw="raw text", wall_s=0.5)


def start(store: Journal, *trials: Trial) -> None:
    for one in trials:
        store.start(one, ask_cpu_s=0.25, environment=None, decision="because")


class StoreContract:
    """Inherited by one test class a store, which sets `store`."""

    store: type[Journal]

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "campaign" / "journal.sqlite"

    def test_what_was_stored_is_there_after_opening_again(self, path: Path) -> None:
        with self.store(path) as store:
            environment = store.environment({"engine": "1"})
            store.start(trial(0), ask_cpu_s=0.25, environment=environment, decision="because")
            measurement = Measurement(
                Status.OK, {"runtime_s": 2.5}, {"time_s": [0.0, 2.5]}, wall_s=0.5, raw="r"
            )
            store.finish(trial(0), measurement, math.log(2.5))
        with self.store(path, writer=False) as store:
            (row,) = store.rows()
            assert row.trial == trial(0)
            assert (row.status, row.metrics, row.cost, row.raw) == (
                Status.OK,
                {"runtime_s": 2.5},
                math.log(2.5),
                "r",
            )
            assert (row.wall_s, row.ask_cpu_s, row.attempt, row.environment) == (0.5, 0.25, 1, environment)
            assert row.finished_at is not None
            assert row.started_at <= row.finished_at
            assert store.timeline(trial(0)) == {"time_s": [0.0, 2.5]}
            assert store.decisions(trial(0)) == ["because"]
            assert store.environments() == {environment: {"engine": "1"}}

    def test_an_environment_is_stored_once(self, path: Path) -> None:
        with self.store(path) as store:
            assert store.environment({"a": 1, "b": 2}) == store.environment({"b": 2, "a": 1})
            assert store.environment({"a": 2}) != store.environment({"a": 1, "b": 2})

    def test_a_trial_is_a_row_from_its_start(self, path: Path) -> None:
        with self.store(path) as store, self.store(path, writer=False) as reader:
            start(store, trial(0))
            assert [row.status for row in reader.rows()] == [Status.RUNNING]

    def test_what_was_running_is_interrupted_after_opening_again(self, path: Path) -> None:
        with self.store(path) as store:
            start(store, trial(0), trial(1))
            store.finish(trial(0), ok(), 0.7)
        with self.store(path) as store:
            assert [row.status for row in store.rows()] == [Status.OK, Status.INTERRUPTED]

    def test_a_reader_interrupts_nothing(self, path: Path) -> None:
        with self.store(path) as store:
            start(store, trial(0))
            self.store(path, writer=False).close()
            store.finish(trial(0), ok(), 0.7)

    def test_an_interrupted_trial_starts_again_only_as_it_was(self, path: Path) -> None:
        with self.store(path) as store:
            start(store, trial(0))
        with self.store(path) as store:
            with pytest.raises(ValueError, match="already interrupted"):
                start(store, trial(0, config={"k": 99}))
            start(store, trial(0))
            store.finish(trial(0), ok(), 0.7)
            (row,) = store.rows()
            assert (row.status, row.attempt) == (Status.OK, 2)

    def test_a_finished_trial_never_changes(self, path: Path) -> None:
        with self.store(path) as store:
            start(store, trial(0))
            store.finish(trial(0), ok(2.0), 0.7)
            with pytest.raises(ValueError, match="already ok"):
                start(store, trial(0))
            with pytest.raises(ValueError, match="cannot finish"):
                store.finish(trial(0), ok(3.0), 1.1)
            assert [row.metrics for row in store.rows()] == [{"runtime_s": 2.0}]

    def test_a_trial_that_never_started_cannot_finish(self, path: Path) -> None:
        with self.store(path) as store, pytest.raises(ValueError, match="unknown"):
            store.finish(trial(0), ok(), 0.7)

    def test_a_refused_finish_leaves_nothing_behind(self, path: Path) -> None:
        with self.store(path) as store:
            start(store, trial(0))
            broken = Measurement(Status.OK, {"runtime_s": "fast"})  # type: ignore[dict-item]
            with pytest.raises(ValueError, match="could not convert"):
                store.finish(trial(0), broken, 0.7)
            (row,) = store.rows()
            assert (row.status, row.metrics, row.cost) == (Status.RUNNING, {}, None)
            assert store.unsent() == []

    @pytest.mark.parametrize(
        "status", [status for status in Status if status.finished and status is not Status.OK]
    )
    def test_failures_are_rows_too(self, path: Path, status: Status) -> None:
        with self.store(path) as store:
            start(store, trial(0))
            store.finish(trial(0), Measurement(status, {"runtime_s": 600.0}, error="why"), None)
            (row,) = store.rows()
            assert (row.status, row.cost, row.error, row.metrics) == (
                status,
                None,
                "why",
                {"runtime_s": 600.0},
            )

    def test_values_that_are_not_finite_come_back_as_they_were(self, path: Path) -> None:
        with self.store(path) as store:
            start(store, trial(0))
            values = {"a": math.nan, "b": math.inf, "c": -math.inf}
            store.finish(trial(0), Measurement(Status.NO_METRIC, values), None)
            metrics = store.rows()[0].metrics
            assert math.isnan(metrics["a"])
            assert (metrics["b"], metrics["c"]) == (math.inf, -math.inf)

    def test_rows_are_in_order_and_can_be_narrowed(self, path: Path) -> None:
        with self.store(path) as store:
            start(store, trial(2), trial(0), trial(1), trial(0, "validation"), trial(10_000, "validation"))
            assert [row.trial.number for row in store.rows(CELL, "search")] == [0, 1, 2]
            assert [row.trial.number for row in store.rows(CELL, "search", before=2)] == [0, 1]
            assert [row.trial.number for row in store.rows(CELL, "validation", at_least=1)] == [10_000]
            assert store.rows("another cell") == []
            found = store.row(CELL, "search", 1)
            assert found is not None
            assert found.trial == trial(1)
            assert store.row(CELL, "selection", 1) is None

    def test_a_second_writer_is_refused_in_words(self, path: Path) -> None:
        with self.store(path), pytest.raises(JournalError, match=r"running already \(process [0-9]+\)"):
            self.store(path)
        self.store(path).close()

    def test_a_missing_journal_is_not_made_by_reading(self, path: Path) -> None:
        with pytest.raises(JournalError, match="no such journal"):
            self.store(path, writer=False)
        assert not path.exists()

    def test_another_file_is_refused_in_words(self, path: Path) -> None:
        path.parent.mkdir()
        path.write_bytes(b"this is no journal at all, whatever its name says" * 100)
        with pytest.raises(JournalError, match="not a usable journal"):
            self.store(path)

    def test_a_campaign_without_trials_may_be_corrected(self, path: Path) -> None:
        changed = {"campaign": {**DOCUMENT["campaign"], "seed": 2}}
        with self.store(path) as store:
            first = store.claim("toy", DOCUMENT, 1)
            second = store.claim("toy", changed, 2)
        assert (second.document, second.lag) == (changed, 2)
        assert (second.identity, second.generation) == (first.identity, 0)

    def test_the_same_campaign_goes_on_and_keeps_its_lag(self, path: Path) -> None:
        with self.store(path) as store:
            first = store.claim("toy", DOCUMENT, 1)
            start(store, trial(0))
            assert store.claim("toy", DOCUMENT, 7) == first
            assert (first.lag, first.generation) == (1, 0)
        with self.store(path, writer=False) as store:
            assert store.claimed() == first

    def test_a_changed_campaign_is_refused_with_what_changed(self, path: Path) -> None:
        changed = {"campaign": {**DOCUMENT["campaign"], "seed": 2}}
        with self.store(path) as store:
            store.claim("toy", DOCUMENT)
            start(store, trial(0))
            for extend in (False, True):
                with pytest.raises(JournalError, match=r"campaign.seed: 1 -> 2.*--name"):
                    store.claim("toy", changed, extend=extend)
            assert store.claimed().document == DOCUMENT

    def test_a_budget_grows_only_when_told_to(self, path: Path) -> None:
        larger = {"campaign": {**DOCUMENT["campaign"], "budget": {"trials": 20, "initial": 4}}}
        with self.store(path) as store:
            store.claim("toy", DOCUMENT)
            start(store, trial(0))
            with pytest.raises(JournalError, match=r"trials: 10 -> 20.*--extend"):
                store.claim("toy", larger)
            assert store.claim("toy", larger, extend=True).generation == 1
            with pytest.raises(JournalError, match="trials: 20 -> 10"):
                store.claim("toy", DOCUMENT, extend=True)

    def test_the_outbox_owes_what_was_finished_until_it_was_sent(self, path: Path) -> None:
        with self.store(path) as store:
            start(store, trial(0), trial(1))
            store.finish(trial(1), ok(), 0.7)
            owed = store.unsent()
            assert owed[-1] == "campaign"
            (subject,) = owed[:-1]
            (row,) = store.rows_by_id([int(subject.partition(":")[2])])
            assert row.trial == trial(1)
            store.sent(owed)
            assert store.unsent() == []
            store.resend()
            assert store.unsent() == owed

    def test_threads_store_side_by_side(self, path: Path) -> None:
        with self.store(path) as store:

            def work(numbers: range) -> None:
                for number in numbers:
                    start(store, trial(number))
                    store.finish(trial(number), ok(float(number + 1)), 0.7)

            threads = [threading.Thread(target=work, args=(range(i, 40, 4),)) for i in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            rows = store.rows()
        assert [row.trial.number for row in rows] == list(range(40))
        assert [row.metrics["runtime_s"] for row in rows] == [float(n + 1) for n in range(40)]
