"""Everything that a release consists of, in one folder."""

from __future__ import annotations

import hashlib
import platform
import shutil
import tomllib
from pathlib import Path

from tests.release import binaries
from tests.release.bill import bill
from tests.release.licences import check, rules
from tests.release.parts import crates, python_parts, rust_parts
from tests.release.wheels import WheelError, build_tuner, oldest_glibc
from tests.source_tree import ROOT

PROGRAMS = ("tierd", "tierload")
SUMS = "SHA256SUMS"


def release(dist: Path, venv: Path) -> str:
    """Everything that a release consists of, in `dist`, which is emptied first. Returns the oldest glibc.

    The engine's wheel and the programs are those that `venv` has, where `make` puts them.
    """
    version = str(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])
    by = rules()
    python, rust = python_parts(), rust_parts(crates())
    check([*python, *rust], by)
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir(parents=True)
    wheels = list((venv / "wheels").glob(f"tiertune_engine-{version}-*.whl"))
    if len(wheels) != 1:
        raise WheelError(f"{venv / 'wheels'}: there is no wheel of the engine {version}; `make setup`")
    glibc = oldest_glibc(wheels[0])
    shutil.copy2(wheels[0], dist)
    build_tuner(dist)
    for program in PROGRAMS:
        binaries.check(venv / "bin" / program, version)
        shutil.copy2(venv / "bin" / program, dist / f"{program}-{version}-{platform.machine()}-linux")
    for kind, parts, registry in (("python", python, "pypi"), ("rust", rust, "cargo")):
        text = bill(f"tiertune-{kind}", version, parts, registry, by)
        (dist / f"tiertune-{version}.{kind}.cdx.json").write_text(text, encoding="utf-8")
    shutil.copy2(ROOT / "requirements/run.lock", dist / f"constraints-{version}.txt")
    made = sorted(path for path in dist.iterdir())
    sums = "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in made)
    (dist / SUMS).write_text(sums, encoding="utf-8")
    return glibc
