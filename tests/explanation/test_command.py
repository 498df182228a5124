"""`tiertune explain` from a campaign file to its report, and again after `kill -9`."""

from __future__ import annotations

import json
import math
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.cli.figures import check_figures
from tests.cli.page_commands import check_commands
from tests.cli.small import tiertune, write_small
from tests.configs.corpus import ROOT
from tests.explanation.one_cell import FORBIDDEN, QUICK, write_one
from tiertune import engine
from tiertune.tuner.journal import Journal

Done = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    folder = tmp_path_factory.mktemp("explain")
    made = tiertune("explain", write_one(folder), *QUICK, "--results", folder / "results", "--json")
    assert made.exit_code == 0, made.stderr
    return folder, json.loads(made.stdout)


def test_a_plan_has_numbers_for_numbers(tmp_path: Path) -> None:
    planned = tiertune("explain", write_one(tmp_path), "--dry-run", "--results", tmp_path, "--json")
    (cell,) = json.loads(planned.stdout)["cells"]
    assert (cell["number"], cell["knobs"], cell["state"]) == (1, 5, "to be tuned")


def test_the_first_step_with_enough_is_the_answer(done: Done) -> None:
    (cell,) = done[1]["cells"]
    steps, enough = cell["way"]["steps"], cell["way"]["enough"]
    assert cell["improved"]
    assert (steps[0]["changes"], steps[0]["ratio"]) == ({}, 1.0)
    assert steps[-1]["share"] == pytest.approx(1.0)
    assert steps[-1]["knobs_changed"] == len(cell["changed_knobs"])
    assert all(step["share"] < 0.95 for step in steps[1:enough])
    assert steps[enough]["share"] >= 0.95
    # Most knobs have nothing to do with a hot tenth that never moves.
    assert 1 <= len(cell["way"]["config"]) < len(cell["changed_knobs"])
    assert cell["verdict"] == done[1]["verdict"]
    assert cell["verdict"].startswith(f"{len(cell['way']['config'])} of {len(cell['changed_knobs'])} ")
    assert not set(cell["important_elsewhere"]) & set(cell["way"]["config"])
    for step in steps:
        assert step["low"] <= step["ratio"] <= step["high"]
    gained = math.prod(step["added"]["ratio"] for step in steps[1:])
    assert gained == pytest.approx(steps[-1]["ratio"])
    for one in cell["way"]["needed"]:
        assert one["needed"] == (one["high"] < 1.0)


def test_what_is_around_is_measured_in_the_range(done: Done) -> None:
    (cell,) = done[1]["cells"]
    stability = cell["stability"]
    assert 5 <= len(stability["neighbours"]) <= 10
    assert stability["close"] == sum(one["ratio"] >= 1 / 1.02 for one in stability["neighbours"])
    assert len(cell["lines"]) == 2
    tuned = cell["way"]["steps"][-1]["ratio"]
    for line in cell["lines"]:
        knob = engine.system("hemem").knob(line["knob"])
        at = {point["value"]: point["ratio"] for point in line["points"]}
        assert min(at) == knob.min
        assert max(at) == knob.max
        assert at[line["tuned"]] == pytest.approx(tuned, rel=0.1)
    grid = cell["grid"]
    row, column = (
        grid[side].index(value) for side, value in zip(("rows", "columns"), grid["tuned"], strict=True)
    )
    assert grid["ratios"][row][column] == pytest.approx(tuned, rel=0.1)
    assert 0.0 <= grid["beyond"] <= 1.0


def test_what_the_space_forbids_is_never_measured(tmp_path: Path) -> None:
    made = tiertune(
        "explain", write_one(tmp_path, FORBIDDEN), *QUICK, "--results", tmp_path / "results", "--json"
    )
    assert made.exit_code == 0, made.stderr
    (cell,) = json.loads(made.stdout)["cells"]
    assert len(cell["lines"]) == 2
    for line in cell["lines"]:
        above = [point["value"] > FORBIDDEN[line["knob"]] for point in line["points"]]
        assert above[-1], "the upper end of every knob is forbidden"
        assert above == [point["ratio"] is None for point in line["points"]]
    for one in cell["stability"]["neighbours"]:
        assert one["value"] <= FORBIDDEN[one["knob"]]
    grid = cell["grid"]
    first, second = (FORBIDDEN[knob] for knob in grid["knobs"])
    for row, ratios in zip(grid["rows"], grid["ratios"], strict=True):
        for column, ratio in zip(grid["columns"], ratios, strict=True):
            assert (ratio is None) == (row > first or column > second)
    assert all(step["forbidden"] == (step["ratio"] is None) for step in cell["way"]["steps"])
    assert all(value <= FORBIDDEN[knob] for knob, value in cell["way"]["config"].items())


def test_nothing_is_judged_on_a_seed_of_the_search(done: Done) -> None:
    from tiertune.tuner.explanation.measuring import held_back_seeds
    from tiertune.tuner.transfer.context import contexts_of

    path = done[0] / "results/mine/journal.sqlite"
    with Journal(path, writer=False) as journal:
        used = {row.trial.seed for row in journal.rows()}
    (context,) = contexts_of([path])
    seeds = {
        seed for stage in ("choice", "judgement", "around") for seed in held_back_seeds(context, stage, 20)
    }
    assert len(seeds) == 60
    assert not used & seeds


def test_the_report_is_whole_and_a_second_call_measures_nothing(done: Done) -> None:
    folder, document = done
    made = folder / "results/mine/explain"
    page = (made / "report.html").read_text(encoding="utf-8")
    assert document["verdict"] in page
    assert page.count("<svg") >= 3
    assert "http" not in page.replace("http://www.w3.org", "")
    assert len((made / "pair.csv").read_text().splitlines()) == 1 + 3 * 3
    again = tiertune("explain", "mine", *QUICK, "--results", folder / "results")
    assert again.exit_code == 0
    assert again.stderr == ""
    assert max(map(len, again.stdout.split(str(folder))[0].splitlines())) <= 80
    stored = json.loads((made / "explain.json").read_text())
    assert stored == {key: value for key, value in document.items() if key != "files"}


def test_the_written_config_runs_as_fast_as_was_said(done: Done, tmp_path: Path) -> None:
    folder, document = done
    path = folder / "results/mine/explain/smallest.yaml"
    at = (
        "-w",
        folder / "small-workload.yaml",
        "-m",
        "skx-numa",
        "--ratio",
        "1:12",
        "--seeds",
        "1-5",
        "--json",
    )
    ran = [
        json.loads(tiertune("run", "hemem", *given, *at, "--results", tmp_path).stdout)
        for given in ((), ("--config", path))
    ]
    default, few = (one["median"]["runtime_s"] for one in ran)
    (cell,) = document["cells"]
    step = cell["way"]["steps"][cell["way"]["enough"]]
    assert default / few == pytest.approx(step["ratio"], rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("mine", "--cell", "2"), "the largest is 1"),
        (("mine", "--write", "few.toml"), "few.yaml"),
        (("mien",), "mien"),
        (("mine", "--write", "nowhere/few.yaml"), "nowhere"),
    ],
)
def test_wrong_options_are_answered_with_a_sentence(
    done: Done, arguments: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(done[0])
    refused = tiertune("explain", *arguments, *QUICK, "--results", done[0] / "results")
    assert refused.exit_code == 2, refused.stdout
    assert said in refused.stderr
    assert "Traceback" not in refused.stderr


def test_without_a_gain_there_is_nothing_to_divide(tmp_path: Path) -> None:
    asked = (*QUICK, "--slices", "0", "--results", tmp_path / "results")
    made = tiertune("explain", write_small(tmp_path), *asked)
    assert made.exit_code == 0, made.stderr
    assert "nothing better than the default was found" in made.stdout
    assert "under 20 nothing is said" in " ".join(made.stdout.split())
    assert not (tmp_path / "results/small/explain/smallest.yaml").exists()
    refused = tiertune("explain", "small", *asked, "--write", tmp_path / "few.yaml")
    assert refused.exit_code == 2
    assert "no gain to divide" in refused.stderr
    assert not (tmp_path / "few.yaml").exists()


def test_killed_in_the_middle_it_ends_as_if_it_had_not_been(done: Done, tmp_path: Path) -> None:
    folder, whole = done
    results, cache = tmp_path / "results", tmp_path / "results/sweeps/cache.sqlite"
    # Tuned already (a killed search has tests of its own), and nothing explained.
    (results / "mine").mkdir(parents=True)
    for name in ("journal.sqlite", "campaign.yaml"):
        shutil.copy(folder / "results/mine" / name, results / "mine" / name)
    path = os.pathsep.join([str(ROOT), str(ROOT / "engine/python")])
    command = [sys.executable, "-c", "from tiertune.tuner.cli.app import main; main()"]
    asked = ["explain", "mine", *QUICK, "--results", str(results), "--jobs", "1"]
    process = subprocess.Popen(
        [*command, *asked], env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 120
        while process.poll() is None and _stored(cache) < 20:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == -9, "it ended before it was killed"
    ended = tiertune(*asked, "--json")
    assert ended.exit_code == 0, ended.stderr
    assert json.loads(ended.stdout)["cells"] == whole["cells"]


def _stored(cache: Path) -> int:
    if not cache.is_file():
        return 0
    try:
        with sqlite3.connect(f"file:{cache}?mode=ro", uri=True) as stored:
            return int(stored.execute("select count(*) from result").fetchone()[0])
    except sqlite3.OperationalError:
        return 0


def test_the_commands_of_the_page_run(done: Done, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = done
    check_commands("explain.md", 3, folder, monkeypatch)
    assert (folder / "few-changes.yaml").is_file()


def test_figures_are_written_and_the_page_opened(
    done: Done, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, document = done
    command = ("explain", document["campaign"], *QUICK, "--results", folder / "results")
    page = folder / "results" / document["campaign"] / "explain/report.html"
    check_figures(command, page, tmp_path / "figures", monkeypatch)


def test_an_explanation_of_one_cell_leaves_no_tables_of_others(tmp_path: Path) -> None:
    path = write_one(tmp_path)
    path.write_text(
        path.read_text().replace(
            "systems:", '  - {workload: ./small-workload.yaml, machine: icx-pmem, ratio: "1:12"}\nsystems:'
        )
    )
    explain = ("explain", path, *QUICK, "--results", tmp_path / "results")
    assert tiertune(*explain).exit_code == 0
    folder = tmp_path / "results/mine/explain"
    (folder / "1-mine.csv").write_text("kept\n")
    assert {name.name[0] for name in folder.glob("[0-9]-*")} == {"1", "2"}
    second = {file.name: file.read_text() for file in folder.glob("2-*")}
    assert "2-rollout.csv" in second
    assert tiertune(*explain, "--cell", "2").exit_code == 0
    left = {file.name: file.read_text() for file in folder.glob("[0-9]-*")}
    assert left == {**second, "1-mine.csv": "kept\n"}
