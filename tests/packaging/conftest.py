"""The wheel of the Python part, built once a test process, and the same wheel unpacked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.release.wheels import copy_sources


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the checkout's files in a copy."""
    source = tmp_path_factory.mktemp("source")
    copy_sources(source)
    built = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", built, source)
    (found,) = built.iterdir()
    return found


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds what the wheel installs, apart from the checkout and its environment."""
    target = tmp_path_factory.mktemp("installed")
    pip("install", "--no-index", "--no-deps", "--target", target, wheel)
    return target


def pip(*arguments: str | Path) -> None:
    """Run pip of this environment; what it says comes with the failure."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
