"""Scenarios of a comparison go by names that tell them apart, in every table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tests.comparison.planted import changed, figures
from tiertune.tuner.comparison.measured import scenes_of
from tiertune.tuner.comparison.page import median_and_range
from tiertune.tuner.comparison.scores import DEFAULT, TUNED, entries_of, pairs_at, ranks_at, scores_of
from tiertune.tuner.comparison.tuning import flips_of
from tiertune.tuner.trial import Contention, Objective, Scenario


def plan_of(*scenarios: Scenario) -> Any:
    cells = [
        SimpleNamespace(key=one.key, scenario=one, objective=Objective("runtime_s", "minimize"))
        for one in scenarios
    ]
    contents = {one.key: {"workload": {"name": "w"}, "machine": {"name": "m"}} for one in cells}
    return SimpleNamespace(cells=cells, document={"cells": contents})


def test_scenarios_that_differ_in_threads_pages_or_co_runners_have_names_of_their_own() -> None:
    scenarios = [
        Scenario("w", "m", "1:4"),
        Scenario("w", "m", "1:4", threads=4),
        Scenario("w", "m", "1:4", page_bytes=4096),
        Scenario("w", "m", "1:4", contention=(Contention(1, 8.0, 0.0),)),
    ]
    names = [scene.name for scene in scenes_of(plan_of(*scenarios))]
    assert len(set(names)) == 4
    assert names[1] == "w, m, 1:4, 4 threads, 2MiB, alone"
    assert [scene.name for scene in scenes_of(plan_of(scenarios[0]))] == ["w, m, 1:4"]


def test_pairs_of_scenarios_that_differ_in_threads_alone_are_all_counted() -> None:
    scenes = scenes_of(plan_of(*(Scenario("w", "m", "1:4", threads=count) for count in range(1, 13))))
    scores = scores_of(
        changed(figures({"a": 1.2, "b": 1.3, "c": 1.6}, dict.fromkeys("abc", 1.1)), scenes=scenes)
    )
    assert len({(entry.scenario, entry.system) for entry in entries_of(scores)}) == 12 * 3
    duels = [
        duel for stage in (DEFAULT, TUNED) for duel in pairs_at(scores, stage, ranks_at(scores, stage)[1])[1]
    ]
    assert flips_of(duels)[1] == 12 * 3


def test_the_median_of_an_even_number_of_taus_lies_between_the_two_in_the_middle() -> None:
    assert median_and_range([1.0, -1.0, 0.0, 0.5]) == "0.250 (-1.000 to 1.000)"
