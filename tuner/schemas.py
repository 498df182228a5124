"""JSON Schemas of the files people write."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from tiertune.files import InputError
from tiertune.machines.definition import Machine
from tiertune.nearest import nearest
from tiertune.spaces.definition import Space
from tiertune.tuner.campaign import Campaign
from tiertune.tuner.claims.definition import Claims
from tiertune.tuner.gallery.definition import Gallery
from tiertune.tuner.nightly.suite import Suite
from tiertune.tuner.sweep.definition import Sweep
from tiertune.workloads.definition import Workload

MODELS: dict[str, type[BaseModel]] = {
    "campaign": Campaign,
    "claims": Claims,
    "gallery": Gallery,
    "machine": Machine,
    "space": Space,
    "suite": Suite,
    "sweep": Sweep,
    "workload": Workload,
}


def schema_for(kind: str) -> dict[str, Any]:
    """JSON Schema of a kind of file, a key of `MODELS`; `InputError` for another word."""
    if kind not in MODELS:
        raise InputError(f"there is no kind of file '{kind}'; did you mean '{nearest(kind, MODELS)}'?")
    return MODELS[kind].model_json_schema()
