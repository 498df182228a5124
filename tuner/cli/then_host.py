"""`tune --then-host`: what was found in simulation goes on live, and shows what the simulator was worth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiertune.tuner.cli.places import Places, live_plan

if TYPE_CHECKING:
    from tiertune.tuner.campaign import Campaign
    from tiertune.tuner.plan import CampaignPlan

LIVE = "live"
PREDICTION = "prediction.json"


def live_campaign(
    campaign: Campaign, simulated: CampaignPlan, trials: int, places: Places
) -> tuple[Campaign, CampaignPlan]:
    """The campaign that goes on live with `trials` each, and its plan: cells with a host part alone, begun
    with the best configurations of the simulated one and others for the gate of its memory.

    Raises InputError where no workload has a host part.
    """
    from tiertune.tuner.plan import plan_of

    budget = campaign.budget.model_copy(
        update={"trials": trials, "initial": min(campaign.budget.initial, trials), "short_runs": None}
    )
    going_on = campaign.model_copy(update={"budget": budget, "memory": "gated"})
    plan = live_plan(going_on, plan_of(going_on, f"{simulated.name}-{LIVE}"), places)
    live = set(plan.document["campaign"][LIVE])
    cells = tuple(cell for cell in plan.cells if cell.key in live)
    contents = {key: content for key, content in plan.document["cells"].items() if key in live}
    # Not in the document: once begun, the journal itself remembers what it began with.
    rules = replace(plan.rules, memory_from=simulated.name)
    return going_on, replace(plan, cells=cells, document={**plan.document, "cells": contents}, rules=rules)


def tell_prediction(simulated: str, live: str, results: Path, quiet: bool) -> dict[str, Any]:
    """Writes how well the simulator had foretold the live campaign, and prints it unless `quiet`; returns
    what was written, and where."""
    import json

    from tiertune.tuner.cli.output import console
    from tiertune.tuner.live.prediction import predictions
    from tiertune.tuner.loop import journal_path
    from tiertune.tuner.report.files import write_whole

    found = predictions(journal_path(results, simulated), journal_path(results, live))
    path = results / live / PREDICTION
    document = {"cells": [one.document() for one in found]}
    write_whole(path, json.dumps(document, indent=2) + "\n")
    if not quiet:
        out = console()
        for one in found:
            out.print(f"simulator, {one.cell}: {one.sentence()}", markup=False, soft_wrap=True)
        out.print(f"foretold {path}", markup=False, soft_wrap=True)
    return {**document, "files": [str(path)]}
