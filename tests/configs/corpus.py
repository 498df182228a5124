"""The corpus of right and wrong files: what there is, and how one is read.

Beside every wrong file lies what has to be said about it, `<name>.expected`, one sentence per line.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tiertune.machines.definition import load_machine
from tiertune.spaces.definition import load_space
from tiertune.tuner.campaign import load_campaign
from tiertune.tuner.claims.definition import load_claims
from tiertune.tuner.gallery.definition import load_gallery
from tiertune.tuner.nightly.suite import load_suite
from tiertune.tuner.sweep.definition import load_sweep
from tiertune.workloads.definition import load_workload

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path("tests/configs")
KINDS = ("campaign", "claims", "gallery", "machine", "space", "suite", "sweep", "workload")


def files(verdict: str, kind: str) -> list[Path]:
    """Files of `good` or `bad`, relative to the root of the checkout."""
    return sorted(path.relative_to(ROOT) for path in (ROOT / CORPUS / verdict / kind).glob("*.yaml"))


def load(kind: str, path: Path) -> Any:
    """Reads a file the way commands do."""
    loaders: dict[str, Callable[[str], Any]] = {
        "campaign": load_campaign,
        "machine": load_machine,
        "space": load_space,
        "claims": load_claims,
        "gallery": load_gallery,
        "suite": load_suite,
        "sweep": load_sweep,
        "workload": load_workload,
    }
    return loaders[kind](str(path))
