"""A release where there is no checkout: wheels in an environment of their own, programs in an empty root, and
all of it on a bare Debian machine."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host.bare_root import ESSENTIAL, BareRoot, bare_root
from tests.host.groups import memory_group
from tests.host.guest import archive
from tests.release.artefacts import release
from tests.release.bill import BillError, bill
from tests.release.licences import Part, rules
from tests.source_tree import ROOT
from tiertune import __version__

pytestmark = [pytest.mark.host, pytest.mark.timeout(900)]

# Compiling what nobody imports takes half of the time of the installation. pip takes this for --no-compile.
QUICK = {
    "PIP_NO_COMPILE": "0",
    "PIP_QUIET": "1",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
}
TUNE = "tiertune tune -w masim-stairs-ci --trials 4"
ENTER = "mkdir -p mine; cd mine; . ../dist/tiertune/bin/activate"
MIB = 1 << 20


def documented() -> list[str]:
    """The commands of docs/releases.md, of which the first one is root's."""
    (block,) = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs/releases.md").read_text(), re.M | re.S)
    return str(block).splitlines()


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


@pytest.fixture(scope="module")
def bare(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareRoot]:
    """A bare machine with a release in the user's folder."""
    with bare_root(tmp_path_factory.mktemp("bare"), QUICK) as made:
        made.bring(dist)
        yield made


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


def test_a_checkout_says_what_is_missing_as_the_readme_does(bare: BareRoot) -> None:
    bare.bring(ROOT / ".ci/prerequisites")
    said = bare.run("! ./prerequisites").stderr
    assert "Python 3.11 or newer is missing (found: none)" in said
    (command,) = re.findall(r"^Install what is missing with:  sudo (.*)$", said, re.M)
    assert f"\n    {command}\n" in (ROOT / "README.md").read_text()
    # All of them are there to be installed.
    packages = command.removeprefix("apt-get install -y ").split()
    planned = ("install", "--simulate", "--no-install-recommends", ESSENTIAL, *packages)
    said = archive.run("apt-get", "-qq", *planned, environment=bare.apt.environment)
    assert set(packages) <= set(re.findall(r"^Inst (\S+) ", said, re.M))


def test_a_release_runs_with_python_alone(bare: BareRoot) -> None:
    first, *rest = documented()
    packages = first.removeprefix("apt-get install -y ").split()
    assert packages == ["python3-venv"]
    bare.install(*packages)
    lacking = bare.run(
        "for tool in cc make cargo git sudo; do ! command -v $tool; done; id -u; touch /etc/mine"
    )
    assert lacking.stdout == "1000\n"
    assert "Permission denied" in lacking.stderr

    assert rest[-1] == "tiertune doctor"
    installed = bare.run("; ".join(["cd dist", "sha256sum --check --quiet --strict SHA256SUMS", *rest]))
    assert installed.returncode == 0, installed.stderr
    assert "Fit for campaigns on the simulator." in installed.stdout

    asked = bare.run(f"{ENTER}; tiertune --version; tiertune")
    assert asked.stdout.startswith(f"tiertune {__version__}\n")
    assert "tiertune demo" in asked.stdout
    with memory_group("tune", 512 * MIB) as group:
        tuned = bare.run(f"{ENTER}; {TUNE}", group)
    assert tuned.returncode == 0, tuned.stderr
    assert tuned.stdout.startswith("hemem on masim-stairs-ci: ")
    (report,) = re.findall(r"^report +(\S+)$", tuned.stdout, re.M)
    page = (bare.home / "mine" / report).read_text()
    verdict = " ".join(tuned.stdout[: tuned.stdout.index("\nreport")].split())
    assert verdict in page
    assert "<svg" in page
    assert not re.search(r"""(src|href)=["']?(https?:)?//|@import|url\((?!#)""", page)


def test_a_container_that_is_too_small_is_told_before_anything_runs(bare: BareRoot) -> None:
    """Without a word the kernel would end the campaign, or the run, in its middle."""
    with memory_group("tune", 256 * MIB) as group:
        looked = bare.run(f"{ENTER}; tiertune doctor", group)
        tuned = bare.run(f"{ENTER}; {TUNE} --results other", group)
        ran = bare.run(f"{ENTER}; tiertune run notier -w bc-kron -m skx-numa --page-size 4KiB", group)
    assert looked.returncode == 3
    assert re.search(r"^XX  memory +0\.2 GiB available", looked.stdout, re.M), looked.stdout
    assert tuned.returncode == 3
    assert "about 272 MiB of memory are needed beside its runs, 2" in tuned.stderr
    assert not (bare.home / "mine/other").exists()
    assert ran.returncode == 3
    assert "one run of " in ran.stderr
    assert "; smaller: --page-size 2MiB" in ran.stderr


def test_programs_run_and_say_what_the_machine_lacks(bare: BareRoot) -> None:
    for name in ("tierd", "tierload"):
        assert bare.run(f"dist/{name}-*-linux --version").stdout == f"{name} {__version__}\n"
    probed = bare.run("dist/tierd-*-linux probe")
    assert re.search(r"^referenced: works; ", probed.stdout, re.M), probed.stdout + probed.stderr
