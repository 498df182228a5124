"""`tiertune reproduce`: the scoreboard as a user sees it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.small import tiertune

CLAIMS = """
name: small
claims:
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
  - id: B-1
    paper: two
    where: there
    gate: report
    statement: Users are happy
    not_checkable: there are none
"""


def test_scoreboard(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(CLAIMS)
    common = ("reproduce", "--claims", tmp_path / "small.yaml", "--results", tmp_path / "results")
    document = json.loads(tiertune(*common, "--json").stdout)
    assert [(row["id"], row["gate"], row["verdict"]) for row in document["rows"]] == [
        ("A-1", "must", "met"),
        ("A-2", "should", "missed"),
        ("B-1", "report", "not-checkable"),
    ]
    assert set(document["rows"][0]) >= {"id", "gate", "verdict", "measured", "expected", "reason"}
    assert document["rows"][1]["reason"] == "it is not"
    assert document["score"]["should"] == {"met": 0, "missed": 1, "not-checkable": 0}
    assert json.loads((tmp_path / "results/claims/small.json").read_text()) == document

    text = tiertune(*common).stdout
    assert "must: 1 met, 0 missed, 0 not-checkable" in text
    assert "because: it is not" in text
    assert all(len(line) <= 80 for line in text.splitlines() if "/" not in line)

    one = json.loads(tiertune(*common, "--paper", "two", "--json").stdout)
    assert [row["id"] for row in one["rows"]] == ["B-1"]
    refused = tiertune(*common, "--id", "A-3")
    assert refused.exit_code == 2
    assert "did you mean 'A-" in refused.stderr
