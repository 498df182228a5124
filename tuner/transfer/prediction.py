"""Which differences between contexts say how much of a tuned config's gain is lost on the way.

A regression of losses on distances (multiple regression on distance matrices; Mantel 1967, Lichstein 2007).
Transfers that share a context are not independent, so the chance of a slope is found by permuting contexts
and its interval by leaving out one context at a time (jackknife).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from tiertune.tuner.transfer.feature import Distances

FEWEST_CONTEXTS = 6
"""With 5 contexts there are 120 orders, and designs are so regular that many of them are alike."""

ALL_ORDERS_UP_TO = 7
RANDOM_ORDERS = 1999
SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Predictor:
    """What one feature says. Losses are factors: 1.10 means a tenth slower for each unit of distance.

    `same` and `different` are mean losses between contexts that do not and that do differ in this feature,
    `alone` between those that differ in nothing else, over `pairs_alone` transfers; None where there are no
    such transfers. `chance` is how often an order of contexts by lot has as strong a slope.
    """

    feature: str
    unit: str
    loss: float | None
    low: float | None
    high: float | None
    chance: float | None
    share_explained: float | None
    same: float | None
    different: float | None
    alone: float | None
    pairs_alone: int
    verdict: str


@dataclass(frozen=True)
class Prediction:
    """All features; `told` is a sentence, also on why there is nothing to tell."""

    predictors: tuple[Predictor, ...]
    contexts: int
    transfers: int
    explained: float | None
    told: str


def predict(losses: np.ndarray, distances: Distances) -> Prediction:
    """Losses (natural logs, contexts x contexts: from row to column, NaN where not measured) by feature."""
    names, count = list(distances.by_name), len(losses)
    if not names:
        return Prediction((), count, 0, None, "the contexts do not differ in anything that is known of them")
    usable = ~np.isnan(losses) & ~np.eye(count, dtype=bool)
    means = {name: _means(name, losses, usable, distances.by_name) for name in names}
    transfers = int(usable.sum())
    why = _too_little(count, usable, distances)
    if why:
        predictors = tuple(
            Predictor(
                name,
                distances.units[name],
                *(None, None, None, None, None),
                *means[name],
                "too few contexts to tell",
            )
            for name in names
        )
        return Prediction(predictors, count, transfers, None, why)
    stack = np.stack([distances.by_name[name] for name in names])
    slopes, explained = _fit(losses, stack, usable)
    low, high = _jackknife(losses, stack, usable, slopes)
    chances = _chances(losses, stack, usable)
    found = []
    for place, name in enumerate(names):
        without = _fit(losses, np.delete(stack, place, axis=0), usable)[1] if len(names) > 1 else 0.0
        shown = chances[place] < SIGNIFICANT and not low[place] <= 0.0 <= high[place]
        found.append(
            Predictor(
                feature=name,
                unit=distances.units[name],
                loss=math.exp(slopes[place]),
                low=math.exp(low[place]),
                high=math.exp(high[place]),
                chance=chances[place],
                share_explained=max(explained - without, 0.0),
                same=means[name][0],
                different=means[name][1],
                alone=means[name][2],
                pairs_alone=means[name][3],
                verdict=("loses more" if slopes[place] > 0 else "loses less") if shown else "not shown",
            )
        )
    return Prediction(tuple(found), count, transfers, explained, _told(found, explained))


def _too_little(count: int, usable: np.ndarray, distances: Distances) -> str:
    names = list(distances.by_name)
    if count < FEWEST_CONTEXTS:
        return f"{count} contexts are too few to tell which features decide: at least {FEWEST_CONTEXTS}"
    stack = np.stack([distances.by_name[name][usable] for name in names])
    centred = stack - stack.mean(axis=1, keepdims=True)
    if not centred.any(axis=1).all() or np.linalg.matrix_rank(centred) < len(names):
        return f"in these contexts {', '.join(names)} cannot be told apart: too few combinations"
    if usable.sum() < 2 * (len(names) + 1):
        return f"{int(usable.sum())} transfers are too few for {len(names)} features"
    return ""


def _means(
    name: str, losses: np.ndarray, usable: np.ndarray, by_name: Mapping[str, np.ndarray]
) -> tuple[float | None, float | None, float | None, int]:
    differs = by_name[name] > 0
    alone = differs.copy()
    for other, distance in by_name.items():
        if other != name:
            alone &= distance == 0
    found = [losses[usable & which] for which in (~differs, differs, alone)]
    same, different, only = (math.exp(float(some.mean())) if len(some) else None for some in found)
    return same, different, only, len(found[2])


def _fit(losses: np.ndarray, stack: np.ndarray, usable: np.ndarray) -> tuple[np.ndarray, float]:
    """Slopes, and the share of the losses' variance that they explain."""
    target = losses[usable]
    columns = np.column_stack([np.ones(len(target)), *(distance[usable] for distance in stack)])
    found = np.linalg.lstsq(columns, target, rcond=None)[0]
    left = float(((target - columns @ found) ** 2).sum())
    total = float(((target - target.mean()) ** 2).sum())
    return found[1:], 1.0 - left / total if total > 0 else 0.0


def _jackknife(
    losses: np.ndarray, stack: np.ndarray, usable: np.ndarray, slopes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    from scipy.special import stdtrit

    count = len(losses)
    each = []
    for out in range(count):
        kept = usable.copy()
        kept[out, :] = kept[:, out] = False
        each.append(_fit(losses, stack, kept)[0])
    error = np.sqrt((count - 1) / count * ((np.array(each) - np.mean(each, axis=0)) ** 2).sum(axis=0))
    reach = float(stdtrit(count - 1, 0.975)) * error
    return slopes - reach, slopes + reach


def _chances(losses: np.ndarray, stack: np.ndarray, usable: np.ndarray) -> list[float]:
    """Per feature, in how many orders of the contexts its t value is as large as in the true one."""
    designs: dict[bytes, tuple[np.ndarray, np.ndarray]] = {}

    def t_values(order: np.ndarray) -> np.ndarray:
        mixed, there = losses[np.ix_(order, order)], usable[np.ix_(order, order)]
        key = there.tobytes()  # one design for all orders where nothing failed
        if key not in designs:
            columns = np.column_stack([np.ones(there.sum()), *(distance[there] for distance in stack)])
            designs[key] = columns, np.linalg.pinv(columns.T @ columns)
        return np.asarray(np.abs(_t_values(mixed[there], *designs[key])))

    true = t_values(np.arange(len(losses)))
    hits, orders = np.zeros(len(stack)), 0
    for order in _orders(len(losses)):
        hits += t_values(order) >= true - 1e-9
        orders += 1
    return [float(hit) / orders for hit in hits]


def _orders(count: int) -> Iterator[np.ndarray]:
    """All orders of few contexts; of many, the true one and a fixed lot of others."""
    if count <= ALL_ORDERS_UP_TO:
        yield from (np.array(order) for order in permutations(range(count)))
        return
    generator = np.random.default_rng(count)
    yield np.arange(count)
    for _ in range(RANDOM_ORDERS):
        yield generator.permutation(count)


def _t_values(target: np.ndarray, columns: np.ndarray, inverse: np.ndarray) -> np.ndarray:
    found = inverse @ columns.T @ target
    left = float(((target - columns @ found) ** 2).sum()) / max(len(target) - len(found), 1)
    return np.asarray(found[1:] / np.sqrt(np.maximum(left * np.diag(inverse)[1:], 1e-300)))


def _told(predictors: list[Predictor], explained: float) -> str:
    shown = [one for one in predictors if one.verdict != "not shown"]
    share = f"all features together explain {100 * explained:.0f} % of the differences between losses"
    if not shown:
        return f"no feature is shown to decide what carries over; {share}"
    shown.sort(key=lambda one: -(one.share_explained or 0.0))
    named = ", then ".join(
        f"{one.feature} ({100 * ((one.loss or 1.0) - 1):+.1f} % for {one.unit})" for one in shown
    )
    return f"what decides is {named}; {share}"
