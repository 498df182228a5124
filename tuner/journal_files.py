"""Workloads and machines as a journal holds them, read back as the files that they were."""

from __future__ import annotations

from typing import Any

from tiertune.machines.definition import (
    FIGURES_WITH_DEFAULTS,
    MACHINE_FIGURES,
    TIER_FIGURES,
    TIER_FIGURES_OF_SOME,
    Machine,
)
from tiertune.workloads.definition import Workload
from tiertune.workloads.secret import clear_secrets

SAID = "as the journal of the campaign holds it"


def stored_workload(document: dict[str, Any]) -> Workload:
    """A workload as a journal holds it: by the names of fields, with all that was not given."""
    given = _given(document)
    for part in ("host", "upstream"):
        # Versions that took secrets in the clear have stored them; nothing runs live from here.
        environment = given.get(part, {}).get("environment", {})
        for (_, name), _ in list(clear_secrets(environment)):
            del environment[name]
    if "streams" in given["sim"]:
        given["sim"] = {"streams": given["sim"]["streams"]}
    return Workload.model_validate(given, by_alias=True, by_name=True)


def stored_machine(document: dict[str, Any]) -> Machine:
    """A machine as a journal holds it: without its sources."""
    given = _given(document)
    figures = (*MACHINE_FIGURES, *FIGURES_WITH_DEFAULTS)
    given["sources"] = {figure: SAID for figure in figures if figure in given}
    for tier in given["tiers"]:
        names = (*TIER_FIGURES, *TIER_FIGURES_OF_SOME)
        tier["sources"] = {figure: SAID for figure in names if figure in tier}
    return Machine.model_validate(given)


def _given(document: Any) -> Any:
    """Plain data without what is null."""
    if isinstance(document, dict):
        return {key: _given(value) for key, value in document.items() if value is not None}
    return [_given(value) for value in document] if isinstance(document, list) else document
