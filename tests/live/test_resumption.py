"""How a live campaign that was stopped goes on, and what is said where its place is left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.small import WORKLOAD, tiertune
from tests.live.test_prediction import CAMPAIGN_TEXT
from tests.tuner.toy import SCENARIO
from tiertune.tuner.api.campaigns import keep_campaign
from tiertune.tuner.journal import Journal
from tiertune.tuner.journal_claim import differences, refusal
from tiertune.tuner.loop import journal_path
from tiertune.tuner.trial import Trial

HOST = "host:\n  command: [/bin/true]\n  footprint: 1GiB\n  metrics: {runtime_s: wall}\n"


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A campaign of one live cell that is stopped in its first trial."""

    def stopped(campaign: Any, plan: Any, results: Path, extend: bool, places: Any) -> None:
        with Journal(journal_path(results, plan.name)) as journal:
            journal.claim(plan.name, plan.document)
            keep_campaign(campaign, plan, results, 0)
            trial = Trial(plan.name, plan.cells[0].key, 0, SCENARIO, "hemem", {}, 1)
            journal.start(trial, ask_cpu_s=0.0, environment=None, decision="first")
        raise KeyboardInterrupt

    (tmp_path / "small.yaml").write_text(WORKLOAD + HOST)
    (tmp_path / "space.yaml").write_text(
        "name: mine\ndescription: x\nsystem: hemem\nknobs:\n  read_hot_threshold: {min: 1, max: 30}\n"
    )
    (tmp_path / "mine.yaml").write_text(CAMPAIGN_TEXT)
    (tmp_path / "rack.ini").touch()
    monkeypatch.setattr("tiertune.tuner.cli.campaign.run_campaign", stopped)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "mine.yaml"


@pytest.mark.parametrize("place", [("--here", "0,2"), ("--hosts", "rack.ini", "--mixed-hosts")])
def test_the_command_that_goes_on_says_where(
    campaign: Path, monkeypatch: pytest.MonkeyPatch, place: tuple[str, ...]
) -> None:
    stopped = tiertune("tune", campaign, *place)
    assert stopped.exit_code == 130, stopped.stderr
    words = [str(campaign.parent / word) if word == "rack.ini" else word for word in place]
    assert f"`tiertune resume mine {' '.join(words)}` goes on" in stopped.stderr
    monkeypatch.undo()  # the rest is that of today
    refused = tiertune("resume", "mine", "--results", campaign.parent / "results")
    assert refused.exit_code == 2
    assert "campaign.live[0]: " in refused.stderr
    assert "add --here, --hosts or --container, as it was started" in refused.stderr


def test_what_was_to_go_on_live_does_so_with_the_same_command(
    campaign: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tiertune.tuner.cli.campaign._look_ahead", lambda *_: None)
    stopped = tiertune("tune", campaign, "--here", "0,2", "--then-host", "12")
    assert stopped.exit_code == 130, stopped.stderr
    assert "the same command goes on" in stopped.stderr
    assert "resume" not in stopped.stderr


def test_both_halves_are_one_document(campaign: Path) -> None:
    planned = tiertune("tune", campaign, "--here", "0,2", "--then-host", "12", "--dry-run", "--json")
    assert planned.exit_code == 0, planned.stderr
    found = json.loads(planned.stdout)
    assert {half: one["campaign"] for half, one in found.items()} == {
        "simulated": "mine",
        "live": "mine-live",
    }


@pytest.mark.parametrize(
    ("before", "after", "advice"),
    [
        ({"live": ["a", "b"]}, {}, "add --here, --hosts or --container, as it was started"),
        ({"live": ["a"], "container": True}, {}, "add --container, as it was started"),
        ({"live": ["a"], "by_kernel": ["nbt"]}, {}, "add --here and --by-kernel nbt, as it was started"),
        ({"live": ["a"], "by_kernel": ["nbt"]}, {"live": ["a"]}, "add --by-kernel nbt, as it was started"),
        ({"live": ["a"], "upstream": {"hemem": {"fast": "/dev/dax"}}}, {}, "add --here, as it was started"),
        ({}, {"live": ["a"]}, "leave out --here, --hosts or --container, as it was started"),
        ({"live": ["a"]}, {"live": ["a"], "container": True}, "leave out --container, as it was started"),
        ({"live": ["a"], "seed": 1}, {"seed": 2}, "undo that"),
        ({"live": ["a"], "by_kernel": ["nbt"]}, {"live": ["a"], "by_kernel": ["tpp"]}, "undo that"),
    ],
)
def test_what_is_missing_is_named(before: dict[str, Any], after: dict[str, Any], advice: str) -> None:
    changes = differences({"campaign": {"budget": 1, **before}}, {"campaign": {"budget": 1, **after}})
    told = refusal(Path("journal.sqlite"), "rack", changes, extend=False)
    assert f": {advice}, or " in told, json.dumps(told)
    assert "`tiertune tune` with --name OTHER" in told
