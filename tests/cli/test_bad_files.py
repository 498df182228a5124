"""Every wrong file through the command: exit code 2, its sentences on standard error, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.small import WORKLOAD, tiertune
from tests.configs.corpus import KINDS, ROOT, files
from tiertune.tuner.cli.file_kinds import TAKEN_BY
from tiertune.tuner.schemas import MODELS

BAD = [(kind, path) for kind in KINDS for path in files("bad", kind)]

CAMPAIGN_OF_A_SPACE = """\
name: borrowed
scenarios: [{{workload: {workload}, machine: skx-numa, ratio: "1:8"}}]
systems: [{{system: hemem, space: {space}}}]
budget: {{preset: paper}}
"""


def arguments(kind: str, path: Path, folder: Path) -> list[str]:
    """The command that reads a file of `kind`."""
    workload = folder / "small-workload.yaml"
    workload.write_text(WORKLOAD)
    if kind == "campaign":
        return ["tune", str(path)]
    if kind == "claims":
        return ["reproduce", "--claims", str(path)]
    if kind == "sweep":
        return ["sweep", str(path)]
    if kind == "gallery":
        return ["gallery", "--gallery-dir", str(path)]
    if kind == "suite":
        return ["nightly", "run", str(path)]
    if kind == "machine":
        return ["run", "hemem", "--workload", str(workload), "--machine", str(path)]
    if kind == "workload":
        return ["run", "hemem", "--workload", str(path), "--machine", "skx-numa"]
    campaign = folder / "borrowed.yaml"
    campaign.write_text(CAMPAIGN_OF_A_SPACE.format(workload=workload, space=ROOT / path))
    return ["tune", str(campaign)]


def test_the_corpus_is_there() -> None:
    assert len(BAD) >= 40
    assert {kind for kind, _ in BAD} == set(KINDS)


@pytest.mark.parametrize(("kind", "path"), BAD, ids=[f"{kind}-{path.stem}" for kind, path in BAD])
def test_a_wrong_file_ends_with_2_and_its_sentences(
    kind: str, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    results = tmp_path / "results"
    refused = tiertune(*arguments(kind, path, tmp_path), "--results", results)
    assert refused.exit_code == 2, refused.stderr
    assert refused.stdout == ""
    assert "Traceback" not in refused.stderr
    assert not results.exists()
    said = (ROOT / path).with_suffix(".expected").read_text(encoding="utf-8").splitlines()
    if kind == "space":  # named in the sentence about the campaign that uses it
        assert path.name in refused.stderr
    else:
        assert refused.stderr.splitlines() == [f"tiertune: {sentence}" for sentence in said]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--ratio", "1-8"],
            "--ratio: '1-8' is not a fast:slow ratio; write two whole numbers, such as \"1:8\"",
        ),
        (["--system", "hemen"], "--system: there is no system 'hemen'; did you mean 'hemem'?"),
        (
            ["--system", "notier"],
            "--system: notier is a baseline and has nothing to tune; `tiertune run notier` measures it",
        ),
        (
            ["--system", "hemem", "--system", "hemem"],
            "this campaign: systems[1] is the same as systems[0]; leave one of the two out",
        ),
    ],
)
def test_a_mistake_without_a_file_is_said_of_its_option(
    options: list[str], said: str, tmp_path: Path
) -> None:
    results = tmp_path / "results"
    refused = tiertune("tune", "-w", "gups", *options, "--results", results)
    assert refused.exit_code == 2
    assert refused.stderr == f"tiertune: {said}\n"
    assert not results.exists()


WANTED = {"tune": "campaign", "sweep": "sweep", "sensitivity": "sweep", "nightly run": "suite"}


@pytest.mark.parametrize(
    ("command", "kind"),
    [(command, kind) for command, wanted in WANTED.items() for kind in TAKEN_BY if kind != wanted],
)
def test_a_file_of_another_kind_is_said_to_be_that(command: str, kind: str, tmp_path: Path) -> None:
    path, wanted = files("good", kind)[0], WANTED[command]
    refused = tiertune(*command.split(), path, "--results", tmp_path)
    assert refused.exit_code == 2
    said = f"tiertune: {path}: a {wanted} is wanted; by its keys this is a {kind}, for {TAKEN_BY[kind]}\n"
    assert refused.stderr == said


def test_every_kind_of_file_is_taken_by_something() -> None:
    assert TAKEN_BY.keys() == MODELS.keys()
