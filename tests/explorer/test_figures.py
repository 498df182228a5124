"""Figures say what the journal says."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from tests.explorer.made import NAME, comparison, made, transfer
from tiertune.condition import Condition
from tiertune.spaces.definition import Axis
from tiertune.tuner.explorer.figures.convergence import convergence, validation
from tiertune.tuner.explorer.figures.coordinates import UNUSED, coordinates, place
from tiertune.tuner.explorer.figures.matrices import comparison_matrix, transfer_matrix
from tiertune.tuner.explorer.figures.nights import nights
from tiertune.tuner.explorer.figures.slices import measured_line, plane_of, slice_of
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


def test_gains_are_on_one_seed_and_of_whole_runs(tmp_path: Path) -> None:
    with opened(made(tmp_path).results, NAME, "1") as cell:
        rows = cell.rows()
        report = report_cell(cell.journal, cell.claim, cell.key, {})
        table = {entry["id"]: entry for entry in trial_rows(rows, cell.objective, cell.address)}
        judged = [row for row in rows if row.trial.purpose == "validation" and row.trial.origin == "winner"]
        ratios = {pair.seed: pair.ratio for pair in report.validation}
        for row in judged:
            assert table[f"validation/{row.trial.number}"]["gain"] == pytest.approx(ratios[row.trial.seed])
        first, *others = [row for row in rows if row.trial.purpose == "search"]
        short = [replace(one, trial=replace(one.trial, fidelity=0.25)) for one in others]
        (default, *rest) = trial_rows([first, *short], cell.objective, cell.address)
    assert len(judged) == 5
    assert default["gain"] == 1.0
    assert {entry["gain"] for entry in rest} == {None}


def test_short_runs_are_not_drawn_as_if_they_were_whole(tmp_path: Path) -> None:
    with opened(made(tmp_path).results, NAME, "1") as cell:
        report = report_cell(cell.journal, cell.claim, cell.key, {})
    figure = convergence(report, LIGHT, frozenset({2, 5}))
    drawn = {x for trace in figure.data if trace.mode == "markers" for x in trace.x}
    assert drawn == set(range(12)) - {2, 5}


def test_what_was_measured_along_a_knob_has_its_marks_where_they_belong() -> None:
    points = [{"value": value, "ratio": 1.1, "low": 1.0, "high": 1.2} for value in (100, 1000, 10000)]
    line = {"knob": "period", "unit": "", "words": False, "points": points, "tuned": 500, "default": 5000}
    for log, places in ((True, [math.log10(500), math.log10(5000)]), (False, [500, 5000])):
        figure = measured_line({**line, "log": log}, LIGHT)
        assert [shape.x0 for shape in figure.layout.shapes] == [500, 5000]
        assert [(one.text, one.x) for one in figure.layout.annotations] == [
            ("tuned", pytest.approx(places[0])),
            ("default", pytest.approx(places[1])),
        ]
    special = measured_line({**line, "log": True, "default": 0}, LIGHT)
    assert [one.text for one in special.layout.annotations] == ["tuned"]


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
    assert list(lines.line.color) == [row.metrics["runtime_s"] for row in rows]


def test_a_knob_that_does_not_act_has_a_place_of_its_own(tmp_path: Path) -> None:
    with opened(made(tmp_path).results, NAME, "1") as cell:
        objective, rows = cell.objective, measured(cell.rows("search"))
    switch = Axis("migration_period_ms", "choice", 0, 0, False, ("slow", "fast"), "slow", None)
    depending = Axis(
        "read_hot_threshold",
        "int",
        1,
        64,
        True,
        (),
        8,
        condition=Condition("migration_period_ms", "is", ("slow",)),
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


def test_a_special_value_that_no_scale_has_is_told(tmp_path: Path) -> None:
    with opened(made(tmp_path).results, NAME, "1") as cell:
        objective, rows = cell.objective, measured(cell.rows("search"))
    at = [row.trial.config["read_hot_threshold"] for row in rows]
    axis = Axis("read_hot_threshold", "int", 1, 64, True, (), 8, None, specials=(at[0],), special_share=0.2)
    title = slice_of(rows, axis, objective, LIGHT).layout.xaxis.title.text
    assert title.endswith(f"({at.count(at[0])} trials at {at[0]} are off the scale)")


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
