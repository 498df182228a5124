"""Bisection along an axis, on gains that are known functions of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.transfer.few import context_of, write_few
from tiertune.files import InputError
from tiertune.tuner.campaign import load_campaign
from tiertune.tuner.transfer.axis import AXES, axis_called
from tiertune.tuner.transfer.breakpoint import along_document, walk
from tiertune.tuner.transfer.context import Context, complete
from tiertune.tuner.transfer.measuring import Laboratory, Place


@dataclass
class Pretended(Laboratory):
    """A laboratory in which the tuned config gains what a function of the ratio says (log, with noise)."""

    gain: Callable[[float], float] = lambda _: 0.0
    noise: float = 0.0
    failing: Callable[[float], bool] = lambda _: False
    asked: list[float] = field(default_factory=list)

    def measure(self, wanted: Iterable[tuple[Place, Any, Sequence[int]]]) -> None:
        self.asked += [self.at(place) for place, _, _ in wanted]

    def at(self, place: Place) -> float:
        fast, slow = map(int, place.ratio.split(":"))
        return slow / fast

    def costs(self, place: Place, config: Any, seeds: Sequence[int]) -> np.ndarray:
        default = config == complete("hemem", {})
        noise = np.random.default_rng(seeds[0]).normal(0, self.noise, len(seeds))
        gain = np.nan if self.failing(self.at(place)) else self.gain(self.at(place))
        return np.zeros(len(seeds)) if default else noise - gain

    def failure(self, place: Place, config: Any, seeds: Sequence[int]) -> str:
        return "not-applicable: it does not fit" if self.failing(self.at(place)) else ""


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    campaign = load_campaign(str(write_few(tmp_path_factory.mktemp("few"))))
    return context_of(campaign, campaign.cells()[1].scenario, {"read_hot_threshold": 2})


def walked(context: Context, ends: tuple[float, float], **pretended: Any) -> tuple[dict[str, Any], Pretended]:
    laboratory = Pretended(Path(), 1, print, print, **pretended)
    lines = walk([(context, "one")], AXES["ratio"], ends, 1.0, 8, laboratory)
    return along_document(lines, AXES["ratio"], ends, 1.0, 8), laboratory


@pytest.mark.parametrize("limit", [0.6, 3.0, 7.7, 15.5])
def test_a_breakpoint_is_found_to_five_percent(context: Context, limit: float) -> None:
    document, laboratory = walked(
        context, (0.5, 16.0), gain=lambda at: 0.3 if at < limit else -0.1, noise=0.001
    )
    (line,) = document["lines"]
    (found,) = line["breakpoints"]
    assert found["kind"] == "stops"
    assert found["before"] < limit <= found["after"]
    assert found["after"] / found["before"] <= 1.06
    assert (found["sure_before"], found["sure_after"]) == (found["before"], found["after"])
    assert len(laboratory.asked) <= 2 * 12


def test_a_gain_that_comes_and_goes_has_two_breakpoints_in_the_order_of_the_way(context: Context) -> None:
    document, _ = walked(context, (16.0, 0.5), gain=lambda at: 0.3 if 1.0 < at < 6.0 else -0.1)
    (line,) = document["lines"]
    assert [one["kind"] for one in line["breakpoints"]] == ["begins", "stops"]
    begins, stops = line["breakpoints"]
    assert begins["after"] < 6.0 <= begins["before"]
    assert stops["after"] <= 1.0 < stops["before"]
    assert line["points"][0]["text"] == "1:16"
    assert "part of the way" in document["verdict"] or "begins" in document["verdict"]


def test_a_slow_fall_within_the_noise_says_from_where_to_where_it_may_be(context: Context) -> None:
    document, _ = walked(context, (0.5, 16.0), gain=lambda at: 0.01 - 0.01 * math.log2(at / 2), noise=0.02)
    (line,) = document["lines"]
    (found,) = line["breakpoints"]
    assert found["sure_before"] is None or found["sure_before"] < found["before"]
    assert "anywhere from" in found["told"]


def test_no_change_is_no_breakpoint_and_failed_ends_are_gaps(context: Context) -> None:
    document, _ = walked(context, (0.5, 16.0), gain=lambda _: 0.3)
    assert document["lines"][0]["told"] == "everywhere"
    document, laboratory = walked(context, (0.5, 16.0), gain=lambda _: 0.3, failing=lambda at: at > 10)
    (line,) = document["lines"]
    assert line["breakpoints"] == []
    assert line["points"][-1]["state"] == "failed"
    assert "does not fit" in line["points"][-1]["reason"]
    assert len(laboratory.asked) == 2 * 6
    assert line["told"] == "2:1 to 1:8; failed at 1:16"


def test_a_step_whose_middle_fails_is_asked_for_once_and_no_everywhere(context: Context) -> None:
    document, laboratory = walked(
        context, (0.5, 16.0), gain=lambda at: 0.3 if at < 3 else -0.1, failing=lambda at: 2.5 < at < 4
    )
    (line,) = document["lines"]
    (found,) = line["breakpoints"]
    assert found["told"].endswith("where runs failed")
    assert found["before"] < 3 < found["after"]
    assert len(laboratory.asked) == len(set(laboratory.asked)) * 2
    document, _ = walked(context, (0.5, 16.0), gain=lambda _: 0.3, failing=lambda at: 1 < at < 5)
    assert "everywhere" not in document["verdict"]
    assert "failed at 1:2 to 1:4" in document["verdict"]


def test_axes_read_and_write_and_move(context: Context) -> None:
    ratio, threads, gap = AXES["ratio"], AXES["threads"], AXES["latency-gap"]
    assert [ratio.text(ratio.parse(text)) for text in ("2:1", "1:16", "3:2")] == ["2:1", "1:16", "1.5:1"]
    assert ratio.place(context, 2.5).ratio == "2:5"
    assert ratio.own(context) == 12.0
    assert threads.snap(6.4) == 6.0
    moved = gap.place(context, 3.0).setting.machine.tiers
    assert moved[1].latency_ns / moved[0].latency_ns == pytest.approx(3.0)
    assert moved[0] == context.machine.tiers[0]
    assert gap.own(context) == pytest.approx(180 / 95)
    for axis, text in (
        (ratio, "1"),
        (ratio, "0:1"),
        (threads, "0"),
        (threads, "x"),
        (gap, "0.5"),
        (gap, "x"),
    ):
        with pytest.raises(InputError):
            axis.parse(text)
    with pytest.raises(InputError, match="no other number"):
        threads.place(context, 8.0)
    with pytest.raises(InputError, match="did you mean 'ratio'"):
        axis_called("ration")
