"""Progress off a terminal: runs come in many small batches, of which single lines would be noise."""

from __future__ import annotations

import time
from collections.abc import Callable

from tiertune.tuner.backend import Notify
from tiertune.tuner.progress import LINE_EVERY_S, Clock
from tiertune.tuner.sweep.measurement import Progress


def counting(notify: Notify, clock: Clock = time.monotonic) -> Callable[[Progress], None]:
    """A listener that says every few seconds how many runs were made so far, cached ones left out."""
    made, failed, before, said_at_s = 0, 0, Progress(0, 0, 0, 0), clock()

    def heard(progress: Progress) -> None:
        nonlocal made, failed, before, said_at_s
        if progress.done == progress.cached:
            before = Progress(progress.total, progress.cached, progress.cached, 0)
        made += progress.done - before.done
        failed += progress.failed - before.failed
        before = progress
        if made and clock() - said_at_s >= LINE_EVERY_S:
            said_at_s = clock()
            notify(f"{made} runs so far" + (f"; {failed} crashed" if failed else ""))

    return heard
