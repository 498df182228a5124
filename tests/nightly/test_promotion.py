"""Whether a winner takes over, on hosts that are not always in order and beside incumbents that fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

from tests.cli.small import write_small
from tests.tuner.toy import ToyBackend, toy_plan
from tiertune.tuner.backend import Backend, HostUnfit, Notify
from tiertune.tuner.campaign import load_campaign
from tiertune.tuner.journal import Journal
from tiertune.tuner.loop import journal_path, tune
from tiertune.tuner.nightly.history import History
from tiertune.tuner.nightly.panel import Place, cell_name
from tiertune.tuner.nightly.promotion import Bench, Unjudged, promoted, winner_of
from tiertune.tuner.plan import plan_of
from tiertune.tuner.trial import Config, Measurement, Scenario, Status, Trial

OLD: Config = {"name": "old"}
NEW: Config = {"name": "new"}


@dataclass
class _Host(Backend):
    """Runs take as long as `runtimes_s` says by configuration; `trouble` is asked before the n-th run of one.
    A run of a thousandth more for each seed, so that there is something to scatter."""

    name: ClassVar[str] = "made-up"
    runtimes_s: dict[str, float] = field(default_factory=dict)
    trouble: Callable[[str, int], Exception | None] = lambda name, run: None
    runs: dict[str, int] = field(default_factory=dict)

    def prepare(self, scenario: Scenario, notify: Notify) -> None:
        pass

    def apply(self, trial: Trial) -> Config:
        return trial.config

    def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
        name = "default" if trial.origin == "default" else str(trial.config["name"])
        self.runs[name] = self.runs.get(name, 0) + 1
        error = self.trouble(name, self.runs[name])
        if error is not None:
            raise error
        return Measurement(Status.OK, {"runtime_s": self.runtimes_s[name] * (1 + trial.seed % 7 / 1000)})


@dataclass(frozen=True)
class _Meeting:
    """Two configurations that meet on five seeds of a small campaign."""

    history: History
    folder: Path

    def held(self, host: _Host, first: bool = False, gain: float | None = 1.1) -> bool:
        """Whether the new one took over; `first`: from the default, not from the old one."""
        plan = plan_of(load_campaign(str(write_small(self.folder))))
        (cell,) = plan.cells
        place = Place(host.name, "here")
        bench = Bench(
            self.history, "2026-11-02", "small", 5, host, 1, place, lambda: True, lambda _: lambda _: None
        )
        if not first:
            self.history.promote(cell_name("small", cell), "2026-11-01", OLD, "small-r1", {})
        return promoted(bench, "small", plan, cell, NEW, gain) is not None

    def said(self) -> list[str]:
        return [entry["text"] for entry in self.history.improvements("2026-11-02")]


@pytest.fixture
def meeting(tmp_path: Path) -> Iterator[_Meeting]:
    with History(tmp_path / "history.sqlite") as history:
        history.begin("2026-11-02")
        yield _Meeting(history, tmp_path)


def _unfit(picked: str) -> Callable[[str, int], Exception | None]:
    """The second run of a configuration meets a host that is not in order."""
    return lambda name, run: HostUnfit("others compute") if (name, run) == (picked, 2) else None


def _crashes(picked: str, runs: int) -> Callable[[str, int], Exception | None]:
    return lambda name, run: RuntimeError("crashed") if name == picked and run <= runs else None


@pytest.mark.parametrize("picked", ["old", "new"])
@pytest.mark.parametrize("new_s", [70.0, 130.0])
def test_a_host_that_is_not_in_order_judges_nobody(meeting: _Meeting, picked: str, new_s: float) -> None:
    with pytest.raises(Unjudged, match="others compute"):
        meeting.held(_Host({"old": 100.0, "new": new_s}, _unfit(picked)))
    assert meeting.said() == []


def test_the_faster_one_takes_over(meeting: _Meeting) -> None:
    assert meeting.held(_Host({"old": 100.0, "new": 70.0}))
    assert meeting.said() == ["takes over: 1.429x the winner before (1.429 to 1.429) on fresh seeds"]


def test_the_first_winner_of_one_search_has_the_gain_of_its_validation(meeting: _Meeting) -> None:
    host = _Host()
    assert meeting.held(host, first=True)
    assert meeting.said() == ["tuned for the first time, 1.100x the default on validation seeds"]
    assert host.runs == {}


def test_the_best_of_several_searches_is_measured_again_on_fresh_seeds(meeting: _Meeting) -> None:
    assert meeting.held(_Host({"default": 100.0, "new": 97.0}), first=True, gain=None)
    said = "tuned for the first time: 1.031x the default (1.031 to 1.031) on fresh seeds"
    assert meeting.said() == [said]


def test_the_best_of_several_searches_may_have_been_luck(meeting: _Meeting) -> None:
    assert not meeting.held(_Host({"default": 100.0, "new": 99.9}), first=True, gain=None)
    assert meeting.said() == []


def test_the_largest_of_several_gains_is_not_taken_for_the_gain(tmp_path: Path) -> None:
    """All searches of a system are validated on the same seeds: whoever picks the largest picks its luck."""
    for searches, known in ((1, True), (3, False)):
        systems = tuple(f"toy-system{f'#{n}' if n else ''}" for n in range(searches))
        plan = toy_plan(systems=systems, trials=20)
        tune(plan, tmp_path / str(searches), ToyBackend())
        with Journal(journal_path(tmp_path / str(searches), "toy"), writer=False) as journal:
            won = winner_of(journal, plan, plan.cells[0])
        assert won is not None
        assert (won[1] is not None) is known


def test_one_failure_of_the_winner_before_is_no_reason_for_a_slower_one(meeting: _Meeting) -> None:
    assert not meeting.held(_Host({"old": 100.0, "new": 130.0}, _crashes("old", 1)))
    assert meeting.said() == []


def test_a_winner_that_always_fails_now_is_replaced(meeting: _Meeting) -> None:
    assert meeting.held(_Host({"old": 100.0, "new": 130.0}, _crashes("old", 5)))
    assert meeting.said() == ["takes over: the winner before fails now"]


def test_one_that_fails_does_not_take_over(meeting: _Meeting) -> None:
    assert not meeting.held(_Host({"old": 100.0, "new": 70.0}, _crashes("new", 1)))
