"""The rules of a search that a campaign may set, all of them off unless it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tiertune.tuner.search.constraint import Constraint
from tiertune.tuner.search.objectives import Objectives
from tiertune.tuner.search.stopping import StopRule

Memory = Literal["off", "start", "gated"]


@dataclass(frozen=True)
class SearchRules:
    """`cap` ends a trial at this multiple of the best runtime so far; `short_runs` is the share of the
    workload that new configs run first; `memory_from` names the one campaign whose memory counts."""

    stop: StopRule | None = None
    race: bool = False
    cap: float | None = None
    memory: Memory = "off"
    memory_from: str | None = None
    short_runs: float | None = None
    constraints: tuple[Constraint, ...] = ()
    objectives: Objectives | None = None


PLAIN = SearchRules()
