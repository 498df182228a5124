"""Which knobs the trials of a search say matter: a forest, asked only where it predicts what it has not seen.

Permutation importance (Breiman, 2001) on trials that the forest was not grown from, in many resamples of the
trials; interactions of pairs are components of the functional ANOVA (Hutter, Hoos and Leyton-Brown, ICML'14).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

FEWEST_TRIALS = 20
LEAST_R2 = 0.2
RESAMPLES = 30
RESAMPLES_OF_PAIRS = 15
SHUFFLES = 3
TREES = 30
FOLDS = 5
REPEATS = 2
PAIRED_KNOBS = 4
"""Interactions are worked out between so many of the most important knobs."""
PAIR_LEVELS = 6
BACKGROUND = 64
SHOWN_PAIR = 0.05
"""Forests see a little interaction everywhere; below this share of the variance nothing is claimed."""
TAIL_PCT = 2.5


@dataclass(frozen=True)
class Part:
    """A share of the variance of the cost, with its 95 % interval over resamples of the trials.

    Of a knob, what is lost without it, its interactions included; of a pair, what the two do together beyond
    their own effects.
    """

    knobs: tuple[str, ...]
    share: float
    low: float
    high: float
    shown: bool


@dataclass(frozen=True)
class Importance:
    """`refused` is why nothing is said of knobs, empty otherwise. `r2` is of trials that were left out, None
    where there were too few to work it out. Parts are by share, largest first."""

    trials: int
    r2: float | None
    refused: str
    knobs: tuple[Part, ...]
    pairs: tuple[Part, ...]


def importance_of(names: Sequence[str], places: np.ndarray, costs: np.ndarray) -> Importance:
    """Importance of knobs from trials.

    `places`: trials x knobs, each knob 0 to 1 over its range; `costs`: natural logs, one a trial. Trials of
    one config should come as their mean: as separate ones they would be no trials left out. Equal input gives
    equal output.
    """
    count = len(costs)
    if count < FEWEST_TRIALS:
        said = f"{count} different configurations worked; under {FEWEST_TRIALS} nothing is said of knobs"
        return Importance(count, None, said, (), ())
    if float(np.ptp(costs)) <= 1e-9:
        return Importance(count, 0.0, "all trials cost the same; no knob makes a difference", (), ())
    r2 = left_out_r2(places, costs)
    if r2 < LEAST_R2:
        said = (
            f"the model explains {max(r2, 0.0) * 100:.0f} % of the differences between trials it has not"
            f" seen; under {LEAST_R2 * 100:.0f} % what it says of knobs is noise"
        )
        return Importance(count, r2, said, (), ())
    random = np.random.default_rng(count)
    forests: list[_Forest] = []
    shares: list[list[float]] = []
    while len(shares) < RESAMPLES:
        drawn = random.integers(0, count, count)
        out = np.setdiff1d(np.arange(count), drawn)
        if len(out) < 3:
            continue
        forest = _forest(places[drawn], costs[drawn], len(shares))
        forests.append(forest)
        shares.append(_lost(forest, places[out], costs[out], float(costs.var()), random))
    knobs = _parts([(name,) for name in names], np.array(shares), 0.0)
    top = [list(names).index(part.knobs[0]) for part in knobs[:PAIRED_KNOBS]]
    couples = list(combinations(sorted(top), 2))
    background = random.random((BACKGROUND, len(names)))
    together = [
        [_interaction(forest, background, pair) for pair in couples]
        for forest in forests[:RESAMPLES_OF_PAIRS]
    ]
    labels = [(names[first], names[second]) for first, second in couples]
    pairs = _parts(labels, np.array(together), SHOWN_PAIR) if couples else ()
    return Importance(count, r2, "", knobs, pairs)


def left_out_r2(places: np.ndarray, costs: np.ndarray) -> float:
    """The share of the variance that a forest explains of trials it was not grown from, by folds."""
    count = len(costs)
    random = np.random.default_rng(count)
    errors = np.zeros(REPEATS)
    for repeat in range(REPEATS):
        fold_of = random.permutation(count) % FOLDS
        for fold in range(FOLDS):
            out = fold_of == fold
            forest = _forest(places[~out], costs[~out], fold)
            errors[repeat] += float(((forest.predict(places[out]) - costs[out]) ** 2).sum())
    return 1.0 - float(errors.mean()) / (float(costs.var()) * count)


class _Forest:
    """What is used of scikit-learn's forest, typed."""

    def __init__(self, places: np.ndarray, costs: np.ndarray, seed: int) -> None:
        from sklearn.ensemble import RandomForestRegressor

        self._model = RandomForestRegressor(TREES, min_samples_leaf=2, random_state=seed, n_jobs=1)
        self._model.fit(places, costs)

    def predict(self, places: np.ndarray) -> np.ndarray:
        return np.asarray(self._model.predict(places))


def _forest(places: np.ndarray, costs: np.ndarray, seed: int) -> _Forest:
    return _Forest(places, costs, seed)


def _lost(
    forest: _Forest, places: np.ndarray, costs: np.ndarray, variance: float, random: np.random.Generator
) -> list[float]:
    """Error added by shuffling each knob. Halved, because a shuffled value is wrong twice: where it is taken
    from and where it is put; so a knob that explains everything has a share of 1."""
    count, width = places.shape
    shuffled = np.repeat(places[None], width * SHUFFLES, axis=0)
    for number in range(width * SHUFFLES):
        knob = number // SHUFFLES
        shuffled[number, :, knob] = random.permutation(places[:, knob])
    wrong = forest.predict(shuffled.reshape(-1, width)).reshape(width, SHUFFLES, count)
    base = float(((forest.predict(places) - costs) ** 2).mean())
    errors = ((wrong - costs) ** 2).mean(axis=(1, 2))
    return [float(error - base) / (2.0 * variance) for error in errors]


def _interaction(forest: _Forest, background: np.ndarray, pair: tuple[int, int]) -> float:
    """The share of the forest's variance over the space that two knobs have beyond the sum of their own."""
    at = (np.arange(PAIR_LEVELS) + 0.5) / PAIR_LEVELS
    filled = np.repeat(background[None], PAIR_LEVELS**2, axis=0)
    filled[:, :, pair[0]] = np.repeat(at, PAIR_LEVELS)[:, None]
    filled[:, :, pair[1]] = np.tile(at, PAIR_LEVELS)[:, None]
    said = forest.predict(filled.reshape(-1, background.shape[1])).reshape(PAIR_LEVELS, PAIR_LEVELS, -1)
    variance = float(said.var())
    return float(beyond_sum(said.mean(axis=2)).var()) / variance if variance > 0.0 else 0.0


def beyond_sum(table: np.ndarray) -> np.ndarray:
    """What is left of a table (rows x columns) without the effects of its rows and of its columns."""
    rows, columns = table.mean(axis=1, keepdims=True), table.mean(axis=0, keepdims=True)
    return np.asarray(table - rows - columns + table.mean())


def _parts(labels: Sequence[tuple[str, ...]], shares: np.ndarray, least: float) -> tuple[Part, ...]:
    lows, highs = np.percentile(shares, [TAIL_PCT, 100 - TAIL_PCT], axis=0)
    middles = np.median(shares, axis=0)
    parts = [
        Part(label, float(middle), float(low), float(high), bool(low > least))
        for label, middle, low, high in zip(labels, middles, lows, highs, strict=True)
    ]
    return tuple(sorted(parts, key=lambda part: -part.share))
