"""One cell explained: what its trials say, what lies around the optimum, and how few changes suffice."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tiertune.spaces.definition import Axis
from tiertune.spaces.value import Value
from tiertune.tuner.explanation.ablation import rollout
from tiertune.tuner.explanation.importance import Importance, beyond_sum, importance_of
from tiertune.tuner.explanation.measuring import Bench, bench_of
from tiertune.tuner.explanation.scale import bound_of, levels, steps_from
from tiertune.tuner.explanation.trials import Trials
from tiertune.tuner.statistics import Effect
from tiertune.tuner.transfer.context import Context, complete
from tiertune.tuner.transfer.document import changed_knobs
from tiertune.tuner.transfer.gain import Share, share_of
from tiertune.tuner.transfer.measuring import Laboratory
from tiertune.tuner.trial import Config

CHOICE_SEEDS = 3
AROUND_SEEDS = 5
GRID_SEEDS = 3
CLOSE = 1.02
"""A neighbour is close where its cost is at most this multiple of the optimum's."""


@dataclass(frozen=True)
class Settings:
    """`keep`: the share of the gain that the smallest set has to have. `seeds`: those of judgement. `slices`:
    knobs that are walked along, at `points` values each; `grid` values a side for the pair."""

    seeds: int = 8
    keep: float = 0.95
    slices: int = 3
    points: int = 9
    grid: int = 7


@dataclass(frozen=True)
class Step:
    """A config on the way from default to tuned: what was changed in this step, and what all changes so far
    gain on the seeds of judgement. `added` is against the step before. A way may lead through what the space
    forbids, which is not measured."""

    changes: Config
    config: Config
    effect: Effect | None
    added: Effect | None
    share: Share | None
    keeps_constraints: bool
    forbidden: bool


@dataclass(frozen=True)
class Way:
    """From default to tuned. `enough` numbers the first step with the share to keep, None where there is no
    gain to divide, for the reason given. `needed`: that step without one
    of its knobs, against the step itself."""

    steps: tuple[Step, ...]
    enough: int | None
    needed: dict[str, Effect | None]
    reason: str


@dataclass(frozen=True)
class Neighbour:
    """The optimum with one knob a step away; the effect is against the optimum (above 1 is better), `chance`
    the P of Student's test that there is none, 1 where a run failed."""

    knob: str
    value: Value
    effect: Effect | None
    chance: float


@dataclass(frozen=True)
class Point:
    """One value of a knob, all others as tuned; the effect is against the default."""

    value: Value
    effect: Effect | None


@dataclass(frozen=True)
class Grid:
    """Two knobs together, all others as tuned: `gains` are mean logs of default to config, rows by values of
    the first knob, NaN where a run failed. `beyond` is the share of their variance that is not the sum of the
    two knobs' own effects, None where that cannot be said."""

    knobs: tuple[str, str]
    rows: tuple[Value, ...]
    columns: tuple[Value, ...]
    gains: np.ndarray
    beyond: float | None


@dataclass(frozen=True)
class Study:
    """All that was found out about a cell; `changed` are the knobs of tuned off their default."""

    context: Context
    trials: Trials
    changed: Config
    importance: Importance
    way: Way
    neighbours: tuple[Neighbour, ...]
    bounds: dict[str, str]
    lines: dict[str, tuple[Point, ...]]
    grid: Grid | None


def run_study(context: Context, trials: Trials, settings: Settings, laboratory: Laboratory) -> Study:
    """Measures what is not known yet."""
    names = [axis.name for axis in trials.axes]
    importance = importance_of(names, trials.places, trials.costs)
    changed = changed_knobs(context.system, context.tuned)
    way = _way(context, trials, changed, settings, laboratory)
    around = bench_of(context, trials.space, laboratory, "around", AROUND_SEEDS)
    axes = [axis for axis in trials.axes if axis.acts(context.tuned)]
    neighbours = _neighbours(context, axes, around)
    ranked = _ranked(axes, way, importance, neighbours)[: settings.slices]
    default = complete(context.system, {})
    wanted = {
        axis.name: levels(axis, settings.points, _inside(axis, context.tuned[axis.name], default[axis.name]))
        for axis in ranked
    }
    around.measure(
        [{}, *({**context.tuned, name: value} for name, values in wanted.items() for value in values)]
    )
    lines = {
        name: tuple(Point(value, around.effect({**context.tuned, name: value})) for value in values)
        for name, values in wanted.items()
    }
    return Study(
        context=context,
        trials=trials,
        changed=changed,
        importance=importance,
        way=way,
        neighbours=neighbours,
        bounds={axis.name: bound for axis in axes if (bound := bound_of(axis, context.tuned[axis.name]))},
        lines=lines,
        grid=_grid(context, trials, _pair(ranked, axes, importance), settings, laboratory),
    )


def _way(
    context: Context, trials: Trials, changed: Config, settings: Settings, laboratory: Laboratory
) -> Way:
    if not context.improved:
        return Way((), None, {}, "nothing better than the default was found, so there is no gain to divide")
    choice = bench_of(context, trials.space, laboratory, "choice", CHOICE_SEEDS)

    def only(knobs: frozenset[str]) -> Config:
        return {name: value for name, value in changed.items() if name in knobs}

    def gains(sets: Sequence[frozenset[str]]) -> list[float]:
        choice.measure([{}, *map(only, sets)])
        return [choice.gain(only(one)) for one in sets]

    path = rollout(list(changed), gains, settings.keep)
    if not path:
        return Way(
            (), None, {}, "on the seeds on which steps are chosen, tuned is no better than the default"
        )
    sets = [frozenset(path[:count]) for count in range(len(path) + 1)]
    if len(path) < len(changed):
        sets.append(frozenset(changed))
    bench = bench_of(context, trials.space, laboratory, "judgement", settings.seeds)
    configs = [only(one) for one in sets]
    bench.measure(configs)
    whole = bench.costs({}) - bench.costs(configs[-1])
    steps = []
    for number, config in enumerate(configs):
        before = configs[number - 1] if number else {}
        steps.append(
            Step(
                changes={name: value for name, value in config.items() if name not in before},
                config=config,
                effect=bench.effect(config),
                added=bench.effect(config, before) if number else None,
                share=share_of(bench.costs({}) - bench.costs(config), whole) if number else None,
                keeps_constraints=not bench.missed(config, trials.constraints),
                forbidden=bench.forbids(config),
            )
        )
    if steps[-1].share is None:
        return Way(tuple(steps), None, {}, "on fresh seeds no gain of tuned is shown that could be divided")
    enough = _enough(steps, settings.keep)
    chosen = configs[enough]
    fewer = {knob: {k: v for k, v in chosen.items() if k != knob} for knob in chosen}
    bench.measure(fewer.values())
    return Way(
        tuple(steps), enough, {knob: bench.effect(config, chosen) for knob, config in fewer.items()}, ""
    )


def _enough(steps: Sequence[Step], keep: float) -> int:
    """The first step with the share to keep and the campaign's constraints kept; tuned itself if no other."""
    for number, step in enumerate(steps):
        if step.share is not None and step.share.share >= keep and step.keeps_constraints:
            return number
    return len(steps) - 1


def _neighbours(context: Context, axes: Sequence[Axis], bench: Bench) -> tuple[Neighbour, ...]:
    moved = [
        (axis.name, value, {**context.tuned, axis.name: value})
        for axis in axes
        for value in steps_from(axis, context.tuned[axis.name])
    ]
    legal = [one for one in moved if bench.legal(one[2]) is not None]
    bench.measure([{}, context.tuned, *(config for _, _, config in legal)])
    return tuple(
        Neighbour(name, value, bench.effect(config, context.tuned), bench.chance(config, context.tuned))
        for name, value, config in legal
    )


def _ranked(
    axes: Sequence[Axis], way: Way, importance: Importance, neighbours: Sequence[Neighbour]
) -> list[Axis]:
    """Knobs worth a walk: those of the smallest set, those that the trials show to matter, then those with
    the most costly steps."""
    order = [*way.steps[way.enough].config] if way.enough is not None else []
    path = [knob for step in way.steps for knob in step.changes if knob in order]
    shown = [part.knobs[0] for part in importance.knobs if part.shown]
    by_loss = sorted(neighbours, key=lambda one: one.effect.ratio if one.effect else 0.0)
    names = dict.fromkeys([*path, *shown, *(one.knob for one in by_loss)])
    known = {axis.name: axis for axis in axes}
    return [known[name] for name in names if name in known]


def _pair(ranked: Sequence[Axis], axes: Sequence[Axis], importance: Importance) -> list[Axis]:
    """The pair that the trials show to interact most, else the first two knobs worth a walk."""
    known = {axis.name: axis for axis in axes}
    for part in importance.pairs:
        if part.shown and ranked and all(name in known for name in part.knobs):
            return [known[name] for name in part.knobs]
    return list(ranked[:2])


def _grid(
    context: Context, trials: Trials, pair: Sequence[Axis], settings: Settings, laboratory: Laboratory
) -> Grid | None:
    if len(pair) < 2:
        return None
    first, second = pair
    bench = bench_of(context, trials.space, laboratory, "around", GRID_SEEDS)
    rows, columns = (levels(axis, settings.grid, [context.tuned[axis.name]]) for axis in pair)

    def configs() -> Iterator[Config]:
        for row in rows:
            for column in columns:
                yield {**context.tuned, first.name: row, second.name: column}

    bench.measure([{}, *configs()])
    default = bench.costs({})
    gains = np.array([(default - bench.costs(config)).mean() for config in configs()])
    gains = gains.reshape(len(rows), len(columns))
    total = float(gains.var())
    beyond = float(beyond_sum(gains).var()) / total if total > 1e-12 else None  # NaN compares as false
    return Grid((first.name, second.name), tuple(rows), tuple(columns), gains, beyond)


def _inside(axis: Axis, *values: Value) -> list[Value]:
    """Values that lie in the range that was searched; the others cannot be points of a walk."""
    if axis.choices:
        return [value for value in values if value in axis.choices]
    return [value for value in values if axis.minimum <= float(value) <= axis.maximum]
