"""A release where there is no checkout: wheels in an environment of their own, programs in an empty root."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.release.artefacts import release
from tests.release.bill import BillError, bill
from tests.release.licences import Part, rules
from tests.source_tree import ROOT
from tiertune import __version__

pytestmark = pytest.mark.host


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `make release` makes it, from the engine and the programs that `make` built."""
    folder: Path = tmp_path_factory.mktemp("release") / "dist"
    release(folder, ROOT / ".venv")
    return folder


@pytest.fixture(scope="module")
def installed(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheels of `dist`; other packages are those of this one, which are locked."""
    folder: Path = tmp_path_factory.mktemp("bare") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(folder / "bin/python"), "install"]
    subprocess.run([*pip, "--no-index", "--no-deps", *map(str, dist.glob("*.whl"))], check=True)
    # A folder that is named in a .pth is searched, but its own .pth files, such as that of an editable
    # checkout, are not read. What the wheels installed comes first.
    (site / "packages.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder


def run(installed: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The installed command, without anything of our environment."""
    environment = {"PATH": f"{installed}/bin:/usr/bin:/bin", "HOME": str(cwd), "LC_ALL": "C.UTF-8"}
    return subprocess.run(arguments, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)


def test_what_is_imported_is_what_was_installed(installed: Path, tmp_path: Path) -> None:
    script = "import tiertune, tiertune_engine as e; print(tiertune.__file__, e.__file__)"
    done = run(installed, "python", "-c", script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert all(path.startswith(str(installed)) for path in done.stdout.split()), done.stdout


def test_the_command_runs_without_a_checkout(installed: Path, tmp_path: Path) -> None:
    assert run(installed, "tiertune", "--version", cwd=tmp_path).stdout == f"tiertune {__version__}\n"
    doctor = run(installed, "tiertune", "doctor", cwd=tmp_path)
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    evaluated = run(installed, "tiertune", "run", "hemem", "-w", "gups", "-m", "skx-numa", cwd=tmp_path)
    assert evaluated.returncode == 0, evaluated.stderr
    assert "\nruntime_s " in evaluated.stdout
    plan = run(installed, "tiertune", "tune", "demo", "--dry-run", cwd=tmp_path)
    assert plan.returncode == 0, plan.stderr
    assert "results/demo/journal.sqlite" in plan.stdout


def test_playbooks_are_there_and_can_be_played(installed: Path, tmp_path: Path) -> None:
    script = "from tiertune.tuner.fleet.program import playbook; print(playbook('trial.yml'))"
    path = run(installed, "python", "-c", script, cwd=tmp_path).stdout.strip()
    assert path.startswith(str(installed))
    (tmp_path / "inventory.yml").write_text("tier_hosts: {hosts: {here: {ansible_connection: local}}}\n")
    ansible = Path(sys.executable).with_name("ansible-playbook")
    command = (sys.executable, str(ansible), "-i", "inventory.yml", str(Path(path).with_name("facts.yml")))
    played = run(installed, *command, cwd=tmp_path)
    assert played.returncode == 0, played.stdout + played.stderr
    assert "failed=0" in played.stdout


def test_programs_run_in_an_empty_root(dist: Path, tmp_path: Path) -> None:
    for name in ("tierd", "tierload"):
        (program,) = dist.glob(f"{name}-*")
        shutil.copy2(program, tmp_path / name)
        done = subprocess.run(["chroot", tmp_path, f"/{name}", "--version"], capture_output=True, text=True)
        assert done.stdout == f"{name} {__version__}\n", done.stderr


def test_sums_are_of_what_lies_there(dist: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"], cwd=dist, check=True)
    named = {line.split()[1] for line in (dist / "SHA256SUMS").read_text().splitlines()}
    assert named | {"SHA256SUMS"} == {path.name for path in dist.iterdir()}


def test_a_bill_says_what_there_is_and_who_needs_whom() -> None:
    parts = [Part("a", "1.0", ("MIT",)), Part("b", "2.0", ("BSD-3-Clause",), "0" * 64, ("a",))]
    document = json.loads(bill("whole", "1.5", parts, "cargo", rules()))
    found = {entry["name"]: entry for entry in document["components"]}
    assert found["a"]["purl"] == "pkg:cargo/a@1.0"
    assert found["b"]["hashes"] == [{"alg": "SHA-256", "content": "0" * 64}]
    assert found["b"]["licenses"] == [{"expression": "BSD-3-Clause"}]
    needs = {entry["ref"]: entry.get("dependsOn", []) for entry in document["dependencies"]}
    assert needs == {"whole": ["cargo:b@2.0"], "cargo:b@2.0": ["cargo:a@1.0"], "cargo:a@1.0": []}
    assert document["metadata"]["component"]["version"] == "1.5"


def test_a_bill_that_the_schema_refuses_is_not_written() -> None:
    with pytest.raises(BillError, match="whole: "):
        bill("whole", "1", [Part("a", "1", ("MIT",), sha256="no hash")], "cargo", rules())
