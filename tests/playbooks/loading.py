"""Modules and filters of the playbooks, which are no package."""

from __future__ import annotations

import importlib.util
from types import ModuleType

from tests.source_tree import ROOT


def loaded(name: str) -> ModuleType:
    """A module or filter by its path below `playbooks`, without `.py`."""
    path = ROOT / "playbooks" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
