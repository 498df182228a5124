"""A campaign with two objectives through the command: what it leaves, and who refuses to build on it."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from markupsafe import escape

from tests.cli.small import CAMPAIGN, tiertune, write_small
from tiertune.files import InputError
from tiertune.tuner.api.results import load_results
from tiertune.tuner.report.document import Report

OBJECTIVES = "objectives: [{metric: runtime_s}, {metric: migrated_bytes, direction: minimize}]\n"
NAMES = ("runtime_s", "migrated_bytes")


def write_two(folder: Path, text: str = CAMPAIGN) -> Path:
    """The small campaign with two objectives."""
    path = write_small(folder)
    path.write_text(text.replace("trials: 8", "trials: 16") + OBJECTIVES)
    return path


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A folder with what came of it, tracked by MLflow, and what `--json` printed."""
    folder = tmp_path_factory.mktemp("two")
    path = write_two(folder, CAMPAIGN.replace("tracking: {mlflow: false}\n", ""))
    done = tiertune("tune", path, "--results", folder / "results", "--json")
    assert done.exit_code == 0, done.stderr
    return folder, json.loads(done.stdout)


def report_of(folder: Path) -> Report:
    return Report.model_validate_json((folder / "results/small/report.json").read_text())


def test_the_front_is_printed_and_is_that_of_the_report(tuned: tuple[Path, dict[str, Any]]) -> None:
    folder, printed = tuned
    (cell,) = report_of(folder).cells
    (told,) = printed["cells"]
    assert cell.front is not None
    assert (cell.front.first.name, cell.front.second.name) == NAMES
    assert cell.front.second.direction == "minimize"
    assert told["front"] == cell.front.model_dump(mode="json", exclude={"search"})
    assert "config" not in told
    assert printed["verdict"] == f"hemem on small: {cell.verdict}"
    assert cell.outcome == "improved"
    assert len(cell.front.search) == 16
    default = next(point for point in cell.front.points if point.label == "default")
    assert (default.first.ratio, default.second.ratio) == (1.0, 1.0)
    assert [point.label for point in cell.front.found] == [
        str(number) for number in range(1, len(cell.front.found) + 1)
    ]
    for one, other in zip(cell.front.found, cell.front.found[1:], strict=False):
        assert one.first.mean < other.first.mean
        assert one.second.mean > other.second.mean


def test_every_configuration_on_the_front_is_a_file_that_runs(tuned: tuple[Path, dict[str, Any]]) -> None:
    folder, printed = tuned
    (cell,) = report_of(folder).cells
    assert cell.front is not None
    files = sorted((folder / "results/small/tuned").iterdir())
    assert [file.name for file in files] == [
        f"hemem-on-small-front-{point.label}.yaml" for point in cell.front.found
    ]
    assert {str(file) for file in files} <= set(printed["files"])
    for file, point in zip(files, cell.front.found, strict=True):
        assert yaml.safe_load(file.read_text()) == point.config
        assert f"on the front: runtime_s {point.first.ratio:.3f} times" in file.read_text()
    workload = folder / "small-workload.yaml"
    where = ("--workload", workload, "--machine", "skx-numa", "--ratio", "1:4")
    ran = tiertune("run", "hemem", "--config", files[0], *where, "--json")
    assert ran.exit_code == 0, ran.stderr


def test_the_table_of_the_front_and_the_page_have_the_same_points(
    tuned: tuple[Path, dict[str, Any]],
) -> None:
    folder, printed = tuned
    (cell,) = report_of(folder).cells
    assert cell.front is not None
    table = folder / "results/small/front.csv"
    assert str(table) in printed["files"]
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert [float(row["migrated_bytes"]) for row in rows] == [
        point.second.mean for point in cell.front.points
    ]
    assert {row["on_front"] for row in rows if row["configuration"]} <= {"yes", "no"}
    page = (folder / "results/small/report.html").read_text()
    markdown = tiertune("report", "small", "--results", folder / "results", "--markdown").stdout
    # What is beaten is nothing to roll out, also where the selection had thought most of it.
    blocks = {point.label: point.native_block for point in cell.front.found}
    for file in (folder / "results/small/tuned").iterdir():
        label = file.stem.rpartition("-")[2]
        shown = tiertune("show", "hemem", "--config", file, "--native").stdout
        assert shown.rstrip() == blocks.pop(label).rstrip()
        assert page.count(str(escape(shown.rstrip()))) == 1
        assert markdown.count(shown.rstrip()) == 1
    assert blocks == {}
    assert page.count('<h3 id="c1-native">Paste into hemem: one of the front</h3>') == 1
    assert all(point.native_block == "" for point in cell.front.points if point not in cell.front.found)
    assert "Configurations to choose from" in page
    assert "runtime (s) against migrated" in page
    assert "| configuration | runtime_s / default | migrated_bytes / default | on the front |" in markdown


def test_the_library_has_the_front_and_no_best(tuned: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = tuned
    results = load_results("small", folder / "results")
    (cell,) = results.report.cells
    assert cell.front is not None
    assert list(results.front["runtime_s_ratio"]) == [point.first.ratio for point in cell.front.points]
    assert results.front["knob.sampling_period"].notna().all()
    with pytest.raises(InputError, match="two objectives and so no one best; choose a row of `front`"):
        _ = results.best


def test_mlflow_has_the_front(tuned: tuple[Path, dict[str, Any]]) -> None:
    from mlflow import MlflowClient

    folder, _ = tuned
    (cell,) = report_of(folder).cells
    assert cell.front is not None
    client = MlflowClient(tracking_uri=f"sqlite:///{folder / 'results/mlflow.sqlite'}")
    experiment = client.get_experiment_by_name("tiertune")
    assert experiment is not None
    (parent,) = client.search_runs([experiment.experiment_id], "tags.`tiertune.key` = 'campaign'")
    assert parent.data.tags["verdict"] == cell.verdict
    for name, part in zip(NAMES, ("first", "second"), strict=True):
        history = client.get_metric_history(parent.info.run_id, f"front/{name}")
        means = {entry.step: entry.value for entry in history}
        assert [means[step] for step in sorted(means)] == pytest.approx(
            [getattr(point, part).mean for point in cell.front.points]
        )
    kept = {entry.path for entry in client.list_artifacts(parent.info.run_id)}
    assert {"front.csv", "tuned", "report.html"} <= kept


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("transfer",), "what is built on a tuned configuration is of one objective"),
        (("explain",), "what is built on a tuned configuration is of one objective"),
        (("gallery",), "what is built on a tuned configuration is of one objective"),
        (("tune", "--here", "auto"), "hosts are measured by one objective"),
    ],
)
def test_what_needs_one_tuned_configuration_refuses(
    tuned: tuple[Path, dict[str, Any]], command: tuple[str, ...], why: str
) -> None:
    folder, _ = tuned
    path = folder / "small.yaml"
    verb, *options = command
    for dry in ((), ("--dry-run",)):
        refused = tiertune(verb, path, "--results", folder / "results", *options, *dry)
        assert refused.exit_code == 2, refused.stdout
        assert f"objectives: {why}; leave the key out, and it is runtime_s" in refused.stderr


def test_a_comparison_refuses(tmp_path: Path) -> None:
    text = CAMPAIGN.replace("seed: 3", "seed: 3\nsearches: 3")
    refused = tiertune("compare", write_two(tmp_path, text), "--results", tmp_path / "results")
    assert refused.exit_code == 2
    assert "objectives: a comparison ranks systems by one objective; leave the key out" in refused.stderr


def test_a_sweep_has_no_tuned_configuration_of_it(tuned: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = tuned
    sweep = folder / "sweep.yaml"
    sweep.write_text(
        "name: sweep\ndescription: of two objectives\nseeds: [1, 2]\n"
        "systems: [hemem]\nworkloads: [./small-workload.yaml]\nmachines: [skx-numa]\nratios: ['1:4']\n"
        "configs: [{name: tuned, campaign: small}]\n"
    )
    refused = tiertune("sweep", sweep, "--results", folder / "results")
    assert refused.exit_code == 2, refused.stdout
    assert "campaign small: it has a front of two objectives" in refused.stderr


def test_sensitivity_refuses_and_the_report_does_not_point_there(tuned: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = tuned
    refused = tiertune("sensitivity", "small", "--results", folder / "results")
    assert refused.exit_code == 2, refused.stdout
    assert (
        "it has a front of two objectives, and no one configuration that is the tuned one" in refused.stderr
    )
    assert not any("sensitivity" in line for line in report_of(folder).not_measured)
