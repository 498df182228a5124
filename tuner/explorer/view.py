"""How a page is looked at: which results, in which colours; and one cell of a journal, opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tiertune.files import InputError
from tiertune.tuner.explorer.campaign import objective_of
from tiertune.tuner.explorer.folder import Results
from tiertune.tuner.explorer.look import Look, look_of
from tiertune.tuner.explorer.page import address
from tiertune.tuner.journal import Journal, Row
from tiertune.tuner.journal_claim import Claim
from tiertune.tuner.search.objectives import Objectives, objectives_of
from tiertune.tuner.trial import Objective, Purpose

MOST_DIGITS = 15


@dataclass(frozen=True)
class View:
    """`scheme` is light or dark, as the reader's system says."""

    results: Results
    scheme: str = "light"

    @property
    def look(self) -> Look:
        """The colours of figures."""
        return look_of(self.scheme)


@dataclass(frozen=True)
class OpenCell:
    """One cell of a campaign whose journal is open for reading."""

    campaign: str
    number: int
    key: str
    journal: Journal
    claim: Claim

    @property
    def contents(self) -> dict[str, Any]:
        """Workload, machine, space and default, as the campaign began with them."""
        found: dict[str, Any] = self.claim.document["cells"][self.key]
        return found

    @property
    def objective(self) -> Objective:
        """What is better."""
        return objective_of(self.contents)

    @property
    def objectives(self) -> Objectives | None:
        """Both objectives of a campaign that has two; None where there is one."""
        return objectives_of(self.claim.document["campaign"])

    @property
    def second(self) -> Objective | None:
        """What else is wanted; None where there is one objective."""
        return self.objectives.second if self.objectives is not None else None

    @property
    def live(self) -> bool:
        """Whether its trials ran on real hosts, in real time."""
        return self.key in self.claim.document["campaign"].get("live", ())

    @property
    def address(self) -> str:
        """Of its pages."""
        return address("campaign", self.campaign, self.number)

    @property
    def begun(self) -> bool:
        """Whether there is a trial."""
        return bool(self.journal.rows(self.key, "search", before=1))

    def rows(self, purpose: Purpose | None = None) -> list[Row]:
        """Its trials."""
        return self.journal.rows(self.key, purpose)


def trial_number(text: str) -> int | None:
    """The number of a trial as an address has it, None where it is none that a journal could hold."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= MOST_DIGITS else None


@contextmanager
def opened(results: Results, campaign: str, number: str) -> Iterator[OpenCell]:
    """A cell by its number, counted from 1. Raises InputError where there is no such campaign or cell."""
    with Journal(results.journal(campaign), writer=False) as journal:
        claim = journal.claimed()
        keys = list(claim.document["cells"])
        if not number.isdecimal() or not 1 <= int(number) <= len(keys):
            raise InputError(f"campaign {campaign} has no cell {number}; they are 1 to {len(keys)}")
        yield OpenCell(campaign, int(number), keys[int(number) - 1], journal, claim)
