"""`import tiertune`: what commands do, in a notebook."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import tiertune
from tests.cli.small import CAMPAIGN, write_small
from tests.cli.small import tiertune as command
from tests.source_tree import PACKAGE
from tiertune.tuner.api.evaluation import seeds_of


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tiertune.Results, list[tiertune.Progress]]:
    folder = tmp_path_factory.mktemp("api")
    told: list[tiertune.Progress] = []
    found = tiertune.tune(write_small(folder), results=folder / "results", progress=told.append)
    return folder, found, told


def test_the_import_loads_nothing_and_everything_it_offers_is_there() -> None:
    script = "import sys, tiertune\nprint(*sorted(m for m in sys.modules if m.startswith('tiertune')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["tiertune"]
    for name in tiertune.__all__:
        assert getattr(tiertune, name) is not None
        assert name in dir(tiertune)
    with pytest.raises(AttributeError, match="no attribute 'tun'"):
        tiertune.tun  # noqa: B018


def test_what_type_checkers_see_is_what_is_offered() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    typed = {
        (alias.asname, node.module)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == {(name, tiertune._FOUND_IN[name]) for name in tiertune.__all__}


def test_a_campaign_is_tuned_and_its_results_are_frames(
    tuned: tuple[Path, tiertune.Results, list[tiertune.Progress]],
) -> None:
    folder, found, told = tuned
    assert found.complete
    assert len(found.trials) == 8
    assert found.trials["best_so_far"].is_monotonic_decreasing
    assert found.trials.loc[0, "origin"] == "default"
    # Random search over eight trials found nothing better: what to run is the default then.
    assert found.cells.loc[0, "outcome"] == "no-improvement"
    assert found.best == tiertune.knobs("hemem")["default"].to_dict()
    assert found.knobs["changed"].any()
    assert {"value", "knob.read_hot_threshold"} <= set(found.trials.columns)
    assert len(found.validation) == 5
    assert set(found.timelines["role"]) == {"default", "tuned"}
    assert found.effect is not None
    assert found.cells.loc[0, "effect_ratio"] == found.effect.ratio
    # Eight of search, four seeds of five finalists and the default, five pairs of validation.
    assert [one.done for one in told] == list(range(1, 8 + 4 * 6 + 2 * 5 + 1))
    assert (told[-1].total, told[-1].left_s, told[-1].failed) == (len(told), 0.0, 0)
    assert told[0].doing == "searching"
    assert found.verdict in found._repr_html_().replace("&#x27;", "'")
    again = tiertune.load_results("small", folder / "results")
    assert again.report == found.report
    assert tiertune.load_results(folder / "results" / "small").verdict == found.verdict


def test_it_gives_what_the_command_gives(
    tuned: tuple[Path, tiertune.Results, list[tiertune.Progress]], tmp_path: Path
) -> None:
    folder, _, _ = tuned
    arguments = ("run", "hemem", "-w", folder / "small-workload.yaml", "-m", "skx-numa", "--seeds", "1-2")
    printed = command(*arguments, "--results", tmp_path, "--json")
    run = tiertune.run("hemem", folder / "small-workload.yaml", "skx-numa", seeds="1-2", results=tmp_path)
    assert yaml.safe_load(printed.stdout) == run.document
    assert list(run.runs.index) == [1, 2]
    assert run.timeline.empty


def test_mistakes_are_the_sentences_of_the_commands(tmp_path: Path) -> None:
    with pytest.raises(tiertune.EngineError, match="no system 'hemen'; did you mean 'hemem'"):
        tiertune.run("hemen", "gups", "skx-numa", results=tmp_path)
    with pytest.raises(tiertune.InputError, match="no workload 'gupps'; did you mean 'gups'"):
        tiertune.run("hemem", "gupps", "skx-numa", results=tmp_path)
    with pytest.raises(tiertune.InputError, match="there is no journal of campaign 'none'"):
        tiertune.load_results("none", tmp_path)
    with pytest.raises(tiertune.InputError, match="searches: 1 cannot tell"):
        tiertune.compare({**yaml.safe_load(CAMPAIGN), "scenarios": [
            {"workload": "gups", "machine": "skx-numa", "ratio": "1:8"}]}, results=tmp_path)  # fmt: skip
    with pytest.raises(tiertune.InputError, match="give a campaign or a workload"):
        tiertune.tune(results=tmp_path)


@pytest.mark.parametrize("seeds", [[-1], [], True, 1.5, "x", [2**53], ["1"]])
def test_seeds_that_are_none_are_refused(seeds: Any) -> None:
    with pytest.raises(tiertune.InputError, match="seeds"):
        seeds_of(seeds)


@pytest.mark.parametrize("seeds", [[1, 2], range(1, 3), np.arange(1, 3), "1-2", np.array([1, 2, 1])])
def test_seeds_of_any_kind_are_numbers(seeds: Any) -> None:
    assert seeds_of(seeds) == [1, 2]
    assert seeds_of(np.int64(7)) == [7]


@pytest.mark.parametrize(
    ("ask", "arguments", "sentence"),
    [
        (tiertune.tune, {"campaign": "demo", "trials": 5, "ratio": "1:4"}, "ratio and trials: goes with a w"),
        (
            tiertune.explain,
            {"campaign": "demo", "keep": 0.95},
            r"keep \(percent\): 0.95 .*nearest valid is 10",
        ),
        (tiertune.explain, {"campaign": "demo", "seeds": 4}, "seeds: 4 is not from 5 to 1000"),
        (tiertune.explain, {"campaign": "demo", "jobs": -1}, "jobs: -1 is not from 1 to 256"),
        (tiertune.transfer, {"campaigns": "demo", "seeds": 0}, "seeds: 0 is not from 5 to 1000"),
        (tiertune.transfer, {"campaigns": "demo", "first": "1:2"}, "name its axis"),
        (tiertune.transfer, {"campaigns": "demo", "aim": "best"}, "use mean or worst"),
        (
            tiertune.run,
            {"system": "mru", "workload": "gups", "machine": "skx-numa", "mode": "x"},
            "mode x: use fast",
        ),
        (tiertune.load_profile, {"path": "nowhere.parquet"}, "there is no such file"),
    ],
)
def test_arguments_that_would_be_ignored_or_mislead_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Any, arguments: dict[str, Any], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(tiertune.InputError, match=sentence):
        ask(**arguments)
    assert list(tmp_path.iterdir()) == [], "something was run"


def test_cells_are_counted_from_one(
    tuned: tuple[Path, tiertune.Results, list[tiertune.Progress]],
) -> None:
    folder, _, _ = tuned
    for number, near in ((0, "smallest is 1"), (-1, "smallest is 1"), (2, "largest is 1")):
        with pytest.raises(tiertune.InputError, match=f"--cell {number}: small has 1; the {near}"):
            tiertune.explain("small", cells=[number], results=folder / "results")


def test_a_sweep_is_a_frame(tuned: tuple[Path, tiertune.Results, list[tiertune.Progress]]) -> None:
    folder, _, _ = tuned
    matrix = {
        "systems": ["hemem", "notier"],
        "workloads": [str(folder / "small-workload.yaml")],
        "machines": ["skx-numa"],
        "ratios": ["1:4", "1:8"],
    }
    found = tiertune.sweep(matrix, seeds=[1, 2], timelines=True, results=folder / "results")
    assert len(found.rows) == 8
    assert len(found.groups) == 4
    assert (found.groups["slowdown"] >= 1.0).all()
    assert {"id", "time_s"} <= set(found.timelines.columns)


def test_an_explanation_is_a_frame(tuned: tuple[Path, tiertune.Results, list[tiertune.Progress]]) -> None:
    folder, _, _ = tuned
    found = tiertune.explain("small", seeds=5, slices=0, grid=3, results=folder / "results")
    assert found.campaign == "small"
    assert len(found.document["cells"]) == 1
    assert found.verdict


def test_a_recorded_profile_is_loaded_as_frames(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("profile")
    recorded = tiertune.record("masim-stairs-ci", "skx-numa", results=folder)
    assert recorded.path.parent == folder / "profiles"
    profile = tiertune.load_profile(recorded.path)
    assert profile.objects.equals(recorded.objects)
    assert (profile.objects["pages"] > 0).all()
    # Rows are addresses, columns slices: both add up to the reads of the objects.
    assert profile.heat.to_numpy().sum() == pytest.approx(profile.objects["reads"].sum(), rel=1e-6)
    assert profile.heat.index.is_monotonic_increasing
    assert 0 < profile.heat.index[0] < profile.heat.index[-1] < 1
    assert profile.phases["slices"].sum() == profile.heat.shape[1]
    assert profile.phases.loc[0, "first_slice"] == 0
    popular = profile.popularity
    assert popular.is_monotonic_increasing
    assert (popular.index[-1], popular.iloc[-1]) == (1.0, pytest.approx(1.0))
    assert popular.loc[0.5] >= 0.5
