"""A small campaign from files to verdict, in the engine: what the toy leaves out."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.tuner.test_backends import tiny
from tests.tuner.toy import table
from tiertune.adapters.registry import adapter_for
from tiertune.tuner.campaign import Campaign, load_campaign
from tiertune.tuner.events import Event, Note
from tiertune.tuner.journal import Journal
from tiertune.tuner.journal_claim import JournalError
from tiertune.tuner.loop import journal_path, tune
from tiertune.tuner.plan import plan_of
from tiertune.tuner.simulation import SimBackend
from tiertune.tuner.trial import Status
from tiertune.tuner.validation import Outcome

SPACE = """
name: narrow
description: three knobs
system: hemem
knobs:
  read_hot_threshold: {min: 1, max: 16}
  sampling_period: {min: 500, max: 20000}
  migration_period_ms: {}
"""
CAMPAIGN = """
name: small
seed: 3
scenarios:
  - {workload: ./tiny.yaml, machine: skx-numa, ratio: "1:4", threads: 4}
systems:
  - {system: hemem, space: ./narrow.yaml}
budget: {trials: 7, initial: 4, random_share: 0.5}
optimiser: {name: smac}
validation: {seeds: 5}
workers: 2
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Campaign, space and workload files."""
    made = tmp_path_factory.mktemp("small")
    tiny(made)
    (made / "narrow.yaml").write_text(SPACE)
    (made / "small.yaml").write_text(CAMPAIGN)
    return made


def load(folder: Path) -> Campaign:
    return load_campaign(str(folder / "small.yaml"))


def run(folder: Path, results: Path, notes: list[str] | None = None) -> dict[str, Outcome]:
    def listen(event: Event) -> None:
        if notes is not None and isinstance(event, Note):
            notes.append(event.text)

    campaign = load(folder)
    backend = SimBackend(folder / "profiles", campaign.workload, campaign.machine)
    return tune(plan_of(campaign), results, backend, listen)


@pytest.fixture(scope="module")
def ended(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Outcome]]:
    """Results of the campaign and what came of it; who goes on with them takes a copy."""
    results = tmp_path_factory.mktemp("ended")
    return results, run(folder, results)


def test_equal_campaigns_are_equal_to_the_last_bit(
    folder: Path, ended: tuple[Path, dict[str, Outcome]], tmp_path: Path
) -> None:
    results, first = ended
    assert run(folder, tmp_path) != {}
    tables = [table(journal_path(path, "small")) for path in (results, tmp_path)]
    assert tables[0] == tables[1]
    (found,) = first.values()
    assert found.complete
    assert found.effect is not None
    assert found.effect.pairs == 5
    with Journal(journal_path(tmp_path, "small"), writer=False) as journal:
        rows = journal.rows()
        assert {row.status for row in rows} == {Status.OK}
        knobs = {"read_hot_threshold", "sampling_period", "migration_period_ms"}
        assert all(set(row.trial.config) == knobs for row in rows if row.trial.purpose == "search")
        (facts,) = journal.environments().values()
        assert facts["backend"]["engine"]
        winner = next(row for row in rows if row.trial.origin == "winner")
        timeline = journal.timeline(found.winner_rows[0].trial)
    assert winner.metrics["runtime_s"] > 0.0
    assert len(timeline["time_s"]) == len(timeline["fast_hit_ratio"]) > 10


def test_a_changed_space_file_is_a_changed_campaign(
    folder: Path, ended: tuple[Path, dict[str, Outcome]], tmp_path: Path
) -> None:
    shutil.copytree(ended[0], tmp_path, dirs_exist_ok=True)
    before = table(journal_path(tmp_path, "small"))
    (folder / "narrow.yaml").write_text(SPACE.replace("max: 16", "max: 32"))
    try:
        with pytest.raises(JournalError, match=r"read_hot_threshold\.max: 16.* -> 32"):
            run(folder, tmp_path)
    finally:
        (folder / "narrow.yaml").write_text(SPACE)
    assert table(journal_path(tmp_path, "small")) == before
    run(folder, tmp_path)


def test_what_decides_no_result_may_change(
    folder: Path, ended: tuple[Path, dict[str, Outcome]], tmp_path: Path
) -> None:
    shutil.copytree(ended[0], tmp_path, dirs_exist_ok=True)
    changed = CAMPAIGN.replace(
        "workers: 2", "workers: 1\ndescription: other words\ntracking: {mlflow: false}"
    )
    (folder / "small.yaml").write_text(changed)
    try:
        run(folder, tmp_path)
    finally:
        (folder / "small.yaml").write_text(CAMPAIGN)


def test_another_name_is_another_campaign(folder: Path) -> None:
    campaign = load(folder)
    plan, other = plan_of(campaign), plan_of(campaign, "other")
    assert other.name == "other"
    assert other.document == plan.document
    assert plan.new_optimiser(plan.cells[0]).ask(3, []) == other.new_optimiser(other.cells[0]).ask(3, [])


def test_fixed_knobs_are_part_of_every_config(folder: Path) -> None:
    (folder / "pinned.yaml").write_text(
        SPACE.replace("name: narrow", "name: pinned") + "  cooling_pages: {fixed: 4096}\n"
    )
    (folder / "pinned-campaign.yaml").write_text(CAMPAIGN.replace("narrow.yaml", "pinned.yaml"))
    plan = plan_of(load_campaign(str(folder / "pinned-campaign.yaml")))
    optimiser = plan.new_optimiser(plan.cells[0])
    assert all(optimiser.ask(number, []).config["cooling_pages"] == 4096 for number in range(4))
    # What winners are compared with is the system as it comes, not as the space pins it.
    declared = adapter_for("hemem").resolve({})
    assert declared["cooling_pages"] != 4096
    assert plan.cells[0].default == declared
