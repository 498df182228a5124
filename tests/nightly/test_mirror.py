"""Nights in MLflow: found again, never doubled, sent later where the store was away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nightly.two import write_two
from tiertune.tuner.cli.nightly import _track
from tiertune.tuner.nightly.history import Followed, History
from tiertune.tuner.nightly.suite import load_suite
from tiertune.tuner.trial import Measurement, Status


def test_nights_are_sent_once_and_again_without_harm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    monkeypatch.chdir(tmp_path)
    path = write_two(tmp_path)
    away = path.read_text().replace("tracking: {mlflow: false}", 'tracking: {uri: "no-such-store://here"}')
    path.write_text(away)
    results, home = tmp_path / "results", tmp_path / "results/nightly/two"
    with History(home / "history.sqlite") as history:
        for day, cost in (("2026-11-01", 0.5), ("2026-11-02", 0.25)):
            history.begin(day)
            label = "tiered, skx-numa, 1:4, memtis, default"
            followed = Followed(
                "x", "performance", "workload x", "tiered", label, "runtime_s", "minimize", "s"
            )
            history.follow(followed)
            history.add_run(day, "x", 1, Measurement(Status.OK, {}), cost)
            history.end(day, "judged")
            (said,) = _track(history, load_suite(str(path)), results, home) or [""]
            assert said.startswith("MLflow lacks")
        path.write_text(away.replace('tracking: {uri: "no-such-store://here"}', "tracking: {mlflow: true}"))
        suite = load_suite(str(path))
        assert history.untracked() == ["2026-11-01", "2026-11-02"]
        for _ in range(2):
            assert _track(history, suite, results, home) == []
            assert history.untracked() == []
            history._db.execute("update night set sent_at = null")
    client = MlflowClient(f"sqlite:///{results / 'mlflow.sqlite'}")
    experiment = client.get_experiment_by_name("tiertune-nightly")
    assert experiment is not None
    runs = {run.data.tags["tiertune.key"]: run for run in client.search_runs([experiment.experiment_id])}
    assert set(runs) == {"nightly/two", "nightly/two/2026-11-01", "nightly/two/2026-11-02"}
    assert runs["nightly/two/2026-11-02"].data.tags["mlflow.parentRunId"] == runs["nightly/two"].info.run_id
    name = "tiered- skx-numa- 1-4- memtis- default"
    series = client.get_metric_history(runs["nightly/two"].info.run_id, name)
    assert [(entry.step, round(entry.value, 3)) for entry in series] == [(0, 1.649), (1, 1.284)]
