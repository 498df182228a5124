"""Whether a comparison is one: equal budgets, seeds and versions, read from the journals and not assumed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tiertune.tuner.backend import NOTES
from tiertune.tuner.comparison.measured import Journals
from tiertune.tuner.comparison.references import again_cell, yardstick_cell
from tiertune.tuner.host_facts import UNCOMMITTED
from tiertune.tuner.journal import Row
from tiertune.tuner.plan import CampaignPlan
from tiertune.tuner.sweep.row import YARDSTICKS

MOST_NAMED = 3


@dataclass(frozen=True)
class Check:
    """One condition of a fair comparison. `found` says what differs, or what is equal; a remark voids
    nothing."""

    name: str
    holds: bool
    found: str
    remark: bool = False


def checks(plan: CampaignPlan, journals: Journals) -> list[Check]:
    """All conditions, those that fail included. The comparison is void where one fails that is no remark."""
    return [
        _budgets(plan, journals),
        _search_seeds(plan, journals),
        *_validation_seeds(plan, journals),
        _held_back(plan, journals),
        _conditions(plan, journals),
        *_versions(journals),
        _repeated(plan, journals),
    ]


def _budgets(plan: CampaignPlan, journals: Journals) -> Check:
    wrong = []
    for cell in plan.cells:
        ended = [row for row in journals.search.get(cell.key, []) if row.status.finished]
        short = sum(row.trial.fidelity < 1.0 for row in ended)
        if len(ended) != plan.trials:
            wrong.append(f"{cell.key} has {len(ended)}")
        elif short:
            wrong.append(f"{cell.key} has {short} shortened ones")
    fine = f"{len(plan.cells)} searches of {plan.trials} trials each, failed ones included"
    return _check("equal budgets", wrong, fine, f"searches without exactly {plan.trials} whole trials")


def _search_seeds(plan: CampaignPlan, journals: Journals) -> Check:
    """Trial by trial, all contenders of a scenario searched on the same seeds.

    Which trials are races is up to each search; these run on seeds that are shared by all, in their order.
    """
    first: dict[tuple[str, int], tuple[str, dict[int, int]]] = {}
    races: dict[tuple[str, int], list[int]] = {}
    wrong = []
    for cell in plan.cells:
        rows = journals.search.get(cell.key, [])
        place = cell.scenario.key, cell.search
        seeds = {row.trial.number: row.trial.seed for row in rows if row.trial.origin != "race"}
        raced = list(dict.fromkeys(row.trial.seed for row in rows if row.trial.origin == "race"))
        name, wanted = first.setdefault(place, (cell.key, {}))
        differ = any(wanted.setdefault(number, seed) != seed for number, seed in seeds.items())
        known = races.setdefault(place, [])
        differ |= any(a != b for a, b in zip(raced, known, strict=False))
        known += raced[len(known) :]
        if differ:
            wrong.append(f"{cell.key} searched on other seeds than {name}")
    fine = "trial by trial the same for all systems of a scenario; each search has its own"
    return _check("equal seeds of the search", wrong, fine, "searches on other seeds")


def _validation_seeds(plan: CampaignPlan, journals: Journals) -> Iterable[Check]:
    for purpose, rows_of in (("selection", journals.selection), ("validation", journals.validation)):
        first: dict[str, tuple[str, set[int]]] = {}
        wrong = []
        for cell in plan.cells:
            rows = rows_of.get(cell.key, [])
            seeds = {row.trial.seed for row in rows}
            if not seeds:
                continue  # no configuration worked, so none was judged
            name, wanted = first.setdefault(cell.scenario.key, (cell.key, seeds))
            if seeds != wanted:
                wrong.append(f"{cell.key} has other seeds than {name}")
            for origin in ("default", "winner") if purpose == "validation" else ():
                ran = sorted(row.trial.seed for row in rows if row.trial.origin == origin)
                if ran != sorted(seeds):
                    wrong.append(f"{cell.key} did not run {origin} once on every seed")
        if purpose == "validation":
            wrong += _yardstick_seeds(plan, journals, first)
        fine = "the same for all systems and searches of a scenario"
        fine += ", and for the yardsticks" if purpose == "validation" else ""
        yield _check(f"equal seeds of the {purpose}", wrong, fine, "cells on other seeds")


def _yardstick_seeds(
    plan: CampaignPlan, journals: Journals, wanted: Mapping[str, tuple[str, set[int]]]
) -> list[str]:
    wrong = []
    for scenario in dict.fromkeys(cell.scenario for cell in plan.cells):
        seeds = wanted.get(scenario.key, ("", set()))[1]
        for system in YARDSTICKS:
            name = yardstick_cell(scenario, system)
            if {row.trial.seed for row in journals.references.get(name, [])} != seeds:
                wrong.append(f"{name} has other seeds than the systems")
    return wrong


def _held_back(plan: CampaignPlan, journals: Journals) -> Check:
    """Validation is on seeds that played no part in search or selection, and no default meets itself."""
    wrong = []
    seen: dict[str, set[int]] = {}
    for cell in plan.cells:
        for rows in (journals.search, journals.selection):
            seen.setdefault(cell.scenario.key, set()).update(r.trial.seed for r in rows.get(cell.key, []))
    for cell in plan.cells:
        fresh = {row.trial.seed for row in journals.validation.get(cell.key, [])}
        again = {row.trial.seed for row in journals.references.get(again_cell(cell), [])}
        if fresh & seen[cell.scenario.key]:
            wrong.append(f"{cell.key} was validated on seeds of a search")
        if again & (fresh | seen[cell.scenario.key]):
            wrong.append(f"{cell.key} is compared with itself on a seed of its own")
    fine = "no validation seed was part of a search or selection"
    return _check("validation held back", wrong, fine, "seeds used twice")


def _conditions(plan: CampaignPlan, journals: Journals) -> Check:
    """Every trial ran what its cell says: scenario, system, full length, and paired noise where judged."""
    wrong = []
    for cell in plan.cells:
        rows = [r for kind in (journals.search, journals.selection) for r in kind.get(cell.key, [])]
        judged = journals.validation.get(cell.key, [])
        for row in [*rows, *judged]:
            if row.trial.scenario != cell.scenario or row.trial.system != cell.system:
                wrong.append(f"{row.trial.key} ran {row.trial.system} in {row.trial.scenario.key}")
        for row in judged:
            if row.trial.fidelity != 1.0 or row.trial.noise != "paired":
                wrong.append(
                    f"{row.trial.key} is of fidelity {row.trial.fidelity:g}, {row.trial.noise} noise"
                )
            if row.trial.origin == "default" and row.trial.config != cell.default:
                wrong.append(f"{row.trial.key} is called default and is not")
    fine = "every trial ran in its cell's scenario; judged runs at full length, noise paired by seed"
    return _check("equal conditions", wrong, fine, "trials under other conditions")


def _versions(journals: Journals) -> Iterable[Check]:
    """Engine, packages and commit are the same for every trial; the host may differ and is remarked on."""
    used: list[Mapping[str, Any]] = []
    nameless = 0
    for rows, environments in (
        (_rows(journals.search, journals.selection, journals.validation), journals.environments),
        (_rows(journals.references), journals.reference_environments),
    ):
        identities = {row.environment for row in rows}
        nameless += sum(identity not in environments for identity in identities)
        used += [environments[i] for i in identities if i is not None and i in environments]
    software = [_software(environment) for environment in used]
    names = dict.fromkeys(name for facts in software for name in facts)
    wrong = ["trials without a recorded environment"] if nameless else []
    for name in names:
        # What was scaled in a scenario is only told by runs that had prepared it.
        optional = name.startswith(f"backend {NOTES}")
        values = sorted({facts.get(name, "nothing") for facts in software if name in facts or not optional})
        if len(values) > 1:
            wrong.append(f"{name}: {' and '.join(_short(value) for value in values)}")
    engine = software[0].get("backend engine", "unknown") if software else "unknown"
    commit = software[0].get("git commit", "") if software else ""
    fine = f"one engine ({engine}), one set of packages" + (f", commit {commit}" if commit else "")
    yield _check("equal versions", wrong, fine, "versions that differ between trials")
    hosts = {str(environment.get("host", {}).get("name", "?")) for environment in used}
    said = f"all trials ran on {hosts.pop()}" if len(hosts) == 1 else f"trials ran on {len(hosts)} hosts"
    yield Check("one host", not hosts, said, remark=True)
    modified = any(environment.get("git", {}).get("modified") for environment in used)
    said = f"the checkout had {UNCOMMITTED}" if modified else "no uncommitted changes"
    yield Check("a commit that can be checked out", not modified, said, remark=True)


def _software(environment: Mapping[str, Any]) -> dict[str, str]:
    """What must not differ, by name: packages, commit, and all that the backend says of itself."""
    found = {"git commit": str(environment.get("git", {}).get("commit", ""))[:12]}
    found["python"] = str(environment.get("host", {}).get("python", ""))
    for part in ("packages", "backend"):
        found |= {f"{part} {name}": str(value) for name, value in environment.get(part, {}).items()}
    return found


def _repeated(plan: CampaignPlan, journals: Journals) -> Check:
    """Every search measures the default again on the same seeds: how far the runs agree."""
    values: dict[tuple[str, str, int], set[float]] = {}
    for cell in plan.cells:
        for row in journals.validation.get(cell.key, []):
            if row.trial.origin == "default" and row.cost is not None:
                key = (cell.scenario.key, cell.contender, row.trial.seed)
                values.setdefault(key, set()).add(row.cost)
    apart = sum(len(some) > 1 for some in values.values())
    said = f"{len(values)} defaults measured again on the same seed: "
    said += "all bit-equal" if not apart else f"{apart} differ, so runs are not deterministic"
    return Check("runs can be repeated", not apart, said, remark=True)


def _rows(*groups: Mapping[str, list[Row]]) -> list[Row]:
    return [row for group in groups for rows in group.values() for row in rows]


def _check(name: str, wrong: list[str], fine: str, what: str) -> Check:
    if not wrong:
        return Check(name, True, fine)
    more = f"; and {len(wrong) - MOST_NAMED} more" if len(wrong) > MOST_NAMED else ""
    return Check(name, False, f"{what}: {'; '.join(wrong[:MOST_NAMED])}{more}")


def _short(value: str) -> str:
    return value if len(value) <= 60 else f"{value[:57]}..."
