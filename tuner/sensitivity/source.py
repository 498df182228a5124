"""What a conclusion is read off: a sweep, or a campaign whose winners stand against their defaults."""

from __future__ import annotations

from pathlib import Path

from tiertune.files import InputError
from tiertune.machines.definition import Machine
from tiertune.tuner.journal import Journal
from tiertune.tuner.journal_files import stored_machine, stored_workload
from tiertune.tuner.sweep.axes import ConfigEntry, Contention, Part, Traffic
from tiertune.tuner.sweep.definition import Sweep, load_sweep
from tiertune.tuner.sweep.tuned import refuse_front
from tiertune.tuner.validation import beats_default
from tiertune.workloads.definition import Workload

TUNED = "tuned"
DEFAULT = "default"
SEEDS = (1, 2, 3)


def sweep_of(name: str, results: Path) -> tuple[Sweep, str | None]:
    """The sweep of a name, and for a campaign the claim that its winner beats the default.

    Sweeps come first, then campaigns of the results folder, of which cells are left out where the default is
    still the best that is known. Raises `InputError`, also where that leaves none.
    """
    journal = results / name / "journal.sqlite"
    try:
        return load_sweep(name), None
    except InputError:
        if not journal.is_file():
            raise
    return _of_campaign(name, journal)


def _of_campaign(name: str, path: Path) -> tuple[Sweep, str | None]:
    parts: list[Part] = []
    found_nothing = False
    systems: list[str] = []
    workloads: dict[str, Workload] = {}
    machines: dict[str, Machine] = {}
    with Journal(path, writer=False) as journal:
        claim = journal.claimed()
        refuse_front(claim, name)
        cells, generation = claim.document["cells"], claim.generation
        for key, cell in cells.items():
            rows = journal.rows(key, "search")
            # Of several searches of a cell the first counts, as elsewhere: the others are no scenarios.
            if not rows or key.rpartition("#")[0] in cells:
                continue
            trial = rows[0].trial
            if beats_default(journal, key, generation) is False:
                found_nothing = True
                continue
            scenario = trial.scenario
            workload, machine = stored_workload(cell["workload"]), stored_machine(cell["machine"])
            workloads[workload.name], machines[machine.name] = workload, machine
            systems.append(trial.system)
            traffic = [
                Traffic(tier=one.tier, read_gbps=one.read_gbps, write_gbps=one.write_gbps)
                for one in scenario.contention
            ]
            level = Contention(name="contention", traffic=traffic)
            parts.append(
                Part(
                    name=f"cell-{len(parts) + 1}",
                    systems=[trial.system],
                    configs=[ConfigEntry(name=DEFAULT), ConfigEntry(name=TUNED, campaign=name, cell=key)],
                    workloads=[workload.name],
                    machines=[machine.name],
                    ratios=[scenario.ratio],
                    threads=[scenario.threads] if scenario.threads else None,
                    contention=[level] if traffic else None,
                    page_sizes=[scenario.page_bytes],
                )
            )
    if not parts and found_nothing:
        text = "nothing that the campaign found beats the default, so that there is no conclusion to vary"
        raise InputError(f"{path}: {text}; name a sweep and what it is to say with --claim")
    if not parts:
        raise InputError(f"{path}: the campaign has no trials yet; run it first: tiertune tune {name}")
    sweep = Sweep(name=name, parts=parts, seeds=list(SEEDS), noise="paired")
    sweep._workloads, sweep._machines = workloads, machines
    first = systems[0]
    said = f"{first}/{TUNED} beats {first}/{DEFAULT}" if len(set(systems)) == 1 else None
    return sweep, said
