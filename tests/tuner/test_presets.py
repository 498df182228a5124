"""Presets: tried right after the default, the same after a kill, and named in journal and report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.small import WORKLOAD, tiertune
from tests.tuner import surfaces
from tests.tuner.interrupted import check_resumed
from tests.tuner.toy import DEFAULTS
from tiertune.files import names
from tiertune.spaces.definition import load_space
from tiertune.tuner.campaign import load_campaign
from tiertune.tuner.journal import Journal
from tiertune.tuner.journal_claim import JournalError
from tiertune.tuner.loop import journal_path, tune
from tiertune.tuner.optimiser.base import Observation, Proposal, Settings
from tiertune.tuner.optimiser.presets import Presets, Published
from tiertune.tuner.optimiser.random import RandomOptimiser
from tiertune.tuner.optimiser.warm import Remembered, WarmStart
from tiertune.tuner.plan import plan_of
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.trial import Status, canonical

KNOBS = """
name: narrow
description: three knobs
system: hemem
knobs:
  read_hot_threshold: {min: 1, max: 16}
  sampling_period: {min: 500, max: 20000}
  migration_period_ms: {}
"""
ADVICE = """presets:
  - {name: quick, source: a paper, knobs: {read_hot_threshold: 4}}
  - {name: slow, source: a branch of its code., knobs: {sampling_period: 19997, migration_period_ms: 100}}
"""
CAMPAIGN = """
name: small
seed: 3
scenarios:
  - {workload: ./tiny.yaml, machine: skx-numa, ratio: "1:4", threads: 4}
systems:
  - {system: hemem, space: ./narrow.yaml}
budget: {trials: 7, initial: 4, random_share: 0.5}
optimiser: {name: random}
validation: {seeds: 5}
tracking: {mlflow: false}
presets: true
"""


def write(folder: Path, space: str = KNOBS + ADVICE, campaign: str = CAMPAIGN) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "tiny.yaml").write_text(WORKLOAD.replace("ops: 1e9", "ops: 1e8"))
    (folder / "narrow.yaml").write_text(space)
    path = folder / "small.yaml"
    path.write_text(campaign)
    return path


def test_presets_follow_the_default_and_are_the_same_after_a_kill(tmp_path: Path) -> None:
    campaign = load_campaign(str(write(tmp_path / "files")))
    check_resumed(campaign, tmp_path, 1, 2)
    with Journal(journal_path(tmp_path / "whole", "small"), writer=False) as journal:
        rows = journal.rows(purpose="search")
        decisions = [journal.decisions(row.trial)[0] for row in rows[1:3]]
    assert [row.trial.origin for row in rows] == ["default", "preset", "preset"] + ["random"] * 4
    assert [row.trial.config for row in rows[:3]] == [
        {"migration_period_ms": 10.0, "read_hot_threshold": 8, "sampling_period": 5003},
        {"migration_period_ms": 10.0, "read_hot_threshold": 4, "sampling_period": 5003},
        {"migration_period_ms": 100.0, "read_hot_threshold": 8, "sampling_period": 19997},
    ]
    assert decisions == [
        "preset quick of the space: a paper",
        "preset slow of the space: a branch of its code.",
    ]


def test_the_report_says_which_trial_was_which_preset(tmp_path: Path) -> None:
    done = tiertune("tune", write(tmp_path / "files"), "--results", tmp_path / "results")
    assert done.exit_code == 0, done.stderr
    page = (tmp_path / "results/small/report.html").read_text(encoding="utf-8")
    assert "Trial 1: preset quick of the space: a paper." in page
    assert "Trial 2: preset slow of the space: a branch of its code." in page


def test_a_preset_that_changed_is_another_campaign(tmp_path: Path) -> None:
    path = write(tmp_path / "files")
    tiertune("tune", path, "--results", tmp_path / "results")
    write(tmp_path / "files", KNOBS + ADVICE.replace("threshold: 4", "threshold: 2"))
    refused = tiertune("tune", path, "--results", tmp_path / "results")
    assert refused.exit_code == 2
    assert "read_hot_threshold: 4 -> 2" in refused.stderr


def test_a_campaign_without_presets_is_the_one_that_it_was(tmp_path: Path) -> None:
    """Presets in a space file are nobody's other settings as long as a campaign does not try them."""
    off = CAMPAIGN.replace("presets: true\n", "")
    plain = load_campaign(str(write(tmp_path / "files", KNOBS, off)))
    plan_of(plain)  # reads the files
    advised = load_campaign(str(write(tmp_path / "files", KNOBS + ADVICE, off)))
    assert plan_of(plain).document == plan_of(advised).document
    assert "presets" not in canonical(plan_of(advised).document)
    assert "presets" not in plain.document()
    backend = SimBackend(tmp_path / "profiles", plain.workload, plain.machine)
    tune(plan_of(plain), tmp_path / "results", backend)
    tried = load_campaign(str(write(tmp_path / "files")))
    with pytest.raises(JournalError, match="presets"):
        tune(plan_of(tried), tmp_path / "results", backend)


def test_what_is_remembered_comes_after_the_presets() -> None:
    draws = RandomOptimiser(surfaces.space(), Settings(9))
    one, two, remembered = (draws.random(number, []).config for number in (1, 2, 3))
    warm = WarmStart(
        RandomOptimiser(surfaces.space(), Settings(1, 6)), [Remembered(remembered, -0.1, 0)], "start", 2
    )
    optimiser = Presets(warm, [Published("one", "s", one), Published("two", "s", two)])
    history: list[Observation] = []
    proposals: list[Proposal] = []
    for number in range(5):
        proposals.append(optimiser.ask(number, history))
        history.append(Observation(number, proposals[-1].config, Status.OK, float(number)))
    assert [proposal.origin for proposal in proposals] == ["default", "preset", "preset", "memory", "random"]
    assert [proposal.config for proposal in proposals[:4]] == [DEFAULTS, one, two, remembered]


def test_the_search_learns_of_presets() -> None:
    told: list[int] = []

    class Spy(RandomOptimiser):
        def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
            told.append(len(history))
            return super()._ask(number, history)

    preset = RandomOptimiser(surfaces.space(), Settings(9)).random(1, []).config
    optimiser = Presets(Spy(surfaces.space(), Settings(1, 6)), [Published("one", "s", preset)])
    first = Observation(0, DEFAULTS, Status.OK, 1.0)
    assert optimiser.ask(1, [first]).config == preset
    assert optimiser.ask(2, [first, Observation(1, preset, Status.CRASHED)]).origin == "random"
    assert told == [2]


@pytest.mark.parametrize("name", [name for name in names("spaces") if load_space(name).presets])
def test_shipped_presets_name_their_source_and_differ_from_the_default(name: str) -> None:
    space = load_space(name)
    for preset in space.presets:
        assert any(word in preset.source for word in ("section", "branch", ".c"))
        changed = {knob for knob, value in space.start(preset.knobs).items() if space.start()[knob] != value}
        assert changed <= set(preset.knobs)
