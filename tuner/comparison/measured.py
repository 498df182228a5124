"""The figures of a comparison, read from its two journals: nothing is measured here, nothing judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tiertune.tuner.comparison.references import (
    FILE,
    again_cell,
    validation_seeds,
    yardstick_cell,
)
from tiertune.tuner.journal import Journal, Row
from tiertune.tuner.journal_claim import Claim, JournalError
from tiertune.tuner.plan import CampaignPlan, PlannedCell
from tiertune.tuner.sweep.row import ALL_FAST, ORACLE
from tiertune.tuner.trial import Scenario
from tiertune.tuner.validation import STAGE, keeps_default
from tiertune.units import format_size

Array = np.ndarray


@dataclass(frozen=True)
class Journals:
    """Every trial of a campaign and of its references; judgements are those of the last generation."""

    claim: Claim
    search: dict[str, list[Row]]
    selection: dict[str, list[Row]]
    validation: dict[str, list[Row]]
    references: dict[str, list[Row]]
    environments: dict[int, dict[str, Any]]
    reference_environments: dict[int, dict[str, Any]]


def read_journals(folder: Path) -> Journals:
    """The journals in the results folder of a campaign. Raises JournalError where one is missing."""
    if not (folder / FILE).is_file():
        raise JournalError(f"{folder / FILE}: no such journal; `tiertune compare {folder.name}` makes it")
    with (
        Journal(folder / "journal.sqlite", writer=False) as tuned,
        Journal(folder / FILE, writer=False) as references,
    ):
        claim = tuned.claimed()
        first = claim.generation * STAGE
        last = first + STAGE
        return Journals(
            claim,
            _by_cell(tuned.rows(purpose="search")),
            _by_cell(tuned.rows(purpose="selection", at_least=first, before=last)),
            _by_cell(tuned.rows(purpose="validation", at_least=first, before=last)),
            _by_cell(references.rows(at_least=first, before=last)),
            tuned.environments(),
            references.environments(),
        )


def _by_cell(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.trial.cell, []).append(row)
    return found


@dataclass(frozen=True)
class Scene:
    """One scenario by the names that people know it by; `more` is what else tells it from the others."""

    scenario: Scenario
    workload: str
    machine: str
    metric: str
    direction: str
    more: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Short text for tables, another one for every scenario."""
        return ", ".join([self.workload, self.machine, self.scenario.ratio, *self.more])


@dataclass(frozen=True)
class Measured:
    """Costs (natural logs, lower is better) on validation seeds; NaN where a run failed.

    `default` and `again` have the shape (scenes, contenders, seeds), `tuned` (scenes, contenders, searches,
    seeds), the yardsticks (scenes, seeds). `again` is the default on fresh seeds; all others of a scene
    share their seeds. `kept` says for each scene, contender and search that the default was handed over.
    """

    scenes: list[Scene]
    contenders: list[str]
    default: Array
    again: Array
    tuned: Array
    all_fast: Array
    oracle: Array
    kept: Array


def cells_of(plan: CampaignPlan) -> dict[tuple[str, str], list[PlannedCell]]:
    """The searches of each scenario and contender, by key of the scenario and name of the contender."""
    found: dict[tuple[str, str], list[PlannedCell]] = {}
    for cell in plan.cells:
        found.setdefault((cell.scenario.key, cell.contender), []).append(cell)
    return found


def measured(plan: CampaignPlan, journals: Journals) -> Measured:
    """The figures of a campaign that has ended, and of its references."""
    cells = cells_of(plan)
    contenders = list(dict.fromkeys(name for _, name in cells))
    scenes = scenes_of(plan)
    everything = [row for rows in journals.validation.values() for row in rows]
    seeds = validation_seeds(everything, journals.claim.generation)
    searches = len(next(iter(cells.values())))
    # The file checks that all scenarios have equally many seeds; a killed campaign may lack some.
    width = max((len(some) for some in seeds.values()), default=0)
    shape = len(scenes), len(contenders)
    default, again = np.full((*shape, width), np.nan), np.full((*shape, width), np.nan)
    tuned = np.full((*shape, searches, width), np.nan)
    kept = np.zeros((*shape, searches), dtype=bool)
    yardsticks = {system: np.full((len(scenes), width), np.nan) for system in (ALL_FAST, ORACLE)}
    for s, scene in enumerate(scenes):
        mine = seeds.get(scene.scenario.key, [])
        for system, values in yardsticks.items():
            rows = journals.references.get(yardstick_cell(scene.scenario, system), [])
            values[s, : len(mine)] = _on(mine, rows)
        for c, name in enumerate(contenders):
            group = cells[scene.scenario.key, name]
            rows = journals.references.get(again_cell(group[0]), [])
            again[s, c, : len(rows)] = [_cost(row) for row in rows]
            found = [_on(mine, journals.validation.get(cell.key, []), "default") for cell in group]
            with_default = np.array(found)
            default[s, c, : len(mine)] = _mean(with_default)
            for j, cell in enumerate(group):
                kept[s, c, j] = hands_over_default(cell.key, journals)
                winners = _on(mine, journals.validation.get(cell.key, []), "winner")
                tuned[s, c, j, : len(mine)] = default[s, c, : len(mine)] if kept[s, c, j] else winners
    all_fast, oracle = yardsticks[ALL_FAST], yardsticks[ORACLE]
    return Measured(scenes, contenders, default, again, tuned, all_fast, oracle, kept)


def hands_over_default(cell: str, journals: Journals) -> bool:
    """Whether a search hands over the default: no finalist worked, or its best did not beat the default."""
    winner = next((row for row in journals.validation.get(cell, []) if row.trial.origin == "winner"), None)
    if winner is None:
        return True
    return keeps_default(journals.selection.get(cell, []), winner.trial.config)


def scenes_of(plan: CampaignPlan) -> list[Scene]:
    """The scenarios of a campaign, in its order, each with a name of its own."""
    found: dict[str, Scene] = {}
    for cell in plan.cells:
        contents: Mapping[str, Any] = plan.document["cells"][cell.key]
        objective = cell.objective
        names = contents["workload"]["name"], contents["machine"]["name"]
        scene = Scene(cell.scenario, *names, objective.metric, objective.direction)
        found.setdefault(cell.scenario.key, scene)
    words = {key: _more(scene.scenario) for key, scene in found.items()}
    telling = [len(set(some)) > 1 for some in zip(*words.values(), strict=True)]
    return [
        replace(scene, more=tuple(word for word, tells in zip(words[key], telling, strict=True) if tells))
        for key, scene in found.items()
    ]


def _more(scenario: Scenario) -> tuple[str, ...]:
    """Threads, pages and co-runners in words."""
    threads = "default threads" if scenario.threads is None else f"{scenario.threads} threads"
    traffic = (f"tier{one.tier} +r{one.read_gbps:g} +w{one.write_gbps:g}" for one in scenario.contention)
    return threads, format_size(scenario.page_bytes), " ".join(traffic) or "alone"


def _on(seeds: Sequence[int], rows: Sequence[Row], origin: str | None = None) -> list[float]:
    """Costs on `seeds`, NaN where there is none."""
    found = {row.trial.seed: _cost(row) for row in rows if origin is None or row.trial.origin == origin}
    return [found.get(seed, np.nan) for seed in seeds]


def _cost(row: Row) -> float:
    return np.nan if row.cost is None else row.cost


def _mean(values: Array) -> Array:
    """Mean over searches of what is known; a default is measured anew in each of them."""
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    sums = np.where(known, values, 0.0).sum(axis=0)
    means: Array = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return means
