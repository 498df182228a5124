"""Files of other tools, good and bad, by importer; bad ones stand beside what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiertune.workloads.imports.damon import read_damon
from tiertune.workloads.imports.masim import read_masim
from tiertune.workloads.imports.perf import read_perf
from tiertune.workloads.measured import Sightings

ROOT = Path(__file__).parent / "corpus"

READERS: dict[str, Callable[[Path], Sightings | dict[str, Any]]] = {
    "perf-script": lambda path: read_perf(path, 2003 if path.stem == "without-period" else None),
    "damon": read_damon,
    "masim": read_masim,
}
"""Importers by the names that `tiertune profile import --from` knows."""


def files(side: str) -> list[tuple[str, Path]]:
    """Importer and file of everything that is `good` or `bad`."""
    return [(kind, path) for kind in READERS for path in sorted((ROOT / kind / side).glob("*.txt"))]
