"""The file in which a scheduler of Dask says where it is; it is there for a moment before its text is."""

from __future__ import annotations

import json
from pathlib import Path


def address_in(path: Path) -> str:
    """The scheduler's address, empty until it is written whole."""
    try:
        address: str = json.loads(path.read_text())["address"]
    except (FileNotFoundError, json.JSONDecodeError):
        return ""
    return address
