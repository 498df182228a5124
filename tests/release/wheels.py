"""The wheels and the source archive: made, and looked into."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from tests.source_tree import LINKED_FOLDERS, ROOT


class WheelError(Exception):
    """An artefact that is not what its name says."""


def copy_sources(folder: Path) -> None:
    """What a build of the tuner needs, in `folder`: setuptools leaves `build/` beside its sources, and the
    next wheel would take it in."""
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, folder)
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("engine/python", *LINKED_FOLDERS):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignore)


def build_tuner(into: Path) -> list[Path]:
    """The source archive, and the wheel that is built from nothing but that archive."""
    with tempfile.TemporaryDirectory(prefix="tiertune-release-") as folder:
        copy_sources(Path(folder))
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(into), folder]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise WheelError(f"the tuner could not be built:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return sorted(into.glob("tiertune-*.whl")) + sorted(into.glob("tiertune-*.tar.gz"))


def oldest_glibc(wheel: Path) -> str:
    """The glibc that an engine's wheel needs at least, by its own symbols, such as 2.35.

    Raises WheelError where its tag promises an older one, or where it is not for every Python from 3.11 on.
    """
    match = re.search(r"-cp311-abi3-manylinux_(\d+)_(\d+)_\w+\.whl$", wheel.name)
    if match is None:
        raise WheelError(f"{wheel.name}: the tag is not cp311-abi3-manylinux_*")
    promised = (int(match[1]), int(match[2]))
    with tempfile.TemporaryDirectory(prefix="tiertune-release-") as folder, zipfile.ZipFile(wheel) as archive:
        libraries = [archive.extract(name, folder) for name in archive.namelist() if ".so" in name]
        needed = max(version for library in libraries for version in glibc_symbols(Path(library)))
    if needed > promised:
        raise WheelError(f"{wheel.name}: it links to symbols of glibc {needed[0]}.{needed[1]}")
    return f"{promised[0]}.{promised[1]}"


def glibc_symbols(library: Path) -> set[tuple[int, int]]:
    """Versions of glibc's symbols that a shared library links to."""
    done = subprocess.run(["readelf", "--version-info", library], capture_output=True, text=True, check=True)
    return {(int(a), int(b)) for a, b in re.findall(r"GLIBC_(\d+)\.(\d+)", done.stdout)}
