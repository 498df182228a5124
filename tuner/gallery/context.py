"""The context of an entry, ready to be run in again: workload and machine as their files are today."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tiertune.files import InputError
from tiertune.machines.definition import load_machine
from tiertune.tuner.gallery.definition import Entry
from tiertune.tuner.gallery.lookup import differences
from tiertune.tuner.journal import Journal
from tiertune.tuner.transfer.context import Context, complete
from tiertune.tuner.transfer.traits import ALONE, traits_of
from tiertune.tuner.trial import Contention, Scenario
from tiertune.workloads.definition import load_workload

_FILES = {"program": "workload", "input": "workload"}
_NUMBER = r"(\d+(?:\.\d+)?(?:e[-+]?\d+)?)"
_TRAFFIC = re.compile(rf"tier(\d+):r{_NUMBER}w{_NUMBER}")


class NotAtHand(Exception):
    """Why the context of an entry cannot be run in here, as a clause."""


def context_of(entry: Entry, system: str, results: Path) -> Context:
    """The context with what was tuned in it. Raises `NotAtHand` where a file is missing or no longer what it
    was."""
    why = ""
    for scenario in _scenarios(entry, results):
        try:
            workload, machine = load_workload(scenario.workload), load_machine(scenario.machine)
        except InputError as error:
            why = why or str(error)
            continue
        traits = traits_of(workload, machine, scenario)
        apart = differences(entry.traits, traits)
        if traits != entry.traits:
            files = dict.fromkeys(_FILES.get(one.part, one.part) for one in apart)
            why = "figures of its context are no longer what they were"
            if files:
                why = f"the {' and the '.join(files)} has changed since"
            continue
        found = entry.knobs
        if entry.validation is not None and entry.validation.knobs is not None:
            found = entry.validation.knobs
        tuned = complete(system, found)
        return Context(
            campaign=entry.campaign,
            cell=entry.cell,
            seed=entry.seed,
            scenario=scenario,
            system=system,
            space=entry.space,
            workload=workload,
            machine=machine,
            tuned=tuned,
            improved=entry.outcome == "improved",
            finalists=(tuned,),
            used_seeds=frozenset(),
        )
    raise NotAtHand(why)


def _scenarios(entry: Entry, results: Path) -> Iterator[Scenario]:
    """As the campaign had it, where its journal is here, which knows the files' places; else by names."""
    path = results / entry.campaign / "journal.sqlite"
    if path.is_file():
        with Journal(path, writer=False) as journal:
            rows = journal.rows(entry.cell, "search")
        if rows:
            yield rows[0].trial.scenario
    told = "" if entry.likeness.co_runners == ALONE else entry.likeness.co_runners
    traffic = [
        Contention(int(tier), float(read), float(write)) for tier, read, write in _TRAFFIC.findall(told)
    ]
    yield Scenario(entry.workload, entry.machine, entry.ratio, entry.threads, entry.page_size, tuple(traffic))
