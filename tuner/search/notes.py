"""What the report says of how a cell was searched, beside its trials."""

from __future__ import annotations

from tiertune.tuner.journal import Journal
from tiertune.tuner.journal_claim import Claim
from tiertune.tuner.optimiser.base import Observation
from tiertune.tuner.search.constraint import constraints_of
from tiertune.tuner.search.fidelity import agreement_of
from tiertune.tuner.search.objectives import objectives_of


def search_notes(journal: Journal, claim: Claim, cell: str) -> list[str]:
    """Sentences on presets, memory, short runs, races, constraints and an early end; none for a plain
    search."""
    notes = []
    remembered = journal.remembered(cell)
    if remembered is not None:
        source, entries = remembered
        said = f"Search began with the best configs of {source}, of {len(entries)} trials there"
        cold = "Search began cold: no earlier campaign had searched this space."
        notes.append(said + "." if entries else cold)
    rows = journal.rows(cell, "search")
    for row in rows:
        if row.trial.origin == "preset":
            notes.append(f"Trial {row.trial.number}: {journal.decisions(row.trial)[0].rstrip('.')}.")
    if any(row.trial.fidelity < 1.0 for row in rows):
        history = [
            Observation(r.trial.number, r.trial.config, r.status, r.cost, fidelity=r.trial.fidelity)
            for r in rows
        ]
        notes.append(f"Search: {agreement_of(history)}.")
    two = objectives_of(claim.document["campaign"])
    if two is not None:
        wanted = f"{two.first.metric} and {two.second.metric}"
        notes.append(f"Search: each proposal of the model is for a mixture of {wanted}, drawn anew.")
    races = sum(row.trial.origin == "race" for row in rows)
    if races:
        notes.append(f"Search: {races} of {len(rows)} trials were repeats of contenders on shared seeds.")
    capped = sum(row.trial.cap is not None and row.status.value == "timeout" for row in rows)
    if capped:
        notes.append(f"Search: {capped} of {len(rows)} trials were given up as too slow.")
    rules = constraints_of(claim.document["campaign"])
    if rules:
        notes.append(f"Constraints: {'; '.join(str(rule) for rule in rules)}.")
    stopped = journal.stopped(cell, claim.generation)
    if stopped is not None:
        notes.append(f"Search ended before trial {stopped[0]}: {stopped[1]}.")
    return notes
