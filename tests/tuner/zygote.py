"""A process that imports everything once and then forks a campaign per line of input, `FOLDER SPEC`.

A killed campaign costs a fork instead of seconds of imports, so that tests can kill many of them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, cast

from tests.tuner.toy import ToyBackend, toy_plan
from tiertune.tuner.journal import Journal
from tiertune.tuner.loop import tune
from tiertune.tuner.optimiser.registry import OPTIMISERS, optimiser_class
from tiertune.tuner.trial import Config, Trial

STATES = ("after-ask", "mid-run", "before-commit", "mid-commit", "after-commit")


def die() -> None:
    os.kill(os.getpid(), 9)
    time.sleep(60)  # the signal comes at once, but another thread may run on until it does


def die_in(state: str, nth: int) -> None:
    """Make this process kill itself the `nth` time that a trial is in `state` of its life."""
    counts = {"seen": 0}

    def reached() -> None:
        counts["seen"] += 1
        if counts["seen"] == nth:
            die()

    start, finish, queue, apply = Journal.start, Journal.finish, Journal._queue, ToyBackend.apply

    def dying_start(self: Journal, *args: object, **kwargs: object) -> None:
        reached()
        start(self, *args, **kwargs)  # type: ignore[arg-type]

    def dying_finish(self: Journal, *args: object) -> None:
        if state == "before-commit":
            reached()
        finish(self, *args)  # type: ignore[arg-type]
        if state == "after-commit":
            reached()

    def dying_queue(self: Journal, subject: str) -> None:
        queue(self, subject)
        if subject.startswith("trial:"):
            reached()

    def dying_apply(self: ToyBackend, trial: Trial) -> Config:
        reached()
        return apply(self, trial)

    if state == "after-ask":
        Journal.start = dying_start  # type: ignore[method-assign]
    elif state == "mid-commit":
        Journal._queue = dying_queue  # type: ignore[method-assign]
    elif state == "mid-run":
        ToyBackend.apply = dying_apply  # type: ignore[method-assign]
    else:
        Journal.finish = dying_finish  # type: ignore[method-assign, assignment]


def run(folder: Path, spec: dict[str, Any]) -> None:
    """One campaign, or what is left of it. `spec`: plan fields, `run_s`, `crash_share`, `die_in`."""
    if "die_in" in spec:
        state, nth = cast(tuple[str, int], spec.pop("die_in"))
        die_in(state, nth)
    backend = ToyBackend(run_s=spec.pop("run_s", 0.0), crash_share=spec.pop("crash_share", 0.1))
    tune(toy_plan(**spec), folder, backend)


def end_of(child: int, kill_after_s: float | None) -> str:
    """Wait for the child, killing it after a while where asked to, and say how it ended."""
    if kill_after_s is not None:
        time.sleep(kill_after_s)
        os.kill(child, signal.SIGKILL)  # not waited for yet, so the number is still the child's
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {0: "ended", -signal.SIGKILL: "killed"}.get(code, f"failed with {code}")


def serve() -> None:
    for name in OPTIMISERS:
        optimiser_class(name)
    print("ready", flush=True)
    for line in sys.stdin:
        folder, _, text = line.strip().partition(" ")
        spec = json.loads(text)
        kill_after_s = spec.pop("kill_after_s", None)
        child = os.fork()
        if child == 0:
            try:
                run(Path(folder), spec)
            except BaseException as error:
                (Path(folder) / "error.txt").write_text(repr(error))
                os._exit(1)
            os._exit(0)
        print(end_of(child, kill_after_s), flush=True)


if __name__ == "__main__":
    serve()
