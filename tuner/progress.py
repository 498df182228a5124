"""What people see of a running campaign: a live bar on a terminal, time-stamped lines elsewhere.

Both are listeners of `tiertune.tuner.events`, safe to call from several threads, and both write to standard
error, so that `--json` results stay alone on standard output.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import RLock

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

from tiertune.tuner.events import Doing, Event, Finished, Listener, Note, Phase, Plan
from tiertune.tuner.search.constraint import Constraint, counts
from tiertune.tuner.trial import Objective

Clock = Callable[[], float]

LINE_EVERY_S = 5.0
NARROW = 80
"""Columns below which the best value so far would leave no room for a bar."""
PURPOSES = {
    "search": "searching",
    "selection": "re-measuring the best",
    "validation": "validating on fresh seeds",
}


@dataclass
class Pace:
    """Counts of a campaign or sweep and an estimate of the time left."""

    clock: Clock = time.monotonic
    told_from: float = 0.0
    """Share of what is to be done that has to be before an estimate is made."""
    total: int = 0
    done: int = 0
    done_before: int = 0
    failed: int = 0
    started: float = field(default=0.0)

    def begin(self, total: int, done: int) -> None:
        """`done` trials were finished by an earlier run and say nothing about this one's pace."""
        self.total, self.done, self.done_before, self.started = total, done, done, self.clock()

    def left_s(self) -> float | None:
        """Seconds to go at the pace so far, None while that is of too few."""
        made = self.done - self.done_before
        if made <= 0 or made < self.told_from * (self.total - self.done_before):
            return None
        return (self.clock() - self.started) / made * max(0, self.total - self.done)


class Watcher(ABC):
    """Turns events into counts and the best value so far; what is shown is up to the subclass.

    `objectives` has metric and direction by the cell's name; cells without one show no best value. What
    breaks one of `constraints` is never the best.
    """

    def __init__(
        self,
        objectives: Mapping[str, Objective],
        clock: Clock = time.monotonic,
        constraints: Sequence[Constraint] = (),
    ) -> None:
        self.objectives = objectives
        self.constraints = constraints
        self.pace = Pace(clock)
        self.phase = ""
        self._lock = RLock()
        self._cell = ""
        self._best: dict[str, float] = {}
        self._default: dict[str, float] = {}
        self._first: dict[str, Mapping[str, float]] = {}

    def __call__(self, event: Event) -> None:
        """The listener."""
        with self._lock:
            if isinstance(event, Plan):
                self.pace.begin(event.trials, event.done)
                self.on_plan(event)
            elif isinstance(event, Phase):
                self._cell = event.cell
                self.phase = PURPOSES.get(event.purpose, event.purpose)
                self.on_phase(event)
            elif isinstance(event, Finished):
                self.pace.done += 1
                self._note_value(event)
                self.on_finished(event)
            elif isinstance(event, Note):
                self.on_note(event.text)
            elif isinstance(event, Doing):
                self.on_doing(event.text)

    def best(self) -> str:
        """`best 43.0 runtime_s, default 61.2`, or empty text while nothing was measured."""
        objective = self.objectives.get(self._cell)
        if objective is None or self._cell not in self._best:
            return ""
        text = f"best {self._best[self._cell]:.4g} {objective.metric}"
        return text + (f", default {self._default[self._cell]:.4g}" if self._cell in self._default else "")

    def _note_value(self, event: Finished) -> None:
        cell = event.trial.cell
        self.pace.failed += event.value is None
        if event.value is None or event.trial.purpose != "search" or event.trial.fidelity < 1.0:
            return
        if event.trial.origin == "default":
            self._default.setdefault(cell, event.value)
        objective, number, metrics = self.objectives.get(cell), event.trial.number, event.measurement.metrics
        if number == 0:
            self._first[cell] = metrics
        if objective is not None and counts(self.constraints, number, metrics, self._first.get(cell)):
            pick = min if objective.direction == "minimize" else max
            self._best[cell] = pick(self._best.get(cell, event.value), event.value)

    @abstractmethod
    def on_plan(self, plan: Plan) -> None:
        """The campaign starts."""

    @abstractmethod
    def on_phase(self, phase: Phase) -> None:
        """A cell goes to its next purpose."""

    @abstractmethod
    def on_finished(self, event: Finished) -> None:
        """A trial ended; counts are up to date."""

    @abstractmethod
    def on_note(self, text: str) -> None:
        """A sentence for the log."""

    @abstractmethod
    def on_doing(self, text: str) -> None:
        """No trial runs, and there is something to wait for."""


class LineWatcher(Watcher):
    """One line every few seconds, for logs and pipes."""

    def __init__(
        self,
        console: Console,
        objectives: Mapping[str, Objective],
        clock: Clock = time.monotonic,
        constraints: Sequence[Constraint] = (),
    ) -> None:
        super().__init__(objectives, clock, constraints)
        self.console = console
        self._last_line = float("-inf")

    def on_plan(self, plan: Plan) -> None:
        """Says how much there is to do."""
        cells = f"{len(plan.cells)} cell{'s' if len(plan.cells) != 1 else ''}"
        already = f", {plan.done} of them done before" if plan.done else ""
        self._line(f"campaign {plan.campaign}: {plan.trials} trials in {cells}{already}")

    def on_phase(self, phase: Phase) -> None:
        """Every phase gets a line."""
        self._line(f"{phase.cell}: {self.phase}, {phase.trials} trials")

    def on_finished(self, event: Finished) -> None:
        """A line when the last one is some seconds old, and after the last trial."""
        due = self.pace.clock() - self._last_line >= LINE_EVERY_S
        if not due and self.pace.done < self.pace.total:
            return
        parts = [f"{self.pace.done}/{self.pace.total} trials"]
        if self.pace.failed:
            parts.append(f"{self.pace.failed} failed")
        left = self.pace.left_s()
        if left:
            parts.append(f"about {duration(left)} left")
        if self.best():
            parts.append(self.best())
        self._line("; ".join(parts))

    def on_note(self, text: str) -> None:
        """As it is."""
        self._line(text)

    def on_doing(self, text: str) -> None:
        """A line as well."""
        self._line(text)

    def _line(self, text: str) -> None:
        self._last_line = self.pace.clock()
        stamp = time.strftime("%H:%M:%S")
        self.console.print(f"{stamp} {text}", markup=False, highlight=False, soft_wrap=True)


class BarWatcher(Watcher):
    """A live bar with time left and the best value so far."""

    def __init__(
        self,
        progress: Progress,
        objectives: Mapping[str, Objective],
        clock: Clock = time.monotonic,
        constraints: Sequence[Constraint] = (),
    ) -> None:
        super().__init__(objectives, clock, constraints)
        self.progress = progress
        self._task = progress.add_task("starting", total=None, left="", best="")

    def on_plan(self, plan: Plan) -> None:
        """Sets the length of the bar."""
        self.progress.update(self._task, total=plan.trials, completed=plan.done)

    def on_phase(self, phase: Phase) -> None:
        """Names the phase."""
        self.progress.update(self._task, description=self.phase)

    def on_finished(self, event: Finished) -> None:
        """Moves the bar."""
        left = self.pace.left_s()
        self.progress.update(
            self._task,
            completed=self.pace.done,
            left=f"{duration(left)} left" if left else "",
            best=self.best() + (f", {self.pace.failed} failed" if self.pace.failed else ""),
        )

    def on_note(self, text: str) -> None:
        """Above the bar."""
        self.progress.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def on_doing(self, text: str) -> None:
        """In place of the phase."""
        self.progress.update(self._task, description=text)


@contextmanager
def watching(
    console: Console, objectives: Mapping[str, Objective], constraints: Sequence[Constraint] = ()
) -> Iterator[Listener]:
    """A listener that shows a campaign on `console`: a bar where it is a terminal, lines elsewhere."""
    if not console.is_terminal:
        yield LineWatcher(console, objectives, constraints=constraints)
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}", markup=False),
    )
    shown: Progress
    if console.width < NARROW:
        shown = _BestBelow(*columns, console=console, transient=True, expand=True)
    else:
        best = TextColumn("{task.fields[best]}", markup=False)
        shown = Progress(*columns, best, console=console, transient=True, expand=True)
    with shown as progress:
        yield BarWatcher(progress, objectives, constraints=constraints)


class _BestBelow(Progress):
    """Has the best value so far in a line of its own."""

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar, then what is best."""
        yield self.make_tasks_table(self.tasks)
        for task in self.tasks:
            if task.fields["best"]:
                yield Text(f"  {task.fields['best']}", no_wrap=True, overflow="ellipsis")


def duration(seconds: float) -> str:
    """`75` -> `1 min 15 s`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
