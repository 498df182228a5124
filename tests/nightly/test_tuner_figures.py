"""What a search says of the tuner."""

from __future__ import annotations

from tests.tuner.toy import SCENARIO
from tiertune.tuner.journal import Row
from tiertune.tuner.nightly.figures import trials_to_reach
from tiertune.tuner.trial import Status, Trial


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
