"""Published times of GAPBS beside the model of its kernels: the file runs, and its page has what it finds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.small import tiertune
from tiertune.tuner.claims.definition import load_claims
from tiertune.tuner.sweep.matrix import rows_of

PAGE = Path(__file__).parents[2] / "docs" / "model.md"
GRAPHS = {"Kronecker": "kron", "uniform": "urand", "Twitter": "twitter"}
SEARCHES = 4
"""A published breadth-first search is one of these."""


def test_every_claim_plans_rows_that_can_run(tmp_path: Path) -> None:
    claims = load_claims("gapbs")
    for claim in claims.claims:
        sweep = claims.sweep_of(claim)
        if sweep is None:
            assert claim.not_checkable, claim.id
            continue
        rows = rows_of(sweep, tmp_path)
        assert rows, claim.id
        assert not [row.reason for row in rows if row.run is None], claim.id


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_page_has_the_times_that_come_out(tmp_path: Path) -> None:
    done = tiertune("reproduce", "--claims", "gapbs", "--json", "--results", tmp_path)
    assert done.exit_code == 0, done.stderr
    here = {
        row["id"]: (float(row["expected"].split(": ")[1].split()[0]), float(row["measured"].split(" = ")[1]))
        for row in json.loads(done.stdout)["rows"]
        if row["verdict"] != "not-checkable" and not row["id"].endswith("-ratio")
    }
    told = _table(PAGE.read_text(encoding="utf-8"))
    assert told.keys() == here.keys()
    for name, (published, measured) in here.items():
        runs = SEARCHES if "-BFS-" in name else 1
        assert told[name][0] == pytest.approx(published / runs, rel=1e-3), name
        assert told[name][1] == pytest.approx(measured / runs, abs=0.0005 * told[name][1] + 0.0005), name


def _table(page: str) -> dict[str, tuple[float, float]]:
    """Published and modelled seconds by claim; a row without a kernel is of that above it."""
    rows, kernel = {}, ""
    for line in page.partition("## Beside GAPBS' own times")[2].partition("\n## ")[0].splitlines():
        found = re.fullmatch(r"\| (?:(\w+).*, )?(\w+) graph \| ([\d.]+) \| ([\d.]+) \| [\d.]+ \|", line)
        if found:
            kernel = {"PageRank": "PR"}.get(found[1], found[1]) if found[1] else kernel
            rows[f"GAP-{kernel}-{GRAPHS[found[2]]}"] = (float(found[3]), float(found[4]))
    return rows
