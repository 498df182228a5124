"""What a study concludes from gains that were planted: no engine runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.transfer.few import context_of, write_few
from tiertune.tuner.campaign import Campaign, load_campaign
from tiertune.tuner.transfer.context import Context, complete
from tiertune.tuner.transfer.document import study_document
from tiertune.tuner.transfer.measuring import Laboratory, Place, Stage, held_back_seeds
from tiertune.tuner.transfer.study import Settings, run_study

SEEDS = 8
Gain = Callable[[int, int, Stage], float]
"""Log gain of what was tuned in one context (by number, -1 the default) in another, by stage."""


@dataclass
class Planted(Laboratory):
    """A laboratory in which every config gains what is planted, with noise of its own."""

    contexts: Sequence[Context] = ()
    gain: Gain = lambda *_: 0.0
    noise: float = 0.0
    luck: int = 0

    def measure(self, wanted: Iterable[tuple[Place, Any, Sequence[int]]]) -> None:
        pass

    def costs(self, place: Place, config: Any, seeds: Sequence[int]) -> np.ndarray:
        origin = next((n for n, one in enumerate(self.contexts) if one.tuned == config), -1)
        to = self.contexts.index(place.context)
        stage: Stage = "choice" if seeds[0] in held_back_seeds(place.context, "choice", 1) else "judgement"
        gain = 0.0 if origin < 0 else self.gain(origin, to, stage)
        random = np.random.default_rng([self.luck, origin + 1, to, len(stage)])
        return random.normal(-gain, self.noise, len(seeds))

    def failure(self, place: Place, config: Any, seeds: Sequence[int]) -> str:
        return ""


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return load_campaign(str(write_few(tmp_path_factory.mktemp("few"))))


def studied(campaign: Campaign, count: int, gain: Gain, noise: float = 0.0, luck: int = 0) -> dict[str, Any]:
    scenario = campaign.cells()[0].scenario
    contexts = [
        context_of(campaign, replace(scenario, ratio=f"1:{number + 1}"), {"read_hot_threshold": number + 2})
        for number in range(count)
    ]
    contexts = [one for one in contexts if one.tuned != complete("hemem", {})]
    laboratory = Planted(Path(), 1, print, print, contexts=contexts, gain=gain, noise=noise, luck=luck)
    return study_document(run_study(contexts, Settings(SEEDS, 1, 2, "mean"), laboratory))


def test_transfers_that_are_as_good_as_the_default_are_seldom_counted_as_more_or_less(
    campaign: Campaign,
) -> None:
    found = [studied(campaign, 5, lambda *_: 0.0, 0.02, luck)["summary"] for luck in range(20)]
    alone = sum(one["better_by_themselves"] + one["worse_by_themselves"] > 0 for one in found)
    together = sum(one["better_than_default"] + one["worse_than_default"] > 0 for one in found)
    # One in twenty studies is to be expected; by themselves, most have some.
    assert together <= 3 < 8 <= alone


def test_transfers_that_are_far_worse_are_all_counted(campaign: Campaign) -> None:
    document = studied(campaign, 5, lambda origin, to, _: 0.3 if origin == to else -0.3, 0.01)
    summary = document["summary"]
    assert summary["transfers"] == summary["worse_than_default"] >= 12
    assert f"{summary['transfers']} of {summary['transfers']} transfers are worse" in document["verdict"]


def test_a_loss_below_one_percent_is_not_called_worse(campaign: Campaign) -> None:
    summary = studied(campaign, 3, lambda origin, to, _: 0.3 if origin == to else -0.005)["summary"]
    assert summary["worse_than_default"] == summary["worse_by_themselves"] == 0


def test_where_no_gain_is_shown_there_is_no_share_of_it_to_advise_with(campaign: Campaign) -> None:
    document = studied(campaign, 3, lambda origin, to, _: 0.004 if origin == to else 0.009)
    assert "gained nothing" in document["verdict"]
    assert document["advice"] == ""


def test_the_best_member_is_chosen_on_other_seeds_than_judge_it(campaign: Campaign) -> None:
    def turned(origin: int, to: int, stage: Stage) -> float:
        return (0.3 if origin == to else -0.3) * (1 if stage == "choice" else -1)

    portfolio = studied(campaign, 2, turned)["portfolio"]
    assert portfolio["size"] == 2
    assert portfolio["best_member_always"]["mean"] == portfolio["with_the_rule"]["mean"]
    assert portfolio["best_member_always"]["mean"]["ratio"] < 1.0
