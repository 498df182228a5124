"""A campaign as a list shows it: its state, how far it is, what it gained so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tiertune.files import InputError
from tiertune.tuner.cell_family import chance_of
from tiertune.tuner.explorer.folder import JOURNAL
from tiertune.tuner.explorer.running import is_running
from tiertune.tuner.front import Front
from tiertune.tuner.journal import Journal, Row
from tiertune.tuner.journal_claim import Claim
from tiertune.tuner.search.best import costs_that_count
from tiertune.tuner.search.constraint import Constraint, constraints_of
from tiertune.tuner.search.objectives import objectives_of
from tiertune.tuner.statistics import Effect
from tiertune.tuner.trial import Objective, Status
from tiertune.tuner.validation import STAGE, all_selected, judgement_trials, outcome, selection_ended

State = Literal["running", "complete", "stopped", "unreadable"]


@dataclass(frozen=True)
class CellState:
    """One cell. `effect` is of validation, None before it; `found` is the best search trial over the default
    trial, above 1 is better, and no proof of anything. Both are of the first objective, `metric`; `front` has
    what validation says of two, and `second` is the metric of the second one. `chance` is the p of the
    effect."""

    key: str
    number: int
    system: str
    workload: str
    machine: str
    ratio: str
    metric: str
    done: int
    planned: int
    failed: int
    phase: str
    found: float | None
    effect: Effect | None
    verdict: str
    complete: bool
    improved: bool
    chance: float
    second: str | None = None
    front: Front | None = None


@dataclass(frozen=True)
class CampaignState:
    """A campaign. `problem` says why it cannot be read, else it is empty."""

    name: str
    state: State
    created_at: str = ""
    cells: tuple[CellState, ...] = ()
    problem: str = ""

    @property
    def done(self) -> int:
        """Trials that have ended."""
        return sum(cell.done for cell in self.cells)

    @property
    def planned(self) -> int:
        """Trials that there will be, as far as that is known."""
        return sum(cell.planned for cell in self.cells)

    @property
    def failed(self) -> int:
        """Trials that did not end well."""
        return sum(cell.failed for cell in self.cells)


def campaign_state(folder: Path) -> CampaignState:
    """The campaign in a folder. Never raises for what may happen to a journal: it becomes `unreadable`."""
    import sqlite3

    try:
        running = is_running(folder / JOURNAL)
        with Journal(folder / JOURNAL, writer=False) as journal:
            claim = journal.claimed()
            cells = tuple(
                cell_state(journal, claim, key, number)
                for number, key in enumerate(claim.document["cells"], start=1)
            )
    except (InputError, OSError, sqlite3.Error, KeyError, TypeError, ValueError) as error:
        return CampaignState(folder.name, "unreadable", problem=_sentence(folder, error))
    complete = bool(cells) and all(cell.complete for cell in cells)
    state: State = "running" if running else "complete" if complete else "stopped"
    return CampaignState(folder.name, state, claim.created_at, cells)


def cell_state(journal: Journal, claim: Claim, key: str, number: int) -> CellState:
    """How far a cell is; trials of earlier generations of the judgement do not count."""
    contents = claim.document["cells"][key]
    objective = objective_of(contents)
    settings = claim.document["campaign"]
    first = claim.generation * STAGE
    rows = [row for row in journal.rows(key) if row.trial.purpose == "search" or row.trial.number >= first]
    search = [row for row in rows if row.trial.purpose == "search"]
    stopped = journal.stopped(key, claim.generation)
    budget = int(settings["budget"]["trials"] if stopped is None else stopped[0])
    searched = sum(row.status.finished for row in search) >= budget
    judged = outcome(journal, key, objective, claim.generation)
    selecting = [row for row in rows if row.trial.purpose == "selection"]
    ended = searched and selection_ended(journal, key, claim.generation)
    seeds = int(settings["validation"]["seeds"])
    objectives = objectives_of(settings)
    judgement, validation = judgement_trials(budget, seeds, objectives)
    if ended:
        judgement = len(selecting)
        validation = (1 + len(all_selected(journal, key, claim.generation))) * seeds
        validation = 0 if judged.winner is None else validation
    complete = ended and (judged.complete or judged.winner is None)
    scenario = search[0].trial.scenario if search else None
    return CellState(
        key=key,
        number=number,
        system=str(contents["space"]["system"] if "system" in contents["space"] else key.rpartition("/")[2]),
        workload=str(contents["workload"]["name"]),
        machine=str(contents["machine"]["name"]),
        ratio=scenario.ratio if scenario else "",
        metric=objective.metric,
        done=sum(row.status.finished for row in rows),
        planned=max(budget + judgement + validation, len(rows)),
        failed=sum(row.status.finished and row.status is not Status.OK for row in rows),
        phase=_phase(searched, ended, complete, rows),
        found=found_so_far(search, constraints_of(settings)),
        effect=judged.effect,
        verdict=judged.verdict if rows else "nothing was measured yet",
        complete=complete,
        improved=judged.improved,
        chance=chance_of(judged),
        second=objectives.second.metric if objectives is not None else None,
        front=judged.front,
    )


def objective_of(contents: dict[str, Any]) -> Objective:
    """What is better in a cell of a stored campaign."""
    metric = contents["workload"]["metric"]
    return Objective(metric["name"], metric["direction"])


def found_so_far(search: Sequence[Row], rules: Sequence[Constraint] = ()) -> float | None:
    """The best whole search trial that keeps `rules` over the default's, None before both are there."""
    default = next(
        (row.cost for row in search if row.trial.origin == "default" and row.cost is not None), None
    )
    costs = [cost for cost in costs_that_count(search, rules) if cost is not None]
    return None if default is None or not costs else math.exp(default - min(costs))


def _phase(searched: bool, ended: bool, complete: bool, rows: Sequence[Row]) -> str:
    if complete:
        return "judged"
    if not rows:
        return "not begun"
    return "validation" if ended else "selection" if searched else "search"


def _sentence(folder: Path, error: Exception) -> str:
    text = str(error).strip() or type(error).__name__
    return text if str(folder) in text else f"{folder / JOURNAL}: {text}"
