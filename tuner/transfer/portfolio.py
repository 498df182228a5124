"""A few configurations with a rule that picks one: a small decision tree over what contexts are like.

The tree is grown for what it is for: a split is made where the best configuration of each side, together,
gain most. So the configurations and the rule are chosen at once, and nothing in between is fitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tiertune.tuner.statistics import MIN_EFFECT
from tiertune.tuner.transfer.context import Context
from tiertune.tuner.transfer.feature import FEATURES, Value
from tiertune.tuner.transfer.robust import Aim, best_for, score


@dataclass(frozen=True)
class Split:
    """A question about a context: is `feature` at most `limit`, or, of a word, is it `limit`?"""

    feature: str
    limit: Value

    def holds(self, properties: dict[str, Value]) -> bool:
        """The answer for a context with these properties."""
        value = properties[self.feature]
        if isinstance(self.limit, str) or isinstance(value, str):
            return value == self.limit
        return value <= self.limit

    def words(self, answer: bool) -> str:
        """The question with its answer, as a rule has it."""
        if isinstance(self.limit, str):
            return f"{self.feature} is {'' if answer else 'not '}{self.limit}"
        return f"{self.feature} {'at most' if answer else 'above'} {self.limit:.3g}"


@dataclass(frozen=True)
class Leaf:
    """Where the tree ends: which candidate to run, and the answers that lead here."""

    candidate: int
    path: tuple[tuple[Split, bool], ...]
    contexts: tuple[int, ...]

    @property
    def rule(self) -> str:
        """The way to this leaf in words."""
        return " and ".join(split.words(answer) for split, answer in self.path) or "always"


def properties_of(context: Context) -> dict[str, Value]:
    """What the rule may ask about a context: nothing that would have to be measured first."""
    return {feature.name: feature.value(context.traits) for feature in FEATURES}


def grow(
    gains: np.ndarray,
    rows: Sequence[int],
    columns: Sequence[int],
    properties: Sequence[dict[str, Value]],
    size: int,
    aim: Aim,
) -> list[Leaf]:
    """A tree of at most `size` leaves for the contexts `columns`, from the candidates `rows`.

    The split that gains most is made first. One that brings less than `MIN_EFFECT` is not made, so there may
    be fewer leaves. `gains` are log gains, candidates x contexts.
    """
    leaves = [Leaf(best_for(gains, rows, columns, aim), (), tuple(columns))]
    while len(leaves) < size:
        now = _total(gains, leaves, aim)
        best: tuple[tuple[float, float], list[Leaf]] | None = None
        for place, leaf in enumerate(leaves):
            for split in _splits(leaf.contexts, properties):
                sides = [
                    Leaf(best_for(gains, rows, side, aim), (*leaf.path, (split, answer)), side)
                    for answer, side in _sides(split, leaf.contexts, properties)
                ]
                grown = [*leaves[:place], *sides, *leaves[place + 1 :]]
                total = _total(gains, grown, aim)
                if best is None or total > best[0]:
                    best = (total, grown)
        if best is None or best[0][0] - now[0] < math.log1p(MIN_EFFECT):
            break
        leaves = best[1]
    return leaves


def leaf_of(leaves: Sequence[Leaf], properties: dict[str, Value]) -> Leaf:
    """The leaf that the rule leads to for a context with these properties."""
    return next(
        leaf for leaf in leaves if all(split.holds(properties) == answer for split, answer in leaf.path)
    )


def _total(gains: np.ndarray, leaves: Sequence[Leaf], aim: Aim) -> tuple[float, float]:
    """What the leaves together come to over their contexts."""
    return score(np.concatenate([gains[leaf.candidate, list(leaf.contexts)] for leaf in leaves]), aim)


def _sides(
    split: Split, contexts: Sequence[int], properties: Sequence[dict[str, Value]]
) -> Iterator[tuple[bool, tuple[int, ...]]]:
    for answer in (True, False):
        yield answer, tuple(one for one in contexts if split.holds(properties[one]) == answer)


def _splits(contexts: Sequence[int], properties: Sequence[dict[str, Value]]) -> Iterator[Split]:
    """Every question that parts these contexts; limits of numbers lie half way, in proportion."""
    for feature in FEATURES:
        values = {properties[one][feature.name] for one in contexts}
        words = sorted(value for value in values if isinstance(value, str))
        if len(words) > 1:
            # Of two words one question is enough.
            yield from (Split(feature.name, word) for word in words[: 1 if len(words) == 2 else None])
        numbers = sorted(value for value in values if not isinstance(value, str))
        for low, high in pairwise(numbers):
            yield Split(feature.name, math.sqrt(low * high) if low > 0 else (low + high) / 2)
