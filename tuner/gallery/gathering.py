"""From the journals of finished campaigns, and from transfer tests, to the gallery: nothing runs here."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tiertune import engine
from tiertune.adapters.registry import adapter_for
from tiertune.files import InputError, names
from tiertune.tuner.comparison import DOCUMENT
from tiertune.tuner.gallery.carried import tests_in
from tiertune.tuner.gallery.definition import (
    DEFAULT,
    Entry,
    Gain,
    Gallery,
    Likeness,
    MadeBy,
    Validation,
)
from tiertune.tuner.gallery.staleness import CODE_DIGITS
from tiertune.tuner.journal import Journal, Row
from tiertune.tuner.journal_claim import Claim, codes_of
from tiertune.tuner.statistics import Effect
from tiertune.tuner.transfer.context import Context, complete, contexts_of
from tiertune.tuner.trial import Config, Value
from tiertune.tuner.validation import Outcome, outcome

SEVERAL = " and "
DIGITS = 6


def gather(campaigns: Sequence[str], results: Path, policies: str) -> list[Gallery]:
    """A file for each system that the campaigns tuned, in the order of their names.

    Campaigns are complete. `policies` are words for commands that run policies written in Python again.
    Raises `InputError` where two have the same context.
    """
    entries: dict[str, list[Entry]] = {}
    contexts = contexts_of([results / name / "journal.sqlite" for name in campaigns])
    for name in campaigns:
        with Journal(results / name / "journal.sqlite", writer=False) as journal:
            claim, environments = journal.claimed(), journal.environments()
            command = command_of(claim, results) + (policies if codes_of(claim) else "")
            for context in (one for one in contexts if one.campaign == claim.name):
                entry = _entry(journal, claim, context, environments, command)
                entries.setdefault(context.system, []).append(entry)
    return [
        Gallery(
            name=system,
            description=f"{system} tuned in {len(mine)} contexts by {', '.join(campaigns)}",
            entries=mine,
            tests=tests_in(results, system, {entry.space for entry in mine}, policies),
        )
        for system, mine in sorted(entries.items())
    ]


def command_of(claim: Claim, results: Path) -> str:
    """The command that runs a campaign again, which for a comparison is `compare`: by the campaign's name
    where it comes with tiertune."""
    from tiertune.tuner.campaign import load_campaign
    from tiertune.tuner.plan import plan_of

    verb = "compare" if (results / claim.name / DOCUMENT).is_file() else "tune"
    if claim.name in names("campaigns"):
        try:
            if plan_of(load_campaign(claim.name)).document == claim.document:
                return f"tiertune {verb} {claim.name}"
        except InputError:
            pass  # another file of that name, which is wrong
    stored = Path(results.name, claim.name, "campaign.yaml")
    return f"tiertune {verb} {shlex.quote(str(stored))} --results results-again"


def _entry(
    journal: Journal,
    claim: Claim,
    context: Context,
    environments: Mapping[int, Mapping[str, Any]],
    command: str,
) -> Entry:
    judged = outcome(journal, context.cell, context.objective, claim.generation)
    traits, rows = context.traits, journal.rows(context.cell)
    others = [
        _judged_gain(outcome(journal, key, context.objective, claim.generation))
        for key in claim.document["cells"]
        if key.rpartition("#")[0] == context.cell
    ]
    return Entry(
        workload=traits.workload,
        machine=traits.machine,
        ratio=traits.ratio,
        threads=traits.threads,
        page_size=traits.page_bytes,
        # Not rounded: the same context has to come out as the same one.
        likeness=Likeness(**{name: getattr(traits, name) for name in Likeness.model_fields}),
        space=context.space,
        metric=context.objective.metric,
        direction=context.objective.direction,
        outcome="improved" if context.improved else DEFAULT,
        verdict=judged.verdict,
        gain=_judged_gain(judged),
        validation=_validation(judged, context),
        knobs=changed(context.system, context.tuned),
        native=adapter_for(context.system).native_block(context.tuned),
        campaign=claim.name,
        cell=context.cell,
        seed=context.seed,
        trials=len(journal.rows(context.cell, "search")),
        other_searches=[gain.ratio for gain in others if gain is not None],
        measured_on="hosts" if context.cell in claim.document["campaign"].get("live", ()) else "model",
        made_by=_made_by(rows, environments, command, claim.document["cells"][context.cell].get("code")),
    )


def changed(system: str, config: Config) -> dict[str, Value]:
    """The knobs of a complete config that are off their default and in force."""
    found = {}
    info = engine.system(system)
    for knob in info.knobs:
        if info.acts(knob.name, config) and config[knob.name] != knob.default:
            found[knob.name] = config[knob.name]
    return found


def _validation(judged: Outcome, context: Context) -> Validation | None:
    """The runs behind the gain, to the last digit."""
    if judged.winner is None or not judged.default_rows:
        return None
    metric = context.objective.metric
    default, tuned = (
        [None if row.cost is None else float(row.metrics[metric]) for row in rows]
        for rows in (judged.default_rows, judged.winner_rows)
    )
    best = changed(context.system, complete(context.system, judged.winner.trial.config))
    return Validation(
        seeds=[row.trial.seed for row in judged.default_rows],
        default=default,
        tuned=tuned,
        knobs=None if context.improved else best,
    )


def _judged_gain(judged: Outcome) -> Gain | None:
    return None if judged.effect is None else gain_of(judged.effect)


def gain_of(found: Effect) -> Gain:
    """An effect as files have it."""
    return Gain(
        ratio=_round(found.ratio),
        low=_round(found.low),
        high=_round(found.high),
        confidence=found.confidence,
        seeds=found.pairs,
    )


def _made_by(
    rows: Iterable[Row], environments: Mapping[int, Mapping[str, Any]], command: str, code: str | None
) -> MadeBy:
    used = {row.environment for row in rows if row.environment is not None}
    facts = [environments[number] for number in sorted(used)]
    versions = {
        package: sorted({str(one["packages"][package]) for one in facts if package in one["packages"]})
        for package in ("tiertune", "tiertune-engine")
    }
    builds = {one.get("backend", {}).get("engine digest") for one in facts} - {None}
    checkouts = [one["git"] for one in facts if one.get("git")]
    commits = {git["commit"] for git in checkouts}
    return MadeBy(
        tiertune=SEVERAL.join(versions["tiertune"]) or "unknown",
        engine=SEVERAL.join(versions["tiertune-engine"]) or "unknown",
        builds=sorted(builds),
        code=None if code is None else code[:CODE_DIGITS],
        commit=SEVERAL.join(sorted(commits)) or None,
        modified=any(git["modified"] for git in checkouts) if checkouts else None,
        command=command,
    )


def _round(value: float) -> float:
    return round(float(value), DIGITS)
