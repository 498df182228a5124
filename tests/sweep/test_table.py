"""The printed table: ranks, order, ranges over seeds, and the cut to a width."""

from __future__ import annotations

from dataclasses import replace

from tiertune.tuner.sweep.definition import Table
from tiertune.tuner.sweep.measured import Group, spread
from tiertune.tuner.sweep.row import Coordinates
from tiertune.tuner.sweep.table import Detail, grid_of, pieces, widest_range


def group(system: str, workload: str, *slowdowns: float, status: str = "ok") -> Group:
    at = Coordinates("p", system, "default", workload, "none", "m", "1:8", 4, "none", 2 << 20, -1)
    if not slowdowns:
        return Group(at, {status: 1}, {}, {})
    spreads = {"slowdown": spread(slowdowns), "metric": spread([10 * value for value in slowdowns])}
    return Group(at, {status: len(slowdowns)}, spreads, {})


GROUPS = [
    group("slow", "one", 3.0, 3.5, 2.9), group("slow", "two", 4.0),
    group("quick", "one", 1.0), group("quick", "two", 1.5),
    group("even", "one", 1.0), group("even", "two", 9.0),
    group("odd", "one", status="not-applicable"), group("odd", "two", 1.1),
]  # fmt: skip
TABLE = Table(by=["system"], across="workload", show=["slowdown", "rank"], sort="best")


def test_ranks_and_order() -> None:
    grid = grid_of(TABLE, GROUPS, {})
    assert grid.columns == ["system", "one\nslowdown", "\nrank", "two\nslowdown", "\nrank"]
    assert grid.rows == [
        ["quick", "1", "1", "1.5", "2"],
        ["even", "1", "1", "9", "4"],
        ["slow", "3 (2.9-3.5)", "3", "4", "3"],
        ["odd", "n/a", "-", "1.1", "1"],
    ]
    in_file_order = grid_of(TABLE.model_copy(update={"sort": "file"}), GROUPS, {})
    assert [row[0] for row in in_file_order.rows] == ["slow", "quick", "even", "odd"]


def test_a_metric_that_is_better_high_ranks_the_other_way() -> None:
    table = TABLE.model_copy(update={"show": ["metric", "rank"]})
    ranks = {row[0]: row[2] for row in grid_of(table, GROUPS, {"metric": "maximize"}).rows}
    assert ranks == {"slow": "1", "quick": "2", "even": "2", "odd": "-"}


def test_less_detail_leaves_out_ranges_and_says_how_large_they_are() -> None:
    near = [group("a", "one", 1.0, 1.004, 0.999), group("b", "one", 1.0, 1.2, 0.9)]
    table = Table(by=["system"], show=["slowdown"])

    def cells(detail: Detail) -> list[str]:
        return [row[1] for row in grid_of(table, near, {}, detail).rows]

    assert cells(Detail.RANGES) == ["1 (0.999-1.004)", "1 (0.9-1.2)"]
    assert cells(Detail.LARGE_RANGES) == ["1.00", "1.00 (0.900-1.20)"]
    assert cells(Detail.MEDIANS) == ["1.00", "1.00"]
    assert round(widest_range(near, ["slowdown"]), 6) == 0.3


def test_a_cell_of_several_groups_is_the_median_of_their_medians() -> None:
    table = Table(by=["system"], show=["slowdown"])
    (row,) = grid_of(
        table, [group("a", "one", 1.0), group("a", "two", 2.0), group("a", "three", 7.0)], {}
    ).rows
    assert row == ["a", "2 (1-7)"]


def test_pieces_fit_and_keep_columns_together() -> None:
    groups = [group(system, f"workload-{n}", 1.0 + n) for system in ("a", "b") for n in range(12)]
    cut = pieces(grid_of(TABLE, groups, {}), 60)
    assert len(cut) > 1
    for columns, rows in cut:
        assert columns[0] == "system"
        assert len(columns) % 2 == 1
        widths = [max(len(part) for part in title.split("\n")) for title in columns]
        assert sum(widths) + 2 * (len(widths) - 1) <= 60
        assert [row[0] for row in rows] == ["a", "b"]
    assert sum(len(columns) - 1 for columns, _ in cut) == 24


def test_a_figure_that_some_seeds_have_not_is_marked() -> None:
    at, spreads = GROUPS[0].at, {"slowdown": spread([1.0, 2.0, 3.0]), "convergence_s": spread([7.0])}
    table = Table(by=["system"], show=["slowdown", "convergence_s"])
    assert grid_of(table, [Group(at, {"ok": 3}, spreads, {})], {}).rows == [["slow", "2 (1-3)", "7*"]]
    # Also where a cell takes in conditions of which one has it on no seed.
    one = Group(at, {"ok": 1}, {"convergence_s": spread([7.0])}, {})
    none = Group(replace(at, fast="1:2"), {"ok": 1}, {"slowdown": spread([1.0])}, {})
    assert grid_of(table, [one, none], {}).rows == [["slow", "1*", "7*"]]
