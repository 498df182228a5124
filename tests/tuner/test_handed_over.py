"""What a search tells people to run: never what selection saw lose to the default."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuner.surfaces import smooth
from tests.tuner.toy import DEFAULTS, SCENARIO, ToyBackend, toy_plan
from tiertune.tuner.journal import Journal
from tiertune.tuner.loop import journal_path, tune
from tiertune.tuner.trial import Config, Status, canonical
from tiertune.tuner.validation import beats_default, handed_over, keeps_default, selected

CELL = f"{SCENARIO.key}/toy-system"


def best_at_default(config: Config) -> float:
    """Whatever differs from the default is a tenth slower."""
    return 1.0 if canonical(config) == canonical(DEFAULTS) else 1.1


def told(results: Path) -> tuple[Config | None, Config]:
    with Journal(journal_path(results, "toy"), writer=False) as journal:
        found = selected(journal, CELL, 0)
        assert found is not None
        return handed_over(journal, CELL, 0), found.trial.config


def test_a_config_that_beats_the_default_is_handed_over(tmp_path: Path) -> None:
    tune(toy_plan(), tmp_path, ToyBackend(surface=smooth))
    config, winner = told(tmp_path)
    assert config == winner != DEFAULTS


def test_the_default_is_where_nothing_beats_it(tmp_path: Path) -> None:
    found = tune(toy_plan(), tmp_path, ToyBackend(surface=best_at_default))[CELL]
    config, winner = told(tmp_path)
    assert config == DEFAULTS != winner
    assert not found.improved


@pytest.mark.parametrize("as_default", [True, False])
def test_a_default_that_is_not_as_the_space_fixes_things_is_not(tmp_path: Path, as_default: bool) -> None:
    name, value = next((name, value) for name, value in DEFAULTS.items() if isinstance(value, int))
    fixed = {"knobs": {name: {"fixed": value if as_default else value + 1}}}
    plan = toy_plan()
    plan = replace(plan, document={**plan.document, "cells": {CELL: {"space": fixed}}})
    tune(plan, tmp_path, ToyBackend(surface=best_at_default))
    config, winner = told(tmp_path)
    assert config == (DEFAULTS if as_default else winner)
    assert winner != DEFAULTS
    with Journal(journal_path(tmp_path, "toy"), writer=False) as journal:
        assert beats_default(journal, CELL, 0) is False


def test_a_default_whose_host_was_not_in_order_once_is_judged_by_the_other_seeds(tmp_path: Path) -> None:
    tune(toy_plan(), tmp_path, ToyBackend(surface=best_at_default))
    _, winner = told(tmp_path)
    with Journal(journal_path(tmp_path, "toy"), writer=False) as journal:
        rows = journal.rows(CELL, "selection")
    first = next(row for row in rows if row.trial.origin == "default")
    unfit = [replace(row, status=Status.HOST_UNFIT, cost=None) if row is first else row for row in rows]
    assert keeps_default(unfit, winner)
    failed = [replace(row, status=Status.CRASHED, cost=None) if row is first else row for row in rows]
    assert not keeps_default(failed, winner)


def test_nothing_is_before_selection_has_ended(tmp_path: Path) -> None:
    tune(toy_plan(), tmp_path, ToyBackend())
    with Journal(journal_path(tmp_path, "toy"), writer=False) as journal:
        assert handed_over(journal, CELL, 1) is None
