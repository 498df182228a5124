"""The Python part as a wheel: whole, alone under one name, and able to start without the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.source_tree import LINKED_FOLDERS, PACKAGE, ROOT, modules


@pytest.fixture(scope="session")
def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_package_links_exactly_the_folders_that_are_installed() -> None:
    links = {path.name: path.resolve() for path in PACKAGE.iterdir() if path.is_symlink()}
    assert links == {name: ROOT / name for name in LINKED_FOLDERS}


def test_the_only_top_level_is_tiertune(contents: dict[str, bytes]) -> None:
    tops = {name.split("/")[0] for name in contents}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"tiertune"}


@pytest.mark.parametrize("folder", LINKED_FOLDERS)
def test_every_file_of_a_linked_folder_is_inside(folder: str, contents: dict[str, bytes]) -> None:
    files = {
        f"tiertune/{path.relative_to(ROOT)}": path.read_bytes()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith(".")
    }
    assert files, f"{folder}/ is empty"
    inside = {name: data for name, data in contents.items() if name.startswith(f"tiertune/{folder}/")}
    assert inside == files


def test_programs_of_the_playbooks_can_be_executed(installed: Path) -> None:
    for name in ("bin/ssh-bound", "roles/tiering_host/files/cxl-online.sh"):
        assert os.access(installed / "tiertune/playbooks" / name, os.X_OK), name


def test_the_tuner_finds_the_installed_playbooks(installed: Path) -> None:
    script = "from tiertune.tuner.fleet.program import playbook; print(playbook('trial.yml'))"
    result = run(installed, sys.executable, "-c", script)
    assert result.stdout.strip() == str(installed / "tiertune/playbooks/trial.yml"), result.stderr


def test_it_is_marked_as_typed_and_licensed(contents: dict[str, bytes]) -> None:
    assert "tiertune/py.typed" in contents
    licences = [data for name, data in contents.items() if name.endswith(".dist-info/licenses/LICENSE")]
    assert licences == [(ROOT / "LICENSE").read_bytes()]


def run(installed: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command that finds the installed files before those of the checkout."""
    environment = os.environ | {"PYTHONPATH": str(installed)}
    return subprocess.run(command, cwd=installed, env=environment, capture_output=True, text=True)


def test_every_module_imports_from_the_installed_files(installed: Path) -> None:
    script = "import importlib, sys\nfor name in sys.argv[1:]: print(importlib.import_module(name).__file__)"
    result = run(installed, sys.executable, "-c", script, *modules())
    assert result.returncode == 0, result.stderr
    places = result.stdout.split()
    assert len(places) == len(modules())
    assert all(Path(place).is_relative_to(installed) for place in places)


def test_the_command_starts_from_the_installed_files(installed: Path) -> None:
    result = run(installed, sys.executable, str(installed / "bin" / "tiertune"), "list", "workloads")
    assert result.returncode == 0, result.stderr
    names = {path.stem for path in (ROOT / "workloads").glob("*.yaml")}
    assert names
    assert all(name in result.stdout for name in names)
