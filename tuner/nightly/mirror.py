"""Nights in the tracking store: a run a night below a run of the suite, figures as metrics. Found again by
its key, so that sending twice changes nothing; the history is the truth and says which nights are owed.
"""

from __future__ import annotations

import math
from datetime import datetime
from pathlib import Path
from typing import Any

from tiertune.tuner.mlflow_runs import experiment_of, metrics_of, mlflow_client, tags_of
from tiertune.tuner.nightly.digest import Digest
from tiertune.tuner.tracking import tracking_uri


class NightMirror:
    """Sends digests as runs of one experiment. Raises what MLflow raises."""

    def __init__(self, results: Path, uri: str | None, experiment: str) -> None:
        address = tracking_uri(results, uri)
        self._client = mlflow_client(address)
        self._experiment = experiment_of(self._client, experiment, address, results.resolve())

    def send(self, digest: Digest, files: list[Path], step: int) -> None:
        """One night. `step` counts nights, so that series of the suite line up."""
        key = f"nightly/{digest.suite}/{digest.night}"
        began = _milliseconds(digest.began)
        tags = {
            "tiertune.suite": digest.suite,
            "tiertune.night": digest.night,
            "tiertune.outcome": digest.outcome,
            "verdict": digest.verdict,
        }
        parent = self._run(f"nightly/{digest.suite}", f"suite {digest.suite}", began, {})
        run = self._run(key, f"{digest.suite} {digest.night}", began, {**tags, "mlflow.parentRunId": parent})
        stamp = digest.ended or digest.began
        values = [
            (line.label, line.value, stamp, step)
            for line in digest.figures
            if line.value is not None and math.isfinite(line.value)
        ]
        open_alarms = sum(alarm.state == "raised" for alarm in digest.alarms)
        values += [("alarms open", float(open_alarms), stamp, step)]
        self._client.log_batch(run, metrics=metrics_of(values), tags=tags_of(tags))
        # The run of the suite has every night as a step of its series, and the last night's verdict.
        self._client.log_batch(parent, metrics=metrics_of(values), tags=tags_of(tags))
        for file in files:
            if file.is_file():
                self._client.log_artifact(run, str(file))
        self._client.set_terminated(run, "FINISHED", _milliseconds(stamp))

    def _run(self, key: str, name: str, began: int, tags: dict[str, str]) -> str:
        found: list[Any] = self._client.search_runs([self._experiment], f"tags.`tiertune.key` = '{key}'")
        if found:
            return str(found[0].info.run_id)
        own = {**tags, "tiertune.key": key, "mlflow.source.name": "tiertune"}
        return str(self._client.create_run(self._experiment, began, own, name).info.run_id)


def _milliseconds(stamp: str) -> int:
    return int(datetime.fromisoformat(stamp).timestamp() * 1000)
