"""A campaign made ready to run: its cells with objective and space, and the document that must not change on
resume."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from tiertune.spaces.definition import contender_name
from tiertune.tuner.optimiser.presets import Published
from tiertune.tuner.search.constraint import Constraint
from tiertune.tuner.search.objectives import objectives_of
from tiertune.tuner.search.rules import PLAIN, SearchRules
from tiertune.tuner.search.stopping import StopRule
from tiertune.tuner.trial import Config, Objective, Scenario, derive_seed, plain_config

if TYPE_CHECKING:
    from tiertune.spaces.definition import Space
    from tiertune.tuner.campaign import Campaign
    from tiertune.tuner.optimiser.base import Optimiser


@dataclass(frozen=True)
class PlannedCell:
    """One search of a scenario x system, with what improves there and where its knobs may go.

    `default` is every knob as the system declares it: what winners are compared with. It need not lie in the
    space. `search` counts the independent searches of a scenario x system from 0. `presets` are tried first.
    """

    key: str
    scenario: Scenario
    system: str
    objective: Objective
    space: Space
    default: Config
    search: int = 0
    presets: tuple[Published, ...] = ()

    @property
    def seed_name(self) -> str:
        """What the optimiser's seed is drawn for: the key, wherever files of workload and machine lie."""
        return self.scenario.seed_name + self.key.removeprefix(self.scenario.key)

    @property
    def contender(self) -> str:
        """What competes within a scenario: the system, with its space where that has a name of its own."""
        return contender_name(self.system, self.space)


@dataclass(frozen=True)
class CampaignPlan:
    """All that decides the results of a campaign, and `workers`, which only decides how long it takes on
    resume."""

    name: str
    seed: int
    trials: int
    initial: int
    random_share: float
    optimiser: str
    validation_seeds: int
    workers: int
    cells: tuple[PlannedCell, ...]
    document: dict[str, Any]
    rules: SearchRules = PLAIN

    def search_seed(self, cell: PlannedCell) -> int:
        """What the seeds of a cell's search trials come from: equal for all systems, not for all searches."""
        return self.seed if cell.search == 0 else derive_seed(self.seed, "search", cell.search)

    def new_optimiser(self, cell: PlannedCell) -> Optimiser:
        """The optimiser of a cell. Its seed is that of the campaign and the cell, nothing else."""
        from tiertune.spaces.configspace import config_of, to_configspace
        from tiertune.tuner.optimiser.base import Settings
        from tiertune.tuner.optimiser.registry import optimiser_class

        seed = derive_seed(self.seed, cell.seed_name, "optimiser")
        settings = Settings(seed=seed, initial=self.initial, random_share=self.random_share)
        configspace = to_configspace(cell.space, seed % 2**32)
        return optimiser_class(self.optimiser)(
            configspace, settings, lambda configuration: config_of(cell.space, configuration)
        )


def plan_of(campaign: Campaign, name: str | None = None) -> CampaignPlan:
    """The plan of a loaded campaign, under another `name` where one is given (its own results folder and
    journal)."""
    from tiertune.engine import check_config, registered

    cells = []
    contents: dict[str, Any] = {}
    for cell in campaign.cells():
        workload = campaign.workload(cell.scenario.workload)
        objective = Objective(workload.metric.name, workload.metric.direction)
        default = plain_config(check_config(cell.system, {}))
        cells.append(
            PlannedCell(
                key=cell.key,
                scenario=cell.scenario,
                system=cell.system,
                objective=objective,
                space=cell.space,
                default=default,
                search=cell.search,
                presets=tuple(
                    Published(preset.name, preset.source, plain_config(cell.space.start(preset.knobs)))
                    for preset in cell.space.presets
                ),
            )
        )
        contents[cell.key] = {
            "workload": workload.model_dump(mode="json"),
            "machine": campaign.machine(cell.scenario.machine).relevant(cell.scenario.page_bytes),
            "space": cell.space.model_dump(mode="json"),
            "default": default,
        }
        if cell.system in registered():
            # A policy written in Python has no version: its code is what the trials are of.
            contents[cell.key]["code"] = registered()[cell.system]
    decisive = _decisive(campaign)
    return CampaignPlan(
        name=name or campaign.name,
        seed=campaign.seed,
        trials=campaign.budget.trials,
        initial=campaign.budget.initial,
        random_share=campaign.budget.random_share,
        optimiser=campaign.optimiser.name,
        validation_seeds=campaign.validation.seeds,
        workers=campaign.workers,
        cells=tuple(cells),
        document={"campaign": decisive, "cells": contents},
        rules=_rules(campaign),
    )


def _decisive(campaign: Campaign) -> dict[str, Any]:
    """The keys on which results depend. Those that came later are left out where they are as they were before
    there was a choice, so that older journals go on."""
    found = campaign.model_dump(
        mode="json", include={"seed", "budget", "optimiser", "validation"}, exclude={"budget": {"preset"}}
    )
    later = {"stop": None, "race": False, "cap": None, "short_runs": None}
    found["budget"] = {k: v for k, v in found["budget"].items() if k not in later or v != later[k]}
    if campaign.searches > 1:
        found["searches"] = campaign.searches
    if campaign.memory != "off":
        found["memory"] = campaign.memory
    if campaign.constraints:
        found["constraints"] = [asdict(rule) for rule in _constraints(campaign)]
    if campaign.objectives:
        found["objectives"] = [entry.plain() for entry in campaign.objectives]
    return found


def _rules(campaign: Campaign) -> SearchRules:
    stop = campaign.budget.stop
    return SearchRules(
        stop=None if stop is None else StopRule(stop.patience, stop.gain),
        race=campaign.budget.race,
        cap=campaign.budget.cap,
        short_runs=campaign.budget.short_runs,
        memory=campaign.memory,
        constraints=_constraints(campaign),
        objectives=objectives_of(_decisive(campaign)),
    )


def _constraints(campaign: Campaign) -> tuple[Constraint, ...]:
    return tuple(
        Constraint(entry.metric, entry.at_most, entry.at_least, entry.of_default)
        for entry in campaign.constraints
    )
