"""What `make` says on a machine that lacks a tool: the problem, and the one command that mends it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.source_tree import ROOT

BASICS = ("bash", "sort", "head", "cut", "id")


def shell(output: str) -> str:
    return f"#!{shutil.which('bash')}\necho '{output}'\n"


FIT = {
    "python3": f'#!{shutil.which("bash")}\nexec {sys.executable} "$@"\n',
    "make": shell("GNU Make 4.3"),
    "cc": shell("cc"),
    "rustc": shell("rustc 1.85.1 (4eb161250 2025-03-15)"),
    "cargo": shell("cargo 1.85.1"),
    "apt-get": shell(""),
}


def check(folder: Path, tools: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run .ci/prerequisites where `tools` (name -> script) and a few basics are all there is."""
    for name in BASICS:
        found = shutil.which(name)
        assert found is not None
        (folder / name).symlink_to(found)
    for name, script in tools.items():
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    command = [str(folder / "bash"), str(ROOT / ".ci/prerequisites"), *arguments]
    return subprocess.run(command, env={"PATH": str(folder)}, capture_output=True, text=True)


def test_a_fit_machine_gets_the_path_of_its_python(tmp_path: Path) -> None:
    result = check(tmp_path, FIT)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"{tmp_path / 'python3'}\n"


@pytest.mark.parametrize(
    ("tool", "problem", "package"),
    [
        ("python3", "Python 3.11 or newer is missing", "python3-venv"),
        ("make", "make is missing", "make"),
        ("cc", "a C compiler", "gcc"),
        ("rustc", "cargo and rustc are missing", "rustc"),
        ("cargo", "cargo and rustc are missing", "cargo"),
    ],
)
def test_a_missing_tool_is_named_with_the_command(
    tmp_path: Path, tool: str, problem: str, package: str
) -> None:
    result = check(tmp_path, {name: script for name, script in FIT.items() if name != tool})
    assert (result.returncode, result.stdout) == (1, "")
    sentence, command = result.stderr.splitlines()
    assert problem in sentence
    assert "apt-get install -y" in command
    assert package in command


@pytest.mark.parametrize(
    ("rust", "fit"), [("1.63.0", False), ("1.84.1", False), ("1.85.0", True), ("1.100.0", True)]
)
def test_an_old_rust_is_told_what_is_needed(tmp_path: Path, rust: str, fit: bool) -> None:
    result = check(tmp_path, FIT | {"rustc": shell(f"rustc {rust} (abc 2022-01-01)")})
    assert (result.returncode == 0) == fit
    assert (f"rustc {rust} is too old, the engine needs 1.85" in result.stderr) == (not fit)


def test_an_old_python_is_no_python(tmp_path: Path) -> None:
    result = check(tmp_path, FIT | {"python3": shell("3.9")})
    assert result.returncode == 1
    assert "Python 3.11 or newer is missing (found: 3.9)" in result.stderr


def test_everything_missing_is_one_command(tmp_path: Path) -> None:
    result = check(tmp_path, {"apt-get": FIT["apt-get"]}, "lint")
    assert result.stderr.count("apt-get install") == 1
    listed = check_again(tmp_path)
    assert set(listed) >= {"python3", "python3-venv", "make", "gcc"}
    assert all(package in result.stderr for package in listed)


def test_host_tests_need_servers_to_watch_and_hosts_to_reach(tmp_path: Path) -> None:
    bare, whole = tmp_path / "bare", tmp_path / "whole"
    bare.mkdir()
    whole.mkdir()
    result = check(bare, FIT, "host")
    assert result.returncode == 1
    assert "redis-server" in result.stderr
    assert "redis-tools" in result.stderr
    assert "openssh-client iproute2" in result.stderr
    servers = ("redis-server", "redis-benchmark", "dockerd")
    names = (*servers, "ssh-keygen", "ip", "systemd-analyze", "chromium-headless-shell")
    assert check(whole, FIT | {name: shell("") for name in names}, "host").returncode == 0


def check_again(folder: Path) -> list[str]:
    command = [str(folder / "bash"), str(ROOT / ".ci/prerequisites"), "--packages", "lint"]
    result = subprocess.run(command, env={"PATH": str(folder)}, capture_output=True, text=True)
    assert result.returncode == 0
    return result.stdout.split()
