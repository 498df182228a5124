"""What systems are held against: all-fast and oracle on the validation seeds, each default against itself.

These runs are kept in a journal of their own beside the campaign's, so they go on where they were stopped,
and so that their versions can be held against those of the campaign.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tiertune.engine import check_config
from tiertune.tuner.backend import Backend
from tiertune.tuner.events import Listener, Note, Phase, Plan
from tiertune.tuner.execution import Bench
from tiertune.tuner.host_facts import environment_facts
from tiertune.tuner.journal import Journal, Row
from tiertune.tuner.plan import CampaignPlan, PlannedCell
from tiertune.tuner.sweep.row import YARDSTICKS
from tiertune.tuner.trial import Config, Scenario, Trial, derive_seed, plain_config
from tiertune.tuner.validation import STAGE

FILE = "comparison.sqlite"


def yardstick_cell(scenario: Scenario, system: str) -> str:
    """The name under which a yardstick's runs are kept."""
    return f"{scenario.key}/yardstick:{system}"


def again_cell(cell: PlannedCell) -> str:
    """The name under which the repeated default of a cell is kept."""
    return f"{cell.key}/again"


def validation_seeds(rows: Sequence[Row], generation: int) -> dict[str, list[int]]:
    """The seeds that winners were validated on, by key of the scenario, in the order of their blocks."""
    found: dict[str, dict[int, None]] = {}
    for row in rows:
        if row.trial.purpose == "validation" and row.trial.number >= generation * STAGE:
            found.setdefault(row.trial.scenario.key, {})[row.trial.seed] = None
    return {key: list(seeds) for key, seeds in found.items()}


def measure_references(
    plan: CampaignPlan,
    folder: Path,
    backend: Backend,
    listener: Listener,
    *,
    extend: bool = False,
) -> None:
    """Make the reference runs of the tuned campaign in `folder` that are not there yet.

    Raises JournalError where the campaign was not run, or its references are of other settings.
    """
    with Journal(folder / "journal.sqlite", writer=False) as tuned:
        generation = tuned.claimed().generation
        seeds = validation_seeds(tuned.rows(purpose="validation"), generation)
    wanted = _trials(plan, seeds, generation)
    with Journal(folder / FILE) as journal:
        journal.claim(plan.name, plan.document, plan.workers - 1, extend=extend)
        done = sum(row.status.finished for row in journal.rows(at_least=generation * STAGE))
        total = sum(len(trials) for _, trials in wanted)
        if done >= total:
            return
        for cell, _ in wanted:
            backend.prepare(cell.scenario, lambda text: listener(Note(text)))
        environment = journal.environment({**environment_facts(), "backend": backend.facts()})
        listener(Plan(plan.name, tuple(cell.scenario.key for cell, _ in wanted), total, done))
        for cell, trials in wanted:
            listener(Phase(f"{cell.scenario.key}/references", "validation", len(trials), 0))
            bench = Bench(backend, journal, cell.objective, environment, listener, plan.workers)
            bench.run_all(trials, "a reference that systems are held against", {})


def _trials(
    plan: CampaignPlan, seeds: dict[str, list[int]], generation: int
) -> list[tuple[PlannedCell, list[Trial]]]:
    """All reference runs; those of a scenario with its first cell, which knows what improves there."""
    wanted: dict[str, tuple[PlannedCell, list[Trial]]] = {}
    for cell in plan.cells:
        if cell.search:
            continue
        key = cell.scenario.key
        known = seeds.get(key, [])
        if key not in wanted:
            wanted[key] = cell, []
            for system in YARDSTICKS:
                config = plain_config(check_config(system, {}))
                name = yardstick_cell(cell.scenario, system)
                wanted[key][1].extend(_runs(plan, cell, name, system, config, known, generation))
        name = cell.scenario.seed_name
        fresh = [derive_seed(plan.seed, name, "again", generation, number) for number in range(len(known))]
        again = again_cell(cell)
        wanted[key][1].extend(_runs(plan, cell, again, cell.system, cell.default, fresh, generation))
    return list(wanted.values())


def _runs(
    plan: CampaignPlan,
    cell: PlannedCell,
    name: str,
    system: str,
    config: Config,
    seeds: Sequence[int],
    generation: int,
) -> list[Trial]:
    return [
        Trial(
            campaign=plan.name,
            cell=name,
            number=generation * STAGE + number,
            scenario=cell.scenario,
            system=system,
            config=config,
            seed=seed,
            noise="paired",
            purpose="validation",
            origin="default",
        )
        for number, seed in enumerate(seeds)
    ]
