"""Graphs that are read before the part of a run that is timed, and what systems make of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.small import tiertune
from tiertune.files import InputError
from tiertune.workloads.definition import load_workload

PAGERANK = """\
name: pagerank
version: 1
description: PageRank on a graph whose index has 64 huge pages
source: made up for this test
metric: {name: runtime_s, direction: minimize}
threads: 4
sim:
  record: {kernel: pr, graph: kron, scale: 12, iterations: 2}
  carry: {scale: 24}
presets:
  placed: {description: as if nothing had moved meanwhile, carry: {loading: serialized}}
  read: {description: read from a file, carry: {loading: read}}
"""


@pytest.fixture
def pagerank(tmp_path: Path) -> Path:
    path = tmp_path / "pagerank.yaml"
    path.write_text(PAGERANK)
    return path


def test_hemem_moves_pages_because_the_index_was_made(pagerank: Path) -> None:
    metrics = {}
    for preset in ("placed", "read"):
        ran = tiertune(
            *("run", "hemem", "-w", f"{pagerank}@{preset}", "-m", "skx-numa", "--ratio", "1:8", "--json"),
            *("--knob", "mmap_filter_size_bytes=1024", "--results", pagerank.parent),
        )
        assert ran.exit_code == 0, ran.stderr
        metrics[preset] = json.loads(ran.stdout)["median"]
    placed, read = metrics["placed"], metrics["read"]
    # 2.2 GB of lists at 43 ns a line, on one thread.
    assert (placed["loading_s"], read["loading_s"]) == (0, pytest.approx(1.5, rel=0.1))
    assert placed["promotions"] == 0
    # As many pages as half of the index. Without its stores nothing is hot.
    assert read["promotions"] >= 32
    assert read["runtime_s"] == pytest.approx(placed["runtime_s"], rel=0.2)


def test_a_preset_that_is_loaded_otherwise_is_the_same_program() -> None:
    whole, paper = load_workload("pr-kron"), load_workload("pr-kron@paper")
    assert (whole.sim.carry.loading, paper.sim.carry.loading) == ("generated", "read")
    assert paper.upstream == whole.upstream
    assert paper.footprint_bytes == whole.footprint_bytes


def test_a_loading_that_there_is_not(pagerank: Path) -> None:
    pagerank.write_text(PAGERANK.replace("loading: read", "loading: reed"))
    with pytest.raises(InputError, match=r"presets\.read\.carry\.loading: 'reed' is not one of .* 'read'\?"):
        load_workload(str(pagerank))
