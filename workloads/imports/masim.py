"""Configurations of masim: as they say what to execute, they become a workload of our kernel."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tiertune.files import InputError
from tiertune.workloads.imports.lines import BadLine, lines_of
from tiertune.workloads.measured import default_name

MOST_BYTES = 2**20
LEAST_LLC_BYTES = 2**20


def read_masim(path: Path) -> dict[str, Any]:
    """A workload file's content that runs the configuration; raises `InputError` with the line."""
    from tiertune.engine import EngineError, plan

    try:
        text = "\n".join(line for _, line in lines_of(path)) + "\n"
    except BadLine as error:
        raise InputError(f"{path}:{error.number}: {error}") from None
    if len(text) > MOST_BYTES:
        raise InputError(f"{path}: larger than {MOST_BYTES >> 20} MiB; this is no configuration of masim")
    if "\0" in text:
        number = text[: text.index("\0")].count("\n") + 1
        raise InputError(f"{path}:{number}: a zero byte; this is no configuration of masim")
    request = {"kernel": "masim", "accesses_per_ms": 1000, "seed": 1, "config": text}
    try:
        plan(request, {"page_bytes": 2 * 2**20, "runs": 1}, LEAST_LLC_BYTES)
    except EngineError as error:
        found = re.search(r"line (\d+): (.*)", str(error), re.DOTALL)
        where, what = (f":{found[1]}", found[2]) if found else ("", str(error))
        raise InputError(f"{path}{where}: {what}") from error
    return {
        "name": default_name(path),
        "version": 1,
        "description": f"The configuration {path.name} of masim",
        "source": "a configuration of masim",
        "metric": {"name": "throughput_mops", "direction": "maximize"},
        "threads": 1,
        "sim": {
            "record": request,
            "carry": {"llc_bytes": "from-machine", "runs": 1},
        },
    }
