"""What people see of a running sweep, on standard error: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, SpinnerColumn, TextColumn
from rich.progress import Progress as Bar

from tiertune.tuner.backend import Notify
from tiertune.tuner.progress import LINE_EVERY_S, Clock, Pace, duration
from tiertune.tuner.sweep.measurement import Progress

TELLING = 0.05
"""Share of the runs whose pace is told: they differ by a thousand times, and the first of many are short."""


class Lines:
    """A line at the start, every few seconds, and at the end; nothing where all is cached."""

    def __init__(self, console: Console, clock: Clock = time.monotonic) -> None:
        self._console = console
        self._pace = Pace(clock, TELLING)
        self._last_s = float("-inf")

    def __call__(self, progress: Progress) -> None:
        """The listener."""
        if progress.done == progress.cached and not progress.failed:
            self._pace.begin(progress.total, progress.done)
            if progress.cached < progress.total:
                known = f", {progress.cached} of them cached" if progress.cached else ""
                self.note(f"{progress.total} runs{known}")
            return
        self._pace.done = progress.done
        if self._pace.clock() - self._last_s < LINE_EVERY_S and progress.done < progress.total:
            return
        self._last_s = self._pace.clock()
        self.note(_line(progress, self._pace))

    def note(self, text: str) -> None:
        """A sentence of its own."""
        stamp = time.strftime("%H:%M:%S")
        self._console.print(f"{stamp} {text}", markup=False, highlight=False, soft_wrap=True)


def _line(progress: Progress, pace: Pace) -> str:
    parts = [f"{progress.done}/{progress.total} runs"]
    if progress.failed:
        parts.append(f"{progress.failed} crashed")
    left = pace.left_s()
    if left:
        parts.append(f"about {duration(left)} left")
    return "; ".join(parts)


@contextmanager
def watching(console: Console) -> Iterator[tuple[Callable[[Progress], None], Notify]]:
    """A listener and a place for sentences; both may be called while the other is."""
    if not console.is_terminal:
        lines = Lines(console)
        yield lines, lines.note
        return
    columns = (SpinnerColumn(), BarColumn(bar_width=None), MofNCompleteColumn())
    left = TextColumn("{task.fields[left]}", markup=False)
    pace = Pace(told_from=TELLING)
    with Bar(*columns, left, console=console, transient=True, expand=True) as bar:
        task = bar.add_task("", total=None, left="")

        def listener(progress: Progress) -> None:
            if pace.total != progress.total:
                pace.begin(progress.total, progress.done)
            pace.done = progress.done
            seconds = pace.left_s()
            text = f"{duration(seconds)} left" if seconds else ""
            crashed = f", {progress.failed} crashed" if progress.failed else ""
            bar.update(task, total=progress.total, completed=progress.done, left=text + crashed)

        def note(text: str) -> None:
            bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

        yield listener, note
