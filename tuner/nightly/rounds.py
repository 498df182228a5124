"""Rounds: one search of a campaign from start to end, over as many nights as it takes. Then the next begins.

Each round has seeds of its own: the same search again would find the same winner.
"""

from __future__ import annotations

from pathlib import Path

from tiertune.tuner.backend import Backend
from tiertune.tuner.campaign import Campaign
from tiertune.tuner.journal import Journal
from tiertune.tuner.journal_claim import settings_changed
from tiertune.tuner.nightly.history import History, Round
from tiertune.tuner.plan import CampaignPlan, plan_of
from tiertune.tuner.trial import derive_seed


def seeded(campaign: Campaign, entry: Round) -> tuple[Campaign, CampaignPlan]:
    """The campaign of a round and its plan."""
    mine = campaign.model_copy(update={"seed": entry.seed})
    return mine, plan_of(mine, entry.name)


def next_round(history: History, suite: str, campaign: Campaign, date: str) -> Round:
    """Begin the round after the last one; the first has the campaign's own seed."""
    number = len(history.rounds(campaign.name)) + 1
    seed = campaign.seed if number == 1 else derive_seed(campaign.seed, "nightly round", number)
    entry = Round(campaign.name, number, f"{suite}-{campaign.name}-r{number}", seed, date)
    history.begin_round(entry)
    return entry


def outdated(results: Path, plan: CampaignPlan, backend: Backend) -> str | None:
    """Why a round that was begun cannot go on, None where it can: one search is of one set of files and one
    engine.

    Raises JournalError where the journal is in use or damaged.
    """
    path = results / plan.name / "journal.sqlite"
    if not path.is_file():
        return None
    with Journal(path) as journal:
        if not journal.rows():
            return None
        changes = settings_changed(journal.claimed().document, plan.document)
        environments = journal.environments().values()
    if changes:
        more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
        return f"its files changed since it began ({changes[0]}{more})"
    digests = {document.get("backend", {}).get("engine digest") for document in environments}
    digest = backend.facts().get("engine digest")
    if digest is not None and digests - {None, digest}:
        return "the engine changed since it began"
    return None
