"""How far contexts are apart, and which features are one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.transfer.few import context_of, write_few
from tiertune.tuner.campaign import load_campaign
from tiertune.tuner.transfer.context import Context, labels_of
from tiertune.tuner.transfer.feature import distances_of
from tiertune.tuner.transfer.measuring import held_back_seeds
from tiertune.tuner.trial import Contention


@pytest.fixture
def contexts(tmp_path: Path) -> list[Context]:
    """skx 1:4, skx 1:12, icx 1:12, and the last one with co-runners on tier 1."""
    campaign = load_campaign(str(write_few(tmp_path)))
    scenarios = [cell.scenario for cell in campaign.cells()]
    scenarios.append(replace(scenarios[2], contention=(Contention(1, 4.0, 0.0),)))
    return [context_of(campaign, scenario, {"read_hot_threshold": 2}) for scenario in scenarios]


def test_distances_are_in_doublings_and_shares(contexts: list[Context]) -> None:
    found = distances_of([one.traits for one in contexts])
    assert set(found.by_name) == {"latency gap and bandwidth gap", "slow memory per fast", "contention"}
    ratio = found.by_name["slow memory per fast"]
    assert ratio[0, 1] == ratio[0, 2] == pytest.approx(np.log2(3))
    assert ratio[1, 2] == 0.0
    gap = found.by_name["latency gap and bandwidth gap"]
    assert gap[1, 2] == pytest.approx(np.log2((250 / 80) / (180 / 95)))
    assert found.by_name["contention"][2, 3] == pytest.approx(4.0 / contexts[3].machine.tiers[1].read_gbps)
    for array in found.by_name.values():
        assert (array == array.T).all()
        assert not array.diagonal().any()


def test_the_nearest_context_differs_least(contexts: list[Context]) -> None:
    found = distances_of([one.traits for one in contexts])
    assert found.nearest(1, [0, 2, 3]) == 0
    assert found.nearest(2, [0, 1, 3]) in (1, 3)
    assert found.nearest(0, [2, 3]) == 2


def test_labels_have_what_differs_and_seeds_are_of_the_context(contexts: list[Context]) -> None:
    assert labels_of(contexts[:2]) == ["1:4", "1:12"]
    assert labels_of(contexts[:3]) == ["skx-numa 1:4", "skx-numa 1:12", "icx-pmem 1:12"]
    seeds = [held_back_seeds(context, "judgement", 3) for context in contexts[:3]]
    assert len({seed for some in seeds for seed in some}) == 9
    taken = replace(contexts[0], used_seeds=frozenset(seeds[0][:1]))
    with pytest.raises(AssertionError, match="reuse a seed"):
        held_back_seeds(taken, "judgement", 3)


def test_contexts_are_the_same_by_what_runs_in_them(contexts: list[Context]) -> None:
    assert contexts[0].identity == replace(contexts[0], campaign="other").identity
    assert len({context.identity for context in contexts}) == 4
