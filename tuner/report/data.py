"""From a journal to the whole report: a pure function, so that equal journals give equal reports."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from tiertune import __version__
from tiertune.tuner.backend import NOTES
from tiertune.tuner.cell_family import ADJUSTMENT, BY_THEMSELVES, chance_of, improved_together
from tiertune.tuner.host_facts import UNCOMMITTED
from tiertune.tuner.journal import Journal
from tiertune.tuner.journal_claim import Claim, codes_of
from tiertune.tuner.report.cell import build_cell
from tiertune.tuner.report.document import Cell, Fact, Report
from tiertune.tuner.search.notes import search_notes
from tiertune.tuner.search.objectives import objectives_of
from tiertune.tuner.trial import Objective, Scenario, Status
from tiertune.tuner.validation import Outcome, outcome, selection_ended

NOT_MEASURED = (
    "Real hardware: every number comes from the modelled machine; its file has the source of each figure.",
)

MEASURED_ON_HOSTS = (
    "Other hosts: cells with a table of hosts were measured on those alone, others on a modelled machine.",
)

OTHERS = (
    "Other inputs, ratios, thread counts and machines than those above: a tuned config may lose there.",
    "What the search left out: knobs that the campaign does not name kept their declared defaults.",
)

ROBUSTNESS = (
    "Whether the gain holds where the model is unsure: `tiertune sensitivity CAMPAIGN` measures it, and this"
    " report has it from then on."
)


def build_report(journal: Journal) -> Report:
    """The report on what `journal` holds, also while its campaign is still running.

    Raises JournalError where the journal is empty.
    """
    claim = journal.claimed()
    environments = journal.environments()
    live = claim.document["campaign"].get("live", ())
    cells = [
        report_cell(journal, claim, key, environments)
        for key in claim.document["cells"]
        if journal.rows(key, "search", before=1)
    ]
    judged = [_judged(journal, claim, cell) for cell in cells]
    complete = len(cells) == len(claim.document["cells"]) and all(
        _is_complete(journal, claim, *both) for both in zip(cells, judged, strict=True)
    )
    # What `sensitivity` measures is the one tuned configuration against the default.
    robustness = [] if objectives_of(claim.document["campaign"]) else [ROBUSTNESS]
    return Report(
        campaign=claim.name,
        description=_description(cells, len(live)),
        verdict=overall(cells, [chance_of(one) for one in judged]),
        complete=complete,
        cells=cells,
        environment=facts(list(environments.values()), claim),
        robustness=[],
        not_measured=[*(MEASURED_ON_HOSTS if live else NOT_MEASURED), *OTHERS, *robustness],
        reproduce=reproduction(claim, list(environments.values())),
    )


def overall(cells: Sequence[Cell], chances: Sequence[float]) -> str:
    """The sentence at the top. `chances` are the p of each cell's gain; a front is no single test, so that
    with two objectives nothing is adjusted."""
    if not cells:
        return "nothing was measured yet"
    if len(cells) == 1:
        return f"{cells[0].system} on {cells[0].workload}: {cells[0].verdict}"
    alone = [cell.outcome == "improved" and cell.effect is not None for cell in cells]
    together, how = improved_together(alone, chances), ADJUSTMENT
    if any(cell.front is not None for cell in cells):
        together, how = alone, BY_THEMSELVES
    improved = [cell for cell, shown in zip(cells, together, strict=True) if shown]
    by_themselves = f"; {sum(alone)} each by itself" if sum(alone) != len(improved) else ""
    if not improved:
        if not by_themselves:
            return f"no improvement found in {len(cells)} cells"
        return f"no improvement found in {len(cells)} cells, {how}{by_themselves}"
    validated = [cell for cell in cells if cell.outcome != "not-validated"]
    ratios = {cell.id: cell.effect.ratio for cell in validated if cell.effect is not None}
    best = max(improved, key=lambda cell: ratios[cell.id])
    return (
        f"{len(improved)} of {len(cells)} cells improved ({how}{by_themselves}),"
        f" {median(ratios.values()):.3f}x in the median cell; the most {best.system} on {best.workload}"
        f" ({best.machine}, {best.ratio}): {best.verdict}"
    )


def facts(environments: Sequence[Mapping[str, Any]], claim: Claim) -> list[Fact]:
    """Versions, commit and host of the trials; where they differ between trials, all values."""
    found: dict[str, list[str]] = {}
    for environment in environments:
        for name, value in _flat(environment):
            if not name.startswith(f"backend {NOTES}") and value not in found.setdefault(name, []):
                found[name].append(value)
    campaign = claim.document["campaign"]
    settings = [
        Fact(name="campaign seed", value=str(campaign["seed"])),
        Fact(name="optimiser", value=str(campaign["optimiser"]["name"])),
        Fact(name="started", value=claim.created_at),
        Fact(name="report by tiertune", value=__version__),
    ]
    return [
        *settings,
        *(Fact(name=name, value="; ".join(values)) for name, values in found.items() if values),
    ]


def reproduction(claim: Claim, environments: Sequence[Mapping[str, Any]]) -> list[str]:
    """Commands that make this report again from nothing."""
    target = "demo" if claim.name == "demo" else f"tune results/{claim.name}/campaign.yaml"
    checkouts = [environment.get("git", {}) for environment in environments]
    notes, options = python_policies(codes_of(claim))
    return [*checkout(checkouts), *notes, f".venv/bin/tiertune {target} --results results-again{options}"]


def python_policies(codes: Iterable[str]) -> tuple[list[str], str]:
    """What commands need that run policies written in Python: which files, by their digests, and options."""
    files = {f"policy-{code[:8]}.py": code for code in sorted(set(codes))}
    notes = [f"# {file}: the policy written in Python whose SHA-256 is {files[file]}" for file in files]
    return notes, "".join(f" --policy-file {file}" for file in files)


def checkout(checkouts: Sequence[Mapping[str, Any]]) -> list[str]:
    """Commands that bring back the program of trials, by the commits that they ran at (`git_facts`)."""
    lines = []
    commits = {str(facts.get("commit", "")) for facts in checkouts} - {""}
    if len(commits) == 1:
        lines.append(f"git checkout {commits.pop()}")
    elif commits:
        lines.append(f"# its trials ran at several commits: {', '.join(sorted(commits))}")
    if any(facts.get("modified") for facts in checkouts):
        lines.append(f"# the checkout had {UNCOMMITTED}")
    return [*lines, "make setup"]


def report_cell(
    journal: Journal, claim: Claim, key: str, environments: Mapping[int, Mapping[str, Any]]
) -> Cell:
    """One cell, of which at least one trial has to be there."""
    contents = claim.document["cells"][key]
    first = journal.rows(key, "search", before=1)[0]
    metric = contents["workload"]["metric"]
    notes = search_notes(journal, claim, key)
    notes += _notes(environments.get(first.environment or 0, {}), first.trial.scenario)
    return build_cell(
        journal,
        key,
        first.trial.scenario,
        first.trial.system,
        contents["workload"]["name"],
        contents["machine"]["name"],
        Objective(metric["name"], metric["direction"]),
        generation=claim.generation,
        budget_trials=int(claim.document["campaign"]["budget"]["trials"]),
        threads=first.trial.scenario.threads or int(contents["workload"]["threads"]),
        searched=[name for name, knob in contents["space"]["knobs"].items() if knob.get("fixed") is None],
        notes=notes,
        live=key in claim.document["campaign"].get("live", ()),
    )


def _notes(environment: Mapping[str, Any], scenario: Scenario) -> list[str]:
    text = environment.get("backend", {}).get(NOTES + scenario.key, "")
    return [line for line in str(text).splitlines() if line]


def _judged(journal: Journal, claim: Claim, cell: Cell) -> Outcome:
    objective = Objective(cell.metric.name, cell.metric.direction or "minimize")
    return outcome(journal, cell.id, objective, claim.generation)


def _is_complete(journal: Journal, claim: Claim, cell: Cell, judged: Outcome) -> bool:
    """Whether nothing is left to run; without a winner, that is so after the search or the selection."""
    stopped = journal.stopped(cell.id, claim.generation)
    if len(cell.search) < (cell.budget_trials if stopped is None else stopped[0]):
        return False
    if not all(Status(trial.status).finished for trial in cell.search):
        return False
    return judged.complete or (judged.winner is None and selection_ended(journal, cell.id, claim.generation))


def _description(cells: Sequence[Cell], live: int) -> str:
    if not cells:
        return ""
    systems = sorted({cell.system for cell in cells})
    workloads = sorted({cell.workload for cell in cells})
    where = "a modelled machine"
    if live:
        where = "real hosts" if live == len(cells) else "real hosts and on a modelled machine"
    return f"Tuned {', '.join(systems)} for {', '.join(workloads)} on {where}."


def _flat(document: Mapping[str, Any], name: str = "") -> list[tuple[str, str]]:
    """Leaves of a nested mapping with their path in words; switches as yes and no."""
    leaves: list[tuple[str, str]] = []
    for key, value in document.items():
        path = f"{name} {key}".strip()
        if isinstance(value, Mapping):
            leaves += _flat(value, path)
        elif isinstance(value, bool):
            leaves.append((path, "yes" if value else "no"))
        elif value not in (None, ""):
            leaves.append((path, str(value)))
    return leaves
