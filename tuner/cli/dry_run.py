"""`--dry-run`: what a campaign would do here, without doing any of it."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiertune.tuner.campaign import Campaign
    from tiertune.tuner.plan import CampaignPlan


def state_of(plan: CampaignPlan, results: Path) -> str:
    """Whether a campaign to build on is there already; raises InputError where it would be refused."""
    from tiertune.tuner.api.campaigns import check_own, is_complete

    check_own(plan, results)
    return "tuned" if is_complete(results / plan.name, plan.document) else "to be tuned"


def describe(campaign: Campaign, plan: CampaignPlan, results: Path, extend: bool) -> dict[str, Any]:
    """Cells, trials, seeds, files and the time it may take, as plain data.

    Raises InputError where the results folder has another campaign of this name.
    """
    from tiertune.tuner.api.campaigns import check_own
    from tiertune.tuner.validation import SELECTION_SEEDS, judgement_trials

    check_own(plan, results, extend=extend)
    two = plan.rules.objectives
    selection, validation = judgement_trials(plan.trials, plan.validation_seeds, two)
    each = plan.trials + selection + validation
    folder = results / plan.name
    files = ["campaign.yaml", "journal.sqlite", "report.html", "report.json"]
    tracked = campaign.tracking.mlflow and campaign.tracking.uri is None
    return {
        "campaign": plan.name,
        "seed": plan.seed,
        "optimiser": plan.optimiser,
        "workers": plan.workers,
        "cells": [
            {
                "id": cell.key,
                "system": cell.system,
                "metric": cell.objective.metric,
                "direction": cell.objective.direction,
                **({"second_metric": two.second.metric} if two else {}),
                "knobs": [axis.name for axis in cell.space.axes()],
            }
            for cell in plan.cells
        ],
        "trials_per_cell": {
            "search": plan.trials,
            "of_which_initial": plan.initial,
            "selection": selection,
            "validation": validation,
        },
        "selection_seeds": SELECTION_SEEDS,
        "validation_seeds": plan.validation_seeds,
        "trials": each * len(plan.cells),
        "trials_done": _done(folder),
        "estimated_s": estimate(results, plan, each * len(plan.cells)),
        "files": [str(folder / file) for file in files]
        + ([str(results / "mlflow.sqlite")] if tracked else []),
    }


def estimate(results: Path, plan: CampaignPlan, trials: int) -> float | None:
    """Seconds for `trials` trials, by journals under `results` that ran these cells; None where none did."""
    from tiertune.tuner.journal import Journal
    from tiertune.tuner.journal_claim import JournalError

    keys = {cell.key for cell in plan.cells}
    runs: list[float] = []
    asks: list[float] = []
    for path in sorted(results.glob("*/journal.sqlite")):
        try:
            with Journal(path, writer=False) as journal:
                rows = [row for key in sorted(keys) for row in journal.rows(key)]
        except (JournalError, OSError):
            continue
        runs += [row.wall_s for row in rows if row.wall_s is not None]
        asks += [row.ask_cpu_s for row in rows if row.trial.purpose == "search"]
    if not runs:
        return None
    searched = plan.trials * len(plan.cells)
    return median(runs) * trials / plan.workers + (sum(asks) / len(asks) if asks else 0.0) * searched


def print_plan(described: dict[str, Any]) -> None:
    """The same for people."""
    from tiertune.tuner.cli.output import console
    from tiertune.tuner.progress import duration

    out = console()

    def line(text: str) -> None:
        out.print(text, markup=False, soft_wrap=True)

    counts = described["trials_per_cell"]
    line(f"campaign {described['campaign']}, seed {described['seed']}, optimiser {described['optimiser']}")
    for cell in described["cells"]:
        second = f" against {cell['second_metric']}" if "second_metric" in cell else ""
        wanted = f"{cell['direction']} {cell['metric']}{second}"
        line(f"  {cell['id']}: {wanted} over {len(cell['knobs'])} knobs")
    line(
        f"each cell: {counts['search']} search trials ({counts['of_which_initial']} initial),"
        f" {counts['selection']} to select on {described['selection_seeds']} seeds,"
        f" {counts['validation']} to validate on {described['validation_seeds']} seeds"
    )
    done = f", {described['trials_done']} done before" if described["trials_done"] else ""
    line(f"in all {described['trials']} trials{done}, {described['workers']} at a time")
    if described["estimated_s"] is None:
        line("time: no trial of these cells ran here yet, so there is nothing to estimate from")
    else:
        line(f"time: about {duration(described['estimated_s'])} for all of them, by earlier trials here")
    line("would write:")
    for file in described["files"]:
        line(f"  {file}")


def _done(folder: Path) -> int:
    from tiertune.tuner.journal import Journal
    from tiertune.tuner.journal_claim import JournalError

    if not (folder / "journal.sqlite").is_file():
        return 0
    try:
        with Journal(folder / "journal.sqlite", writer=False) as journal:
            return sum(row.status.finished for row in journal.rows())
    except JournalError:
        return 0
