"""Slow-down surfaces in the shape of tiering knobs, 10 mixed knobs: what optimisers are raced on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from ConfigSpace import (
    Categorical,
    ConfigurationSpace,
    EqualsCondition,
    Float,
    ForbiddenAndConjunction,
    ForbiddenEqualsClause,
    ForbiddenGreaterThanClause,
    ForbiddenGreaterThanRelation,
    Integer,
)

from tiertune.tuner.trial import Config

Surface = Callable[[Config], float]


def space(seed: int = 0, priors: Mapping[str, Mapping[str, object]] | None = None) -> ConfigurationSpace:
    """Seven log-scaled numbers, a share, a switch, and a knob that only acts while the switch is on; with
    `priors` of knobs by name."""
    made = ConfigurationSpace(seed=seed)
    made.add(
        Integer("sample_period", (100, 100_000), log=True, default=5_000),
        Integer("hot_threshold", (1, 64), log=True, default=8),
        Integer("cooling_threshold", (2, 128), log=True, default=18),
        Integer("period_us", (1_000, 1_000_000), log=True, default=10_000),
        Integer("migration_kib", (64, 1_048_576), log=True, default=10_240),
        Float("scan_s", (0.01, 100.0), log=True, default=1.0),
        Float("decay", (0.01, 1.0), log=True, default=0.5),
        Float("reserve_share", (0.0, 0.2), default=0.01),
        Categorical("mode", ["sync", "async", "off"], default="sync"),
        Integer("batch", (1, 512), log=True, default=8),
    )
    made.add(EqualsCondition(made["batch"], made["mode"], "async"))
    for name, prior in (priors or {}).items():
        made[name].meta = {"prior": prior}
    return made


Priors = Mapping[str, Mapping[str, object]]

GOOD: Priors = {
    "sample_period": {"around": 1_500, "spread": 3.0},
    "cooling_threshold": {"around": 40, "spread": 2.0},
    "migration_kib": {"around": 60_000, "spread": 4.0},
    "decay": {"around": 0.06, "spread": 2.0},
}
"""Priors on what matters to `smooth`, near its optimum."""
BAD: Priors = {
    "sample_period": {"around": 60_000, "spread": 3.0},
    "cooling_threshold": {"around": 3, "spread": 2.0},
    "migration_kib": {"around": 200, "spread": 4.0},
    "decay": {"around": 0.9, "spread": 2.0},
}
"""As sure, and far off."""


def advised_space() -> ConfigurationSpace:
    """With priors on knobs of every kind, one of them conditional, and forbidden combinations."""
    words: Priors = {"mode": {"around": "async", "chance": 0.6}, "batch": {"around": 64, "spread": 3.0}}
    made = space(priors={**GOOD, **words, "reserve_share": {"around": 0.05, "spread": 0.05}})
    made.add(ForbiddenGreaterThanRelation(made["hot_threshold"], made["cooling_threshold"]))
    async_batch = ForbiddenEqualsClause(made["mode"], "async"), ForbiddenGreaterThanClause(made["batch"], 128)
    made.add(ForbiddenAndConjunction(*async_batch))
    return made


def plateau(config: Config) -> float:
    """Nothing promoted, a thin good band, thrashing: a ridge in sampling rate x threshold."""
    heat = math.log10(_number(config, "sample_period") * _number(config, "hot_threshold")) - 4.0
    loss = 0.6 / (1.0 + math.exp(-6.0 * (heat - 0.8))) + 0.9 / (1.0 + math.exp(8.0 * (heat + 0.8)))
    loss += 0.15 * abs(math.log10(_number(config, "period_us")) - 4.5) ** 2

    return 1.0 + loss


def smooth(config: Config) -> float:
    """Four of ten knobs matter, with one interaction."""
    a = math.log10(_number(config, "sample_period")) - 3.2
    b = math.log2(_number(config, "cooling_threshold")) - 5.5
    c = math.log10(_number(config, "migration_kib")) - 4.8
    d = math.log10(_number(config, "decay")) + 1.2
    return 1.0 + 0.12 * a * a + 0.03 * b * b + 0.08 * c * c + 0.10 * d * d + 0.05 * abs(a * d)


def conditional(config: Config) -> float:
    """The best mode has a knob of its own; big copies fall off a cliff of contention."""
    copy = math.log2(_number(config, "migration_kib"))
    loss = 0.02 * abs(copy - 15.0) + (0.8 if copy > 18.0 else 0.0)
    if config["mode"] == "async":
        loss += 0.03 * (math.log2(_number(config, "batch")) - 6.0) ** 2
    else:
        loss += 0.35 if config["mode"] == "sync" else 0.7
    return 1.0 + loss + 0.1 * (math.log10(_number(config, "scan_s")) - 0.5) ** 2


def _number(config: Config, knob: str) -> float:
    return float(config[knob])


SURFACES: dict[str, Surface] = {"plateau": plateau, "smooth": smooth, "conditional": conditional}
