"""The rules of a search that a campaign may set, all of them off unless it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tiertune.tuner.search.constraint import Constraint
from tiertune.tuner.search.stopping import StopRule

Memory = Literal["off", "start", "gated"]


@dataclass(frozen=True)
class SearchRules:
    """`cap` ends a trial at this multiple of the best runtime so far."""

    stop: StopRule | None = None
    race: bool = False
    cap: float | None = None
    memory: Memory = "off"
    constraints: tuple[Constraint, ...] = ()


PLAIN = SearchRules()
