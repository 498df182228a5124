"""One version and one oldest Rust, wherever they are written."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from typing import Any

import tiertune
from tests.source_tree import ROOT


def toml(path: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))


def test_every_part_has_the_same_version() -> None:
    project = toml("pyproject.toml")["project"]
    wanted = project["version"]
    crates = [entry for entry in toml("engine/Cargo.lock")["package"] if "source" not in entry]
    assert len(crates) == len(list((ROOT / "engine/crates").glob("*/Cargo.toml")))
    assert {entry["version"] for entry in crates} == {wanted}
    assert toml("engine/Cargo.toml")["workspace"]["package"]["version"] == wanted
    assert f"tiertune-engine=={wanted}" in project["dependencies"]
    assert tiertune.__version__ == wanted
    assert version("tiertune") == wanted
    assert version("tiertune-engine") == wanted


def test_the_oldest_rust_is_the_same_everywhere() -> None:
    wanted = toml("engine/Cargo.toml")["workspace"]["package"]["rust-version"]
    assert toml("engine/clippy.toml")["msrv"] == wanted
    script = (ROOT / ".ci/prerequisites").read_text(encoding="utf-8")
    assert re.findall(r"^rust_needed=(\S+)$", script, re.MULTILINE) == [wanted]


def test_the_oldest_python_is_the_same_everywhere() -> None:
    project = toml("pyproject.toml")
    assert project["project"]["requires-python"] == ">=3.11"
    assert project["tool"]["mypy"]["python_version"] == "3.11"
    assert project["tool"]["ruff"]["target-version"] == "py311"
    assert toml("engine/crates/python/pyproject.toml")["project"]["requires-python"] == ">=3.11"
    assert "abi3-py311" in toml("engine/Cargo.toml")["workspace"]["dependencies"]["pyo3"]["features"]
