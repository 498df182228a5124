"""`tiertune gallery --renew`: what another build measured and is the same with this one, bit for bit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.cli.small import tiertune
from tests.gallery.entries import HERE, PLAIN, entry_of, made_by
from tests.transfer.few import write_few
from tiertune import engine
from tiertune.machines.definition import load_machine
from tiertune.tuner.gallery.context import NotAtHand, context_of
from tiertune.tuner.gallery.definition import Entry, Gallery, Validation, load_gallery
from tiertune.tuner.gallery.renewal import Repeated, confirmed, stale_of
from tiertune.tuner.transfer.traits import traits_of
from tiertune.tuner.trial import Contention, Scenario
from tiertune.workloads.definition import load_workload

ANOTHER = "0123456789abcdef"
RUNS = Validation(seeds=[1, 2], default=[2.0, 2.0], tuned=[1.5, 1.5])
TRAFFIC = (Contention(0, 1.25, 0.0), Contention(1, 4.0, 2.5e-05))


@pytest.fixture(scope="module")
def gathered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three contexts, tuned, tested for transfer and gathered, as another build would have measured them."""
    made = tmp_path_factory.mktemp("gathered")
    results = ("--results", made / "results")
    assert tiertune("transfer", write_few(made), "--seeds", "5", "--candidates", "1", *results).exit_code == 0
    assert tiertune("gallery", "few", *results).exit_code == 0
    path = made / "results/gallery/hemem.yaml"
    stale = path.read_text().replace(engine.sources(), ANOTHER)
    path.write_text(stale)
    # Once for all tests: they find these runs in the cache.
    assert tiertune("gallery", "--renew", *results).exit_code == 0
    path.write_text(stale)
    return made


@pytest.fixture
def folder(gathered: Path, tmp_path: Path) -> Path:
    """A copy of one's own."""
    shutil.copytree(gathered / "results", tmp_path / "results")
    return tmp_path


def edited(folder: Path, edit: Callable[[dict[str, object]], object]) -> None:
    """The second entry, which is an improvement, changed by hand."""
    path = folder / "results/gallery/hemem.yaml"
    document = yaml.safe_load(path.read_text())
    edit(document["entries"][1])
    path.write_text(yaml.safe_dump(document, sort_keys=False))


def test_what_is_the_same_is_of_this_build_as_well(folder: Path) -> None:
    results = ("--results", folder / "results")
    path = folder / "results/gallery/hemem.yaml"
    before = load_gallery(str(path))
    assert tiertune("gallery", "--check", *results).exit_code == 5
    planned = tiertune("gallery", "--renew", "--dry-run", *results)
    assert planned.stdout == "3 entries, 3 of them stale; 30 runs for 3 of these\n"
    assert load_gallery(str(path)) == before

    done = tiertune("gallery", "--renew", *results)
    assert (done.exit_code, done.stdout) == (0, "3 entries, 3 the same with this build\n"), done.stderr
    after = load_gallery(str(path))
    for was, now in zip(before.entries, after.entries, strict=True):
        assert now.made_by.confirmed is not None
        assert now.made_by.confirmed.build == engine.sources()
        assert now.model_copy(update={"made_by": was.made_by}) == was
        assert now.made_by.builds == [ANOTHER]
    checked = tiertune("gallery", "--check", *results)
    assert checked.exit_code == 0
    # What is carried was not run again, which is said.
    said = f"hemem, transfer test of hemem: measured by engine 0.1.0 of sources {ANOTHER}"
    assert said in checked.stdout
    context = ("-w", folder / "small-workload.yaml", "-m", "icx-pmem", "--ratio", "1:4")
    shutil.copy(gathered_workload(before), folder / "small-workload.yaml")
    shown = tiertune("show", "hemem", "--gallery", *context, "--gallery-dir", path.parent)
    assert "stale" not in shown.stderr
    assert "was run again" in shown.stdout
    assert "the transfer test is stale" in shown.stdout
    again = tiertune("gallery", "--renew", *results)
    assert (again.exit_code, again.stdout) == (0, "3 entries, none is stale\n")


def gathered_workload(gallery: Gallery) -> str:
    """The file of the campaign's workload, which names its cells."""
    return gallery.entries[0].cell.partition("/skx-numa")[0]


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda entry: entry["validation"]["tuned"].reverse(), "and tuned less than 0.01 %"),
        (lambda entry: entry["validation"]["default"].__setitem__(0, 31.5), "default is "),
        (lambda entry: entry["knobs"].pop("sampling_period"), "default is the same and tuned "),
        (lambda entry: entry["gain"].update(high=9.5), "does not follow from them"),
    ],
    ids=["order", "default", "knob", "gain"],
)
def test_what_is_not_the_same_stays_stale_and_says_by_how_much(
    folder: Path, edit: Callable[[dict[str, object]], object], said: str
) -> None:
    edited(folder, edit)
    results = ("--results", folder / "results")
    done = tiertune("gallery", "--renew", *results)
    assert done.exit_code == 5
    assert "3 entries, 2 the same with this build, 1 moved" in done.stdout
    assert said in done.stdout
    assert "1 of the gallery's 3 entries stays stale" in done.stderr
    marks = [one.made_by.confirmed for one in load_gallery(f"{folder}/results/gallery/hemem.yaml").entries]
    assert [mark is None for mark in marks] == [False, True, False]
    checked = json.loads(tiertune("gallery", "--check", "--json", *results).stdout)
    # The transfer test rests on an entry that is not the same.
    assert [one["what"].split()[0] for one in checked["stale"]] == ["small", "transfer"]
    assert checked["older_tests"] == []


def test_a_move_is_told_in_performance(folder: Path) -> None:
    known = load_gallery(f"{folder}/results/gallery/hemem.yaml").entries[1].validation
    assert known is not None
    seconds = [value for value in known.default if value is not None]
    twice = [2.0 * value for value in seconds]
    edited(folder, lambda entry: entry["validation"].update(default=twice))  # type: ignore[attr-defined]
    done = tiertune("gallery", "--renew", "--json", "--results", folder / "results")
    (moved,) = json.loads(done.stdout)["moved"]
    runs = load_gallery(f"{folder}/results/gallery/hemem.yaml").entries[1]
    assert runs.gain is not None
    # It takes half of what the file says, and the gain is of this build's own runs.
    assert moved["default"] == pytest.approx(2.0)
    assert moved["tuned"] == 1.0
    assert moved["gain"] == runs.gain.model_dump()
    assert "default is 100 % better and tuned the same; gain " in moved["why"]


def test_a_workload_that_changed_or_went_is_not_run(folder: Path, gathered: Path) -> None:
    workload, results = gathered / "small-workload.yaml", ("--results", folder / "results")
    text, before = workload.read_text(), (folder / "results/gallery/hemem.yaml").read_bytes()
    try:
        for changed, said in (
            (text.replace("2GiB", "3GiB", 1), "the workload has changed since"),
            (None, "there is no such workload file"),
        ):
            workload.unlink()
            if changed is not None:
                workload.write_text(changed)
            done = tiertune("gallery", "--renew", *results)
            assert done.exit_code == 5
            assert done.stdout.count(said) == 3
            assert "3 entries, 0 the same with this build, 3 not run" in done.stdout
    finally:
        workload.write_text(text)
    assert (folder / "results/gallery/hemem.yaml").read_bytes() == before


def test_ctrl_c_leaves_the_gallery_as_it_was(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tiertune.tuner.gallery.renewal._held_against", interrupted)
    before = (folder / "results/gallery/hemem.yaml").read_bytes()
    done = tiertune("gallery", "--renew", "--results", folder / "results")
    assert done.exit_code == 130
    assert "the same command goes on" in done.stderr
    assert (folder / "results/gallery/hemem.yaml").read_bytes() == before
    monkeypatch.undo()
    gone_on = tiertune("gallery", "--renew", "--results", folder / "results")
    assert gone_on.exit_code == 0
    assert "30 of them cached" not in gone_on.stderr  # nothing is left to be run, nor said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("few", "--renew"), "--renew: runs what was gathered before"),
        (("--check", "--renew"), "leave one of the two out"),
        (("--jobs", "2"), "--jobs: goes with --renew"),
        (("--renew", "--gallery-dir", "nowhere"), "nowhere: there is no gallery"),
    ],
)
def test_wrong_options_are_answered_with_a_sentence(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    refused = tiertune("gallery", *arguments, "--results", tmp_path / "results")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert said in refused.stderr


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"measured_on": "hosts", "validation": RUNS}, "real hosts"),
        ({}, "does not hold the runs of its gain"),
        ({"gain": None, "outcome": "default-is-as-good", "knobs": {}}, "only its search can tell"),
        ({"validation": RUNS.model_copy(update={"tuned": [1.5, None]})}, "a run of its validation failed"),
        ({"validation": RUNS}, "workload"),
    ],
)
def test_what_cannot_be_run_says_why(changed: dict[str, object], said: str, tmp_path: Path) -> None:
    entry = entry_of(PLAIN, made=made_by(builds=[ANOTHER])).model_copy(update=changed)
    can, (cannot,) = stale_of([Gallery(name="hemem", entries=[entry])], HERE, tmp_path)
    assert can == []
    assert said in cannot.why


def packaged(**changed: object) -> Entry:
    """An entry whose workload and machine come with tiertune."""
    scenario = Scenario("gups", "skx-numa", "1:8", 12, 2 << 20, TRAFFIC)
    traits = traits_of(load_workload("gups"), load_machine("skx-numa"), scenario)
    return entry_of(replace(traits, **changed))  # type: ignore[arg-type]


def test_a_context_is_told_from_the_file_alone(tmp_path: Path) -> None:
    found = context_of(packaged(), "hemem", tmp_path)
    assert found.scenario.contention == TRAFFIC
    assert found.tuned["read_hot_threshold"] == 2
    with pytest.raises(NotAtHand, match="the machine has changed since"):
        context_of(packaged(machine_digest="0" * 16), "hemem", tmp_path)


def test_what_was_gathered_meanwhile_is_not_marked() -> None:
    was = entry_of(PLAIN, made=made_by(builds=[ANOTHER]))
    other = was.model_copy(update={"trials": 61})
    repeated = [Repeated("hemem", was, True, 1.0, 1.0, was.gain)]
    here = replace(HERE, build="feedfeedfeedfeed")
    for entry, marked in ((was, True), (other, False)):
        (gallery,) = confirmed([Gallery(name="hemem", entries=[entry])], repeated, here)
        assert (gallery.entries[0].made_by.confirmed == here.confirmation) == marked
