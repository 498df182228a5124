"""The static programs as users have them; `make test-host` builds them first."""

from __future__ import annotations

from pathlib import Path

from tests.configs.corpus import ROOT


def program(name: str) -> Path:
    """Where tierd or tierload is."""
    path = ROOT / ".venv" / "bin" / name
    assert path.is_file(), f"`make {name}` builds {path}"
    return path
