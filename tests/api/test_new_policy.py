"""`tiertune new-policy`: what it lays out passes at once, and nothing that is there is touched."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.small import tiertune
from tests.source_tree import ROOT
from tiertune import engine, register, unregister
from tiertune.spaces.definition import load_space
from tiertune.testing import check, difference, policies_of
from tiertune.tuner.api.new_policy import CRATE, FIRST_LINES, rust_policy


def test_a_policy_in_python_passes_its_golden_script_and_quick_promises(tmp_path: Path) -> None:
    done = tiertune("new-policy", "my-greedy", "--in", tmp_path, "--json")
    assert done.exit_code == 0, done.stderr
    files = [Path(path) for path in json.loads(done.stdout)["files"]]
    assert [path.name for path in files] == [
        *("my_greedy.py", "test_my_greedy.py", "my-greedy.golden", "my-greedy.yaml")
    ]
    (policy,) = policies_of(files[0])
    golden = files[2].read_text()
    assert "ask   page 2: 1 -> 0" in golden
    assert difference(policy, files[2]) == ""
    files[2].write_text(golden.replace("page 2: 1 -> 0", "page 3: 1 -> 0"))
    assert "recorded:    0.000 ms  ask   page 3" in difference(policy, files[2])
    assert [kept for kept in check(policy, tuple(engine.promises()[:6])) if kept.wrong] == []
    register(policy)
    assert [axis.name for axis in load_space(str(files[3])).axes()] == ["sampling_period"]
    assert unregister("my-greedy")


def test_golden_scripts_go_to_the_policy_that_they_begin_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiertune.testing.check", lambda policy: iter(()))
    assert tiertune("new-policy", "greedy", "--in", tmp_path).exit_code == 0
    folder = tmp_path / "greedy"
    text = (folder / "greedy.py").read_text()
    (folder / "greedy.py").write_text(text + '\n\nclass Second(Greedy):\n    name = "greedy-second"\n')
    script = (folder / "greedy.golden").read_text()
    for name in ("greedy-more", "greedy-second", "other"):
        (folder / f"{name}.golden").write_text(script)
    done = tiertune("check-policy", folder / "greedy.py", "--json")
    assert unregister("greedy")
    assert unregister("greedy-second")
    assert done.exit_code == 0, done.stderr
    assert [(one["policy"], one["promise"].split()[0]) for one in json.loads(done.stdout)] == [
        ("greedy", "greedy-more.golden"),
        ("greedy", "greedy.golden"),
        ("greedy-second", "greedy-second.golden"),
    ]
    said = "not replayed, as its name begins with that of none of greedy, greedy-second"
    assert f"{folder / 'other.golden'}: {said}" in done.stderr


def test_its_own_test_is_one_for_pytest(tmp_path: Path) -> None:
    assert tiertune("new-policy", "greedy", "--in", tmp_path).exit_code == 0
    script = tmp_path / "greedy" / "test_greedy.py"
    one = f"{script}::TestGreedy::test_golden_scripts_give_the_recorded_decisions"
    tests = [one, f"{script}::test_the_space_fits"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "2 passed" in done.stdout


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("hemem", "there is a system of that name; try my-hemem"),
        ("Greedy", "small letters, digits and dashes"),
        ("class", "Python has a use for that word; try my-class"),
        ("none", "Python has a use for that word; try my-none"),
        ("queue", "Python has a module of that name, which it would hide; try my-queue"),
        ("tiertune", "Python has a module of that name, which it would hide; try my-tiertune"),
        ("numpy", "Python has a module of that name, which it would hide; try my-numpy"),
        ("policy-contract", "its file uses another PolicyContract already; try my-policy-contract"),
        ("there", "it is there already; nothing was written"),
    ],
)
def test_names_that_will_not_do_are_refused(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "there").mkdir()
    done = tiertune("new-policy", name, "--in", tmp_path)
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("match", "Rust has a use for that word; try my-match"),
        ("sampler-request", "its file uses another SamplerRequest already; try my-sampler-request"),
        ("box", "Rust has a use for that word"),
        ("vec", "its file uses another Vec already; try my-vec"),
        ("lru", "is there already; nothing was written"),
    ],
)
def test_names_that_will_not_build_are_refused(tmp_path: Path, name: str, sentence: str) -> None:
    for path in [*FIRST_LINES, CRATE / "lru.rs"]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    done = tiertune("new-policy", name, "--rust", "--in", tmp_path)
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_policy_in_rust_is_a_file_and_a_line_in_each_place(tmp_path: Path) -> None:
    for path in FIRST_LINES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    done = tiertune("new-policy", "zonal-greedy", "--rust", "--in", tmp_path, "--json")
    assert done.exit_code == 0, done.stderr
    policy = (tmp_path / CRATE / "zonal_greedy.rs").read_text()
    assert 'for "zonal-greedy"' in policy
    assert "struct ZonalGreedy {" in policy
    for path, before in FIRST_LINES.items():
        now, then = ((folder / path).read_text().splitlines() for folder in (tmp_path, ROOT))
        (line,) = set(now) - set(then)
        assert line.replace("zonal_greedy", "notier").replace("zonal-greedy", "notier") == before
    lines = (tmp_path / CRATE / "lib.rs").read_text().splitlines()
    modules = [line for line in lines if line.startswith("pub mod ")]
    assert modules == sorted(modules)
    golden = (tmp_path / "engine/testdata/zonal-greedy/first.txt").read_text()
    assert "done  page 2 -> 0" in golden
    again = tiertune("new-policy", "zonal-greedy", "--rust", "--in", tmp_path)
    assert again.exit_code == 2
    assert "is there already; nothing was written" in again.stderr
    elsewhere = tiertune("new-policy", "other", "--rust", "--in", tmp_path / "engine")
    assert "run this in a checkout of tiertune" in elsewhere.stderr


def test_the_template_in_rust_decides_as_the_policy_of_the_readme_which_is_built(
    tmp_path: Path,
) -> None:
    """Word for word, where it moves pages; `adding.rs` builds the README's and runs the same script."""
    for path in FIRST_LINES:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, tmp_path / path)
    made = rust_policy("greedy", tmp_path)[0].read_text()
    readme = " ".join((ROOT / "engine" / "README.md").read_text().split())
    start, end = made.index("    fn on_samples"), made.index("/// The registry entry.")
    assert " ".join(made[start:end].split()) in readme
