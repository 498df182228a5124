"""Where and with what a trial ran: host, versions, commit. Only what stays the same while a campaign runs."""

from __future__ import annotations

import functools
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from tiertune.arithmetic import arithmetic_facts

PACKAGES = (
    "tiertune",
    "tiertune-engine",
    "smac",
    "ConfigSpace",
    "scikit-learn",
    "numpy",
    "scipy",
    "mlflow",
    "pyarrow",
)

# What reports say of a checkout where `git_facts` found changes.
UNCOMMITTED = "uncommitted changes, which its commit does not hold"


@functools.cache
def environment_facts() -> dict[str, Any]:
    """Host, operating system, package versions, git commit and instructions used, as plain data."""
    import psutil

    memory = psutil.virtual_memory()
    return {
        "host": {
            "name": platform.node(),
            "processor": _processor(),
            "cores": psutil.cpu_count(logical=False) or 0,
            "threads": psutil.cpu_count() or 0,
            "usable_threads": len(psutil.Process().cpu_affinity() or []),
            "memory_bytes": memory.total,
            "swap_bytes": psutil.swap_memory().total,
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "packages": {name: _version(name) for name in PACKAGES},
        "arithmetic": arithmetic_facts(),
        "git": git_facts(Path(__file__).resolve().parent),
    }


def git_facts(folder: Path) -> dict[str, Any]:
    """Commit of the checkout that holds `folder` and whether it has uncommitted changes; empty outside a
    checkout."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return {}
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "modified": bool(changes)}


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        ran = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return ran.stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
