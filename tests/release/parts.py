"""What a release consists of or needs: Python packages, and crates that are linked into the binaries."""

from __future__ import annotations

import json
import platform
import subprocess
import tomllib
from importlib import metadata
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.release.licences import Part
from tests.source_tree import ROOT

SHIPPED = ("tiertune-python", "tierd", "tierload")
"""Crates that become files of a release."""
EXTRAS = ("fleet", "ui")
MANIFEST = ROOT / "engine/Cargo.toml"


def python_parts() -> list[Part]:
    """Everything that installing tiertune with its extras brings, as it is installed here, sorted by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    asked = [*project["dependencies"], *(n for e in EXTRAS for n in project["optional-dependencies"][e])]
    waiting = [Requirement(text) for text in asked if not text.startswith("tiertune-engine")]
    found: dict[str, Part] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        told = metadata.distribution(name)
        needs = [need for text in told.requires or () if _applies(need := Requirement(text), extras)]
        waiting += needs
        before = found[name].needs if name in found else ()
        below = tuple(sorted({*before, *(canonicalize_name(need.name) for need in needs)}))
        found[name] = Part(name, told.version, _written(told.metadata), needs=below)
    return [found[name] for name in sorted(found)]


def _applies(requirement: Requirement, extras: frozenset[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in (extras or {""}))


def _written(told: Any) -> tuple[str, ...]:
    """Expression, then all classifiers together, then the first line of the field for free text."""
    classifiers = [
        word
        for word in told.get_all("Classifier") or ()
        if word.startswith("License ::") and word != "License :: OSI Approved"
    ]
    free = (told.get("License") or "").strip().splitlines()[:1]
    candidates = [told.get("License-Expression") or "", " && ".join(classifiers), *free]
    return tuple(text for text in candidates if text)


def crates() -> dict[str, Any]:
    """What `cargo metadata` says for this processor, from the lock and without the network."""
    target = f"{platform.machine()}-unknown-linux-gnu"
    command = ["cargo", "metadata", "--manifest-path", str(MANIFEST), "--locked", "--offline"]
    command += ["--format-version", "1", "--filter-platform", target]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def rust_parts(document: dict[str, Any]) -> list[Part]:
    """Crates that are linked into what is shipped, those that only build or test it left out; and what the
    compiler and the C library add to static programs."""
    packages = {package["id"]: package for package in document["packages"]}
    nodes = {node["id"]: node for node in document["resolve"]["nodes"]}
    waiting = [identity for identity, package in packages.items() if package["name"] in SHIPPED]
    linked: dict[str, list[str]] = {}
    while waiting:
        identity = waiting.pop()
        if identity in linked:
            continue
        linked[identity] = [
            below["pkg"]
            for below in nodes[identity]["deps"]
            if any(k["kind"] is None for k in below["dep_kinds"])
        ]
        waiting += linked[identity]
    checksums = _checksums()
    parts = [
        Part(
            packages[identity]["name"],
            packages[identity]["version"],
            (packages[identity]["license"] or "",),
            checksums.get((packages[identity]["name"], packages[identity]["version"]), ""),
            tuple(sorted(packages[need]["name"] for need in needs)),
        )
        for identity, needs in linked.items()
    ]
    return sorted([*parts, *_toolchain()], key=lambda part: (part.name, part.version))


def _checksums() -> dict[tuple[str, str], str]:
    lock = tomllib.loads((ROOT / "engine/Cargo.lock").read_text(encoding="utf-8"))
    return {(crate["name"], crate["version"]): crate.get("checksum", "") for crate in lock["package"]}


def _toolchain() -> list[Part]:
    said = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout.split()[
        1
    ]
    return [
        Part("rust-std", said, ("MIT OR Apache-2.0",)),
        Part("glibc", platform.libc_ver()[1], ("LGPL-2.1-or-later",)),
    ]
