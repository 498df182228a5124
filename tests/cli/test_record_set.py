"""`tiertune record` of several workloads: side by side, by name or by preset."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.small import tiertune
from tiertune.files import names
from tiertune.tuner.cli.record_set import workloads_named
from tiertune.workloads.definition import load_workload

NAMES = ("btree@smoke", "masim-stairs@smoke", "cachelib@smoke")


def test_several_are_recorded_and_kept(tmp_path: Path) -> None:
    results = ("--results", tmp_path)
    first = tiertune("record", *NAMES, "-m", "skx-numa", "--json", *results)
    assert first.exit_code == 0, first.stderr
    told = json.loads(first.stdout)
    assert [row["workload"] for row in told["recorded"]] == [name.replace("@", "-") for name in NAMES]
    assert "3 of 3: " in first.stderr
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "profiles").iterdir()}
    sizes = [path.stat().st_size for path in (tmp_path / "profiles").iterdir()]
    assert sorted(row["profile_bytes"] for row in told["recorded"]) == sorted(sizes)
    for name, row in zip(NAMES, told["recorded"], strict=True):
        footprint = load_workload(name).footprint_bytes
        assert abs(row["footprint_bytes"] / footprint - 1) < 0.05
    again = tiertune("record", *NAMES, "-m", "skx-numa", *results)
    assert "3 profiles in " in again.stdout
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "profiles").iterdir()} == kept


def test_a_preset_alone_is_every_workload_that_has_it_and_a_kernel() -> None:
    found = {workload.name for workload in workloads_named(["@ci"])}
    expected = {
        f"{name}-ci"
        for name in names("workloads")
        if (one := load_workload(name)).sim.record is not None and "ci" in one.presets
    }
    assert found == expected
    assert "seq-chase-ci" not in found


def test_a_mistake_is_told_before_anything_is_recorded(tmp_path: Path) -> None:
    for given, said in (
        (["@cii"], "no workload has a preset 'cii'; did you mean '@ci'?"),
        (["btree@smoke", "btree@smoek"], "did you mean 'btree@smoke'?"),
        (["btree@smoke", "seq-chase"], "seq-chase executes no kernel; there is nothing to record"),
    ):
        refused = tiertune("record", *given, "-m", "skx-numa", "--results", tmp_path)
        assert refused.exit_code == 2
        assert said in refused.stderr
    assert list(tmp_path.iterdir()) == []
