"""The Makefile's list of commands, and the documents that name them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.source_tree import ROOT


def make(*arguments: str, folder: Path = ROOT) -> str:
    """What make prints in `folder`. The outer make's own settings are kept away from it."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    command = ["make", "--no-print-directory", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout


def listed() -> dict[str, str]:
    """Purpose by target, as `make help` says."""
    return {
        match[1]: match[2] for match in re.finditer(r"^  make (\S+) +(\S.*)$", make("help"), re.MULTILINE)
    }


def test_help_lists_every_command_with_its_purpose() -> None:
    phony = re.findall(r"^\.PHONY: (\S+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert listed().keys() == set(phony) - {"lint-tools"}


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md"])
def test_a_document_names_only_commands_that_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^ +|`)make ([a-z-]+)", text, re.MULTILINE))
    assert named
    assert named <= listed().keys()


def test_ci_runs_make_targets_that_exist_and_the_others_are_said_to_be_run_by_hand() -> None:
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    calls = re.findall(r"^section (?:'[^']+'|\S+) make (.+)$", script, re.MULTILINE)
    run = {word for call in calls for word in re.sub(r"--\S+( \d+)?", "", call).split()}
    assert {"lint", "docs", "test", "test-host"} <= run <= listed().keys()
    # Whatever else is checked by a target is somebody's to run, and it is said when.
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (by_hand,) = re.findall(r"To be run\s+by hand: .*?\n\n", contributing, re.DOTALL)
    checks = {name for name in listed() if name.startswith("test") or name == "release"}
    assert checks - run == set(re.findall(r"`make ([a-z-]+)`", by_hand))


STAMPS = ("build-tools", "packages", "engine", "command")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Just enough of a checkout that was set up a minute ago for make to decide what is left to do."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    shutil.copytree(ROOT / "engine", tmp_path / "engine", ignore=shutil.ignore_patterns("target", "python"))
    shutil.copytree(ROOT / "engine/crates/python", tmp_path / "engine/crates/python", dirs_exist_ok=True)
    (tmp_path / ".venv").mkdir()
    for path in tmp_path.rglob("*"):
        os.utime(path, (1_000, 1_000))
    for age, stamp in enumerate(STAMPS):
        (tmp_path / f".venv/.installed-{stamp}").touch()
        os.utime(tmp_path / f".venv/.installed-{stamp}", (2_000 + age, 2_000 + age))
    return tmp_path


@pytest.mark.parametrize(
    ("changed", "redone"),
    [
        (None, set[str]()),
        ("engine/crates/policy/src/lib.rs", {"engine"}),
        ("engine/Cargo.lock", {"engine"}),
        ("pyproject.toml", {"command"}),
        ("requirements/dev.lock", {"packages", "engine", "command"}),
        ("requirements/build.lock", {"tools", "packages", "engine", "command"}),
    ],
)
def test_set_up_redoes_only_what_a_change_asks_for(
    checkout: Path, changed: str | None, redone: set[str]
) -> None:
    if changed is not None:
        os.utime(checkout / changed, (3_000, 3_000))
    script = make("--dry-run", "setup", folder=checkout)
    commands = {
        "tools": "install --require-hashes -r requirements/build.lock",
        "packages": "--no-build-isolation -r requirements/dev.lock",
        "engine": "maturin build",
        "command": "--editable .",
    }
    assert {name for name, command in commands.items() if command in script} == redone


def test_no_package_index_is_said_and_leaves_nothing_that_looks_done(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("requirements", ".ci"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "engine").mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "PIP", "UV"))}
    # Nobody listens at port 1.
    nowhere = {
        "PIP_INDEX_URL": "http://127.0.0.1:1/simple",
        "PIP_RETRIES": "0",
        "PIP_CONFIG_FILE": os.devnull,
    }
    stamp = ".venv/.installed-build-tools"
    done = subprocess.run(
        ["make", stamp], cwd=tmp_path, env={**kept, **nowhere}, capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 2
    said = "tiertune: packages could not be fetched"
    assert said in done.stderr
    assert not (tmp_path / stamp).exists()
    row = said.removeprefix("tiertune: ")
    assert f"| {row} |" in (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
