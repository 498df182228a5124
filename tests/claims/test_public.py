"""The public claims: all of them can be read and planned, and quick ones come out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.small import tiertune
from tiertune.tuner.campaign import Campaign, Cell, load_campaign
from tiertune.tuner.claims.definition import campaigns_of, load_claims
from tiertune.tuner.sweep.matrix import rows_of
from tiertune.workloads.profile import profile_for

# Those whose runs take a second or two.
QUICK = {
    "SA-01": "met",
    "SA-02": "met",
    "SA-35": "met",
    "CO-19": "met",
    "DT-17": "met",
    "CO-20": "not-checkable",
}


def test_every_public_claim_plans_rows_that_can_run(tmp_path: Path) -> None:
    public = load_claims("public")
    assert len(public.claims) >= 90
    for claim in public.claims:
        sweep = public.sweep_of(claim)
        if sweep is None:
            continue
        campaigns = campaigns_of(sweep)
        if campaigns:  # what they find is not known yet; that they look in every row's place is
            parts = [part.model_copy(update={"configs": None}) for part in sweep.parts]
            sweep = sweep.model_copy(update={"configs": None, "parts": parts})
        rows = rows_of(sweep, tmp_path)
        for campaign in map(load_campaign, campaigns):
            places = {_place(campaign, cell) for cell in campaign.cells()}
            missing = {
                (at.system, at.workload, at.machine, at.fast, at.threads) for at in (r.at for r in rows)
            }
            assert missing <= places, f"{claim.id}: {campaign.name}"
        assert rows, claim.id
        assert not [row.reason for row in rows if row.run is None], claim.id
        assert len({row.at.seed for row in rows}) >= 3, f"{claim.id}: judged by the median of three seeds"


def _place(campaign: Campaign, cell: Cell) -> tuple[str, str, str, str, int]:
    at, workload = cell.scenario, campaign.workload(cell.scenario.workload)
    machine = campaign.machine(at.machine).name
    return cell.system, workload.name, machine, at.ratio, at.threads or workload.threads


@pytest.mark.long
def test_betweenness_centrality_has_typical_sources(tmp_path: Path) -> None:
    """Sources differ by half in their times, and which ones the papers drew is not known."""
    public = load_claims("public")
    sweeps = [
        sweep for claim in public.claims if (sweep := public.sweep_of(claim)) and not campaigns_of(sweep)
    ]
    said: dict[str, str] = {}
    for row in (row for sweep in sweeps for row in rows_of(sweep, tmp_path)):
        # What stands for a larger graph has the levels of that one.
        if row.run is None or row.at.override in ("quarter", "sixteenth"):
            continue
        workload, machine = row.run.setting.workload, row.run.setting.machine
        record = workload.sim.record
        key = f"{record} {workload.sim.carry}"
        if record is None or record.kernel != "bc" or key in said:
            continue
        loaded = profile_for(workload, machine, None, tmp_path, lambda _: None)
        (said[key],) = (note for note in loaded.describe()["notes"] if "one level further" in note)
    assert len(said) >= 4
    assert not [key for key, note in said.items() if "more typical" in note], said


@pytest.mark.parametrize(("claim_id", "verdict"), QUICK.items())
def test_quick_ones(claim_id: str, verdict: str, tmp_path: Path) -> None:
    document = json.loads(tiertune("reproduce", "--id", claim_id, "--results", tmp_path, "--json").stdout)
    (row,) = document["rows"]
    assert row["verdict"] == verdict
    assert row["reason"] if verdict == "not-checkable" else row["measured"]
