"""The static programs: that they are static, and of which version."""

from __future__ import annotations

import subprocess
from pathlib import Path


class BinaryError(Exception):
    """A program that is not what a release says of it."""


def check(program: Path, version: str) -> None:
    """Raises BinaryError unless `program` needs no shared library and says that it is of `version`."""
    headers = subprocess.run(["readelf", "-ld", program], capture_output=True, text=True)
    if headers.returncode:
        raise BinaryError(f"{program}: no program ({headers.stderr.strip()})")
    if "INTERP" in headers.stdout or "(NEEDED)" in headers.stdout:
        raise BinaryError(f"{program}: it is not static")
    said = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split()
    if said[-1:] != [version]:
        raise BinaryError(
            f"{program}: it says version {' '.join(said) or 'nothing'}, not {version}; `make setup`"
        )
