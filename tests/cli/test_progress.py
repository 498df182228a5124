"""What people see of a running campaign, on a terminal and in a log."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.small import tiertune, write_small
from tests.nightly.two import write_two
from tiertune.tuner.events import Doing, Event, Finished, Note, Phase, Plan
from tiertune.tuner.progress import LINE_EVERY_S, LineWatcher, Pace, duration, watching
from tiertune.tuner.trial import Measurement, Objective, Origin, Purpose, Scenario, Status, Trial

CELL = "w/m/1:8/12t/2MiB/hemem"
SLOWEST_FIRST = Objective("runtime_s", "minimize")
HIGHEST_FIRST = Objective("throughput_mops", "maximize")


class Clock:
    """Seconds that pass when told to."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def finished(
    number: int, value: float | None, purpose: Purpose = "search", origin: Origin = "model"
) -> Finished:
    trial = Trial(
        "c", CELL, number, Scenario("w", "m", "1:8"), "hemem", {}, 1, purpose=purpose, origin=origin
    )
    status = Status.OK if value is not None else Status.CRASHED
    return Finished(trial, Measurement(status, wall_s=0.1), value)


def lines(events: list[tuple[float, Event]], objective: Objective = SLOWEST_FIRST) -> list[str]:
    """Lines of a log for events that each come some seconds after the one before."""
    clock, file = Clock(), io.StringIO()
    watcher = LineWatcher(Console(file=file, width=200), {CELL: objective}, clock)
    for wait_s, event in events:
        clock.now_s += wait_s
        watcher(event)
    written = file.getvalue().splitlines()
    assert all(re.match(r"\d\d:\d\d:\d\d ", line) for line in written)
    return [line[9:] for line in written]


def test_a_log_has_a_line_every_few_seconds_not_every_trial() -> None:
    trials = [(1.0, finished(number, 50.0)) for number in range(20)]
    written = lines([(0, Plan("c", (CELL,), 100, 0)), (0, Phase(CELL, "search", 100, 0)), *trials])
    assert len(written) == 2 + 20 // LINE_EVERY_S


def test_the_last_trial_always_has_a_line() -> None:
    written = lines([(0, Plan("c", (CELL,), 2, 0)), (0, finished(0, 5.0)), (0.1, finished(1, 4.0))])
    assert written[-1].startswith("2/2 trials")


def test_time_left_follows_the_pace_of_this_run() -> None:
    """Ten trials were done before: at 2 s for one trial, the 4 that are left take 8 s."""
    clock = Clock()
    pace = Pace(clock)
    pace.begin(15, 10)
    assert pace.left_s() is None
    clock.now_s += 2
    pace.done += 1
    assert pace.left_s() == 8.0
    assert lines([(0, Plan("c", (CELL,), 15, 10))]) == [
        "campaign c: 15 trials in 1 cell, 10 of them done before"
    ]


def test_time_left_is_told_from_a_share_of_the_work_on() -> None:
    clock = Clock()
    pace = Pace(clock, told_from=0.05)
    pace.begin(110, 10)
    pace.done += 4
    clock.now_s += 4
    assert pace.left_s() is None
    pace.done += 1
    clock.now_s += 1
    assert pace.left_s() == 95.0


def test_the_best_is_the_lowest_or_the_highest_by_the_cells_objective() -> None:
    start: list[tuple[float, Event]] = [(0, Plan("c", (CELL,), 9, 0)), (0, Phase(CELL, "search", 9, 0))]
    trials: list[tuple[float, Event]] = [(9, finished(0, 20.0, origin="default"))]
    trials += [(9, finished(1, 10.0)), (9, finished(2, 30.0))]
    assert lines([*start, *trials])[-1].endswith("best 10 runtime_s, default 20")
    assert lines([*start, *trials], HIGHEST_FIRST)[-1].endswith("best 30 throughput_mops, default 20")


def test_failures_are_counted_and_judgement_does_not_move_the_best() -> None:
    written = lines(
        [
            (0, Plan("c", (CELL,), 9, 0)),
            (0, Phase(CELL, "search", 9, 0)),
            (9, finished(0, 20.0, origin="default")),
            (9, finished(1, None)),
            (9, finished(0, 1.0, purpose="validation")),
        ]
    )
    assert "1 failed" in written[-1]
    assert written[-1].endswith("best 20 runtime_s, default 20")


def test_notes_are_printed_as_they_are() -> None:
    assert lines([(0, Note("kept in [/tmp/x] [bold]"))]) == ["kept in [/tmp/x] [bold]"]


def test_a_terminal_gets_a_bar_with_counts_time_left_and_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")  # a bar needs a terminal that can move its cursor
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=120, color_system=None)
    with watching(console, {CELL: SLOWEST_FIRST}) as listener:
        listener(Plan("c", (CELL,), 4, 1))
        listener(Phase(CELL, "search", 4, 1))
        listener(finished(1, 20.0, origin="default"))
        listener(finished(2, 10.0))
        listener(Note("a note"))
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())
    assert "3/4" in shown
    assert "searching" in shown
    assert "best 10 runtime_s, default 20" in shown
    assert "a note" in shown


def test_a_narrow_terminal_has_the_best_below_a_bar_of_some_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=56, color_system=None)
    with watching(console, {CELL: SLOWEST_FIRST}) as listener:
        listener(Plan("c", (CELL,), 104, 0))
        listener(Phase(CELL, "validation", 20, 0))
        listener(finished(1, 20.0, origin="default"))
    *_, bar, best, _ = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", file.getvalue()).split("\n")
    assert re.search(r"validating on fresh seeds {8,}1/104 ", bar)
    assert best == "  best 20 runtime_s, default 20"


def test_elsewhere_there_are_no_control_characters() -> None:
    file = io.StringIO()
    with watching(Console(file=file, width=120), {CELL: SLOWEST_FIRST}) as listener:
        listener(Plan("c", (CELL,), 1, 0))
        listener(finished(0, 20.0))
    assert "\x1b" not in file.getvalue()


def test_durations() -> None:
    assert [duration(seconds) for seconds in (0.4, 59, 75, 3700)] == [
        "0 s",
        "59 s",
        "1 min 15 s",
        "1 h 1 min",
    ]


def test_what_else_is_waited_for_has_a_line_and_is_shown_in_place_of_the_phase(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[tuple[float, Event]] = [(0, Plan("c", (CELL,), 1, 0)), (0, finished(0, 5.0))]
    assert lines([*done, (0, Doing("sending 2 runs to MLflow"))])[-1] == "sending 2 runs to MLflow"
    monkeypatch.setenv("TERM", "xterm")
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=120, color_system=None)
    with watching(console, {}) as listener:
        listener(Doing("writing the report"))
    bar, *rest = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", file.getvalue()).split("\n")
    assert "writing the report" in bar
    assert not any("writing" in line for line in rest)


def test_a_campaign_says_what_it_does_after_its_trials(tmp_path: Path) -> None:
    path = write_small(tmp_path)
    path.write_text(path.read_text().replace("mlflow: false", "mlflow: true"))
    done = tiertune("tune", path, "--results", tmp_path / "results")
    assert done.exit_code == 0, done.stderr
    *_, last, sending, writing, attaching = (line[9:] for line in done.stderr.splitlines())
    assert last.startswith("42/42 trials")
    assert re.fullmatch(r"sending \d+ runs to MLflow", sending)
    assert (writing, attaching) == ("writing the report", "sending the report to MLflow")


def test_a_night_counts_the_runs_of_its_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = tiertune("nightly", write_two(tmp_path), "--results", tmp_path / "results", "--any-time")
    assert done.exit_code == 0, done.stderr
    told = [re.sub(r"^\S+ ", "", line) for line in done.stderr.splitlines()]
    for name in ("tiered", "steady"):
        panel = told.index(f"{name}: panel of 1 cells on 5 seeds")
        assert told[panel + 1] == "5 runs"
        assert "5/5 runs" in told[panel + 2 : panel + 4]
    assert "steady: round 1 is searched; its winners are judged" in told
