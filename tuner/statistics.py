"""How much better tuned is than default: paired log-ratios, an interval that holds what it promises, a plain
verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiertune.tuner.trial import Objective

CONFIDENCE = 0.95
RESAMPLES = 10_000
MIN_PAIRS = 5
# Resamples with less than this share of the sample's standard error say nothing of its distribution. Of ties
# and one outlier, a third of the resamples is like that.
THIN_RESAMPLE = 0.1
# Gains below this are not worth a change of settings; they are reported as no improvement, with their
# interval.
MIN_EFFECT = 0.01


@dataclass(frozen=True)
class Effect:
    """Ratio of default to tuned (so that above 1 is better, whatever the metric's direction) with its
    interval."""

    ratio: float
    low: float
    high: float
    confidence: float
    pairs: int
    improved: bool


def effect(default_costs: Sequence[float], tuned_costs: Sequence[float]) -> Effect | None:
    """The effect in pairs of costs (natural logs, lower is better), None where fewer than MIN_PAIRS pairs are
    left.

    Improved means: the whole interval is above 1, and the ratio is at least 1 + MIN_EFFECT.
    """
    gains = np.asarray(default_costs, dtype=np.float64) - np.asarray(tuned_costs, dtype=np.float64)
    if len(gains) < MIN_PAIRS:
        return None
    low, high = interval(gains)
    ratio = float(gains.mean())
    improved = low > 0.0 and ratio >= math.log1p(MIN_EFFECT)
    return Effect(math.exp(ratio), math.exp(low), math.exp(high), CONFIDENCE, len(gains), improved)


def interval(values: Sequence[float] | np.ndarray, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Bootstrap-t interval of the mean, from resamples with a fixed seed.

    Studentised because the percentile bootstrap is too narrow for ten values: it covers about 90 % where it
    says 95 %. Where so many resamples are thin that they alone would set an end, it is Student's t interval.
    """
    sample = np.asarray(values, dtype=np.float64)
    count, mean = len(sample), float(sample.mean())
    error = float(sample.std(ddof=1)) / math.sqrt(count)
    if error <= 1e-12 * max(1.0, abs(mean)):  # deterministic runs: nothing to resample
        return mean, mean
    drawn = sample[np.random.default_rng(count).integers(0, count, (RESAMPLES, count))]
    errors = drawn.std(axis=1, ddof=1) / math.sqrt(count)
    tail = (1.0 - confidence) / 2.0
    if float(np.mean(errors < THIN_RESAMPLE * error)) > tail:
        from scipy.special import stdtrit  # a third of a second to import, and rarely needed

        reach = float(stdtrit(count - 1, 1.0 - tail)) * error
        return mean - reach, mean + reach
    usable = errors > 1e-9 * error
    ratios = (drawn.mean(axis=1)[usable] - mean) / errors[usable]
    below, above = np.quantile(ratios, [tail, 1.0 - tail])
    return mean - float(above) * error, mean - float(below) * error


def verdict(found: Effect | None, objective: Objective, lost: int = 0, pairs: int = 0) -> str:
    """One sentence on an effect. `lost` of `pairs` pairs had a failed run of the tuned configuration.

    A tuned configuration that fails where the default works is no improvement, however fast it is otherwise.
    """
    if lost:
        return f"no improvement found: the tuned configuration failed in {lost} of {pairs} validation runs"
    if found is None:
        return "not validated: too few validation runs worked to judge"
    digits = _digits(found)
    low, high, ratio = (f"{value:.{digits}f}" for value in (found.low, found.high, found.ratio))
    span = f"{found.confidence * 100:.0f} % interval {low} to {high}"
    ratio += "x"
    better = f"{ratio} faster than default"
    if objective.direction == "maximize":
        better = f"at {ratio} the {objective.metric} of default"
    if found.improved:
        return f"tuned is {better}, {span}"
    if found.high < 1.0 and abs(found.ratio - 1.0) >= MIN_EFFECT:
        return f"no improvement found: tuned is worse than default, {ratio} its speed, {span}"
    if found.low > 1.0:
        return f"no improvement found: {ratio} is below the {MIN_EFFECT * 100:.0f} % that counts, {span}"
    return f"no improvement found: tuned is at {ratio} of default, {span}"


def _digits(found: Effect) -> int:
    """Enough digits to tell the ends of the interval apart, and the ratio from 1: 2 to 4."""
    width = found.high - found.low
    if abs(found.ratio - 1.0) < MIN_EFFECT or 0.0 < width < 0.005:
        return 4
    return 2 if width <= 0.0 or width >= 0.05 else 3
