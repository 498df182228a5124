"""What a search says of the tuner: whole runs only, and no host that was not in order."""

from __future__ import annotations

from pathlib import Path

from tests.tuner.toy import SCENARIO, ToyBackend, toy_plan
from tiertune.tuner.backend import HostUnfit
from tiertune.tuner.journal import Journal, Row
from tiertune.tuner.loop import journal_path, tune
from tiertune.tuner.nightly.figures import trials_to_reach, tuner_figures
from tiertune.tuner.trial import Measurement, Status, Trial


def row(number: int, cost: float, fidelity: float = 1.0) -> Row:
    trial = Trial("toy", "cell", number, SCENARIO, "toy-system", {}, seed=number, fidelity=fidelity)
    return Row(number, trial, Status.OK, cost=cost)


def test_short_runs_are_not_the_best_of_a_search() -> None:
    """A tenth of the workload takes a tenth of the time, whatever the configuration."""
    rows = [row(0, 5.0), *(row(number, 2.7, fidelity=0.1) for number in range(1, 30))]
    rows += [row(30, 4.9), row(36, 4.5), row(40, 4.49)]
    assert trials_to_reach(rows) == 37


def test_a_search_of_short_runs_alone_got_nowhere() -> None:
    assert trials_to_reach([row(0, 5.0), row(1, 2.7, fidelity=0.1)]) is None


def test_trials_on_a_host_that_was_not_in_order_neither_worked_nor_failed(tmp_path: Path) -> None:
    class Host(ToyBackend):
        def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
            if trial.purpose == "search" and trial.number % 2:
                raise HostUnfit("others compute")
            if trial.purpose == "search" and trial.number in (2, 4):
                raise RuntimeError("segmentation fault")
            return super().run(trial, timeline_points)

    plan = toy_plan()
    tune(plan, tmp_path, Host())
    with Journal(journal_path(tmp_path, "toy"), writer=False) as journal:
        figures = {one.name: one for one in tuner_figures(journal, plan)}
    assert (figures["failed_trials"].failed, figures["failed_trials"].runs) == (2, 6)
