"""The data behind each figure and table of an explanation, as rows for CSV files, heads first."""

from __future__ import annotations

from typing import Any

Data = dict[str, Any]
Rows = list[list[object]]

FIGURES = ("ratio", "low", "high")


def tables_of(cell: Data) -> dict[str, Rows]:
    """Every table of a cell by its name; those with nothing in them are left out."""
    return {name: rows for name, rows in _all(cell).items() if len(rows) > 1}


def names_of(cell: Data) -> list[str]:
    """Names of all tables that a cell may have."""
    return list(_all(cell))


def _all(cell: Data) -> dict[str, Rows]:
    return {
        "rollout": _rollout(cell),
        "needed": _rows(cell["way"]["needed"], ("knob", *FIGURES, "needed")),
        "importance": _parts(cell["importance"]["knobs"], ("knob",)),
        "interactions": _parts(cell["importance"]["pairs"], ("first", "second")),
        "neighbours": _rows(cell["stability"]["neighbours"], ("knob", "value", *FIGURES, "close")),
        "slices": [
            ["knob", "value", *FIGURES],
            *(
                [line["knob"], point["value"], *(point[name] for name in FIGURES)]
                for line in cell["lines"]
                for point in line["points"]
            ),
        ],
        "pair": _pair(cell["grid"]),
    }


def _rollout(cell: Data) -> Rows:
    names = ("step", "knobs_changed", *FIGURES, "share", "share_low", "share_high", "keeps_constraints")
    return [
        ["knob", "value", "added_ratio", "added_low", "added_high", *names],
        *(
            [
                " ".join(step["changes"]),
                " ".join(str(value) for value in step["changes"].values()),
                *(step["added"][name] for name in FIGURES),
                *(step[name] for name in names),
            ]
            for step in cell["way"]["steps"]
        ),
    ]


def _rows(entries: list[Data], names: tuple[str, ...]) -> Rows:
    return [list(names), *([one[name] for name in names] for one in entries)]


def _parts(parts: list[Data], heads: tuple[str, ...]) -> Rows:
    names = ("share", "low", "high", "shown")
    return [[*heads, *names], *([*part["knobs"], *(part[name] for name in names)] for part in parts)]


def _pair(grid: Data | None) -> Rows:
    if grid is None:
        return []
    return [
        [*grid["knobs"], "ratio"],
        *(
            [row, column, ratio]
            for row, ratios in zip(grid["rows"], grid["ratios"], strict=True)
            for column, ratio in zip(grid["columns"], ratios, strict=True)
        ),
    ]
