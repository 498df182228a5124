"""Figures of windows of a run, on a series whose answers are known, and in a sweep."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.small import tiertune
from tests.sweep.small import SWEEP, document, one, rows, sweep, write_sweep
from tiertune import engine
from tiertune.machines.definition import load_machine
from tiertune.tuner.sweep.window import COLUMNS, MIGRATION_SHARE, Window, figures, names
from tiertune.workloads.definition import load_workload
from tiertune.workloads.profile import profile_for

SERIES = {
    "time_s": [2.0, 4.0, 5.0],
    "fast_hit_ratio": [0.1, 0.4, 0.9],
    "throughput_mops": [1.0, 2.0, 4.0],
    "promotions_per_s": [300.0, 0.0, 100.0],
    "demotions_per_s": [100.0, 0.0, 0.0],
    "fast_latency_ns": [90.0, 100.0, 110.0],
    "slow_latency_ns": [190.0, 190.0, 190.0],
    "fast_used_bytes": [1.0, 2.0, 3.0],
}
# 10e6 operations in 5 s that read two lines each: 128 bytes.
METRICS = {"throughput_mops": 2.0, "runtime_s": 5.0, "simulated_accesses": 20e6}


def of(window: Window) -> dict[str, float]:
    found = figures([window], SERIES, METRICS, page_bytes=4096)
    return {name.removeprefix(f"window.{window.name}."): value for name, value in found.items()}


def test_a_window_counts_stretches_as_far_as_they_are_inside() -> None:
    found = of(Window(name="late", from_s=3.0))
    assert found["fast_hit_ratio.mean"] == pytest.approx((0.4 + 0.9) / 2)
    assert (found["fast_hit_ratio.lowest"], found["fast_hit_ratio.highest"]) == (0.4, 0.9)
    # Of the second stretch a quarter: it counts in the mean, and is not one of the points.
    found = of(Window(name="later", from_s=3.5))
    assert found["throughput_mops.mean"] == pytest.approx((0.5 * 2 + 1 * 4) / 1.5)
    assert found["throughput_mops.lowest"] == 4.0
    found = of(Window(name="early", until_s=2.0))
    assert found["fast_hit_ratio.mean"] == found["fast_hit_ratio.highest"] == pytest.approx(0.1)


def test_a_window_may_be_the_end_of_the_run() -> None:
    assert of(Window(name="end", last_s=2.0)) == of(Window(name="late", from_s=3.0))
    assert of(Window(name="end", last_s=60.0)) == of(Window(name="all"))


def test_migrations_are_a_share_of_what_the_program_reads() -> None:
    found = of(Window(name="all"))
    shares = [4096 * 400 / (1e6 * 128), 0.0, 4096 * 100 / (4e6 * 128)]
    assert found[f"{MIGRATION_SHARE}.highest"] == pytest.approx(shares[0])
    assert found[f"{MIGRATION_SHARE}.lowest"] == 0.0
    assert found[f"{MIGRATION_SHARE}.mean"] == pytest.approx((2 * shares[0] + shares[2]) / 5)


def test_a_window_after_the_end_has_no_figures() -> None:
    assert of(Window(name="after", from_s=5.0)) == {}
    assert figures([Window(name="none")], {"time_s": [], "promotions_per_s": [], "demotions_per_s": [],
        "throughput_mops": []}, METRICS, 4096) == {}  # fmt: skip


def test_columns_are_those_of_the_engine(tmp_path: Path) -> None:
    write_sweep(tmp_path)
    workload, machine = load_workload(str(tmp_path / "small-workload.yaml")), load_machine("skx-numa")
    prepared = profile_for(workload, machine, workload.threads, tmp_path, print, page_bytes=2**21)
    request = {"machine": machine.document(), "system": "notier", "config": {}, "page_bytes": 2**21}
    asked = {**request, "fast_bytes": 2**29, "seed": 1, "timeline_points": 20}
    series = engine.run(prepared, asked)["timeline"]
    assert set(series) == {*COLUMNS, "time_s"} - {MIGRATION_SHARE}


def test_a_sweep_has_figures_of_its_windows(tmp_path: Path) -> None:
    windows = "windows: [{name: whole}, {name: first, until_s: 0.1}]"
    text = SWEEP.replace("name: small", f"name: small\n{windows}").replace("seeds: [1, 2]", "seeds: [1]")
    path = write_sweep(tmp_path, text.replace("slowdown, rank", "window.whole.throughput_mops.mean, rank"))
    assert "window.whole" in sweep(path, tmp_path / "results").stdout
    row = one(rows(tmp_path / "results"), config="eager")
    assert set(names([Window(name="whole"), Window(name="first")])) == row["observed"].keys()
    mean = row["observed"]["window.whole.throughput_mops.mean"]
    assert mean == pytest.approx(row["metrics"]["throughput_mops"], rel=1e-6)
    group = one(document(tmp_path / "results")["groups"], config="eager")
    assert group["statistics"]["window.first.fast_latency_ns.highest"]["seeds"] == 1
    refused = tiertune("sweep", path, "--show", "window.whole.throughput.mean")
    assert refused.exit_code == 2
    assert "did you mean 'window.whole.throughput_mops.mean'?" in refused.stderr
