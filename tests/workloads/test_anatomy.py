"""Profiles taken apart: figures that follow from their rows, the commands, and refusals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from tiertune.tuner.cli.app import app
from tiertune.workloads.anatomy import anatomy, distance
from tiertune.workloads.profile_file import write_profile

ROWS = [
    # slice, object, class, page, reads, writebacks
    (0, 0, 1, 0, 60, 0),
    (0, 0, 1, 1, 20, 5),
    (1, 1, 4, 0, 10, 0),
    (2, 1, 4, 1, 10, 2),
]


def columns(rows: Sequence[tuple[int, ...]] = ROWS) -> dict[str, np.ndarray[Any, Any]]:
    names = ("slice", "object", "class", "page", "reads", "writebacks")
    kinds = (np.uint32, np.uint16, np.uint8, np.uint32, np.uint32, np.uint32)
    return {
        name: np.array([row[number] for row in rows], dtype=kind)
        for number, (name, kind) in enumerate(zip(names, kinds, strict=True))
    }


METADATA = json.dumps(
    {
        "request": {"kernel": "made-up"},
        "objects": [{"name": "table", "bytes": 8192}, {"name": "list", "bytes": 8000}],
        "slices": [
            {"phase": "probe", "ops": 7},
            {"phase": "sweep", "ops": 2},
            {"phase": "sweep", "ops": 1},
        ],
    }
)


def test_figures_follow_from_the_rows() -> None:
    found = anatomy(columns(), METADATA)
    assert found.pages == (2, 2)
    assert (found.reads, found.writebacks) == ((80, 20), (5, 2))
    assert found.phases == (("probe", 0, 1), ("sweep", 1, 2))
    assert found.ops == 10
    assert found.class_shares() == {"random": 0.8, "stream": 0.2}
    assert found.curve().tolist() == [0.6, 0.8, 0.9, 1.0]
    assert found.hottest_share(0.25) == 0.6
    assert found.heat.tolist() == [[60, 0, 0], [20, 0, 0], [0, 10, 0], [0, 0, 10]]


def test_distance_is_the_part_of_the_reads_that_moved() -> None:
    one = anatomy(columns(), METADATA)
    assert distance(one, one) == 0
    moved = [*ROWS[:2], (1, 1, 4, 0, 20, 0)]
    assert distance(one, anatomy(columns(moved), METADATA)) == pytest.approx(0.1)
    assert distance(one, anatomy(columns([(0, 0, 1, 0, 5, 0)]), METADATA)) == pytest.approx(0.4)


def test_commands_show_draw_and_compare(tmp_path: Path) -> None:
    path, other, picture = tmp_path / "one.parquet", tmp_path / "other.parquet", tmp_path / "heat.png"
    write_profile(path, columns(), METADATA)
    write_profile(other, columns(ROWS[:2]), METADATA)
    runner = CliRunner()
    shown = runner.invoke(app, ["profile", "show", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "object table: 8 KiB, 80.0% of the reads, 5 lines written back" in shown.output
    assert "phases: probe, sweep" in shown.output
    assert "reads by class: random 80.0%, stream 20.0%" in shown.output
    told = json.loads(runner.invoke(app, ["profile", "show", str(path), "--json"]).output)
    assert told["hottest_shares"] == {"0.01": 0.6, "0.1": 0.6, "0.333": 0.6}
    drawn = runner.invoke(app, ["profile", "heatmap", str(path), "-o", str(picture)])
    assert drawn.exit_code == 0, drawn.output
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    compared = runner.invoke(app, ["profile", "diff", str(path), str(other)])
    assert "reads that lie elsewhere in the address space: 20.0%" in compared.output
    assert "class stream: 20.0% and 0.0% of the reads" in compared.output


def test_what_is_no_profile_is_refused(tmp_path: Path) -> None:
    path, profile = tmp_path / "text.parquet", tmp_path / "one.parquet"
    path.write_text("not a profile\n")
    write_profile(profile, columns(), METADATA)
    runner = CliRunner()
    for arguments, sentence in [
        (["show", str(path)], "this is not a profile"),
        (["show", str(tmp_path / "on.parquet")], f"there is no such file; did you mean '{profile}'?"),
        (["show", str(tmp_path / "no/on.parquet")], "there is no such file; `tiertune record` makes"),
        (["show", str(tmp_path)], "is a folder, not a profile; "),
        (["diff", str(profile), str(tmp_path)], "is a folder, not a profile; "),
        (["heatmap", str(profile), "-o", "heat.txt"], "must end in one of .png, .svg, .pdf"),
        (["heatmap", str(profile), "-o", str(tmp_path / "no" / "heat.png")], "cannot be written"),
    ]:
        refused = runner.invoke(app, ["profile", *arguments])
        assert refused.exit_code == 2, refused.output
        assert sentence in refused.output + (refused.stderr or "")
