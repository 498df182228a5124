"""The mirror: trials as MLflow runs, for people to look at. The journal is the truth and never waits for it.

A campaign is a parent run, a trial a child run. What is owed stands in the journal's outbox, put there by the
transaction that finished the trial; a thread sends it while the campaign runs. A run is found again by its
`tiertune.key`, and all that is logged carries the journal's own times, so sending twice changes nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tiertune.tuner.events import Doing, Listener, Note, silent
from tiertune.tuner.journal import Journal
from tiertune.tuner.plan import CampaignPlan

if TYPE_CHECKING:
    from tiertune.tuner.mlflow_runs import MlflowRuns

PAUSE_S = 1.0
RETRY_S = 5.0
BATCH = 10
# At the end, a server that gets nothing done for this long is left behind; what it lacks stays owed.
PATIENCE_S = 20.0
# A file of this machine is not dead, only slow: MLflow's imports and tables take long where others compute.
LOCAL_PATIENCE_S = 120.0


class Mirror:
    """Sends a journal's outbox while the campaign runs: a context manager around it.

    Never raises: what could not be sent stays owed and is named in a note. `uri` None means SQLite in
    `results/mlflow.sqlite`.
    """

    def __init__(
        self,
        journal: Journal,
        plan: CampaignPlan,
        results: Path,
        uri: str | None = None,
        experiment: str = "tiertune",
        listener: Listener = silent,
        patience_s: float | None = None,
    ) -> None:
        self.uri = tracking_uri(results, uri)
        self._local = self.uri.startswith("sqlite:")
        self._journal = journal
        self._plan = plan
        self._results = results.resolve()
        self._experiment = experiment
        self._listener = listener
        self._patience_s = patience_s
        self._ending = threading.Event()
        self._complete = False
        self._progress_s = time.monotonic()
        self._failure = "no answer"
        # A daemon: a request that hangs must not keep the process alive once the campaign is over.
        self._thread = threading.Thread(target=self._work, name="mlflow-mirror", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send what is left, as long as that gets on; whoever pressed Ctrl-C waits no longer than for a
        server."""
        self._complete = kind is None
        if owed := len(self._journal.unsent()):
            self._listener(Doing(f"sending {owed} runs to MLflow"))
        patience_s = self._patience_s
        if patience_s is None:
            patience_s = LOCAL_PATIENCE_S if self._local and self._complete else PATIENCE_S
        self._progress_s = time.monotonic()
        self._ending.set()
        while self._thread.is_alive() and time.monotonic() - self._progress_s < patience_s:
            self._thread.join(0.05)
        owed = len(self._journal.unsent())
        if owed:
            text = f"MLflow at {self.uri} lacks {owed} runs ({self._failure}); `tiertune resume` sends them"
            self._listener(Note(text))

    def _work(self) -> None:
        runs: MlflowRuns | None = None
        while True:
            ending = self._ending.is_set()
            pause_s = PAUSE_S
            try:
                if self._journal.unsent() or (ending and runs is not None):
                    runs = runs or self._connect()
                    self._drain(runs)
                    if ending:
                        runs.finish(self._complete)
                        self._journal.sent(["campaign"])
            except Exception as failure:  # whatever a tracking server does, the campaign goes on
                first = str(failure).strip().splitlines()[:1]
                self._failure = ": ".join([type(failure).__name__, *first])[:200]
                runs, pause_s = None, RETRY_S
            if ending:
                return
            self._ending.wait(pause_s)

    def _connect(self) -> MlflowRuns:
        from tiertune.tuner.mlflow_runs import MlflowRuns  # seconds of imports

        runs = MlflowRuns(self._journal, self._plan, self._results, self.uri, self._experiment)
        runs.begin()
        if runs.lost:
            self._journal.resend()
        return runs

    def _drain(self, runs: MlflowRuns) -> None:
        while batch := [subject for subject in self._journal.unsent() if subject != "campaign"][:BATCH]:
            runs.send(self._journal.rows_by_id([int(subject.partition(":")[2]) for subject in batch]))
            self._journal.sent(batch)
            self._progress_s = time.monotonic()


def tracking_uri(results: Path, uri: str | None = None) -> str:
    """Where runs go: `uri`, or SQLite under `results`."""
    return uri or f"sqlite:///{results.resolve() / 'mlflow.sqlite'}"


def attach_files(
    journal: Journal,
    plan: CampaignPlan,
    results: Path,
    files: Iterable[Path],
    uri: str | None = None,
    experiment: str = "tiertune",
) -> str | None:
    """Put files on the run of a campaign that is complete, and all of its trials where the store with them is
    gone; a sentence on what went wrong, None where nothing did."""
    from tiertune.tuner.mlflow_runs import MlflowRuns

    place = tracking_uri(results, uri)
    try:
        runs = MlflowRuns(journal, plan, results.resolve(), place, experiment)
        try:
            if runs.lost:
                runs.send([row for row in journal.rows() if row.status.finished])
            runs.attach(files)
        finally:
            if runs.running:  # made just now, or left so: nothing runs any more
                runs.finish(complete=True)
    except Exception as failure:  # a report is made, whether or not MLflow takes it
        return f"MLflow at {place} did not take the files: {type(failure).__name__}: {failure}"
    return None
