"""The native part as it was installed: one module, one shared library, for every Python from 3.11 on."""

from __future__ import annotations

import subprocess
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest


@pytest.fixture
def engine() -> Distribution:
    return distribution("tiertune-engine")


def files(engine: Distribution) -> list[Path]:
    assert engine.files is not None
    return [Path(str(file.locate())) for file in engine.files]


def test_it_installs_one_module_and_nothing_of_the_python_part(engine: Distribution) -> None:
    assert engine.files is not None
    names = {file.as_posix() for file in engine.files if ".dist-info/" not in file.as_posix()}
    sources = {name for name in names if "__pycache__" not in name}
    assert sources == {"tiertune_engine/__init__.py", "tiertune_engine/tiertune_engine.abi3.so"}


def test_one_wheel_serves_every_supported_python(engine: Distribution) -> None:
    tags = [line for line in (engine.read_text("WHEEL") or "").splitlines() if line.startswith("Tag: ")]
    assert tags
    assert all(tag.startswith("Tag: cp311-abi3-") for tag in tags), tags


def test_the_library_does_not_need_a_libpython(engine: Distribution) -> None:
    # A Python built without a shared library, as pyenv's is, could not load it otherwise.
    (library,) = [file for file in files(engine) if file.suffix == ".so"]
    output = subprocess.run(["readelf", "-d", library], capture_output=True, text=True, check=True).stdout
    needed = [line for line in output.splitlines() if "(NEEDED)" in line]
    assert any("libc.so" in line for line in needed)
    assert not [line for line in needed if "libpython" in line]
