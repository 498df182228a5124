"""`--policy-file`: a policy in Python beside those of tiertune, in matrices, comparisons and the gallery.

A result is of one version of the file: another version is measured anew, refused, or called stale.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from tests.cli import small
from tests.sweep.small import one
from tests.transfer.few import write_few
from tiertune import engine, unregister

POLICY = """\
import tiertune


class Careful(tiertune.Policy):
    name = "careful"
    summary = "takes what a sample shows while there is room"
    signal = "LLC load misses"
    sampling_period = tiertune.Int(100_000, 10_000, 10_000_000, "LLC load misses per sample", log=True)

    def samplers(self):
        return [tiertune.Sampler("load-miss", self.sampling_period)]

    def on_alloc(self, extent, cx):
        return "slowest-free"

    def on_samples(self, samples, cx):
        for sample in samples:
            if cx.free_pages(0) and cx.tier_of(sample.page) != 0:
                cx.migrate(sample.page, 0)
"""
# The same knobs and space, but nothing moves.
CHANGED = POLICY.replace("cx.free_pages(0) and", "False and")
SPACE = """\
name: careful
description: all knobs of careful
system: careful
knobs:
  sampling_period:
"""
SWEEP = """\
name: both
systems: [careful, hemem]
workloads: [./small-workload.yaml]
machines: [skx-numa]
ratios: ["1:4"]
seeds: [1]
table: {by: [system], show: [runtime_s]}
"""
OWN = "  - {system: hemem, space: hemem}\n"
CAREFUL = "  - {system: careful, space: ./careful.yaml}\n"


def tiertune(*arguments: str | Path) -> Result:
    """The command, which leaves no policy behind, as a process of its own does not."""
    try:
        return small.tiertune(*arguments)
    finally:
        for name in engine.registered():
            unregister(name)


def done(*arguments: str | Path) -> str:
    """What a command that has to end well says."""
    ended = tiertune(*arguments)
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout


def refused(*arguments: str | Path) -> str:
    """The sentence with which a command ends."""
    ended = tiertune(*arguments)
    assert ended.exit_code == 2, ended.stdout
    return ended.stderr


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two versions of the policy, where commands run."""
    (tmp_path / "careful.py").write_text(POLICY)
    (tmp_path / "changed.py").write_text(CHANGED)
    (tmp_path / "careful.yaml").write_text(SPACE)
    small.write_small(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def swept(folder: Path) -> Any:
    return json.loads((folder / "results/sweeps/both/rows.json").read_text())


def test_a_sweep_measures_each_version_of_the_file_for_itself(folder: Path) -> None:
    (folder / "both.yaml").write_text(SWEEP)
    assert "there is no system 'careful'" in refused("sweep", "both.yaml")
    done("sweep", "both.yaml", "--policy-file", "careful.py")
    first = swept(folder)
    assert first["policies"] == {"careful": digest(POLICY)}
    page = (folder / "results/sweeps/both/report.html").read_text()
    assert "--policy-file careful.py" in page
    assert digest(POLICY)[:12] in page
    careful, hemem = (one(first["rows"], system=name) for name in ("careful", "hemem"))
    assert careful["status"] == hemem["status"] == "ok"
    for file, states in (("careful.py", ["cached", "cached"]), ("changed.py", ["to measure", "cached"])):
        plan = json.loads(done("sweep", "both.yaml", "--policy-file", file, "--dry-run", "--json"))
        assert [row["state"] for row in plan["rows"]] == states
    done("sweep", "both.yaml", "--policy-file", "changed.py")
    second = swept(folder)
    assert second["policies"] == {"careful": digest(CHANGED)}
    assert one(second["rows"], system="hemem") == hemem
    now = one(second["rows"], system="careful")
    assert careful["metrics"]["promotions"] > 0
    assert now["metrics"]["promotions"] == 0


def test_what_another_version_was_tuned_to_is_not_carried_into_a_sweep(folder: Path) -> None:
    text = (folder / "small.yaml").read_text()
    (folder / "small.yaml").write_text(text.replace(OWN, CAREFUL))
    configs = "configs:\n  - {name: default}\n  - {name: tuned, campaign: small}\nworkloads:"
    (folder / "both.yaml").write_text(
        SWEEP.replace("workloads:", configs).replace("careful, hemem", "careful")
    )
    done("tune", "small.yaml", "--policy-file", "careful.py")
    done("sweep", "both.yaml", "--policy-file", "careful.py")
    assert {row["config"]: row["status"] for row in swept(folder)["rows"]} == {"default": "ok", "tuned": "ok"}
    done("sweep", "both.yaml", "--policy-file", "changed.py")
    row = one(swept(folder)["rows"], config="tuned")
    assert row["status"] == "not-applicable"
    assert row["error"] == "campaign small tuned another version of careful's file"


def test_resume_names_the_option_that_a_policy_in_python_needs(folder: Path) -> None:
    (folder / "small.yaml").write_text((folder / "small.yaml").read_text().replace(OWN, CAREFUL))
    done("tune", "small.yaml", "--policy-file", "careful.py")
    said = refused("resume", "small")
    assert "careful is a policy written in Python, of a file whose SHA-256 is " + digest(POLICY) in said
    assert "tiertune resume small --policy-file FILE.py" in said
    assert "changed" not in said
    done("resume", "small", "--policy-file", "careful.py")


def test_a_comparison_has_the_policy_beside_the_others_and_is_of_one_version(folder: Path) -> None:
    text = (folder / "small.yaml").read_text().replace(OWN, OWN + CAREFUL)
    text = text.replace("trials: 8, initial: 4", "trials: 2, initial: 1")
    (folder / "small.yaml").write_text(f"{text}searches: 3\n")
    command = ("compare", "small.yaml", "--policy-file")
    said = refused(*command, "careful.py", "--scheduler", "local")
    assert "not with --scheduler: workers and daemons run policies written in Rust" in said
    assert not Path("results").exists()
    found = json.loads(done(*command, "careful.py", "--json"))
    assert found["void"] == []
    assert {entry["name"] for entry in found["contenders"]} == {"hemem", "careful"}
    note, again = found["reproduce"][-2:]
    assert note.endswith(f"whose SHA-256 is {digest(POLICY)}")
    assert again.endswith(f" --policy-file {note.split()[1].rstrip(':')}")
    said = refused(*command, "changed.py")
    assert "campaign small was started with other settings" in said
    assert digest(CHANGED) in said
    assert "with --name OTHER" in said
    assert json.loads(done(*command, "careful.py", "--json")) == found


def test_transfer_and_gallery_know_which_version_they_are_of(folder: Path) -> None:
    campaign = write_few(folder)
    campaign.write_text(campaign.read_text().replace(OWN, CAREFUL))
    ours, theirs = (("--policy-file", file) for file in ("careful.py", "changed.py"))
    moved = json.loads(done("transfer", "few.yaml", "--seeds", "5", "--candidates", "1", *ours, "--json"))
    assert moved["versions"]["policies"] == {"careful": digest(POLICY)}
    assert " --policy-file policy-" in moved["reproduce"][-1]
    assert "campaign few was started with other settings" in refused("transfer", "few.yaml", *theirs)

    gathered = json.loads(done("gallery", "few", *ours, "--json"))
    assert [row["stale"] for row in gathered["entries"]] == [""] * 3
    assert all(row["command"].endswith(" --policy-file careful.py") for row in gathered["entries"])
    assert "campaign few was started with other settings" in refused("gallery", "few", *theirs)
    assert done("gallery", "--check", *ours) == "3 entries, none is stale\n"
    changed = tiertune("gallery", "--check", *theirs)
    assert changed.exit_code == 5
    was, now = digest(POLICY)[:16], digest(CHANGED)[:16]
    assert (
        changed.stdout.count(f"measured with version {was} of its file, this is version {now} of its file")
        == 4
    )
    assert "again: tiertune transfer few --policy-file careful.py\n" in changed.stdout
    said = refused("gallery", "--check")
    assert "careful is a policy written in Python; name its file: --policy-file FILE.py" in said
    shown = done("show", "careful", "--gallery", *ours, "--json")
    assert len(json.loads(shown)["entries"]) == 3
