"""Journal rows as MLflow runs: what a parent and a child run hold, and how one is found again. Imports MLflow
when used."""

from __future__ import annotations

import logging
import math
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from tiertune.tuner.journal import Journal, Row
from tiertune.tuner.journal_lock import is_held
from tiertune.tuner.plan import CampaignPlan
from tiertune.tuner.search.best import costs_that_count
from tiertune.tuner.trial import Status, called, canonical
from tiertune.tuner.validation import outcome

VALUE_CHARACTERS = 500
# What MLflow's pages are to take the experiment for: without it, they look for prompts and traces.
KIND = {"mlflow.experimentKind": "custom_model_development"}
WHERE = (
    "The report and tuned configurations are under Artifacts; `tiertune ui` shows campaign {name} as well."
)
PAGE = 1000


class MlflowRuns:
    """The runs of one campaign in one experiment. Everything raises what MLflow raises; the mirror deals with
    it.

    `send` and `finish` may be called again with the same content: they find what is there and change nothing.
    """

    def __init__(
        self, journal: Journal, plan: CampaignPlan, results: Path, uri: str, experiment: str
    ) -> None:
        self._client = mlflow_client(uri)
        self._journal = journal
        self._plan = plan
        self._claim = journal.claimed()
        self._experiment = experiment_of(self._client, experiment, uri, results)
        self._known: dict[str, tuple[str, str]] = {
            run.data.tags["tiertune.key"]: (run.info.run_id, run.info.status)
            for run in self._search(f"tags.`tiertune.campaign` = '{self._claim.identity}'")
        }
        self._best_sent: dict[str, int] = {}
        self.lost = "campaign" not in self._known
        """Nothing of the campaign was there: it is new, or the store is not the one that it was sent to."""
        self._sweep()
        self.parent = self._run("campaign", self._claim.name, self._claim.created_at, self._parent_tags())

    @property
    def running(self) -> bool:
        """Whether the parent was RUNNING when it was found or made."""
        return self._known["campaign"][1] == "RUNNING"

    def begin(self) -> None:
        """The parent is RUNNING until `finish`, also where it had ended before."""
        self._client.update_run(self.parent, status="RUNNING")

    def send(self, rows: Sequence[Row]) -> None:
        """Child runs of finished trials, and their values as a series of the parent."""
        for row in rows:
            self._send(row)
        # MLflow refuses a parameter of another value, and this number grows with --extend.
        tags = {"tiertune.validation_seeds": str(self._plan.validation_seeds)}
        series = metrics_of(self._series(rows))
        self._client.log_batch(self.parent, series, _params(self._summary()), tags_of(tags))
        best = metrics_of(self._best())
        for first in range(0, len(best), PAGE):
            self._client.log_batch(self.parent, metrics=best[first : first + PAGE])

    def finish(self, complete: bool) -> None:
        """The verdicts as metrics and tags of the parent, and its end: FINISHED, or KILLED where it was cut
        short."""
        tags: dict[str, str] = {}
        values: list[tuple[str, float, str, int]] = []
        for cell in self._plan.cells:
            found = outcome(self._journal, cell.key, cell.objective, self._claim.generation)
            prefix = "" if len(self._plan.cells) == 1 else f"{_name(cell.key)}/"
            tags[f"{prefix}verdict"] = found.verdict
            if found.effect is not None and found.winner_rows:
                last = found.winner_rows[-1].finished_at or self._claim.created_at
                numbers = {"speedup": found.effect.ratio, "low": found.effect.low, "high": found.effect.high}
                values += [(f"{prefix}validated_{name}", value, last, 0) for name, value in numbers.items()]
            for step, point in enumerate(found.front.points if found.front else ()):
                assert found.front is not None
                last = max(row.finished_at or "" for row in found.default_rows)
                for objective, share in zip(found.front.objectives, (point.first, point.second), strict=True):
                    values.append((f"{prefix}front/{objective.metric}", share.mean, last, step))
        told = [text for name, text in tags.items() if name.endswith("verdict")]
        tags["mlflow.note.content"] = "\n\n".join([*told, WHERE.format(name=self._claim.name)])
        self._client.log_batch(self.parent, metrics=metrics_of(values), tags=tags_of(tags))
        self._client.set_terminated(self.parent, "FINISHED" if complete else "KILLED")

    def attach(self, files: Iterable[Path]) -> None:
        """Files as artefacts of the parent, in folders as they lie in the campaign's."""
        home = self._journal.path.resolve().parent
        for file in files:
            place = file.resolve().parent
            folder = str(place.relative_to(home)) if place.is_relative_to(home) and place != home else None
            self._client.log_artifact(self.parent, str(file), folder)

    def _send(self, row: Row) -> None:
        trial, metrics = row.trial, {**row.metrics, "wall_s": row.wall_s or 0.0, "ask_cpu_s": row.ask_cpu_s}
        if self._known.get(trial.key, ("", ""))[1] in ("FINISHED", "FAILED"):
            return
        tags = {
            "mlflow.parentRunId": self.parent,
            "tiertune.status": row.status,
            "tiertune.purpose": trial.purpose,
            "tiertune.origin": trial.origin,
            # MLflow would store infinity as 1.8e308 and so ruin every plot: such values are named here
            # instead.
            "tiertune.not_finite": ", ".join(n for n, value in metrics.items() if not math.isfinite(value)),
            "tiertune.error": (row.error or "")[:VALUE_CHARACTERS],
        }
        workload = called(trial.scenario.workload)
        # What tells it from others comes first: MLflow's lists cut the end off.
        name = f"{trial.purpose} {trial.number:03d} · {trial.system} · {workload} · {trial.scenario.ratio}"
        run = self._run(trial.key, name, row.started_at, tags)
        finished = row.finished_at or row.started_at
        values = [(n, value, finished, 0) for n, value in metrics.items()]
        scenario = {n: v for n, v in trial.scenario.document().items() if v is not None}
        params = {**scenario, "system": trial.system, "seed": trial.seed, "number": trial.number}
        knobs = {f"knob.{name}": value for name, value in trial.config.items()}
        self._client.log_batch(run, metrics=metrics_of(values), params=_params({**params, **knobs}))
        status = "FINISHED" if row.status is Status.OK else "FAILED"
        self._client.set_terminated(run, status, _milliseconds(finished))
        self._known[trial.key] = (run, status)

    def _run(self, key: str, name: str, started_at: str, tags: Mapping[str, str]) -> str:
        """The run of `key`, made where there is none."""
        if key not in self._known:
            own = {
                "tiertune.key": key,
                "tiertune.campaign": self._claim.identity,
                "mlflow.source.name": "tiertune",
                "mlflow.user": user(),
            }
            kept = {tag: text for tag, text in {**tags, **own}.items() if text}
            run = self._client.create_run(self._experiment, _milliseconds(started_at), kept, name)
            self._known[key] = (run.info.run_id, run.info.status)
        identity, _ = self._known[key]
        return identity

    def _series(self, rows: Iterable[Row]) -> list[tuple[str, float, str, int]]:
        """The objective over the trials of each search; a short run compares with none of the whole."""
        objectives = {cell.key: cell.objective for cell in self._plan.cells}
        series = []
        for row in rows:
            metric = objectives[row.trial.cell].metric
            if row.trial.purpose == "search" and row.status is Status.OK:
                name = metric if len(objectives) == 1 else f"{_name(row.trial.cell)}/{metric}"
                of = "search" if row.trial.fidelity == 1.0 else "search-short"
                series.append((f"{of}/{name}", row.metrics[metric], row.finished_at or "", row.trial.number))
        return series

    def _best(self) -> list[tuple[str, float, str, int]]:
        """The best so far over the trials of each search, as far as all earlier trials have ended: what comes
        later changes nothing of it, so that it may be sent again."""
        series = []
        for cell in self._plan.cells:
            first = self._best_sent.get(cell.key, 0)
            name = cell.objective.metric
            name = name if len(self._plan.cells) == 1 else f"{_name(cell.key)}/{name}"
            best, ended = math.inf, ""
            rows = self._journal.rows(cell.key, "search")
            costs = costs_that_count(rows, self._plan.rules.constraints)
            for number, (row, cost) in enumerate(zip(rows, costs, strict=True)):
                if row.trial.number != number or not row.status.finished:
                    break
                if cost is not None:
                    best = min(best, cost)
                ended = max(ended, row.finished_at or "")
                if number >= first and math.isfinite(best):
                    series.append((f"search-best/{name}", cell.objective.value(best), ended, number))
                self._best_sent[cell.key] = number + 1
        return series

    def _summary(self) -> dict[str, Any]:
        """The parameters of the parent: what no extension changes."""
        plan = self._plan
        scenarios = [cell.scenario for cell in plan.cells]
        several = {
            "systems": (cell.system for cell in plan.cells),
            "workloads": (called(one.workload) for one in scenarios),
            "machines": (Path(one.machine).stem for one in scenarios),
            "ratios": (one.ratio for one in scenarios),
        }
        return {
            "seed": plan.seed,
            "initial": plan.initial,
            "optimiser": plan.optimiser,
            "cells": len(plan.cells),
            **{name: ", ".join(dict.fromkeys(values)) for name, values in several.items()},
        }

    def _parent_tags(self) -> dict[str, str]:
        return {"tiertune.journal": str(self._journal.path.resolve()), "tiertune.host": platform.node()}

    def _sweep(self) -> None:
        """Campaigns of this host that were killed and never resumed still say RUNNING: no process holds their
        journal."""
        here = f"tags.`tiertune.key` = 'campaign' and tags.`tiertune.host` = '{platform.node()}'"
        for run in self._search(f"{here} and attributes.status = 'RUNNING'"):
            path = Path(run.data.tags.get("tiertune.journal", ""))
            ours = run.data.tags["tiertune.campaign"] == self._claim.identity
            if not ours and not is_held(path):
                self._client.set_terminated(run.info.run_id, "KILLED")

    def _search(self, text: str) -> list[Any]:
        found: list[Any] = []
        token: str | None = None
        while True:
            page = self._client.search_runs([self._experiment], text, max_results=PAGE, page_token=token)
            found += page
            token = page.token
            if not token:
                return found


def mlflow_client(uri: str) -> Any:
    """An MLflow client that reports to nobody, asks nothing, and gives up on a dead server within seconds."""
    settings = {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    }
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    for name in ("mlflow", "alembic"):
        logging.getLogger(name).setLevel(logging.WARNING)
    from mlflow import MlflowClient

    for name in ("mlflow", "alembic", "mlflow.store.db.utils"):
        logging.getLogger(name).setLevel(logging.WARNING)
    return MlflowClient(tracking_uri=uri)


def experiment_of(client: Any, name: str, uri: str, results: Path) -> str:
    found = client.get_experiment_by_name(name)
    if found is None:
        # Without a place of its own, a SQLite store would put artefacts into the current directory.
        place = (results / "mlflow-artifacts").as_uri() if uri.startswith("sqlite:") else None
        try:
            return str(client.create_experiment(name, artifact_location=place, tags=KIND))
        except Exception:  # made by another process in between
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    return str(found.experiment_id)


def user() -> str:
    """Who runs this, for MLflow's column of that name; empty where the system knows no name."""
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def metrics_of(values: Iterable[tuple[str, float, str, int]]) -> list[Any]:
    """MLflow metrics of (name, value, time, step); values that are not finite are left out."""
    from mlflow.entities import Metric

    return [
        Metric(_name(n), float(v), _milliseconds(t), step) for n, v, t, step in values if math.isfinite(v)
    ]


def _params(values: Mapping[str, Any]) -> list[Any]:
    from mlflow.entities import Param

    texts = {name: value if isinstance(value, str) else canonical(value) for name, value in values.items()}
    return [Param(_name(name), text[:VALUE_CHARACTERS]) for name, text in texts.items()]


def tags_of(values: Mapping[str, str]) -> list[Any]:
    from mlflow.entities import RunTag

    return [RunTag(name, text) for name, text in values.items()]


def _name(text: str) -> str:
    """`text` with what MLflow refuses in names replaced."""
    return re.sub(r"[^\w./ -]", "-", text)


def _milliseconds(stamp: str) -> int:
    return int(datetime.fromisoformat(stamp).timestamp() * 1000)
