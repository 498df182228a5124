"""`tiertune reproduce`: the scoreboard as a user sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.figures import check_figures
from tests.cli.small import GAINFUL, tiertune, write_small
from tiertune import engine
from tiertune.tuner.claims.check import Picture
from tiertune.tuner.claims.picture import series_of
from tiertune.tuner.journal import Journal
from tiertune.tuner.sweep.measured import Group, MeasuredRow, Spread, groups_of
from tiertune.tuner.sweep.row import Coordinates, PlannedRow, Result
from tiertune.tuner.validation import selected

CLAIMS = """
name: small
scenes:
  - name: shares
    systems: [static, notier]
    configs:
      - {name: none, systems: [static], knobs: {hot_share_percent: 0}}
      - {name: all, systems: [static], knobs: {hot_share_percent: 100}}
      - {name: default, systems: [notier]}
    workloads: [seq-chase]
    machines: [skx-cxl-emul]
    ratios: ["1:1"]
claims:
  - id: A-0
    paper: one
    where: figure 1
    gate: must
    statement: Threads that wait for their lines are slowed by what they slow
    scene: shares
    sweep:
      systems: [static]
      contention:
        - {name: quiet}
        - {name: loaded, traffic: [{tier: 0, read_lines: 100}]}
    checks:
      - {kind: value, metric: fast_bandwidth_gbps, of: {contention: loaded}, least: 25, most: 50}
      - kind: ratio
        metric: fast_latency_ns
        of: {contention: loaded, take: mean}
        to: {contention: quiet, take: mean}
        least: 1.2
    picture:
      metric: fast_latency_ns
      by: config
      over: contention
      published: [{name: all, values: [90, 180]}]
  - id: A-1
    paper: one
    where: here
    gate: must
    statement: Slow memory leaves the ratio of the latencies
    sweep: {systems: [all-slow], workloads: [seq-chase], machines: [skx-cxl-emul], ratios: ["1:1"]}
    checks: [{kind: value, metric: performance, expected: 0.474, within_pct: 7}]
  - id: A-2
    paper: one
    where: here
    statement: Slow memory is faster
    sweep: {systems: [all-slow, all-fast], workloads: [seq-chase], machines: [skx-cxl-emul], ratios: ["1:1"]}
    checks: [{kind: order, metric: runtime_s, rows: [[{system: all-slow}], [{system: all-fast}]]}]
    if_missed: it is not
    would_take: slower fast memory
  - id: B-1
    paper: two
    where: there
    gate: report
    statement: Users are happy
    not_checkable: there are none
"""


def _check_told(progress: str, document: Any) -> None:
    """Each verdict was told once, when its last run had ended; that of the board at the end is the same."""
    told = [line[9:] for line in progress.splitlines() if line[9:12] in ("A-0", "A-1", "A-2", "B-1")]
    verdicts = {row["id"]: row for row in document["rows"] if row["verdict"] != "not-checkable"}
    missed = verdicts["A-2"]
    said = f"A-2 missed: {missed['measured']}; expected: {missed['expected']}"
    assert sorted(told) == ["A-0 met", "A-1 met", said], progress


def test_scoreboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "small.yaml").write_text(CLAIMS)
    common = ("reproduce", "--claims", tmp_path / "small.yaml", "--results", tmp_path / "results")
    measured = tiertune(*common, "--json")
    document = json.loads(measured.stdout)
    assert [Path(path).name for path in document.pop("files")] == ["small.json", "small.md", "small.html"]
    _check_told(measured.stderr, document)
    assert [(row["id"], row["gate"], row["verdict"]) for row in document["rows"]] == [
        ("A-0", "must", "met"),
        ("A-1", "must", "met"),
        ("A-2", "should", "missed"),
        ("B-1", "report", "not-checkable"),
    ]
    assert set(document["rows"][0]) >= {"id", "gate", "verdict", "measured", "expected", "reason"}
    assert document["rows"][2]["reason"] == "it is not"
    assert document["score"]["should"] == {"met": 0, "missed": 1, "not-checkable": 0}
    assert json.loads((tmp_path / "results/claims/small.json").read_text()) == document

    page = (tmp_path / "results/claims/small.html").read_text()
    assert all(f'id="{name}"' in page for name in ("A-0", "A-1", "A-2", "B-1"))
    assert page.count("<svg") == 3, "one for each claim that is run"
    assert "Hollow: as published" in page
    assert "http" not in page.replace("http://www.w3.org", "")

    check_figures(common, tmp_path / "results/claims/small.html", tmp_path / "figures", monkeypatch)

    lines = (tmp_path / "results/claims/small.md").read_text().splitlines()
    assert "| must | 2 | 0 | 0 |" in lines
    assert any(
        line.startswith("| A-2 | missed |")
        and "Because: it is not<br>It would take: slower fast memory" in line
        for line in lines
    )

    again = tiertune(*common)
    assert "A-0" not in again.stderr, "of what is cached only the board is told"
    text = again.stdout
    assert "must: 2 met, 0 missed, 0 not-checkable" in text
    assert "because: it is not" in text
    assert "it would take: slower fast memory" in text
    assert all(len(line) <= 80 for line in text.splitlines() if "/" not in line)

    one = json.loads(tiertune(*common, "--paper", "two", "--json").stdout)
    assert [row["id"] for row in one["rows"]] == ["B-1"]
    assert json.loads((tmp_path / "results/claims/small.json").read_text()) == document, "of all claims"
    both = json.loads(tiertune(*common, "--paper", "one", "--paper", "two", "--json").stdout)
    assert [row["id"] for row in both["rows"]] == ["A-0", "A-1", "A-2", "B-1"]
    two = json.loads(tiertune(*common, "--id", "A-2", "--id", "B-1", "--json").stdout)
    assert [row["id"] for row in two["rows"]] == ["A-2", "B-1"]
    assert (tmp_path / "results/claims/small-a-2-b-1.json").is_file()
    refused = tiertune(*common, "--id", "A-2", "--id", "A-3")
    assert refused.exit_code == 2
    assert "did you mean 'A-" in refused.stderr


TUNED = """
name: tuned
claims:
  - id: T-1
    paper: one
    where: here
    statement: A search finds something to change
    sweep:
      systems: [hemem]
      workloads: [./small-workload.yaml]
      machines: [skx-numa]
      ratios: ["1:15"]
      configs: [{name: default}, {name: tuned, campaign: CAMPAIGN}]
      relative_to: [{config: default}]
    checks:
      - {kind: value, metric: default.speedup, of: {config: default}, least: 1, most: 1}
      - {kind: value, metric: default.speedup, of: {config: tuned}, least: 2, most: 5}
      - {kind: order, metric: knob.sampling_period, rows: [[{config: default}], [{config: tuned}]]}
"""


def test_a_campaign_that_a_claim_needs_is_run_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_small(tmp_path, ratio=GAINFUL)
    (tmp_path / "campaigns").mkdir()
    (tmp_path / "small-workload.yaml").rename(tmp_path / "campaigns/small-workload.yaml")
    (tmp_path / "small.yaml").rename(tmp_path / "campaigns/small.yaml")
    text = TUNED.replace("CAMPAIGN", "small").replace("./small-workload", "campaigns/small-workload")
    (tmp_path / "tuned.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    common = ("reproduce", "--claims", "tuned.yaml", "--results", "results", "--json")
    (without,) = json.loads(tiertune(*common, "--no-campaigns").stdout)["rows"]
    assert (without["verdict"], without["reason"]) == ("not-checkable", "campaign small was not run")
    ran = tiertune(*common)
    assert ran.exit_code == 0, ran.stderr
    (row,) = json.loads(ran.stdout)["rows"]
    assert row["verdict"] in ("met", "missed"), row["reason"]
    with Journal(tmp_path / "results/small/journal.sqlite", writer=False) as journal:
        claimed = journal.claimed()
        (cell,) = claimed.document["cells"]
        winner = selected(journal, cell, claimed.generation)
    assert winner is not None
    assert f"tuned {winner.trial.config['sampling_period']:.4g}" in row["measured"]
    again = tiertune(*common)
    assert again.stderr == ""
    assert json.loads(again.stdout)["rows"] == [row]


SEEDS = """
name: seeds
claims:
  - id: S-1
    paper: one
    where: here
    statement: First touch is slower than all DRAM
    sweep:
      systems: [notier]
      workloads: [seq-chase]
      machines: [skx-cxl-emul]
      ratios: ["1:1"]
      seeds: [1, 2, 3]
    checks: [{kind: value, metric: performance, most: 0.9}]
"""


def test_a_seed_that_crashes_is_not_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = engine.run

    def broken(workload: engine.EngineWorkload, request: dict[str, Any]) -> dict[str, Any]:
        if request["seed"] == 2 and request["system"] == "notier":
            raise RuntimeError("broken")
        return run(workload, request)

    (tmp_path / "seeds.yaml").write_text(SEEDS)
    common = ("reproduce", "--claims", tmp_path / "seeds.yaml", "--results", tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(engine, "run", broken)
        said = tiertune(*common, "--json")
    assert said.exit_code == 1
    (row,) = json.loads(said.stdout)["rows"]
    told = "notier was not measured on every seed (1 crashed); notier: RuntimeError: broken"
    assert (row["verdict"], row["reason"]) == ("not-checkable", told)
    assert json.loads(tiertune(*common, "--json").stdout)["rows"][0]["verdict"] == "met"


@pytest.mark.parametrize("name", ["A B", "../B", "a/b"])
def test_an_id_is_a_name_of_files(tmp_path: Path, name: str) -> None:
    (tmp_path / "seeds.yaml").write_text(SEEDS.replace("S-1", name))
    said = tiertune("reproduce", "--claims", tmp_path / "seeds.yaml", "--results", tmp_path / "results")
    assert said.exit_code == 2
    assert f"claims[0].id: names files, and '{name.lower()}' is not a name" in said.stderr


def test_the_page_is_made_again_without_campaigns_too(tmp_path: Path) -> None:
    (tmp_path / "seeds.yaml").write_text(SEEDS)
    common = ("reproduce", "--claims", tmp_path / "seeds.yaml", "--results", tmp_path)
    for options, there in (((), False), (("--no-campaigns",), True)):
        assert tiertune(*common, *options).exit_code == 0
        assert ("--no-campaigns" in (tmp_path / "claims" / "seeds.html").read_text()) is there


AT = Coordinates("p", "a", "default", "w", "none", "m", "1:4", 4, "none", 4096, -1)


def test_a_picture_has_a_line_for_each_row_of_a_place() -> None:
    rows = {("1:2", "quiet"): 1.0, ("1:4", "quiet"): 2.0, ("1:2", "loud"): 3.0, ("1:4", "loud"): 4.0}
    groups = [
        Group(
            Coordinates(**{**AT.__dict__, "fast": fast, "contention": level}),
            {"ok": 1},
            {"slowdown": Spread(1, value, value, value)},
            {},
        )
        for (fast, level), value in rows.items()
    ]
    picture = Picture.model_validate(
        {"metric": "slowdown", "over": "contention", "published": [{"name": "a", "values": [9, 8]}]}
    )
    assert series_of(picture, groups) == [
        ("a 1:2", ["quiet", "loud"], [1.0, 3.0], [9.0, 8.0]),
        ("a 1:4", ["quiet", "loud"], [2.0, 4.0], [None, None]),
    ]


@pytest.mark.parametrize(
    ("settled", "median"),
    [((1.0, 5.0, None), 5.0), ((1.0, None, None), float("inf")), ((1.0, 2.0, 4.0), 2.0)],
)
def test_seeds_that_never_settle_count_in_the_median(
    settled: tuple[float | None, ...], median: float
) -> None:
    rows = []
    for seed, value in enumerate(settled):
        at = Coordinates(**{**AT.__dict__, "seed": seed})
        row = MeasuredRow(PlannedRow(at, None, {}), Result("ok"), None)
        row.values = {"last_change_s": 0.0} | ({} if value is None else {"convergence_s": value})
        rows.append(row)
    (group,) = groups_of(rows)
    assert group.settled == median
