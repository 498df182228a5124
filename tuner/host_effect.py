"""A gain over several hosts: what a host adds of its own is part of the uncertainty.

A configuration may be worth more on one host than on another. Pairs of one host then resemble one another,
and an interval that takes them for independent is too narrow for the next host. So hosts are a random effect:
one-way analysis of variance of the pairs' log-ratios, whose variance between hosts is pooled with that within
them only where nothing speaks for it (Bancroft's preliminary test at 0.25).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiertune.tuner.statistics import CONFIDENCE

PRELIMINARY_TEST = 0.25


@dataclass(frozen=True)
class HostEffect:
    """Log-ratios over hosts: mean of the hosts' means with its interval, and where the variance lies.

    `pooled` says that the hosts differ no more than pairs of one host do; the interval is then not theirs.
    """

    mean: float
    low: float
    high: float
    between_sd: float
    within_sd: float
    pooled: bool
    by_host: dict[str, float]


def host_effect(
    gains: Sequence[float], hosts: Sequence[str], confidence: float = CONFIDENCE
) -> HostEffect | None:
    """The effect of pairs with these gains (log-ratios) on these hosts, in the same order.

    None where it cannot be told: fewer than two hosts, or none with two pairs.
    """
    by_host: dict[str, list[float]] = {}
    for gain, host in zip(gains, hosts, strict=True):
        by_host.setdefault(host, []).append(gain)
    groups = [np.asarray(values, dtype=np.float64) for _, values in sorted(by_host.items())]
    count, total = len(groups), sum(len(group) for group in groups)
    if count < 2 or total <= count:
        return None
    from scipy.special import fdtrc, stdtrit

    means = np.array([group.mean() for group in groups])
    sizes = np.array([len(group) for group in groups])
    grand = float(np.concatenate(groups).mean())
    within = sum(float(((group - group.mean()) ** 2).sum()) for group in groups) / (total - count)
    between = float((sizes * (means - grand) ** 2).sum()) / (count - 1)
    usual_size = (total - float((sizes**2).sum()) / total) / (count - 1)
    own = max(0.0, (between - within) / usual_size)
    if within > 0.0:
        chance = float(fdtrc(count - 1, total - count, between / within))
    else:
        chance = 1.0 if between == 0.0 else 0.0
    pooled = chance > PRELIMINARY_TEST
    mean = grand if pooled else float(means.mean())
    degrees = total - 1 if pooled else count - 1
    spread = np.concatenate(groups) if pooled else means
    error = float(spread.std(ddof=1)) / math.sqrt(len(spread))
    reach = float(stdtrit(degrees, 0.5 + confidence / 2.0)) * error
    figures = {host: float(np.mean(values)) for host, values in sorted(by_host.items())}
    return HostEffect(mean, mean - reach, mean + reach, math.sqrt(own), math.sqrt(within), pooled, figures)
