"""Two objectives: what is on a front, how it is searched, and what a campaign says of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ConfigSpace import ConfigurationSpace
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contracts.optimiser import OptimiserContract
from tests.tuner.toy import DEFAULTS, OBJECTIVES, SCENARIO, ToyBackend, table, toy_plan
from tiertune.tuner.events import Event, Listener, Started, silent
from tiertune.tuner.front import Front, front_of, verdict_of
from tiertune.tuner.journal import Journal
from tiertune.tuner.loop import journal_path, tune
from tiertune.tuner.optimiser.base import Observation, Settings
from tiertune.tuner.optimiser.scalarised import Scalarised, scalarised
from tiertune.tuner.optimiser.smac import SmacOptimiser
from tiertune.tuner.search.constraint import Constraint
from tiertune.tuner.search.objectives import Objectives, Pair, layers, spread
from tiertune.tuner.search.rules import SearchRules
from tiertune.tuner.trial import Measurement, Objective, Status, Trial, canonical
from tiertune.tuner.validation import (
    FRONT_FINALISTS,
    FRONT_POINTS,
    SELECTION_SEEDS,
    Outcome,
    all_selected,
    judgement_trials,
)

CELL = f"{SCENARIO.key}/toy-system"
SEEDS = 8
PAIRS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=30)


class ScalarisedSmac(Scalarised):
    """As campaigns make it."""

    def __init__(self, space: ConfigurationSpace, settings: Settings) -> None:
        super().__init__(SmacOptimiser(space, settings), OBJECTIVES)


class TestScalarised(OptimiserContract):
    optimiser = ScalarisedSmac


def dominates(one: Pair, other: Pair) -> bool:
    return one[0] <= other[0] and one[1] <= other[1] and one != other


@given(PAIRS)
def test_the_first_layer_is_what_nothing_dominates(points: list[Pair]) -> None:
    found = layers(points)
    assert sorted(index for layer in found for index in layer) == list(range(len(points)))
    front = {points[index] for index in found[0]}
    assert front == {p for p in points if not any(dominates(other, p) for other in points)}
    for layer in found:
        firsts = [points[index][0] for index in layer]
        assert firsts == sorted(firsts)


@given(PAIRS, st.integers(1, 6))
def test_a_spread_has_both_ends_and_no_more_than_asked_for(points: list[Pair], count: int) -> None:
    front = [points[index] for index in layers(points)[0]]
    chosen = spread(front, count)
    assert len(chosen) == len(set(chosen)) == min(count, len(front))
    assert chosen == sorted(chosen)
    assert chosen[0] == 0
    if count > 1:
        assert chosen[-1] == len(front) - 1


def test_a_spread_takes_the_furthest_and_leaves_out_what_is_the_same() -> None:
    front = [(0.0, 10.0), (0.1, 9.9), (5.0, 5.0), (9.0, 0.5), (10.0, 0.0)]
    assert spread(front, 3) == [0, 2, 4]
    assert spread(front, 5, apart=(0.2, 0.2)) == [0, 2, 3, 4]


def runs(mean: Pair, noise: float, seed: int) -> list[Pair]:
    random = np.random.default_rng(seed)
    return [tuple(np.array(mean) * np.exp(noise * random.standard_normal(2))) for _ in range(SEEDS)]


def front(noise: float = 0.001, **means: Pair) -> Front:
    found = front_of(
        OBJECTIVES, "default", {name: runs(mean, noise, n) for n, (name, mean) in enumerate(means.items())}
    )
    assert found is not None
    return found


def test_a_front_holds_what_is_not_beaten_beyond_noise() -> None:
    found = front(
        default=(100.0, 1e9), fast=(80.0, 3e9), worse=(90.0, 3.2e9), quiet=(101.0, 1e8), none=(120.0, 0.0)
    )
    assert [point.name for point in found.found] == ["fast", "quiet", "none"]
    beaten = {point.name: point.beaten_by for point in found.points if point.beaten_by}
    # The default is a hundredth faster than the quiet one, which is what makes both worth having.
    assert beaten == {"worse": "fast"}
    assert found.default_stays
    assert found.improved
    assert verdict_of(found) == (
        "4 configurations, the default among them, trade runtime_s for migrated_bytes:"
        " from 0.80x runtime_s at 3.00x migrated_bytes to 1.20x at 0.00x, relative to default"
    )
    point = found.points[0]
    assert point.first.low is not None
    assert point.first.high is not None
    assert point.first.low < 0.8 < point.first.high
    assert point.first.high - point.first.low < 0.004


def test_noise_keeps_on_the_front_what_might_be_better() -> None:
    quiet = front(0.001, default=(100.0, 1e9), one=(80.0, 2e9), other=(83.0, 2e9))
    noisy = front(0.2, default=(100.0, 1e9), one=(80.0, 2e9), other=(83.0, 2e9))
    assert [point.name for point in quiet.found] == ["one"]
    assert {point.name for point in noisy.found} == {"one", "other"}


def test_one_that_is_best_in_both_is_told_as_one() -> None:
    found = front(default=(100.0, 1e9), better=(80.0, 5e8))
    assert not found.default_stays
    assert verdict_of(found).startswith(
        "one configuration is best in both objectives: runtime_s 0.80 (0.80 to 0.80) and migrated_bytes 0.50"
    )
    nothing = front(default=(100.0, 1e9), worse=(120.0, 2e9))
    assert verdict_of(nothing) == (
        "no improvement found: nothing is better than default in runtime_s or migrated_bytes beyond noise"
    )
    assert not nothing.improved


def test_equals_of_the_default_are_rarely_an_improvement() -> None:
    """Five of them in two objectives are ten chances; an interval of 95 % each lets 20 in 100 through."""
    random, found = np.random.default_rng(11), []
    for _ in range(100):
        values = np.exp(0.05 * random.standard_normal((6, 10, 2)))
        named = {name: [tuple(pair) for pair in rows] for name, rows in zip("dabcef", values, strict=True)}
        told = front_of(OBJECTIVES, "d", named)
        assert told is not None
        found.append(told.improved)
        # What is not shown better than the default does not beat it either.
        assert told.improved or told.default_stays
    assert np.mean(found) <= 0.05


def test_a_tenth_is_found_among_five_at_5_percent_noise() -> None:
    random, found = np.random.default_rng(12), []
    for _ in range(20):
        values = np.exp(0.05 * random.standard_normal((6, 20, 2)))
        values[1, :, 0] *= 0.9
        named = {name: [tuple(pair) for pair in rows] for name, rows in zip("dabcef", values, strict=True)}
        told = front_of(OBJECTIVES, "d", named)
        assert told is not None
        found.append(any(point.gains for point in told.points if point.name == "a"))
    assert np.mean(found) >= 0.95


def test_a_default_without_any_has_no_ratio_and_still_a_front() -> None:
    found = front(default=(100.0, 0.0), fast=(80.0, 3e9), slower=(90.0, 4e9))
    assert [point.name for point in found.found] == ["fast"]
    assert found.points[0].second.ratio is None
    assert verdict_of(found) == (
        "2 configurations, the default among them, trade runtime_s for migrated_bytes:"
        " 0.80x runtime_s at 3e+09 (default 0) migrated_bytes, relative to default"
    )


def test_more_is_better_where_a_metric_says_so() -> None:
    hits = Objectives(Objective("throughput_mops", "maximize"), Objective("fast_hit_ratio", "maximize"))
    means = {"default": (10.0, 0.5), "fast": (20.0, 0.3), "worse": (15.0, 0.2), "hits": (9.0, 0.9)}
    found = front_of(
        hits, "default", {name: runs(mean, 0.001, n) for n, (name, mean) in enumerate(means.items())}
    )
    assert found is not None
    assert [point.name for point in found.found] == ["fast", "hits"]
    assert found.points[0].first.ratio == pytest.approx(2.0, rel=0.01)


@given(
    st.lists(st.tuples(st.floats(0.1, 10.0), st.floats(0.0, 10.0)), min_size=1, max_size=4),
    st.sampled_from([0.0, 0.01, 0.3]),
)
@settings(deadline=None, max_examples=20)
def test_something_is_always_left(means: list[Pair], noise: float) -> None:
    """Configurations cannot beat each other in a circle."""
    named = {"default": (1.0, 1.0), **{f"c{n}": mean for n, mean in enumerate(means)}}
    found = front(noise, **named)
    assert any(point.beaten_by is None for point in found.points)
    for point in found.points:
        seen, name = set(), point.beaten_by
        while name is not None:
            assert name not in seen
            seen.add(name)
            name = next(p.beaten_by for p in found.points if p.name == name)


def test_too_few_seeds_are_no_front() -> None:
    four = {"default": [(1.0, 1.0)] * 4, "other": [(0.5, 0.5)] * 4}
    assert front_of(OBJECTIVES, "default", four) is None


# --- search


def seen(number: int, runtime_s: float, copied: float) -> Observation:
    return Observation(number, {"k": number}, Status.OK, math.log(runtime_s), second=copied)


def test_weights_move_what_is_told_from_one_objective_to_the_other() -> None:
    history = [seen(0, 100.0, 1e9), seen(1, 80.0, 3e9), seen(2, 120.0, 0.0), seen(3, 130.0, 4e9)]
    for weight, best in ((1.0, 1), (0.0, 2)):
        told = scalarised(history, OBJECTIVES, weight)
        costs = [o.cost for o in told if o.cost is not None]
        assert costs.index(min(costs)) == best
        assert costs[3] == max(costs)
        assert min(costs) >= 0.0
        assert max(costs) <= 1.1
    flying = Observation(4, {"k": 4}, Status.RUNNING)
    late = Observation(5, {"k": 5}, Status.TIMEOUT, bound=7.0)
    told = scalarised([*history, flying, late], OBJECTIVES, 0.5)
    assert told[4] == flying
    assert told[5].bound is None  # it is of runtime, and would be read as a mixture


def test_all_weights_are_drawn_and_by_number_alone() -> None:
    optimiser = ScalarisedSmac(ConfigurationSpace(seed=0), Settings(3))
    weights = [optimiser.weight(number) for number in range(200)]
    assert weights == [optimiser.weight(number) for number in range(200)]
    assert {round(weight, 1) for weight in weights} == {round(k / 10, 1) for k in range(11)}


# --- campaigns


def campaign(folder: Path, backend: ToyBackend | None = None, **changes: Any) -> Outcome:
    plan = toy_plan(**{"objectives": True, "trials": 30, "validation_seeds": SEEDS, **changes})
    return tune(plan, folder, backend or ToyBackend())[CELL]


def test_a_campaign_validates_the_default_and_the_ends_of_the_front_on_fresh_seeds(tmp_path: Path) -> None:
    found = campaign(tmp_path)
    assert found.complete
    assert found.improved
    assert found.front is not None
    assert " configurations" in found.verdict
    with Journal(journal_path(tmp_path, "toy"), writer=False) as journal:
        chosen = all_selected(journal, CELL, 0)
        rows = {kind: journal.rows(CELL, kind) for kind in ("search", "selection", "validation")}
    assert 2 <= len(chosen) <= FRONT_POINTS
    most = judgement_trials(30, SEEDS, OBJECTIVES)
    assert most == ((FRONT_FINALISTS + 1) * SELECTION_SEEDS, (FRONT_POINTS + 1) * SEEDS)
    assert len(rows["selection"]) <= most[0]
    assert len(rows["validation"]) == (1 + len(chosen)) * SEEDS <= most[1]
    # Blocks of equal seeds, each with every contender, in an order that turns.
    blocks: dict[int, list[str]] = {}
    for row in rows["validation"]:
        blocks.setdefault(row.trial.seed, []).append(canonical(row.trial.config))
    everyone = {canonical(DEFAULTS), *(canonical(row.trial.config) for row in chosen)}
    assert all(set(block) == everyone and len(block) == len(everyone) for block in blocks.values())
    assert len({block[0] for block in blocks.values()}) == len(everyone)
    assert not set(blocks) & {row.trial.seed for kind in ("search", "selection") for row in rows[kind]}
    # The ends of what was re-measured are there.
    means: dict[str, list[Pair]] = {}
    for row in rows["selection"]:
        if row.trial.origin == "candidate":
            pair = row.metrics["runtime_s"], row.metrics["migrated_bytes"]
            means.setdefault(canonical(row.trial.config), []).append(pair)
    fastest = min(means, key=lambda text: np.mean([p[0] for p in means[text]]))
    quietest = min(means, key=lambda text: np.mean([p[1] for p in means[text]]))
    assert {fastest, quietest} <= everyone
    assert found.winner is not None
    assert canonical(found.winner.trial.config) == fastest


def test_every_worker_count_and_every_break_give_the_same_campaign(tmp_path: Path) -> None:
    def stopping(at: int) -> Listener:
        def listen(event: Event) -> None:
            if isinstance(event, Started) and event.trial.number == at:
                raise KeyboardInterrupt

        return listen

    def run(folder: str, workers: int, listener: Listener = silent) -> Outcome:
        plan = toy_plan(objectives=True, optimiser="smac", trials=20, workers=workers)
        return tune(plan, tmp_path / folder, ToyBackend(), listener)[CELL]

    whole = run("whole", 2)
    assert run("whole", 2) == whole  # nothing is left to run
    for at in (7, 17, 25):
        with pytest.raises(KeyboardInterrupt):
            run(f"broken-{at}", 2, stopping(at))
        # How many proposals may be in flight is the journal's, however many workers go on with it.
        again = run(f"broken-{at}", 1)
        assert (again.verdict, again.front) == (whole.verdict, whole.front)
        ends = [table(journal_path(tmp_path / name, "toy")) for name in ("whole", f"broken-{at}")]
        assert ends[0] == ends[1]


def test_a_second_objective_that_is_missing_is_no_measurement(tmp_path: Path) -> None:
    class Silent(ToyBackend):
        def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
            measured = super().run(trial, timeline_points)
            if trial.number % 3 == 1:
                del measured.metrics["migrated_bytes"]
            return measured

    campaign(tmp_path, Silent())
    with Journal(journal_path(tmp_path, "toy"), writer=False) as journal:
        rows = journal.rows(CELL, "search")
    silent = [row for row in rows if row.trial.number % 3 == 1]
    assert {row.status for row in silent} == {Status.NO_METRIC}
    assert silent[0].error == (
        "migrated_bytes must be a finite number of at least 0, but the run said nothing"
    )
    assert {row.status for row in rows if row not in silent} == {Status.OK}


def test_what_fails_or_breaks_a_constraint_is_not_on_the_front(tmp_path: Path) -> None:
    whole = campaign(tmp_path / "whole")
    assert whole.winner is not None
    fastest = canonical(whole.winner.trial.config)

    class Failing(ToyBackend):
        def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
            if trial.purpose == "validation" and canonical(trial.config) == fastest and trial.number > 20:
                raise RuntimeError("segmentation fault, as asked for")
            return super().run(trial, timeline_points)

    found = campaign(tmp_path / "failing", Failing())
    assert [text for text, _ in found.failed] == [fastest]
    assert found.failed[0][1].startswith("failed in ")
    assert found.front is not None
    assert fastest not in {point.name for point in found.front.points}

    limit = Constraint("runtime_s", at_most=1.05, of_default=True)
    plan = toy_plan(objectives=True, trials=30, validation_seeds=SEEDS)
    plan.document["campaign"]["constraints"] = [dict(vars(limit))]
    rules = SearchRules(objectives=OBJECTIVES, constraints=(limit,))
    held = tune(type(plan)(**{**vars(plan), "rules": rules}), tmp_path / "held", ToyBackend())[CELL]
    assert held.front is not None
    assert all((point.first.ratio or 2.0) <= 1.05 for point in held.front.found)
    assert any((point.first.ratio or 0.0) > 1.05 for point in (whole.front.found if whole.front else ()))
