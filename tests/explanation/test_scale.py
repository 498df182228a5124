"""Knobs on the scale from 0 to 1."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tiertune.spaces.definition import load_space
from tiertune.tuner.explanation.scale import STEP, bound_of, levels, place_on, steps_from, value_at


@pytest.mark.parametrize("space", ["hemem", "memtis", "hmsdk"])
def test_values_and_places_are_inverse(space: str) -> None:
    for axis in load_space(space).axes():
        for place in (0.0, 0.3, 1.0):
            value = value_at(axis, place)
            assert value_at(axis, place_on(axis, value)) == pytest.approx(value) or axis.type == "choice"
            assert 0.0 <= place_on(axis, value) <= 1.0
        assert 0.0 <= place_on(axis, axis.default) <= 1.0
        if not axis.choices:
            assert [value_at(axis, end) for end in (0.0, 1.0)] == [axis.minimum, axis.maximum]


def test_levels_have_both_ends_and_what_is_asked_for() -> None:
    axes = {axis.name: axis for axis in load_space("hemem").axes()}
    axis = axes["sampling_period"]
    found = levels(axis, 9, [911, 5003])
    assert (found[0], found[-1], len(found)) == (100, 50000, 9)
    assert {911, 5003} <= set(found)
    assert found == sorted(found, key=float)
    # Two values next to one another do not push each other out.
    assert {5003, 5004} <= set(levels(axis, 3, [5003, 5004])) | {5004}
    assert 5003 in levels(axis, 3, [5003, 5004])


def test_a_step_stays_in_the_range_and_moves_whole_numbers() -> None:
    axes = {axis.name: axis for axis in load_space("hemem").axes()}
    low, high = steps_from(axes["sampling_period"], 5003)
    assert place_on(axes["sampling_period"], high) == pytest.approx(
        place_on(axes["sampling_period"], 5003) + STEP, abs=1e-3
    )
    assert float(low) < 5003 < float(high)
    assert steps_from(axes["read_hot_threshold"], 1) == [2]
    assert bound_of(axes["read_hot_threshold"], 1) == "lowest"
    assert bound_of(axes["hot_ring_reqs_threshold"], 1048576) == "highest"
    assert bound_of(axes["read_hot_threshold"], 8) == ""
    period = replace(axes["migration_period_ms"], specials=(0.0,), special_share=0.2)
    assert bound_of(period, 0.0) == ""
    assert bound_of(period, 1.0) == "lowest"
    assert place_on(period, 0.0) == 0.0
    word = next(axis for axis in load_space("memtis").axes() if axis.type == "bool")
    assert steps_from(word, True) == [False]
