"""Verdicts of single seeds beside that of their median, and more seeds where these disagree."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median
from textwrap import indent
from typing import Any

import pytest

from tests.cli.small import tiertune
from tiertune.tuner.claims.by_seed import judged_by_seed
from tiertune.tuner.claims.definition import Claim
from tiertune.tuner.claims.verdict import Judged, Verdict
from tiertune.tuner.sweep.definition import Sweep
from tiertune.tuner.sweep.matrix import rows_of
from tiertune.tuner.sweep.measured import measured_rows
from tiertune.tuner.sweep.row import Result


def judged(tmp_path: Path, seconds: list[float], most: float) -> Judged:
    """Each seed takes so long, and a claim says how long at most."""
    sweep = {
        "systems": ["notier"],
        "workloads": ["seq-chase"],
        "machines": ["skx-cxl-emul"],
        "ratios": ["1:1"],
        "seeds": [*range(1, len(seconds) + 1)],
    }
    check = {"kind": "value", "metric": "runtime_s", "most": most}
    claim = {"id": "X-1", "paper": "p", "where": "w", "statement": "s", "sweep": sweep, "checks": [check]}
    plans = rows_of(Sweep.model_validate({"name": "x", "description": "x", **sweep}), tmp_path)
    found = {
        plan.run.key: Result("ok", {"runtime_s": took})
        for plan, took in zip(plans, seconds, strict=True)
        if plan.run is not None
    }
    return judged_by_seed(Claim.model_validate(claim), measured_rows(plans, found, ()))


@pytest.mark.parametrize(
    ("seconds", "verdict", "split"),
    [
        ([1, 2, 3], Verdict.MET, ""),
        ([1, 2, 4], Verdict.MET, "missed by seed 3 alone"),
        ([4, 4, 3], Verdict.MISSED, "met by seed 3 alone"),
        ([4, 1, 4, 2, 5], Verdict.MISSED, "met by seeds 2 and 4 alone"),
        ([1, 4, 4, 4, 2, 3], Verdict.MISSED, "met by seeds 1, 5 and 6 alone"),
        ([4, 5, 6], Verdict.MISSED, ""),
    ],
)
def test_seeds_that_say_otherwise_are_told(
    tmp_path: Path, seconds: list[float], verdict: Verdict, split: str
) -> None:
    one = judged(tmp_path, seconds, most=3)
    assert (one.verdict, one.split) == (verdict, split)
    alone = {str(seed): "met" if took <= 3 else "missed" for seed, took in enumerate(seconds, start=1)}
    assert one.document()["by_seed"] == alone


def test_one_seed_has_nothing_beside_it(tmp_path: Path) -> None:
    one = judged(tmp_path, [1], most=3)
    assert (one.verdict, one.by_seed, one.split) == (Verdict.MET, {}, "")


def test_more_seeds_are_run_where_one_says_otherwise(tmp_path: Path) -> None:
    claims = """
name: chance
seeds: 1-3
seeds_if_split: 1-5
claims:
  - id: C-1
    paper: one
    where: here
    statement: Pages that are exchanged at random are the right ones
    sweep:
SCENE
    checks: [{kind: value, metric: fast_hit_ratio, least: LEAST}]
"""
    # A tenth of the work is enough for chance to show.
    scene = """
systems: [random]
workloads: [seq-chase]
overrides:
  - name: tenth
    workload:
      "sim.streams.blocks[0].phases[0].groups[0].ops": 2.6e9
      "sim.streams.blocks[0].phases[0].groups[1].ops": 4.0e8
machines: [skx-cxl-emul]
ratios: ["1:1"]
""".strip()
    path = tmp_path / "chance.yaml"

    def reproduced(least: float, *more: str) -> tuple[dict[str, Any], str]:
        text = claims.replace("SCENE", indent(scene, " " * 6)).replace("LEAST", str(least))
        path.write_text(text)
        ran = tiertune("reproduce", "--claims", path, "--json", "--results", tmp_path / "results", *more)
        (row,) = json.loads(ran.stdout)["rows"]
        return row, ran.stderr

    (tmp_path / "sweep.yaml").write_text(f"name: chance\n{scene}\nseeds: 1-5\n")
    rows = json.loads(tiertune("sweep", tmp_path / "sweep.yaml", "--json", "--results", tmp_path).stdout)[
        "rows"
    ]
    ratios = [row["metrics"]["fast_hit_ratio"] for row in rows]
    low, middle, high = sorted(ratios[:3])
    assert low < middle < high

    sure, said = reproduced(low / 2)
    assert list(sure["by_seed"]) == ["1", "2", "3"]
    assert "seeds disagree" not in said
    for more in ((), ("--fresh",)):
        split, said = reproduced((low + middle) / 2, *more)
        assert list(split["by_seed"]) == ["1", "2", "3", "4", "5"]
        assert "seeds disagree on C-1: more of them" in said
        if more:
            assert "10 runs, 6 of them cached" in said, "what the first round measured is not measured again"
        assert split["measured"] == f"fast_hit_ratio all rows = {median(ratios):.4g}"
