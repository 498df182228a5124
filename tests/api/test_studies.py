"""`transfer` and `compare` in a notebook: the frames are what the commands' documents say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

import tiertune
from tests.comparison.test_command import SEARCHES, SYSTEMS, write_comparison
from tests.transfer.few import CONTEXTS, write_few
from tiertune.tuner.api.transferring import Transfer


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Transfer]:
    folder = tmp_path_factory.mktemp("transfer")
    found = tiertune.transfer(write_few(folder), seeds=5, candidates=2, results=folder / "results")
    return folder, found


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tiertune.ComparisonResult]:
    folder = tmp_path_factory.mktemp("compare")
    return folder, tiertune.compare(write_comparison(folder), results=folder / "results")


def test_a_transfer_is_a_matrix_of_ratios(carried: tuple[Path, Transfer]) -> None:
    _, found = carried
    (study,) = found.document["studies"]
    labels = [context["label"] for context in study["contexts"]]
    assert len(set(labels)) == len(CONTEXTS)
    assert len(found.cells) == len(CONTEXTS) ** 2
    # From is the row and to the column: a config is judged against the default of where it runs.
    for cell in study["matrix"]:
        shown = found.matrix.loc[("hemem", labels[cell["from"] - 1]), labels[cell["to"] - 1]]
        assert pd.isna(shown) if cell["ratio"] is None else shown == cell["ratio"]
    improved = [context["label"] for context in study["contexts"] if context["improved"]]
    assert improved
    assert all(found.matrix.loc[("hemem", label), label] > 1.01 for label in improved)
    assert list(found.matrix.columns) == [label for _, label in found.matrix.index] == labels
    assert found.walks.empty
    assert found.verdict in found._repr_html_()


def test_a_walk_has_breakpoints_and_no_matrix(carried: tuple[Path, Transfer]) -> None:
    folder, _ = carried
    found = tiertune.transfer(
        "few", seeds=5, along="ratio", first="1:4", last="1:12", contexts=[2], results=folder / "results"
    )
    assert found.campaigns == ("few",)
    (line,) = found.walks.to_dict("records")
    assert (line["axis"], line["kind"]) == ("ratio", "begins")
    # A tenth of the table is hot: it fits at 1:8 whatever is done, and at 1:10 only just.
    assert 6.0 < line["before"] < line["after"] < 11.0
    assert found.matrix.empty
    assert found.cells.empty
    assert "begins" in found._repr_html_()
    with pytest.raises(tiertune.InputError, match="--context 0: there are 3; the smallest is 1"):
        tiertune.transfer(
            "few", along="ratio", first="1:4", last="1:12", contexts=[0], results=folder / "results"
        )


def test_two_systems_do_not_share_rows_of_the_matrix() -> None:
    def study(system: str, labels: tuple[str, str], ratio: float) -> dict[str, Any]:
        contexts = [{"number": number, "label": label} for number, label in enumerate(labels, start=1)]
        matrix = [{"from": one, "to": other, "ratio": ratio} for one in (1, 2) for other in (1, 2)]
        return {"system": system, "contexts": contexts, "matrix": matrix}

    studies = [study("hemem", ("1:4", "1:8"), 1.5), study("tpp", ("1:2", "1:8"), 1.1)]
    found = Transfer(("mine",), {"verdict": "", "studies": studies, "along": []})
    assert list(found.matrix.index) == [("hemem", "1:4"), ("hemem", "1:8"), ("tpp", "1:2"), ("tpp", "1:8")]
    assert found.matrix.loc[("tpp", "1:2"), "1:8"] == 1.1
    assert pd.isna(found.matrix.loc[("tpp", "1:2"), "1:4"])


def test_a_comparison_has_frames_of_systems_scenarios_and_pairs(
    compared: tuple[Path, tiertune.ComparisonResult],
) -> None:
    folder, found = compared
    assert found.void == ()
    assert sorted(found.systems["name"]) == sorted(SYSTEMS)
    assert len(found.entries) == 2 * len(SYSTEMS)
    assert len(found.pairs) == 2 * 3  # at default and tuned
    assert set(found.pairs["stage"]) == {"default", "tuned"}
    for one in (found.systems, found.entries):
        assert (one["slowdown_default"] >= 0.999).all()
    measured = found.entries.set_index(["scenario", "system"])
    # What tuning gains is what the slowdown loses.
    ratio = measured["slowdown_default"] / measured["slowdown_tuned"]
    assert ratio.to_numpy() == pytest.approx(measured["gain"].to_numpy(), rel=0.02)
    assert (measured["gain_low"] <= measured["gain"]).all()
    assert (measured["gain"] <= measured["gain_high"]).all()
    assert found.comparison.setting.searches == SEARCHES
    assert all(path.is_file() for path in found.files)
    assert found.verdict in found._repr_html_()
    again = tiertune.compare(folder / "small.yaml", results=folder / "results")
    assert again.systems.equals(found.systems)


def test_a_comparison_of_one_system_is_refused(
    compared: tuple[Path, tiertune.ComparisonResult], tmp_path: Path
) -> None:
    folder, _ = compared
    document = yaml.safe_load((folder / "small.yaml").read_text())
    document["systems"] = document["systems"][:1]
    document["scenarios"] = [
        {**one, "workload": str(folder / "small-workload.yaml")} for one in document["scenarios"]
    ]
    with pytest.raises(tiertune.InputError, match="one system is nothing to compare"):
        tiertune.compare(document, results=tmp_path)


def test_an_explanation_has_a_frame_of_steps(carried: tuple[Path, Transfer]) -> None:
    folder, transfer = carried
    (study,) = transfer.document["studies"]
    context = next(one for one in study["contexts"] if one["improved"])
    found = tiertune.explain(
        folder / "few.yaml", cells=[context["number"]], seeds=5, slices=0, grid=3, results=folder / "results"
    )
    (cell,) = found.document["cells"]
    steps = found.steps
    assert list(steps["step"]) == list(range(len(cell["way"]["steps"])))
    assert set(steps["cell"]) == {cell["label"]}
    (enough,) = steps.loc[steps["enough"], "step"]
    assert enough == cell["way"]["enough"]
    assert steps.loc[steps["step"] == enough, "share"].item() >= 0.95
    few = found.few_changes[cell["label"]]
    assert len(few) == steps.loc[steps["step"] == enough, "knobs_changed"].item()
    assert few.items() <= context["changed_knobs"].items()
    assert len(found.importance) == len(cell["importance"]["knobs"]) + len(cell["importance"]["pairs"])
    assert found.verdict in found._repr_html_()
