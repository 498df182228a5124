"""Racing, early ends, caps, constraints, memory: by themselves on made-up numbers, then in campaigns."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ConfigSpace import Categorical, ConfigurationSpace
from rich.console import Console

from tests.tuner import surfaces
from tests.tuner.toy import DEFAULTS, RUNTIME, SCENARIO, ToyBackend, ToyPlan, table, toy_plan
from tiertune.tuner.backend import TrialTimeout
from tiertune.tuner.comparison.anytime import _path
from tiertune.tuner.events import Event, Started
from tiertune.tuner.explorer.campaign import found_so_far
from tiertune.tuner.journal import Journal
from tiertune.tuner.loop import journal_path, tune
from tiertune.tuner.optimiser.base import Observation, Optimiser, Proposal, Settings
from tiertune.tuner.optimiser.imputation import CRASH_FACTOR, TIMEOUT_FACTOR, told
from tiertune.tuner.optimiser.racing import ROUNDS, SHARE, Racing, entries_of, incumbent
from tiertune.tuner.optimiser.random import RandomOptimiser
from tiertune.tuner.optimiser.smac import SmacOptimiser
from tiertune.tuner.optimiser.warm import GATE_CONFIGS, Remembered, WarmStart
from tiertune.tuner.plan import PlannedCell
from tiertune.tuner.progress import LineWatcher
from tiertune.tuner.report.cell import search_trials
from tiertune.tuner.search.constraint import Constraint
from tiertune.tuner.search.fidelity import CHECK, GROUP, CannotShorten, ShortRuns, agreement_of, shortened
from tiertune.tuner.search.rules import SearchRules
from tiertune.tuner.search.stopping import StopRule, noise_of, reason_to_stop
from tiertune.tuner.trial import Config, Measurement, Objective, Status, Trial, canonical
from tiertune.tuner.validation import best_rows
from tiertune.workloads.definition import load_workload

CELL = f"{SCENARIO.key}/toy-system"


def rows_of(results: Path, purpose: Any = "search", name: str = "toy") -> list[Any]:
    with Journal(journal_path(results, name), writer=False) as journal:
        return journal.rows(CELL, purpose)


def seen(number: int, knob: int, cost: float, repeat: int | None = None) -> Observation:
    return Observation(number, {"sample_period": knob}, Status.OK, cost, repeat=repeat)


# --- racing


def raced(seed: int, trials: int = 60, noise: float = 0.05) -> tuple[list[Observation], Racing]:
    """A noisy search of the smooth surface with races."""
    racing = Racing(RandomOptimiser(surfaces.space(), Settings(seed, 10)))
    random = np.random.default_rng(seed)
    luck = random.standard_normal(ROUNDS)
    history: list[Observation] = []
    for number in range(trials):
        proposal = racing.ask(number, history)
        shared = random.standard_normal() if proposal.repeat is None else luck[proposal.repeat]
        own = 0.9 * shared + 0.436 * random.standard_normal()
        cost = math.log(surfaces.smooth(proposal.config)) + noise * own
        history.append(Observation(number, proposal.config, Status.OK, cost, repeat=proposal.repeat))
    return history, racing


def test_races_repeat_contenders_only_and_keep_to_their_share() -> None:
    history, _ = raced(1)
    repeats = [o for o in history if o.repeat is not None]
    assert 4 <= len(repeats) <= SHARE * 50 + 1
    entries = entries_of(history).values()
    # They meet on the same seeds.
    assert sum(0 in entry.shared for entry in entries) >= 3
    # Most configs have run once: repeats go to those that looked best when they were raced.
    assert sum(len(entry.costs) == 1 for entry in entries) > 0.7 * len(entries)
    for repeat in repeats:
        first = next(o for o in history if o.config == repeat.config)
        before = sorted(o.cost for o in history if o.number < repeat.number and o.cost is not None)
        assert first.cost is not None
        assert before.index(first.cost) < 0.35 * len(before)


def test_what_a_race_hands_over_is_truer_than_the_luckiest_run() -> None:
    luckiest, handed = [], []
    for seed in range(10):
        history, racing = raced(seed)
        lucky = min((o for o in history if o.cost is not None), key=lambda o: o.cost or 0.0)
        chosen = entries_of(history)[canonical(history[racing.handed_over(history)].config)]
        assert lucky.cost is not None
        luckiest.append(math.log(surfaces.smooth(lucky.config)) - lucky.cost)
        handed.append(math.log(surfaces.smooth(chosen.config)) - chosen.mean)
    assert np.mean(luckiest) > 0.04  # about a standard deviation too good
    assert np.mean(handed) < 0.6 * np.mean(luckiest)


def test_a_clear_loser_stops_after_two_shared_seeds_and_a_winner_becomes_the_incumbent() -> None:
    history = [seen(0, 1, 1.0), seen(1, 2, 0.9), seen(2, 2, 1.0, 0), seen(3, 1, 1.3, 0), seen(4, 1, 1.3, 1)]
    history += [seen(5, 2, 1.0, 1)]
    assert incumbent(list(entries_of(history).values())).config == {"sample_period": 2}
    racing = Racing(RandomOptimiser(surfaces.space(), Settings(1, 2)))
    # The loser (config 1) has a lower mean only by its first, lucky run: it is not raced a third time.
    history[0] = seen(0, 1, -2.0)
    proposal = racing.ask(6, [*history])
    assert proposal.config != {"sample_period": 1}


def test_repeats_are_told_as_one_mean() -> None:
    asked: list[Sequence[Observation]] = []

    class Spy(RandomOptimiser):
        def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
            asked.append(history)
            return super()._ask(number, history)

    racing = Racing(Spy(surfaces.space(), Settings(1, 50)))
    failed = Observation(4, {"sample_period": 3}, Status.CRASHED, repeat=1)
    racing.ask(5, [seen(0, 1, 1.0), seen(1, 2, 3.0), seen(2, 1, 2.0, 0), seen(3, 3, 1.0), failed])
    assert [(o.number, o.status, o.cost) for o in asked[0]] == [
        (0, Status.OK, 1.5),
        (1, Status.OK, 3.0),
        (3, Status.CRASHED, None),
    ]


def test_a_racing_campaign_shares_seeds_and_is_the_same_after_an_interrupt(tmp_path: Path) -> None:
    plan = toy_plan(trials=30, initial=6, rules=SearchRules(race=True))

    def stop(event: Event) -> None:
        if isinstance(event, Started) and event.trial.number == 17 and event.trial.purpose == "search":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(plan, tmp_path / "broken", ToyBackend(), stop)
    tune(plan, tmp_path / "broken", ToyBackend())
    tune(plan, tmp_path / "whole", ToyBackend())
    paths = [journal_path(tmp_path / folder, "toy") for folder in ("broken", "whole")]
    assert table(paths[0]) == table(paths[1])
    races = [row.trial for row in rows_of(tmp_path / "whole") if row.trial.origin == "race"]
    assert len(races) >= 3
    assert {trial.noise for trial in races} == {"paired"}
    by_seed: dict[int, set[str]] = {}
    for trial in races:
        by_seed.setdefault(trial.seed, set()).add(canonical(trial.config))
    assert any(len(configs) > 1 for configs in by_seed.values())


def test_finalists_of_a_raced_search_are_ranked_by_their_means(tmp_path: Path) -> None:
    plan = toy_plan(trials=30, initial=6, rules=SearchRules(race=True))
    tune(plan, tmp_path, ToyBackend(noise=0.1))
    rows = rows_of(tmp_path)
    costs: dict[str, list[float]] = {}
    for row in rows:
        costs.setdefault(canonical(row.trial.config), []).append(row.cost)
    found = [float(np.mean(costs[canonical(row.trial.config)])) for row in best_rows(rows, 5)]
    assert found == sorted(found)
    others = [float(np.mean(c)) for text, c in costs.items() if text != canonical(DEFAULTS)]
    assert found == pytest.approx(sorted(others)[:5])


# --- early ends


def stopping(
    costs: Sequence[float], gain: float | None = None, patience: int = 10, expects: bool = True
) -> str | None:
    history = [seen(number, number, cost) for number, cost in enumerate(costs)]
    proposal = Proposal({}, "model", "", gain=gain)
    return reason_to_stop(StopRule(patience, 0.01), history, proposal, initial=5, expects=expects)


def test_a_search_ends_when_nothing_came_for_long_and_little_is_expected() -> None:
    falling = [1.0 - 0.05 * n for n in range(6)]
    flat = [*falling, *[0.9] * 10]
    assert stopping(flat, gain=0.001) is not None
    assert stopping(flat, expects=False) is not None  # random search expects nothing
    assert stopping(flat) is None  # a random pick says nothing of what the model expects
    assert stopping(flat, gain=0.05) is None
    assert stopping(flat[:-1], gain=0.001) is None
    assert stopping([*flat[:-1], 0.7], gain=0.001) is None
    assert stopping(flat[:14], gain=0.001, patience=4) is not None


def test_the_noise_of_repeats_is_what_gains_are_held_against() -> None:
    repeats = [seen(n, 1, 1.0 + 0.1 * (-1) ** n, n) for n in range(4)]
    assert noise_of(repeats) == pytest.approx(math.sqrt(0.04 / 3 / 4))
    assert noise_of(repeats[:2]) == 0.0
    rest = [seen(4 + n, 2 + n, 1.0 - 0.01 * (n == 14)) for n in range(15)]
    rule, proposal = StopRule(10, 0.0), Proposal({}, "model", "", gain=0.001)
    assert reason_to_stop(rule, [*repeats, *rest], proposal, 5, expects=True) is not None
    single = [seen(n, n, 1.0) for n in range(4)]
    assert reason_to_stop(rule, single + rest, proposal, 5, expects=True) is None


def test_patience_counts_whole_runs_wherever_they_stand_among_short_ones() -> None:
    """Three short runs before each whole one; nothing is better after the sixth whole one."""

    def history(costs: Sequence[float]) -> list[Observation]:
        made = []
        for place, cost in enumerate(costs):
            made += [replace(seen(4 * place + n, 1000 + 3 * place + n, 0.0), fidelity=0.25) for n in range(3)]
            made.append(seen(4 * place + 3, place, cost))
        return made

    flat = [1.0 - 0.05 * min(n, 5) for n in range(16)]
    rule, proposal = StopRule(10, 0.01), Proposal({}, "model", "", gain=0.001)
    assert reason_to_stop(rule, history(flat), proposal, 5, expects=True) is not None
    assert reason_to_stop(rule, history(flat[:-1]), proposal, 5, expects=True) is None
    assert reason_to_stop(rule, history([*flat[:6], 0.5, *flat[7:]]), proposal, 5, expects=True) is None


def test_a_random_pick_does_not_end_a_search_of_which_the_model_expects_more(tmp_path: Path) -> None:
    class Hopeful(RandomOptimiser):
        expects = True

        def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
            return replace(super()._ask(number, history), gain=None if number % 5 == 0 else hoped)

    class Plan(ToyPlan):
        def new_optimiser(self, cell: PlannedCell) -> Optimiser:
            return Hopeful(surfaces.space(), Settings(1, self.initial, self.random_share))

    cases: list[tuple[float | None, float, int]] = [(1.0, 0.2, 40), (None, 0.2, 40)]
    for hoped, share, trials in [*cases, (0.001, 0.2, 12), (None, 1.0, 12)]:
        rules = SearchRules(stop=StopRule(8, 1.0), race=True)
        plan = Plan(**vars(toy_plan(trials=40, random_share=share, rules=rules)))
        folder = tmp_path / f"{hoped} {share}"
        tune(plan, folder, ToyBackend())
        assert trials <= len(rows_of(folder)) <= trials + 3


def test_a_model_that_finds_nothing_new_expects_nothing() -> None:
    tiny = ConfigurationSpace(seed=0)
    tiny.add(Categorical("mode", ["a", "b", "c"], default="b"))
    history = [Observation(n, {"mode": mode}, Status.OK, float(n)) for n, mode in enumerate("bac")]
    proposal = SmacOptimiser(tiny, Settings(1, 2, 0.0)).ask(3, history)
    assert (proposal.origin, proposal.gain) == ("random", 0.0)


def test_a_stopped_campaign_is_judged_and_stays_stopped(tmp_path: Path) -> None:
    plan = toy_plan(trials=60, rules=SearchRules(stop=StopRule(8, 0.01)))
    found = tune(plan, tmp_path, ToyBackend())[CELL]
    rows = rows_of(tmp_path)
    assert 12 <= len(rows) < 60
    assert found.complete
    with Journal(journal_path(tmp_path, "toy"), writer=False) as journal:
        assert journal.stopped(CELL, 0) is not None
    assert tune(plan, tmp_path, ToyBackend())[CELL] == found
    assert len(rows_of(tmp_path)) == len(rows)


# --- caps


class Capping(ToyBackend):
    """Gives trials up at their caps."""

    def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
        measurement = super().run(trial, timeline_points)
        if trial.cap is not None and measurement.metrics["runtime_s"] > trial.cap:
            raise TrialTimeout("given up", {"runtime_s": trial.cap})
        return measurement


def test_slow_trials_are_given_up_and_told_as_slower_than_their_cap(tmp_path: Path) -> None:
    tune(toy_plan(trials=30, rules=SearchRules(cap=1.2)), tmp_path, Capping())
    rows = rows_of(tmp_path)
    capped = [row for row in rows if row.status is Status.TIMEOUT]
    assert 3 <= len(capped) < 30
    assert rows[0].trial.cap is None
    for row in capped:
        before = [r.metrics["runtime_s"] for r in rows if r.trial.number < row.trial.number and r.cost]
        assert row.trial.cap == pytest.approx(1.2 * min(before), rel=0.2)
    best = min(row.cost for row in rows if row.cost is not None)
    uncapped = ToyBackend(noise=0.0).run(capped[0].trial).metrics["runtime_s"]
    assert uncapped > 1.1 * math.exp(best)
    history = [seen(0, 1, 1.0), seen(1, 2, 5.0)]
    history.append(Observation(2, {"k": 3}, Status.TIMEOUT, bound=1.3, capped=True))
    assert told(history)[2][1] == pytest.approx(1.3 + math.log(CRASH_FACTOR))


def test_a_cap_is_a_multiple_of_the_best_that_keeps_the_constraints(tmp_path: Path) -> None:
    """Half of the configs take 10 s and break the bound; the others, at 14 s and up, may not be given up."""

    class Cheating(ToyBackend):
        def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
            found = super().run(trial, timeline_points)
            cheats = trial.config["mode"] == "sync" and trial.config != DEFAULTS
            place = math.log(float(trial.config["sample_period"]) / 100.0) / math.log(1000.0)
            found.metrics["runtime_s"] = 10.0 if cheats else 14.0 + place
            found.metrics["migrated_bytes"] = 2.0 if cheats else 1.0
            if trial.cap is not None and found.metrics["runtime_s"] > trial.cap:
                raise TrialTimeout("given up", {"runtime_s": trial.cap})
            return found

    rule = Constraint("migrated_bytes", at_most=1.5, of_default=True)
    plan = toy_plan(trials=20, rules=SearchRules(cap=1.2, constraints=(rule,)))
    plan.document["campaign"] |= {"constraints": [dict(vars(rule))]}
    outcome = tune(plan, tmp_path, Cheating())[CELL]
    rows = rows_of(tmp_path)
    assert {row.metrics["runtime_s"] for row in rows if row.cost} > {10.0}
    assert all(row.status is Status.OK for row in rows)
    assert outcome.winner is not None


def test_a_trial_given_up_is_told_by_its_cap_where_throughput_is_what_counts(tmp_path: Path) -> None:
    """All do the same work, so that much less than the best one's throughput is known of them."""
    histories: list[Sequence[Observation]] = []

    class Spy(RandomOptimiser):
        def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
            histories.append(history)
            return super()._ask(number, history)

    class Plan(ToyPlan):
        def new_optimiser(self, cell: PlannedCell) -> Optimiser:
            return Spy(surfaces.space(), Settings(1, self.initial, self.random_share))

    class Hanging(Capping):
        def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
            if trial.number == 20:
                raise TrialTimeout("ended after 600 s")
            return super().run(trial, timeline_points)

    plan = toy_plan(trials=30, rules=SearchRules(cap=1.2))
    cells = tuple(replace(c, objective=Objective("throughput_mops", "maximize")) for c in plan.cells)
    tune(Plan(**{**vars(plan), "cells": cells}), tmp_path, Hanging())
    caps = {row.trial.number: row.trial.cap for row in rows_of(tmp_path)}
    history = histories[-1]
    costs = {observation.number: cost for observation, cost in told(history)}
    capped = [o for o in history if o.capped]
    assert len(capped) >= 3
    for observation in capped:
        bound = math.log(caps[observation.number] or 0.0) - math.log(1e4)
        assert observation.bound == pytest.approx(bound)
        assert costs[observation.number] == pytest.approx(bound + math.log(CRASH_FACTOR))
    # That it ended at another limit says nothing of the cap.
    worst = max(o.cost for o in history if o.cost is not None)
    assert costs[20] == pytest.approx(worst + math.log(TIMEOUT_FACTOR))
    unknown = [seen(0, 1, 1.0), seen(1, 2, 3.0), Observation(2, {"k": 3}, Status.TIMEOUT, capped=True)]
    assert told(unknown)[2][1] == pytest.approx(3.0 + math.log(CRASH_FACTOR))


def test_repeats_of_a_race_run_to_their_end(tmp_path: Path) -> None:
    """With 5 % noise a contender may pass a cap of 1.1 by luck, and what failed once is no finalist."""
    plan = toy_plan(trials=40, initial=6, rules=SearchRules(race=True, cap=1.1))
    tune(plan, tmp_path, Capping(noise=0.05))
    rows = rows_of(tmp_path)
    races = [row for row in rows if row.trial.origin == "race"]
    assert len(races) >= 3
    assert {row.trial.cap for row in races} == {None}
    assert {row.status for row in races} == {Status.OK}
    others = [row.trial.cap for row in rows[4:] if row.trial.origin != "race"]
    assert None not in others


# --- constraints


def test_bounds_are_absolute_or_multiples_of_the_defaults_value() -> None:
    most = Constraint("stall_s", at_most=2.0)
    assert most.kept({"stall_s": 2.0}, None)
    assert not most.kept({"stall_s": 2.1}, None)
    assert not most.kept({"stall_s": math.nan}, None)
    assert not most.kept({}, None)
    relative = Constraint("stall_s", at_most=1.02, at_least=0.5, of_default=True)
    assert relative.kept({"stall_s": 4.0}, {"stall_s": 4.0})
    assert not relative.kept({"stall_s": 4.2}, {"stall_s": 4.0})
    assert not relative.kept({"stall_s": 1.9}, {"stall_s": 4.0})
    assert not relative.kept({"stall_s": 4.0}, None)


class Moving(ToyBackend):
    """The faster a config, the more it migrates: bounds on that cost speed."""

    def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
        found = super().run(trial, timeline_points)
        found.metrics["migrated_bytes"] = 1e9 / self.surface({**DEFAULTS, **trial.config})
        return found


def test_what_breaks_a_constraint_is_never_handed_over(tmp_path: Path) -> None:
    def campaign(folder: str, *rules: Constraint) -> tuple[Any, list[Any]]:
        plan = toy_plan(trials=25, rules=SearchRules(constraints=rules))
        entries = [dict(vars(rule)) for rule in rules]
        plan.document["campaign"] |= {"constraints": entries} if rules else {}
        outcome = tune(plan, tmp_path / folder, Moving(noise=0.001))[CELL]
        return outcome, rows_of(tmp_path / folder)

    free, rows = campaign("free")
    moved = sorted(row.metrics["migrated_bytes"] for row in rows)
    limit = moved[len(moved) // 2]
    held, rows = campaign("held", Constraint("migrated_bytes", at_most=limit))
    assert free.winner.metrics["migrated_bytes"] > limit >= held.winner.metrics["migrated_bytes"]
    kept = [row for row in rows if row.metrics["migrated_bytes"] <= limit and row.trial.number > 0]
    assert held.winner.cost < float(np.median([row.cost for row in kept]))
    none, _ = campaign("none", Constraint("migrated_bytes", at_most=1.0))
    assert none.winner is None
    assert none.verdict == "no improvement found: no configuration but the default kept the constraints"
    history = [seen(0, 1, 1.0), seen(1, 2, 3.0), Observation(2, {"k": 1}, Status.OK, 0.5, feasible=False)]
    assert told(history)[2][1] == pytest.approx(3.0 + math.log(CRASH_FACTOR))


def test_what_breaks_a_constraint_is_never_the_best_so_far(tmp_path: Path) -> None:
    """On the terminal, in the report, in the explorer and in curves of comparisons: nobody will get it."""
    tune(toy_plan(trials=25), tmp_path / "free", Moving(noise=0.001))
    moved = sorted(row.metrics["migrated_bytes"] for row in rows_of(tmp_path / "free"))
    rule = Constraint("migrated_bytes", at_most=moved[len(moved) // 2])
    plan = toy_plan(trials=25, rules=SearchRules(constraints=(rule,)))
    plan.document["campaign"] |= {"constraints": [dict(vars(rule))]}
    watcher = LineWatcher(Console(file=io.StringIO()), {CELL: RUNTIME}, constraints=(rule,))
    tune(plan, tmp_path / "held", Moving(noise=0.001), watcher)
    rows = rows_of(tmp_path / "held")
    kept = min(row.cost for row in rows if row.trial.number == 0 or rule.kept(row.metrics, None))
    assert kept > min(row.cost for row in rows) + 0.01
    assert watcher.best().startswith(f"best {RUNTIME.value(kept):.4g} runtime_s")
    assert search_trials(rows, RUNTIME, (rule,))[-1].best_so_far == pytest.approx(RUNTIME.value(kept))
    assert found_so_far(rows, (rule,)) == pytest.approx(math.exp(rows[0].cost - kept))
    assert _path(rows, 0.0, 1.0, (rule,))[1][-1] == pytest.approx(kept)


# --- memory


def shifted(by: float) -> Callable[[Config], float]:
    """The smooth surface with its optimum moved by this share of the range, as on another machine."""

    def surface(config: Config) -> float:
        moved = dict(config)
        for knob, low, high in (
            ("sample_period", 100.0, 100_000.0),
            ("migration_kib", 64.0, 1_048_576.0),
            ("decay", 0.01, 1.0),
        ):
            place = math.log(float(config[knob]) / low) / math.log(high / low) + by
            moved[knob] = low * (high / low) ** place
        return surfaces.smooth(moved)

    return surface


def remembered(by: float, trials: int = 60) -> list[Remembered]:
    """A campaign of random trials on the shifted surface, 4 % noise."""
    random = np.random.default_rng(7)
    source = RandomOptimiser(surfaces.space(), Settings(5))
    surface = shifted(by)
    default = math.log(surface(DEFAULTS))
    found: list[Remembered] = []
    for number in range(1, trials):
        config = source.random(number, []).config
        found.append(
            Remembered(config, math.log(surface(config)) - default + 0.04 * random.standard_normal(), None)
        )
    order = sorted(range(len(found)), key=lambda n: found[n].gain)[:3]
    return [Remembered(m.config, m.gain, order.index(n) if n in order else None) for n, m in enumerate(found)]


def gate(by: float, trials: int) -> tuple[bool, float]:
    """Whether the gate is open on the unshifted surface after that many trials of random search."""
    warm = WarmStart(RandomOptimiser(surfaces.space(), Settings(3, 4)), remembered(by), "gated")
    random = np.random.default_rng(11)
    history: list[Observation] = []
    inner = RandomOptimiser(surfaces.space(), Settings(9))
    for number in range(trials):
        if number and number <= len(warm.starts):
            config = warm.starts[number - 1].config
        else:
            config = DEFAULTS if number == 0 else inner.random(number, []).config
        cost = math.log(surfaces.smooth(config)) + 0.04 * random.standard_normal()
        history.append(Observation(number, config, Status.OK, cost))
    return warm.agreement(history)


def test_a_like_source_passes_the_gate_and_an_unlike_one_does_not() -> None:
    opened, rank = gate(0.08, 1 + GATE_CONFIGS)
    assert opened, rank
    opened, rank = gate(0.3, 1 + GATE_CONFIGS)
    assert not opened, rank


def test_the_gate_is_shut_again_where_later_trials_disagree() -> None:
    source = remembered(0.0)
    warm = WarmStart(RandomOptimiser(surfaces.space(), Settings(3, 4)), source, "gated")
    agreeing = [Observation(0, DEFAULTS, Status.OK, 0.0)]
    agreeing += [Observation(n, s.config, Status.OK, s.gain) for n, s in enumerate(warm.starts, 1)]
    assert warm.agreement(agreeing)[0]
    inner = RandomOptimiser(surfaces.space(), Settings(9))
    later = [inner.random(number, []).config for number in range(20, 32)]
    costs = [math.log(surfaces.smooth(config)) for config in later]
    true = [Observation(20 + n, config, Status.OK, costs[n]) for n, config in enumerate(later)]
    false = [Observation(20 + n, config, Status.OK, -costs[n]) for n, config in enumerate(later)]
    assert warm.agreement([*agreeing, *true])[0]
    assert not warm.agreement([*agreeing, *false])[0]


def test_the_model_gets_the_source_only_through_the_gate() -> None:
    told_to: list[int] = []

    class Spy(RandomOptimiser):
        def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
            told_to.append(len(history))
            return super()._ask(number, history)

    for by in (0.0, 0.3):
        source = remembered(by)
        warm = WarmStart(Spy(surfaces.space(), Settings(3, 4)), source, "gated")
        surface = surfaces.smooth
        history: list[Observation] = []
        for number in range(1 + GATE_CONFIGS):
            proposal = warm.ask(number, history)
            assert proposal.origin == ("memory" if number else "default")
            history.append(
                Observation(number, proposal.config, Status.OK, math.log(surface(proposal.config)))
            )
        assert canonical(history[1].config) == canonical(min(source, key=lambda s: s.gain).config)
        warm.ask(1 + GATE_CONFIGS, history)
    assert told_to == [59 + 1, 1 + GATE_CONFIGS]  # the default is no trial of the source


def remembering(name: str, **changes: Any) -> ToyPlan:
    """A toy campaign whose document says of its cell what memory asks for."""
    made = toy_plan(name=name, **changes)
    metric = {"name": "runtime_s", "direction": "minimize"}
    made.document["cells"] = {CELL: {"space": {"knobs": {}}, "default": {}, "workload": {"metric": metric}}}
    return made


def memory_in(results: Path, name: str) -> list[Remembered]:
    """What the campaign of that name remembers."""
    with Journal(journal_path(results, name), writer=False) as journal:
        stored = journal.remembered(CELL)
    assert stored is not None
    return [Remembered(**entry) for entry in stored[1]]


def test_a_space_that_starts_off_the_default_is_remembered_as_well(tmp_path: Path) -> None:
    elsewhere = {**DEFAULTS, "sample_period": 100}
    old = remembering("old", trials=20, seed=5, default=elsewhere)
    tune(old, tmp_path, ToyBackend())
    tune(remembering("new", rules=SearchRules(memory="start"), default=elsewhere), tmp_path, ToyBackend())
    rows, source = rows_of(tmp_path, name="new"), rows_of(tmp_path, name="old")
    assert [row.trial.origin for row in rows[:4]] == ["initial", "memory", "memory", "memory"]
    found = memory_in(tmp_path, "new")
    assert len(found) == 19
    assert sorted(entry.rank for entry in found if entry.rank is not None) == [0, 1, 2]
    gains = {canonical(row.trial.config): row.cost - source[0].cost for row in source[1:]}
    assert {canonical(entry.config): entry.gain for entry in found} == pytest.approx(gains)


def test_a_start_that_was_best_is_no_trial_of_the_source(tmp_path: Path) -> None:
    """It goes first here as well, so three others are started from."""

    def surface(config: Config) -> float:
        return surfaces.smooth(config) * (0.1 if config == DEFAULTS else 1.0)

    elsewhere = {**DEFAULTS, "sample_period": 100}
    tune(remembering("old", trials=20, seed=5, default=elsewhere), tmp_path, ToyBackend(surface=surface))
    rules = SearchRules(memory="start")
    tune(remembering("new", rules=rules, default=elsewhere), tmp_path, ToyBackend(surface=surface))
    found = memory_in(tmp_path, "new")
    assert DEFAULTS not in [entry.config for entry in found]
    assert sorted(entry.rank for entry in found if entry.rank is not None) == [0, 1, 2]


@pytest.mark.parametrize("bounded", [True, False])
def test_memory_knows_what_breaks_a_constraint(tmp_path: Path, bounded: bool) -> None:
    """Bounds are those of the campaign that remembers, whether the earlier one had them or not."""
    rule = Constraint("migrated_bytes", at_most=0.8, of_default=True)

    def campaign(name: str, seed: int, rules: SearchRules) -> None:
        plan = remembering(name, trials=25, seed=seed, rules=rules)
        plan.document["campaign"]["constraints"] = [dict(vars(one)) for one in rules.constraints]
        tune(plan, tmp_path, Moving(noise=0.001))

    campaign("old", 5, SearchRules(constraints=(rule,) if bounded else ()))
    campaign("new", 6, SearchRules(constraints=(rule,), memory="start"))
    found, rows = memory_in(tmp_path, "new"), rows_of(tmp_path, name="old")
    limit = 0.8 * rows[0].metrics["migrated_bytes"]
    kept = {canonical(row.trial.config): row.metrics["migrated_bytes"] <= limit for row in rows[1:]}
    assert len(kept) - 3 > sum(kept.values()) > 3
    assert {canonical(entry.config): entry.feasible for entry in found} == kept
    best = [entry for entry in found if entry.rank is not None]
    assert len(best) == 3
    assert all(entry.feasible for entry in best)


def test_the_model_is_told_what_broke_a_constraint_of_an_earlier_campaign() -> None:
    told_to: list[Sequence[Observation]] = []

    class Spy(RandomOptimiser):
        def _ask(self, number: int, history: Sequence[Observation]) -> Proposal:
            told_to.append(history)
            return super()._ask(number, history)

    source = [replace(m, feasible=n % 2 == 0) for n, m in enumerate(remembered(0.0))]
    warm = WarmStart(Spy(surfaces.space(), Settings(3, 4)), source, "gated")
    history = [Observation(0, DEFAULTS, Status.OK, 0.0)]
    history += [Observation(n, m.config, Status.OK, m.gain) for n, m in enumerate(warm.starts, 1)]
    assert warm.ask(len(history), history).origin == "random"
    expected = {canonical(m.config): m.feasible for m in source if m not in warm.starts}
    assert len(expected) > 40
    ours = {canonical(o.config) for o in history}
    assert {
        canonical(o.config): o.feasible for o in told_to[0] if canonical(o.config) not in ours
    } == expected


def test_a_campaign_starts_from_the_nearest_earlier_one_and_keeps_its_memory(tmp_path: Path) -> None:
    plan = remembering
    tune(plan("old", trials=20, seed=5), tmp_path, ToyBackend())
    warm = plan("new", trials=10, rules=SearchRules(memory="start"))
    tune(warm, tmp_path, ToyBackend())
    rows = rows_of(tmp_path, name="new")
    assert [row.trial.origin for row in rows[:4]] == ["default", "memory", "memory", "memory"]
    best = [canonical(row.trial.config) for row in best_rows(rows_of(tmp_path, name="old"), 3)]
    assert {canonical(row.trial.config) for row in rows[1:4]} & set(best)
    # Another campaign comes along; the one that began does not notice.
    before = table(journal_path(tmp_path, "new"))
    tune(plan("newer", trials=20, seed=6), tmp_path, ToyBackend())
    tune(warm, tmp_path, ToyBackend())
    assert table(journal_path(tmp_path, "new")) == before
    with Journal(journal_path(tmp_path, "new"), writer=False) as journal:
        stored = journal.remembered(CELL)
    assert stored is not None
    assert stored[0] == f"old: {CELL}"


def test_without_an_earlier_campaign_a_search_starts_cold(tmp_path: Path) -> None:
    cold = toy_plan(rules=SearchRules(memory="gated"))
    cold.document["cells"] = {CELL: {"workload": {"metric": {"name": "runtime_s", "direction": "minimize"}}}}
    tune(cold, tmp_path / "a", ToyBackend())
    tune(toy_plan(), tmp_path / "b", ToyBackend())
    configs = [[row.trial.config for row in rows_of(tmp_path / folder)] for folder in ("a", "b")]
    assert configs[0] == configs[1]
    assert RUNTIME.metric == "runtime_s"


# --- short runs


def short_campaign(agree: bool, trials: int = 60) -> list[Observation]:
    """A search with short runs that rank configs as whole ones do, or the other way round."""
    runs = ShortRuns(RandomOptimiser(surfaces.space(), Settings(2, 6)), 0.25)
    history: list[Observation] = []
    for number in range(trials):
        proposal = runs.ask(number, history)
        cost = math.log(surfaces.smooth(proposal.config))
        if proposal.fidelity < 1.0:
            cost = 0.8 * cost - 1.4 if agree else -cost
        history.append(Observation(number, proposal.config, Status.OK, cost, fidelity=proposal.fidelity))
    return history


def test_short_runs_are_trusted_after_a_dozen_that_agree() -> None:
    history = short_campaign(agree=True)
    found = agreement_of(history)
    assert found.trusted
    assert found.pairs == CHECK
    later = history[1 + 2 * CHECK :]
    short = [o for o in later if o.fidelity < 1.0]
    assert len(short) == pytest.approx(GROUP * (len(later) - len(short)), abs=GROUP)
    # Of each group the best one ran whole.
    for place, whole in enumerate(later):
        if whole.fidelity == 1.0:
            group = [o for o in later[max(0, place - GROUP) : place] if o.fidelity < 1.0]
            best = min(group, key=lambda o: o.cost or 0.0)
            assert whole.config == best.config


def test_short_runs_that_rank_otherwise_are_refused() -> None:
    history = short_campaign(agree=False)
    found = agreement_of(history)
    assert not found.trusted
    assert found.rank is not None
    assert found.rank < 0.0
    assert "refused" in str(found)
    assert all(o.fidelity == 1.0 for o in history[1 + 2 * CHECK :])


def test_a_short_run_does_the_same_work_shorter() -> None:
    streams = load_workload("seq-chase")
    short = shortened(streams, 0.25)
    assert short.sim.streams is not None
    assert streams.sim.streams is not None
    whole_ops = [g.ops for g in streams.sim.streams.blocks[0].phases[0].groups]
    assert [g.ops for g in short.sim.streams.blocks[0].phases[0].groups] == [
        0.25 * (ops or 0) for ops in whole_ops
    ]
    recorded = load_workload("bc-kron")
    if recorded.sim.carry.runs == 1:
        with pytest.raises(CannotShorten, match="repeats its recorded run 1 times"):
            shortened(recorded, 0.25)
    four = recorded.model_copy(
        update={
            "sim": recorded.sim.model_copy(
                update={"carry": recorded.sim.carry.model_copy(update={"runs": 4})}
            )
        }
    )
    assert shortened(four, 0.25).sim.carry.runs == 1
