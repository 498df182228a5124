"""Figures say what the journal says."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.explorer.made import NAME, comparison, made, transfer
from tiertune.spaces.definition import Axis
from tiertune.tuner.explorer.figures.convergence import convergence, validation
from tiertune.tuner.explorer.figures.coordinates import UNUSED, coordinates, place
from tiertune.tuner.explorer.figures.matrices import comparison_matrix, transfer_matrix
from tiertune.tuner.explorer.figures.nights import nights
from tiertune.tuner.explorer.figures.slices import plane_of, slice_of
from tiertune.tuner.explorer.look import LIGHT
from tiertune.tuner.explorer.trials import axes_of, knob_value, measured, trial_rows
from tiertune.tuner.explorer.view import opened
from tiertune.tuner.nightly.detection import Reading
from tiertune.tuner.nightly.history import Followed
from tiertune.tuner.report.data import report_cell


def test_the_table_has_every_trial_with_what_it_measured(tmp_path: Path) -> None:
    with opened(made(tmp_path).results, NAME, "1") as cell:
        rows = cell.rows()
        table = trial_rows(rows, cell.objective, cell.address)
    assert len(table) == len(rows) == 46
    by_id = {entry["id"]: entry for entry in table}
    assert len(by_id) == 46
    default, crashed = by_id["search/0"], by_id["search/3"]
    assert default["gain"] == 1.0
    assert default["value"] == pytest.approx(100.0, rel=0.01)
    assert crashed["status"] == "crashed"
    assert (crashed["value"], crashed["gain"]) == (None, None)
    assert default["trial"] == "[search 00](/campaign/made-up/1/trial/search/0)"
    assert [entry["trial"] for entry in table[:12]] == sorted(entry["trial"] for entry in table[:12])
    assert default["knob read_hot_threshold"] == 8


def test_convergence_has_every_trial_and_the_validated_interval(tmp_path: Path) -> None:
    with opened(made(tmp_path).results, NAME, "1") as cell:
        report = report_cell(cell.journal, cell.claim, cell.key, {})
    figure = convergence(report, LIGHT)
    by_name = {trace.name: trace for trace in figure.data}
    dots = [
        x
        for name, trace in by_name.items()
        if trace.mode == "markers" and "failed" not in name
        for x in trace.x
    ]
    assert sorted(dots) == [0, 1, 2, 4, 5, 6, 8, 9, 10, 11]
    assert list(by_name["2 failed"].x) == [3, 7]
    best = list(by_name["best so far"].y)
    assert best == sorted(best, reverse=True)
    band = next(shape for shape in figure.layout.shapes if shape.type == "rect")
    assert report.effect is not None
    default = next(shape for shape in figure.layout.shapes if shape.type == "line").y0
    assert band.y0 == pytest.approx(default / report.effect.high)
    assert band.y1 == pytest.approx(default / report.effect.low)
    judged = validation(report, LIGHT)
    assert list(judged.data[0].x) == [pair.ratio for pair in report.validation]


def test_parallel_coordinates_place_knobs_on_their_own_scale(tmp_path: Path) -> None:
    with opened(made(tmp_path).results, NAME, "1") as cell:
        axes, objective = axes_of(cell.contents), cell.objective
        rows = measured(cell.rows("search"))
    (lines,) = coordinates(rows, axes, objective, LIGHT).data
    assert len(lines.dimensions) == len(axes) + 1 == 3
    threshold = next(axis for axis in axes if axis.name == "read_hot_threshold")
    assert threshold.log
    shown = next(one for one in lines.dimensions if one.label.startswith("read hot"))
    assert list(shown["values"]) == [
        math.log10(float(row.trial.config["read_hot_threshold"])) for row in rows
    ]
    assert list(lines.line.color) == [objective.value(row.cost) for row in rows if row.cost is not None]


def test_a_knob_that_does_not_act_has_a_place_of_its_own(tmp_path: Path) -> None:
    with opened(made(tmp_path).results, NAME, "1") as cell:
        objective, rows = cell.objective, measured(cell.rows("search"))
    switch = Axis("migration_period_ms", "choice", 0, 0, False, ("slow", "fast"), "slow", None)
    depending = Axis(
        "read_hot_threshold", "int", 1, 64, True, (), 8, condition=("migration_period_ms", "slow")
    )
    assert {knob_value(depending, row) for row in rows} == {None}
    (lines,) = coordinates(rows, [depending], objective, LIGHT).data
    shown = lines.dimensions[0]
    assert shown.ticktext[0] == UNUSED
    assert set(shown["values"]) == {shown.tickvals[0]}
    assert shown.tickvals[0] < place(depending, 1)
    assert slice_of(rows, depending, objective, LIGHT).layout.xaxis.title.text.endswith("do not use it)")
    assert list(plane_of(rows, switch, depending, objective, LIGHT).layout.xaxis.categoryarray)[:2] == [
        "slow",
        "fast",
    ]


def test_matrices_leave_out_what_was_not_measured() -> None:
    (map_,) = comparison_matrix(comparison(), "slowdown_tuned", LIGHT).data
    assert list(map_.x) == ["hemem", "tpp"]
    assert map_.z[1][1] is None
    assert map_.hovertext[1][1] == "not measured"
    assert map_.z[1][0] == pytest.approx(1.3)
    # Default and tuned have the same colours for the same slowdown.
    (other,) = comparison_matrix(comparison(), "slowdown_default", LIGHT).data
    assert (map_.zmin, map_.zmax) == (other.zmin, other.zmax) == (1.2, 1.6)
    (carried,) = transfer_matrix(transfer()["studies"][0], "share", LIGHT).data
    assert [list(row) for row in carried.z] == [[None, None], [0.9, 0.9]]
    assert carried.hovertext[0][0] == "nothing better was found"


def test_nights_are_percent_against_the_first() -> None:
    followed = {"k": Followed("k", "performance", "w", "c", "default of w", "runtime_s", "minimize")}
    readings = {"k": [Reading("n1", (0.0, 0.2)), Reading("n2", (), 3), Reading("n3", (math.log(1.1) + 0.1,))]}
    line = nights(followed, readings, LIGHT).data[0]
    assert list(line.x) == ["n1", "n3"]
    assert list(line.y) == pytest.approx([0.0, 10.0])
