"""Which pages default and tuned read and where these are, over time: the two runs, simulated again."""

from __future__ import annotations

from threading import Lock
from typing import Any

from tiertune.engine import EngineError
from tiertune.files import InputError
from tiertune.tuner.explorer.folder import Results
from tiertune.tuner.explorer.view import opened
from tiertune.tuner.journal_files import stored_machine, stored_workload
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.trial import Trial, fingerprint
from tiertune.tuner.validation import outcome

NOBODY_SEES = "This cell ran on real hosts, where nobody sees every page."
BINS = 128
MOMENTS = 80
MOST_KEPT = 8
"""Pairs of maps that are kept, so that a reload does not simulate."""

_kept: dict[str, dict[str, dict[str, Any]]] = {}
_mutex = Lock()
"""Pages are made in several threads."""


def page_maps(results: Results, campaign: str, number: str) -> dict[str, dict[str, Any]]:
    """The maps of `default` and `tuned` on the first validation seed. Raises InputError where there are none:
    before validation, for cells of real hosts, and where the recorded profile is gone; EngineError where the
    engine cannot do it."""
    with opened(results, campaign, number) as cell:
        judged = outcome(cell.journal, cell.key, cell.objective, cell.claim.generation)
        live = cell.live
        contents = cell.contents
    if live:
        raise InputError(NOBODY_SEES)
    if not judged.winner_rows:
        raise InputError("There is nothing to compare before validation.")
    trials = {"default": judged.default_rows[0].trial, "tuned": judged.winner_rows[0].trial}
    key = fingerprint(
        contents["workload"], contents["machine"], [_identity(trial) for trial in trials.values()]
    )
    found = _kept.get(key)
    if found is not None:
        return found
    workload, machine = stored_workload(contents["workload"]), stored_machine(contents["machine"])
    backend = SimBackend(results.path / "profiles", lambda _: workload, lambda _: machine)
    backend.prepare(trials["default"].scenario, _not_recorded)
    try:
        made = {role: backend.page_map(trial, BINS, MOMENTS) for role, trial in trials.items()}
    except EngineError as error:
        if "page_map" not in str(error):
            raise
        raise InputError(
            "This engine is older than page maps; `make setup` builds the present one."
        ) from error
    with _mutex:
        while len(_kept) >= MOST_KEPT:
            _kept.pop(next(iter(_kept)))
        _kept[key] = made
    return made


def _identity(trial: Trial) -> list[Any]:
    return [trial.scenario.document(), trial.system, trial.config, trial.seed, trial.noise]


def _not_recorded(text: str) -> None:
    """Looking must not take minutes, nor write into the results."""
    raise InputError(
        "The recorded profile of this workload is not in this results folder, and looking records none:"
        f" {text}. `tiertune run` or `tiertune tune` does."
    )
