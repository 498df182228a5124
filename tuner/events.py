"""What a running campaign tells whoever watches (progress display, log lines, tests)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tiertune.tuner.trial import Measurement, Purpose, Trial


@dataclass(frozen=True)
class Plan:
    """Sent once, first: how many trials of each purpose all cells take together, and how many are already
    done. `lag` is what the campaign was started with."""

    campaign: str
    cells: tuple[str, ...]
    trials: int
    done: int
    lag: int = 0


@dataclass(frozen=True)
class Phase:
    """A cell enters `purpose` with `trials` trials in it, of which `done` were finished by an earlier run."""

    cell: str
    purpose: Purpose
    trials: int
    done: int


@dataclass(frozen=True)
class Started:
    """A trial was stored as running; `ask_cpu_s` is what the optimiser took to propose it."""

    trial: Trial
    ask_cpu_s: float


@dataclass(frozen=True)
class Finished:
    """A trial was stored with its measurement. `value` is the objective, None for a failed trial."""

    trial: Trial
    measurement: Measurement
    value: float | None


@dataclass(frozen=True)
class Note:
    """A sentence for the log."""

    text: str


@dataclass(frozen=True)
class Doing:
    """What is waited for now that no trial runs: shown until it is over, and nothing to keep."""

    text: str


Event = Plan | Phase | Started | Finished | Note | Doing
Listener = Callable[[Event], None]


def silent(event: Event) -> None:
    """A listener that drops everything."""
