"""Two objectives of one campaign, and which results of a search are on their front."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tiertune.tuner.trial import Objective

FLOOR = 0.01
"""What is added to values of the second objective before their log is taken, as a share of the default's:
copies may be none at all, and a hundredth or a thousandth of them is the same to an operator."""

Pair = tuple[float, float]


@dataclass(frozen=True)
class Objectives:
    """What a campaign improves, the workload's own metric first. The second one may be 0, such as bytes
    migrated."""

    first: Objective
    second: Objective

    def __iter__(self) -> Any:
        return iter((self.first, self.second))

    def values(self, metrics: Mapping[str, float]) -> Pair | None:
        """Both metrics in their units; None where one is missing or no number, the first not above 0, or the
        second below."""
        first, second = metrics.get(self.first.metric), metrics.get(self.second.metric)
        if first is None or second is None or not (math.isfinite(first) and math.isfinite(second)):
            return None
        return (first, second) if first > 0.0 and second >= 0.0 else None

    def signed(self, values: Pair) -> Pair:
        """`values` with signs such that lower is better in both."""
        one, other = (1.0 if each.direction == "minimize" else -1.0 for each in self)
        return one * values[0], other * values[1]


def objectives_of(campaign: Mapping[str, Any]) -> Objectives | None:
    """Those of a campaign's document, as journals hold it; None where there is one objective alone."""
    entries = campaign.get("objectives")
    return Objectives(*(Objective(**entry) for entry in entries)) if entries else None


def layers(points: Sequence[Pair]) -> list[list[int]]:
    """Indices of `points` (lower is better in both) by layer: the front first, then the front of the
    others, and so on; by the first value within a layer."""
    left = sorted(range(len(points)), key=lambda index: (*points[index], index))
    found = []
    while left:
        layer, lowest = [], math.inf
        for index in left:
            if points[index][1] < lowest:
                lowest = points[index][1]
                layer.append(index)
        found.append(layer)
        left = [index for index in left if index not in set(layer)]
    return found


def spread(points: Sequence[Pair], count: int, apart: Pair = (0.0, 0.0)) -> list[int]:
    """Up to `count` indices of `points`, which lie on a front in order of the first value: both ends, then
    whichever is furthest from those chosen. What is nearer to one chosen than `apart` in both is left out."""
    if not points:
        return []
    widths = [max(p[k] for p in points) - min(p[k] for p in points) or 1.0 for k in (0, 1)]

    def distance(a: int, b: int) -> float:
        return math.hypot(*((points[a][k] - points[b][k]) / widths[k] for k in (0, 1)))

    def same(a: int, b: int) -> bool:
        return all(abs(points[a][k] - points[b][k]) < apart[k] for k in (0, 1))

    chosen: list[int] = []
    waiting = [0, len(points) - 1] if len(points) > 1 else [0]
    while waiting and len(chosen) < count:
        index = waiting.pop(0)
        if not any(same(index, other) for other in chosen):
            chosen.append(index)
        if not waiting:
            left = [
                i
                for i in range(len(points))
                if i not in chosen and not any(same(i, other) for other in chosen)
            ]
            left.sort(key=lambda i: (-min(distance(i, other) for other in chosen), i))
            waiting = left[:1]
    return sorted(chosen)
