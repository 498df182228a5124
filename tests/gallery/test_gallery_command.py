"""`tiertune gallery` and `tiertune show --gallery`, from a campaign file to an answer."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.page_commands import check_commands
from tests.cli.small import tiertune, write_small
from tests.configs.corpus import ROOT
from tests.gallery.entries import PLAIN, entry_of, made_by
from tests.transfer.few import CONTEXTS, write_few
from tiertune import __version__, engine
from tiertune.tuner.gallery.answer import uncommitted
from tiertune.tuner.gallery.definition import Gallery, load_gallery
from tiertune.tuner.host_facts import environment_facts

QUICK = ("--seeds", "5", "--candidates", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three contexts, tuned, tested for transfer and gathered."""
    made = tmp_path_factory.mktemp("gallery")
    results = ("--results", made / "results")
    assert tiertune("transfer", write_few(made), *QUICK, *results).exit_code == 0
    done = tiertune("gallery", "few", *results)
    assert done.exit_code == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("hemem.yaml")
    (made / "said").write_text(done.stderr)
    assert tiertune("report", "few", *results).exit_code == 0
    return made


def only(folder: Path) -> tuple[str, Path]:
    """The option that leaves out what comes with tiertune."""
    return "--gallery-dir", folder / "results/gallery"


def asked(folder: Path, machine: str, ratio: str, *more: str | Path) -> Any:
    """The answer for the small workload there."""
    context = ("-w", folder / "small-workload.yaml", "-m", machine, "--ratio", ratio)
    said = tiertune("show", "hemem", "--gallery", *context, *more, *only(folder), "--json")
    assert said.exit_code == 0, said.stderr
    return json.loads(said.stdout)


def test_entries_say_what_the_report_says(folder: Path) -> None:
    report = json.loads((folder / "results/few/report.json").read_text())
    gallery = load_gallery(str(folder / "results/gallery/hemem.yaml"))
    assert [(entry.machine, entry.ratio) for entry in gallery.entries] == list(CONTEXTS)
    assert {cell["outcome"] for cell in report["cells"]} == {"improved", "no-improvement"}
    cells = {cell["id"]: cell for cell in report["cells"]}
    for entry in gallery.entries:
        cell = cells.pop(entry.cell)
        assert entry.verdict == cell["verdict"]
        assert entry.gain is not None
        for end in ("ratio", "low", "high"):
            assert getattr(entry.gain, end) == pytest.approx(cell["effect"][end], abs=1e-6)
        assert entry.gain.seeds == len(cell["validation"]) == 5
        runs = entry.validation
        assert runs is not None
        for number, pair in enumerate(cell["validation"]):
            assert runs.seeds[number] == pair["seed"]
            assert runs.default[number] == pytest.approx(pair["default"], rel=1e-12)
            assert runs.tuned[number] == pytest.approx(pair["tuned"], rel=1e-12)
        assert entry.trials == 8
        improved = cell["outcome"] == "improved"
        assert (entry.outcome == "improved") == improved
        changed = {
            knob["name"]: knob["tuned"] for knob in cell["knobs"] if knob["changed"] and knob["active"]
        }
        assert entry.knobs == (changed if improved else {})
        shown = tiertune("show", "hemem", *(f"-k{k}={v}" for k, v in entry.knobs.items()), "--native")
        assert entry.native == shown.stdout
        made = entry.made_by
        assert (made.tiertune, made.engine) == (__version__, engine.version())
        assert made.builds == [engine.sources()]
        assert made.command == "tiertune tune results/few/campaign.yaml --results results-again"
        git = environment_facts()["git"]
        assert (made.commit, made.modified) == (git.get("commit"), git.get("modified"))
    assert cells == {}
    assert ("uncommitted" in (folder / "said").read_text()) == bool(git.get("modified"))


def test_entries_that_no_commit_holds_are_counted() -> None:
    clean, unknown, unclean = (
        entry_of(replace(PLAIN, threads=threads), made=made_by(modified=modified))
        for threads, modified in enumerate((False, None, True), start=1)
    )
    galleries = [Gallery(name="hemem", entries=[clean, unclean]), Gallery(name="tpp", entries=[unknown])]
    assert uncommitted(galleries).startswith("1 of 3 entries: ")
    assert uncommitted([Gallery(name="hemem", entries=[clean, unknown])]) == ""


def test_the_gain_is_of_validation_and_not_of_the_search(folder: Path) -> None:
    report = json.loads((folder / "results/few/report.json").read_text())
    for cell in report["cells"]:
        searched = {trial["seed"] for trial in cell["search"]}
        assert not searched & {pair["seed"] for pair in cell["validation"]}


def test_a_context_that_was_tuned_is_found_and_said_to_be(folder: Path) -> None:
    for machine, ratio in CONTEXTS:
        said = asked(folder, machine, ratio)
        assert said["exact"]
        assert (said["entry"]["machine"], said["entry"]["ratio"]) == (machine, ratio)
        assert said["differs"] == []
        assert said["stale"] == ""
        assert said["tune"] is None
        assert "tuned in this very context" in said["trust"]["told"]


def test_trust_in_another_context_is_that_of_the_transfer_matrix(folder: Path) -> None:
    said = asked(folder, "spr-cxl", "1:12")
    assert not said["exact"]
    assert [one["part"] for one in said["differs"]] == ["machine"]
    assert said["entry"]["ratio"] == "1:12"
    (study,) = json.loads((folder / "results/few/transfer/transfer.json").read_text())["studies"]
    native = {one["number"]: one["native"]["ratio"] for one in study["contexts"]}
    kept = [
        cell["ratio"] / native[cell["to"]]
        for cell in study["matrix"]
        if {cell["from"], cell["to"]} == {2, 3} and cell["status"] == "measured"
    ]
    measured = said["trust"]["measured"]
    assert measured["pairs"] == len(kept) == 2
    assert measured["kept"] == pytest.approx((kept[0] * kept[1]) ** 0.5, abs=1e-5)
    assert measured["lowest"] == pytest.approx(min(kept), abs=1e-5)
    assert said["tune"].endswith("-m spr-cxl --ratio 1:12 --system hemem")


def test_what_nobody_tested_is_said_and_so_is_how_to_be_sure(folder: Path) -> None:
    context = ("-w", "gups", "-m", "icx-pmem", "--ratio", "1:12")
    said = tiertune("show", "hemem", "--gallery", *context, *only(folder))
    assert said.exit_code == 0, said.stderr
    assert "nobody has tested how far configurations carry over to another program" in said.stdout
    assert "program: small there, gups here" in said.stdout
    assert "tiertune tune -w gups -m icx-pmem --ratio 1:12 --system hemem" in said.stdout
    assert [line for line in said.stdout.splitlines() if line != line.rstrip() or len(line) > 80] == []


def test_native_is_for_a_pipe_and_tells_the_rest_beside_it(folder: Path) -> None:
    context = ("-w", folder / "small-workload.yaml", "-m", "skx-numa", "--native")
    results = only(folder)
    same = tiertune("show", "hemem", "--gallery", *context, "--ratio", "1:12", *results)
    gallery = load_gallery(str(folder / "results/gallery/hemem.yaml"))
    assert same.stdout == gallery.entries[1].native
    assert same.stderr == ""
    near = tiertune("show", "hemem", "--gallery", *context, "--ratio", "1:11", *results)
    assert near.stdout == gallery.entries[1].native
    assert near.stderr.startswith("tiertune: of the nearest context that was tuned; ")


def test_gathering_again_changes_nothing(folder: Path) -> None:
    path = folder / "results/gallery/hemem.yaml"
    before = path.read_bytes()
    again = tiertune("gallery", "few", "--results", folder / "results", "--json")
    assert again.exit_code == 0, again.stderr
    assert path.read_bytes() == before
    document = json.loads(again.stdout)
    assert [row["outcome"] for row in document["entries"]].count("improved") == 2
    assert document["files"] == [str(path)]
    listed = tiertune("gallery", "--results", folder / "results", "--json")
    assert json.loads(listed.stdout) == document


def test_check_is_0_for_what_this_engine_measured_and_5_for_another(folder: Path, tmp_path: Path) -> None:
    fresh = tiertune("gallery", "--check", "--results", folder / "results")
    assert (fresh.exit_code, fresh.stdout) == (0, "3 entries, none is stale\n")
    stale = tmp_path / "results/gallery/hemem.yaml"
    stale.parent.mkdir(parents=True)
    text = (folder / "results/gallery/hemem.yaml").read_text()
    stale.write_text(text.replace(engine.sources(), "0123456789abcdef", 1))
    results = ("--results", tmp_path / "results")
    said = tiertune("gallery", "--check", *results)
    assert said.exit_code == 5
    assert (
        "small skx-numa 1:4 4t 2MiB alone: measured by engine 0.1.0 of sources 0123456789abcdef"
        in said.stdout
    )
    assert "again: tiertune tune results/few/campaign.yaml" in said.stdout
    assert "1 of the gallery's figures are stale" in said.stderr
    as_json = tiertune("gallery", "--check", "--json", *results)
    assert as_json.exit_code == 5
    assert len(json.loads(as_json.stdout)["stale"]) == 1
    context = ("-w", folder / "small-workload.yaml", "-m", "skx-numa", "--ratio", "1:4")
    shown = tiertune("show", "hemem", "--gallery", *context, *only(tmp_path))
    assert shown.exit_code == 0
    assert "tiertune: stale: measured by engine 0.1.0 of sources 0123456789abcdef" in shown.stderr


def test_a_machine_that_changed_under_its_name_is_another(folder: Path, tmp_path: Path) -> None:
    text = (ROOT / "machines/skx-numa.yaml").read_text()
    (tmp_path / "skx-numa.yaml").write_text(text.replace("clock_ghz: 2.2", "clock_ghz: 3.3", 1))
    said = asked(folder, str(tmp_path / "skx-numa.yaml"), "1:12")
    assert not said["exact"]
    assert said["differs"] == [
        {"part": "machine", "there": "skx-numa as it was then", "here": "skx-numa as it is now"}
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("gallery", "few", "--check"), "leave the campaigns out"),
        (("gallery", "--dry-run"), "--dry-run: goes with campaigns to gather, or with"),
        (("gallery", "--gallery-dir", "nowhere"), "nowhere: there is no gallery"),
        (("show", "hemen", "--gallery"), "did you mean 'hemem'"),
        (("show", "notier", "--gallery"), "the gallery has nothing of notier"),
        (("show", "hemem", "--gallery", "--gallery-dir", "nowhere"), "there is no such folder"),
        (("show", "hemem", "--gallery", "-w", "gups"), "--machine is missing"),
        (("show", "hemem", "--gallery", "--ratio", "1:4"), "--workload is missing"),
        (("show", "hemem", "--gallery", "--native"), "--native: goes with --workload"),
        (("show", "hemem", "--gallery", "-k", "read_hot_threshold=2"), "--knob: does not go with --gallery"),
        (("show", "hemem", "-w", "gups"), "--workload: goes with --gallery"),
        (("show", "hemem", "--gallery", "-w", "gups", "-m", "skx-numa", "--ratio", "8"), "--ratio"),
        (("show", "hemem", "--gallery", "-w", "gups", "-m", "skx-numa", "--page-size", "1GiB"), "2MiB"),
        (("show", "hemem", "--gallery", "-w", "gups", "-m", "skx-numb"), "did you mean 'skx-numa'"),
    ],
)
def test_wrong_options_are_answered_with_a_sentence(
    folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    refused = tiertune(*arguments, "--results", folder / "results")
    assert refused.exit_code == 2
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr
    assert refused.stdout == ""


def test_two_campaigns_of_one_context_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    results = ("--results", tmp_path / "results")
    assert tiertune("tune", write_small(tmp_path), *results).exit_code == 0
    twin = tmp_path / "twin.yaml"
    twin.write_text((tmp_path / "small.yaml").read_text().replace("name: small", "name: twin"))
    planned = tiertune("gallery", "small", twin, "--dry-run", "--json", *results)
    rows = json.loads(planned.stdout)
    assert [(row["entries"], row["state"]) for row in rows] == [(1, "tuned"), (1, "to be tuned")]
    refused = tiertune("gallery", "small", twin, *results)
    assert refused.exit_code == 2
    assert "is the same context as" in refused.stderr
    assert not (tmp_path / "results/gallery").exists()


def test_further_searches_are_told_and_the_first_counts(tmp_path: Path) -> None:
    path = write_small(tmp_path)
    path.write_text(path.read_text().replace('"1:4"', '"1:12"') + "searches: 2\n")
    assert tiertune("gallery", path, "--results", tmp_path / "results").exit_code == 0
    (entry,) = load_gallery(str(tmp_path / "results/gallery/hemem.yaml")).entries
    report = tiertune("report", "small", "--results", tmp_path / "results", "--json")
    cells = json.loads(report.stdout)["cells"]
    assert len(cells) == 2
    assert entry.gain is not None
    assert entry.gain.ratio == pytest.approx(cells[0]["effect"]["ratio"], abs=1e-6)
    assert entry.other_searches == [pytest.approx(cells[1]["effect"]["ratio"], abs=1e-6)]


def test_the_commands_of_the_page_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copy(folder / "few.yaml", folder / "mine.yaml")
    check_commands("gallery.md", 6, folder, monkeypatch)


def test_campaigns_of_make_gallery_have_each_system_once_and_no_context_twice() -> None:
    from tiertune.tuner.campaign import load_campaign

    (line,) = re.findall(r"^GALLERY \?= (.+)$", (ROOT / "Makefile").read_text(), re.M)
    systems = [entry.system for name in line.split() for entry in load_campaign(name).systems]
    assert len(set(systems)) == len(systems)
    tunable = {yaml.safe_load(path.read_text())["system"] for path in (ROOT / "spaces").glob("*.yaml")}
    assert tunable - set(systems) == {"static", "interleave", "random", "mru"}
    page = (ROOT / "docs/gallery.md").read_text()
    assert all(f"`{name}`" in page for name in [*line.split(), *(tunable - set(systems))])
