"""Trap 9 and the mirror's promises: MLflow shows what the journal holds, and can neither stop nor falsify
it."""

from __future__ import annotations

import getpass
import math
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.toy import RUNTIME, SCENARIO, ToyBackend, table, toy_plan
from tiertune.tuner import tracking
from tiertune.tuner.events import Event, Note
from tiertune.tuner.journal import Journal
from tiertune.tuner.loop import journal_path, tune
from tiertune.tuner.plan import CampaignPlan
from tiertune.tuner.search.rules import SearchRules
from tiertune.tuner.tracking import Mirror, attach_files, tracking_uri
from tiertune.tuner.trial import Measurement, Status, Trial
from tiertune.tuner.validation import outcome

CELL = f"{SCENARIO.key}/toy-system"
PLAN = toy_plan(trials=6)


def mirrored(
    results: Path, plan: CampaignPlan, backend: ToyBackend, *, extend: bool = False, **changes: Any
) -> list[str]:
    """A campaign with its mirror; the notes it gave."""
    notes: list[str] = []

    def listen(event: Event) -> None:
        if isinstance(event, Note):
            notes.append(event.text)

    def mirror(journal: Journal) -> Mirror:
        return Mirror(journal, plan, results, listener=listen, **changes)

    tune(plan, results, backend, extend=extend, mirror=mirror)
    return notes


def runs_of(results: Path, uri: str | None = None) -> list[Any]:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=tracking_uri(results, uri))
    experiment = client.get_experiment_by_name("tiertune")
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id], max_results=1000))


def parent_and_children(runs: list[Any]) -> tuple[Any, list[Any]]:
    (parent,) = [run for run in runs if run.data.tags["tiertune.key"] == "campaign"]
    return parent, [run for run in runs if run is not parent]


class Odd(ToyBackend):
    """Says a value that is not finite in every run."""

    def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
        measurement = super().run(trial, timeline_points)
        measurement.metrics.update(worst_latency_ns=math.inf, mean_latency_ns=math.nan)
        return measurement


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mirrored campaign in which some trials crash; read only."""
    folder = tmp_path_factory.mktemp("mirrored")
    # A busy machine needs long to import MLflow; how long is waited for a server is tested below.
    notes = mirrored(folder, PLAN, Odd(crash_share=0.15), patience_s=120.0)
    assert notes == []
    return folder


def test_a_campaign_is_a_parent_run_and_a_trial_a_child_run(results: Path) -> None:
    parent, children = parent_and_children(runs_of(results))
    with Journal(journal_path(results, "toy"), writer=False) as journal:
        rows = {row.trial.key: row for row in journal.rows()}
        assert journal.unsent() == []
    assert parent.info.status == "FINISHED"
    assert parent.info.run_name == "toy"
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    assert {run.data.tags["tiertune.key"] for run in children} == set(rows)
    assert any(row.status is Status.CRASHED for row in rows.values())
    for run in children:
        row = rows[run.data.tags["tiertune.key"]]
        assert run.info.status == ("FINISHED" if row.status is Status.OK else "FAILED")
        assert run.data.tags["tiertune.status"] == row.status
        finite = {name: value for name, value in row.metrics.items() if math.isfinite(value)}
        shown = {
            name: value for name, value in run.data.metrics.items() if name not in ("wall_s", "ask_cpu_s")
        }
        assert shown == finite
        knobs = {
            name.removeprefix("knob."): v for name, v in run.data.params.items() if name.startswith("knob.")
        }
        assert set(knobs) == set(row.trial.config)
        assert knobs["mode"] == row.trial.config["mode"]
        assert float(knobs["decay"]) == row.trial.config["decay"]


def test_a_file_of_this_machine_is_waited_for_longer_than_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = Mirror._connect

    def slowly(mirror: Mirror) -> Any:
        time.sleep(2.0)
        return connect(mirror)

    monkeypatch.setattr(Mirror, "_connect", slowly)
    monkeypatch.setattr(tracking, "PATIENCE_S", 0.1)
    assert mirrored(tmp_path, PLAN, ToyBackend()) == []
    assert runs_of(tmp_path)


def test_the_parent_has_the_verdict_and_the_validated_gain(results: Path) -> None:
    parent, _ = parent_and_children(runs_of(results))
    with Journal(journal_path(results, "toy"), writer=False) as journal:
        found = outcome(journal, CELL, RUNTIME, 0)
    assert parent.data.tags["verdict"] == found.verdict
    assert parent.data.tags["mlflow.note.content"].startswith(f"{found.verdict}\n\n")
    assert "Artifacts" in parent.data.tags["mlflow.note.content"]
    if found.effect is not None:
        assert parent.data.metrics["validated_speedup"] == found.effect.ratio
        assert parent.data.metrics["validated_low"] == found.effect.low


def test_runs_are_called_by_what_they_ran(results: Path) -> None:
    _, children = parent_and_children(runs_of(results))
    names = {run.data.tags["tiertune.key"]: run.info.run_name for run in children}
    called = f"toy-system · {SCENARIO.workload} · {SCENARIO.ratio}"
    assert names[f"toy/{CELL}/search/2"] == f"search 002 · {called}"
    assert names[f"toy/{CELL}/validation/0"] == f"validation 000 · {called}"
    assert len(set(names.values())) == len(children)


def test_pages_show_what_was_searched_by_whom_and_no_prompts(results: Path) -> None:
    from mlflow import MlflowClient

    parent, children = parent_and_children(runs_of(results))
    said = parent.data.params
    assert (said["systems"], said["workloads"]) == ("toy-system", SCENARIO.workload)
    assert (said["machines"], said["ratios"]) == (SCENARIO.machine, SCENARIO.ratio)
    assert {run.data.tags["mlflow.user"] for run in [parent, *children]} == {getpass.getuser()}
    experiment = MlflowClient(tracking_uri=tracking_uri(results)).get_experiment_by_name("tiertune")
    assert experiment is not None
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"


def test_the_parent_follows_the_best_so_far(results: Path) -> None:
    from mlflow import MlflowClient

    parent, _ = parent_and_children(runs_of(results))
    history = MlflowClient(tracking_uri=tracking_uri(results)).get_metric_history(
        parent.info.run_id, f"search-best/{RUNTIME.metric}"
    )
    with Journal(journal_path(results, "toy"), writer=False) as journal:
        rows = journal.rows(CELL, "search")
    first = next(row.trial.number for row in rows if row.cost is not None)
    costs = [[row.cost for row in rows[: number + 1] if row.cost is not None] for number in range(len(rows))]
    wanted = {number: RUNTIME.value(min(known)) for number, known in enumerate(costs) if number >= first}
    assert {one.step: one.value for one in history} == wanted
    assert len(history) == len(wanted)


def test_short_runs_are_a_series_of_their_own(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    plan = toy_plan(trials=8, rules=SearchRules(short_runs=0.25))
    assert mirrored(tmp_path, plan, ToyBackend(), patience_s=120.0) == []
    parent, _ = parent_and_children(runs_of(tmp_path))
    with Journal(journal_path(tmp_path, "toy"), writer=False) as journal:
        rows = journal.rows(CELL, "search")
    client = MlflowClient(tracking_uri=tracking_uri(tmp_path))
    for series, fidelity in (("search", 1.0), ("search-short", 0.25)):
        history = client.get_metric_history(parent.info.run_id, f"{series}/{RUNTIME.metric}")
        mine = {r.trial.number: r.metrics[RUNTIME.metric] for r in rows if r.trial.fidelity == fidelity}
        assert mine
        assert {one.step: one.value for one in history} == mine


def test_trap_9_infinity_is_named_and_not_stored_as_a_number(results: Path) -> None:
    """MLflow stores infinity as 1.797e308."""
    _, children = parent_and_children(runs_of(results))
    worked = [run for run in children if run.data.tags["tiertune.status"] == "ok"]
    assert worked
    for run in worked:
        assert "worst_latency_ns" not in run.data.metrics
        assert "mean_latency_ns" not in run.data.metrics
        assert run.data.tags["tiertune.not_finite"] == "mean_latency_ns, worst_latency_ns"
        assert max(run.data.metrics.values()) < 1e6


def test_trap_9_runs_are_in_sqlite_and_nowhere_else(
    tmp_path: Path, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow's file store raises, and its default place for artefacts is the current directory."""
    assert tracking_uri(results).startswith("sqlite:////")
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    report, config = tmp_path / "report.html", results / "toy/tuned/toy.yaml"
    report.write_text("<html></html>")
    config.parent.mkdir()
    config.write_text("k: 1\n")
    with Journal(journal_path(results, "toy"), writer=False) as journal:
        assert attach_files(journal, PLAN, results, [report, config]) is None
    assert list(here.iterdir()) == []
    (kept,) = (results / "mlflow-artifacts").glob("*/artifacts")
    assert {str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file()} == {
        "report.html",
        "tuned/toy.yaml",
    }


@pytest.mark.parametrize(("before", "after"), [("FINISHED",) * 2, ("KILLED",) * 2, ("RUNNING", "FINISHED")])
def test_a_file_that_cannot_be_attached_leaves_no_run_that_seems_to_go_on(
    results: Path, before: str, after: str
) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=tracking_uri(results))
    parent, _ = parent_and_children(runs_of(results))
    client.update_run(parent.info.run_id, status=before)
    with Journal(journal_path(results, "toy"), writer=False) as journal:
        said = attach_files(journal, PLAN, results, [results / "no-such-report.html"])
    assert said is not None
    assert "did not take the files" in said
    try:
        assert client.get_run(parent.info.run_id).info.status == after
    finally:
        client.update_run(parent.info.run_id, status="FINISHED")


def test_sending_everything_again_changes_nothing(results: Path) -> None:
    def shown() -> Any:
        return sorted(
            (
                run.data.tags["tiertune.key"],
                run.info.run_id,
                run.info.status,
                sorted(run.data.metrics.items()),
            )
            for run in runs_of(results)
        )

    before = shown()
    with Journal(journal_path(results, "toy")) as journal:
        journal.resend()
        with Mirror(journal, PLAN, results):
            pass
        assert journal.unsent() == []
    assert shown() == before


@pytest.mark.parametrize("complete", [True, False])
def test_a_store_that_was_lost_is_filled_again(results: Path, tmp_path: Path, complete: bool) -> None:
    """Moved away, as `doctor` advises for a damaged one: by a complete report, or when one goes on."""
    place = f"sqlite:///{tmp_path / 'new.sqlite'}"

    def shown(uri: str) -> list[tuple[str, str, list[tuple[str, float]]]]:
        return sorted(
            (run.data.tags["tiertune.key"], run.info.status, sorted(run.data.metrics.items()))
            for run in runs_of(results, uri)
        )

    with Journal(journal_path(results, "toy")) as journal:
        if complete:
            assert attach_files(journal, PLAN, results, [], place) is None
        else:
            journal.resend()
            journal.sent(journal.unsent()[1:])
            with Mirror(journal, PLAN, results, place):
                pass
        assert journal.unsent() == []
    assert shown(place) == shown(tracking_uri(results))


def test_a_run_that_was_cut_while_it_was_sent_is_completed(results: Path) -> None:
    """What `kill -9` between creating a run and ending it leaves: RUNNING, and owed."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=tracking_uri(results))
    _, children = parent_and_children(runs_of(results))
    victim = next(run for run in children if run.info.status == "FINISHED")
    client.update_run(victim.info.run_id, status="RUNNING")
    with Journal(journal_path(results, "toy")) as journal:
        journal.resend()
        with Mirror(journal, PLAN, results):
            pass
    assert client.get_run(victim.info.run_id).info.status == "FINISHED"
    assert len(runs_of(results)) == len(children) + 1


def test_a_campaign_that_was_killed_and_forgotten_is_swept(results: Path) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=tracking_uri(results))
    parent, _ = parent_and_children(runs_of(results))
    gone = {"tiertune.campaign": "forgotten", "tiertune.journal": "/nowhere/journal.sqlite"}
    tags = {**parent.data.tags, **gone, "mlflow.runName": "forgotten"}
    forgotten = client.create_run(parent.info.experiment_id, tags=tags)
    try:
        with Journal(journal_path(results, "toy")) as journal:
            journal.resend()
            with Mirror(journal, PLAN, results):
                pass
        assert client.get_run(forgotten.info.run_id).info.status == "KILLED"
    finally:
        client.delete_run(forgotten.info.run_id)


def test_an_interrupted_campaign_says_so(tmp_path: Path) -> None:
    def stop(event: Event) -> None:
        if getattr(event, "trial", None) is not None and event.trial.number == 4:  # type: ignore[union-attr]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(PLAN, tmp_path, ToyBackend(), stop, mirror=lambda j: Mirror(j, PLAN, tmp_path))
    parent, _ = parent_and_children(runs_of(tmp_path))
    assert parent.info.status == "KILLED"
    assert mirrored(tmp_path, PLAN, ToyBackend(), patience_s=120.0) == []
    parent, children = parent_and_children(runs_of(tmp_path))
    assert parent.info.status == "FINISHED"
    assert len(children) == len(table(journal_path(tmp_path, "toy")))


def test_a_campaign_that_was_extended_is_sent_to_the_run_that_it_has(tmp_path: Path) -> None:
    """MLflow's parameters never change, and numbers of seeds and trials may grow."""
    from mlflow import MlflowClient

    assert mirrored(tmp_path, PLAN, ToyBackend(), patience_s=120.0) == []
    before, _ = parent_and_children(runs_of(tmp_path))
    assert before.data.tags["tiertune.validation_seeds"] == "5"
    # Earlier versions sent the number as a parameter, which is there for good.
    client = MlflowClient(tracking_uri=tracking_uri(tmp_path))
    client.log_param(before.info.run_id, "validation_seeds", 5)
    longer = toy_plan(trials=8, validation_seeds=8)
    assert mirrored(tmp_path, longer, ToyBackend(), extend=True, patience_s=120.0) == []
    with Journal(journal_path(tmp_path, "toy"), writer=False) as journal:
        assert journal.unsent() == []
    parent, children = parent_and_children(runs_of(tmp_path))
    assert (parent.info.run_id, parent.info.status) == (before.info.run_id, "FINISHED")
    assert parent.data.tags["tiertune.validation_seeds"] == "8"
    assert len(children) == len(table(journal_path(tmp_path, "toy")))


def test_trap_9_a_dead_server_neither_stops_nor_changes_a_campaign(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{unused.getsockname()[1]}"
    notes = mirrored(tmp_path / "dead", PLAN, ToyBackend(), uri=dead)
    tune(PLAN, tmp_path / "alone", ToyBackend())
    assert table(journal_path(tmp_path / "dead", "toy")) == table(journal_path(tmp_path / "alone", "toy"))
    count = len(table(journal_path(tmp_path / "dead", "toy")))
    (note,) = notes
    assert f"{dead} lacks {count + 1} runs" in note
    # Later, with a server that answers: complete, once.
    for _ in range(2):
        assert mirrored(tmp_path / "dead", PLAN, ToyBackend()) == []
        assert len(runs_of(tmp_path / "dead")) == count + 1


@pytest.fixture
def mute_server() -> Iterator[str]:
    """Accepts connections and never answers."""
    server = socket.create_server(("127.0.0.1", 0))
    held: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                held.append(server.accept()[0])
            except OSError:
                return

    threading.Thread(target=accept, daemon=True).start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}"
    server.close()
    for connection in held:
        connection.close()


def test_trap_9_a_server_that_hangs_is_left_behind(tmp_path: Path, mute_server: str) -> None:
    began = time.monotonic()
    (note,) = mirrored(tmp_path, PLAN, ToyBackend(), uri=mute_server, patience_s=1.0)
    assert "lacks" in note
    assert time.monotonic() - began < 20.0
    assert len(table(journal_path(tmp_path, "toy"))) > PLAN.trials


def test_nothing_phones_home(results: Path) -> None:
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert os.environ["DO_NOT_TRACK"] == "true"
