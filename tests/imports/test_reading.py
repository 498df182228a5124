"""What importers make of lines as the tools really write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tiertune.workloads.imports.damon import read_damon
from tiertune.workloads.imports.perf import read_perf

MIB = 2**20
BASE = 0x7F12_0000_0000
EDGES_MIB = (0, 24, 32, 64)
HITS = (1, 19, 2)
INTERVAL_S = 0.1


def traced(path: Path, aggregations: int, lost: int = 0, gap: int = 0, targets: int = 1) -> Path:
    """A trace of three regions, their lines 3 us apart; of the first aggregations `lost` lines are missing,
    and `gap` aggregations in the middle."""
    lines = []
    for number in range(aggregations):
        at = 500 + INTERVAL_S * (number + (gap if number >= aggregations // 2 else 0))
        for target in range(targets):
            for low, high, hits in zip(EDGES_MIB, EDGES_MIB[1:], HITS, strict=False):
                lines.append(
                    f"kdamond.0 46568 [027] {at:.6f}: damon:damon_aggregated: target_id={target} nr_regions=3"
                    f" {BASE + low * MIB}-{BASE + high * MIB}: {hits} 4"
                )
                at += 3e-6
    path.write_text("\n".join(lines[lost:]) + "\n")
    return path


@pytest.mark.parametrize("targets", [1, 2])
def test_regions_are_traced_one_by_one_and_belong_to_one_aggregation(targets: int, tmp_path: Path) -> None:
    seen = read_damon(traced(tmp_path / "trace.txt", 10, targets=targets))
    assert seen.parameters["aggregations"] == "10"
    assert float(seen.parameters["aggregation_s"]) == pytest.approx(INTERVAL_S, rel=1e-3)
    assert [part.elapsed_s for part in seen.slices] == pytest.approx([INTERVAL_S] * 10, rel=1e-3)
    for number in range(10):
        assert len(np.unique(seen.key[seen.slice == number])) == targets * 64 * MIB // 4096
    assert len(seen.notes) == 1


def test_what_a_trace_lost_is_told(tmp_path: Path) -> None:
    seen = read_damon(traced(tmp_path / "lost.txt", 10, lost=1))
    assert any(note.startswith("1 of 30 regions are missing") for note in seen.notes)
    assert seen.parameters["aggregations"] == "10"
    seen = read_damon(traced(tmp_path / "gap.txt", 10, gap=4))
    assert any(note.startswith("4 of about 14 aggregations are missing") for note in seen.notes)


def test_stores_of_one_event_for_both_are_no_reads(tmp_path: Path) -> None:
    """IBS, as SPE, has one event; what a sample was is in its data source."""
    lines = []
    for number in range(100):
        place = BASE + number * 4096
        for operation, level in (("LOAD", "Local RAM hit"), ("STORE", "N/A")):
            source = f"68100142 |OP {operation}|LVL {level}|SNP N/A|TLB L1 hit|LCK No"
            lines.append(f"kv 9/9 {1000 + number / 10:.6f}: 1000 ibs_op//: {place:x} {source}")
    path = tmp_path / "ibs.txt"
    path.write_text("\n".join(lines) + "\n")
    seen = read_perf(path)
    assert sum(part.lines or 0.0 for part in seen.slices) == 100 * 1000
    assert seen.stores is not None
    assert seen.stores.sum() == 100 * 1000
