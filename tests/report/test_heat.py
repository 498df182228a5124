"""Heat maps: legible texts on every ground, frames where asked, the unknown told from the measured."""

from __future__ import annotations

import re
from itertools import pairwise

import matplotlib
import pytest

from tests.report.test_palette import contrast
from tiertune.tuner.report.figures.heat import DARK_INK, LIGHT_INK, HeatCell, Side, heat
from tiertune.tuner.report.palette import HEAT, UNKNOWN

INKS = (DARK_INK, LIGHT_INK)
LARGE_TEXT_CONTRAST = 3.0
"""What WCAG 2.2 asks for of large text; figures in cells are also in the tables and the CSV files."""


def drawn(cells: list[list[HeatCell]]) -> str:
    rows, columns = Side([f"r{n}" for n in range(len(cells))], "down"), Side(["c"] * len(cells[0]), "across")
    return heat(lambda row, column: cells[row][column], rows, columns, "name", "title", "told")


def test_texts_are_legible_on_every_ground() -> None:
    values = [place / 20 for place in range(-20, 21)]
    svg = drawn([[HeatCell(value, f"t{value}") for value in values]])
    shades = [matplotlib.colors.to_hex(matplotlib.colormaps[HEAT](0.5 + 0.5 * value)) for value in values]
    grounds = re.findall(r"fill: (#[0-9a-f]{6})", svg)
    for shade in shades:
        assert shade in grounds
    assert grounds[0] == shades[0] == "#7f3b08", "the worst is orange"
    assert shades[-1] == "#2d004b", "the best is purple"
    inks = {text: ink for ink, text in re.findall(r"fill: (#[0-9a-f]{6})[^>]*>(t-?[0-9.]+)<", svg)}
    for value, shade in zip(values, shades, strict=True):
        assert contrast(inks[f"t{value}"], shade) >= LARGE_TEXT_CONTRAST, (value, shade)


def test_what_is_unknown_has_its_own_ground_and_frames_are_where_they_are_asked_for() -> None:
    plain = drawn([[HeatCell(0.5, "a"), HeatCell(None, "failed")]])
    framed = drawn([[HeatCell(0.5, "a", framed=True), HeatCell(None, "failed")]])
    assert plain.count(UNKNOWN) == 1
    assert ">failed<" in plain
    strokes = [len(re.findall(f"stroke: {ink}", svg)) for svg in (plain, framed) for ink in INKS]
    assert strokes == [0, 0, 1, 0], "a frame has the colour of the text"


def test_more_columns_make_a_wider_map_and_long_names_are_slanted() -> None:
    def width(count: int) -> float:
        found = re.search(r'viewBox="0 0 ([0-9.]+)', drawn([[HeatCell(0.0, "0")] * count]))
        assert found
        return float(found[1])

    assert width(5) == width(10)
    assert all(narrow < wide for narrow, wide in pairwise([width(10), width(14), width(20)]))
    cells = Side(["r"], "down")
    short, long = (
        heat(lambda row, column: HeatCell(0.0, "0"), cells, Side([name] * 4, "across"), "n", "t", "d")
        for name in ("c", "a-rather-long-name")
    )
    assert "rotate(-30" not in short
    assert "rotate(-30" in long


@pytest.mark.parametrize("value", [-7.0, 7.0])
def test_beyond_the_scale_is_its_end(value: float) -> None:
    end = matplotlib.colors.to_hex(matplotlib.colormaps[HEAT](0.5 + 0.5 * (1.0 if value > 0 else -1.0)))
    assert end in drawn([[HeatCell(value, "x")]])
