"""How likely luck alone puts contenders as far behind the first, which was picked by the same figures.

The best of many means is in part a lucky one, and equal contenders look worse against it than they are: of
twenty, some are called behind in 12 to 17 of 100 scenarios where a test takes the first as given. To adjust
for all pairs would make up for more than that, as only those with the first are looked at. So what counts
here is how many of these are as far apart on average, among equal contenders whose figures scatter alike
over seeds. Where some scatter more than others there are fewer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache

import numpy as np

Place = tuple[str, ...]
FURTHEST = 8.5
"""Standard deviations of a mean beyond which none of any number of contenders is."""
POINTS = 120, 400
"""At which the integrals over the lowest mean and over its distance to another are summed up."""


def adjusted(
    tests: Mapping[tuple[Place, str], tuple[float, int]], contenders: Mapping[Place, int]
) -> dict[tuple[Place, str], float]:
    """P values of a whole sweep for the claim that a contender is behind the first of its scenario.

    `tests` has p of the two-sided paired test against the first, by scenario and contender, and on how many
    seeds; `contenders` from how many the first was picked. Step by step, as Holm's: whoever is behind is none
    of the equals any more, and where all are behind is no scenario any more in which one may be so by luck.
    """
    inside: dict[tuple[Place, str], float] = {}
    members: dict[Place, list[tuple[Place, str]]] = {}
    for key in tests:
        members.setdefault(key[0], []).append(key)
    for place, keys in members.items():
        reached = 0.0
        for turn, key in enumerate(sorted(keys, key=lambda key: tests[key])):
            p, seeds = tests[key]
            reached = max(reached, chance(p, contenders[place] - turn, seeds))
            inside[key] = reached
    left = Counter(place for place, _ in inside)
    found, reached = {}, 0.0
    for key in sorted(inside, key=lambda key: inside[key]):
        reached = max(reached, min(1.0, len(left) * inside[key]))
        found[key] = reached
        left[key[0]] -= 1
        if not left[key[0]]:
            del left[key[0]]
    return found


def chance(p: float, contenders: int, seeds: int) -> float:
    """How many of `contenders` equal ones are, on average, so far above their lowest that the two-sided
    paired t test against it has `p` or less: no less than the chance of any, and `p` itself of two."""
    if p <= 0.0 or p >= 1.0:
        return p
    from scipy.special import chdtr, stdtrit

    freedom = seeds - 1
    t = float(stdtrit(freedom, p / 2.0))
    distance, weight = _distances(contenders)
    # Means of normal values say nothing of their scatter, which has to be small enough for t.
    return min(1.0, float(weight @ chdtr(freedom, freedom * (distance / t) ** 2 / 2.0)))


@cache
def _distances(contenders: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances between the lowest of normal means and the others, and how many are at each on average; in
    standard deviations of a mean."""
    from scipy.special import ndtr

    points, steps = np.polynomial.legendre.leggauss(POINTS[0])
    lowest, steps = FURTHEST * points, FURTHEST * steps
    distance = np.geomspace(1e-4, 2.0 * FURTHEST, POINTS[1])
    both = _normal(lowest) * _normal(lowest + distance[:, None])
    density = (contenders * (contenders - 1) * both * ndtr(-lowest) ** (contenders - 2)) @ steps
    return distance, density * np.gradient(distance)


def _normal(values: np.ndarray) -> np.ndarray:
    density: np.ndarray = np.exp(-(values**2) / 2.0) / np.sqrt(2.0 * np.pi)
    return density
