"""A campaign of three contexts that is tuned in seconds, two of them with a gain."""

from __future__ import annotations

from pathlib import Path

from tests.cli.small import CAMPAIGN, WORKLOAD
from tiertune.tuner.campaign import Campaign
from tiertune.tuner.transfer.context import Context, complete
from tiertune.tuner.trial import Config, Scenario

SCENARIO = '  - {workload: ./small-workload.yaml, machine: skx-numa, ratio: "1:4"}\n'
CONTEXTS = (("skx-numa", "1:4"), ("skx-numa", "1:12"), ("icx-pmem", "1:12"))


def write_few(folder: Path) -> Path:
    """Writes workload and campaign into `folder`; returns the campaign's path."""
    (folder / "small-workload.yaml").write_text(WORKLOAD)
    assert SCENARIO in CAMPAIGN
    lines = [
        f'  - {{workload: ./small-workload.yaml, machine: {machine}, ratio: "{ratio}"}}\n'
        for machine, ratio in CONTEXTS
    ]
    text = CAMPAIGN.replace(SCENARIO, "".join(lines)).replace("name: small", "name: few")
    path = folder / "few.yaml"
    path.write_text(text)
    return path


def context_of(campaign: Campaign, scenario: Scenario, tuned: Config) -> Context:
    """A context as if `tuned` had been found for a scenario whose files the campaign knows."""
    config = complete("hemem", tuned)
    return Context(
        campaign=campaign.name,
        cell=f"{scenario.key}/hemem",
        seed=campaign.seed,
        scenario=scenario,
        system="hemem",
        space="hemem",
        workload=campaign.workload(scenario.workload),
        machine=campaign.machine(scenario.machine),
        tuned=config,
        improved=bool(tuned),
        finalists=(config,),
        used_seeds=frozenset(),
    )
