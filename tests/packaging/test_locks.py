"""The lock files name everything that is asked for, by hash, and nothing but a version and its hashes."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import metadata

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from tests.source_tree import ROOT

LOCKS = ("build", "fuzz", "run", "dev")
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+) \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")


def lines(lock: str) -> list[str]:
    text = (ROOT / "requirements" / f"{lock}.lock").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]


def pins(lock: str) -> dict[str, str]:
    """Version by canonical name."""
    found = [match for line in lines(lock) if (match := PIN.match(line))]
    return {canonicalize_name(match[1]): match[2] for match in found}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_only_pins_each_with_hashes(lock: str) -> None:
    content = lines(lock)
    assert content
    assert not [line for line in content if not PIN.match(line) and not HASH.match(line)]
    for line, after in zip(content, [*content[1:], ""], strict=True):
        if PIN.match(line):
            assert HASH.match(after), f"{line} has no hash"


@pytest.mark.parametrize("lock", ["run", "dev"])
def test_a_lock_satisfies_what_the_project_asks_for(lock: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [name for extra in project["optional-dependencies"].values() for name in extra]
    asked = project["dependencies"] + (extras if lock == "dev" else [])
    pinned = pins(lock)
    for requirement in map(Requirement, asked):
        if requirement.name == "tiertune-engine":
            continue  # built here, never fetched
        name = canonicalize_name(requirement.name)
        assert name in pinned, f"{name} is not locked: make lock"
        assert requirement.specifier.contains(pinned[name]), f"{requirement}: locked at {pinned[name]}"


def test_locked_packages_run_on_the_oldest_python() -> None:
    """Locks are made with a newer 3.11 than Debian 12 has, and pip-compile takes what runs on that."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = f"{project['requires-python'].removeprefix('>=')}.0"
    wanted = {
        name: metadata(name).json.get("requires_python") for lock in ("build", "dev") for name in pins(lock)
    }
    assert [
        name for name, python in wanted.items() if python and oldest not in SpecifierSet(str(python))
    ] == []


def test_the_locks_agree() -> None:
    dev = pins("dev")
    assert pins("run").items() <= dev.items()
    assert {name: dev.get(name, version) for name, version in pins("build").items()} == pins("build")


def test_every_crate_comes_from_the_registry_with_a_checksum() -> None:
    crates = tomllib.loads((ROOT / "engine/Cargo.lock").read_text(encoding="utf-8"))["package"]
    manifests = (path.read_text(encoding="utf-8") for path in (ROOT / "engine/crates").glob("*/Cargo.toml"))
    own = {tomllib.loads(manifest)["package"]["name"] for manifest in manifests}
    foreign = [crate for crate in crates if crate["name"] not in own]
    assert foreign
    for crate in foreign:
        assert crate["source"].startswith("registry+"), crate["name"]
        assert len(crate["checksum"]) == 64, crate["name"]
