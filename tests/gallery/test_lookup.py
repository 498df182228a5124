"""Which entry is nearest to a context, and in what the two differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.gallery.entries import PLAIN, TRAITS, entry_of
from tests.transfer.few import context_of, write_few
from tiertune.tuner.campaign import load_campaign
from tiertune.tuner.gallery.definition import PARTS
from tiertune.tuner.gallery.lookup import differences, nearest_entry
from tiertune.tuner.transfer.feature import distances_of
from tiertune.tuner.transfer.traits import Traits, traits_of

QUICK = settings(deadline=None, max_examples=50)


@QUICK
@given(st.lists(TRAITS, min_size=1, max_size=8), st.data())
def test_the_nearest_to_a_context_that_is_there_is_itself(
    contexts: list[Traits], data: st.DataObject
) -> None:
    wanted = data.draw(st.sampled_from(contexts))
    found = nearest_entry(wanted, [entry_of(one) for one in contexts])
    assert differences(found.traits, wanted) == []


@QUICK
@given(st.lists(TRAITS, min_size=2, max_size=8))
def test_distances_are_the_same_both_ways_and_nothing_is_away_from_itself(contexts: list[Traits]) -> None:
    for array in distances_of(contexts).by_name.values():
        assert np.array_equal(array, array.T)
        assert not array.diagonal().any()
        assert (array >= 0).all()


@QUICK
@given(TRAITS, TRAITS)
def test_differences_are_the_same_parts_both_ways(one: Traits, other: Traits) -> None:
    there = differences(one, other)
    back = differences(other, one)
    assert [(d.part, d.there, d.here) for d in there] == [(d.part, d.here, d.there) for d in back] or (
        one.workload == other.workload or one.machine == other.machine
    )
    assert [d.part for d in there] == [d.part for d in back]
    order = [PARTS.index(d.part) for d in there]
    assert order == sorted(order)


@QUICK
@given(st.lists(TRAITS, min_size=1, max_size=6), TRAITS)
def test_nobody_is_nearer_in_every_feature_than_the_nearest(contexts: list[Traits], wanted: Traits) -> None:
    # The same context wins whatever its distances are, and drawn gaps may differ on one machine.
    assume(all(differences(one, wanted) for one in contexts))
    found = nearest_entry(wanted, [entry_of(one) for one in contexts])
    place = next(place for place, one in enumerate(contexts) if one == found.traits)
    arrays = distances_of([*contexts, wanted]).by_name.values()
    for other in range(len(contexts)):
        assert not (arrays and all(one[other, -1] < one[place, -1] for one in arrays))


@pytest.mark.parametrize(
    ("changed", "part", "there", "here"),
    [
        ({"program": "pr", "workload": "pr-kron", "workload_digest": "x"}, "program", "bc-kron", "pr-kron"),
        ({"workload": "bc-urand", "workload_digest": "x"}, "input", "bc-kron", "bc-urand"),
        ({"workload_digest": "x"}, "input", "bc-kron as it was then", "bc-kron as it is now"),
        ({"machine": "icx-pmem", "machine_digest": "x"}, "machine", "skx-numa", "icx-pmem"),
        ({"machine_digest": "x"}, "machine", "skx-numa as it was then", "skx-numa as it is now"),
        ({"ratio": "1:4"}, "ratio", "1:8", "1:4"),
        ({"threads": 4}, "threads", "12", "4"),
        ({"page_bytes": 4096}, "pages", "2MiB", "4KiB"),
        ({"contention": 0.1, "co_runners": "tier1:r4w0"}, "contention", "alone", "tier1:r4w0"),
    ],
)
def test_each_part_is_told(changed: dict[str, object], part: str, there: str, here: str) -> None:
    (found,) = differences(PLAIN, replace(PLAIN, **changed))  # type: ignore[arg-type]
    assert (found.part, found.there, found.here) == (part, there, here)


def test_the_same_ratio_in_other_numbers_is_the_same() -> None:
    assert differences(PLAIN, replace(PLAIN, ratio="2:16")) == []


def test_less_memory_apart_is_nearer_and_of_equals_the_first_is_taken() -> None:
    entries = [entry_of(replace(PLAIN, ratio=ratio)) for ratio in ("1:1", "1:4", "1:32")]
    assert nearest_entry(replace(PLAIN, ratio="1:3"), entries).ratio == "1:4"
    assert nearest_entry(replace(PLAIN, ratio="1:100"), entries).ratio == "1:32"
    assert nearest_entry(replace(PLAIN, ratio="1:2"), entries).ratio == "1:1"


def test_the_machine_itself_comes_before_one_with_the_same_gaps() -> None:
    twin = replace(PLAIN, machine="twin", machine_digest="x")
    assert nearest_entry(PLAIN, [entry_of(twin), entry_of(PLAIN)]).machine == "skx-numa"


def test_entries_keep_the_traits_of_a_context(tmp_path: Path) -> None:
    campaign = load_campaign(str(write_few(tmp_path)))
    for cell in campaign.cells():
        context = context_of(campaign, cell.scenario, {})
        assert entry_of(context.traits).traits == context.traits
        assert context.traits == traits_of(context.workload, context.machine, cell.scenario)
