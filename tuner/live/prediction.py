"""How well the simulator had foretold what a host then measured: ranks, and how far gains were off."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tiertune.tuner.journal import Journal, Row
from tiertune.tuner.optimiser.warm import spearman
from tiertune.tuner.transfer.context import complete
from tiertune.tuner.trial import Status, canonical

LEAST = 5
"""Configurations that both must have run before a rank correlation is told."""
CONFIDENCE_Z = 1.959964


@dataclass(frozen=True)
class Pair:
    """A configuration that ran in both places: its gain over the default, as a ratio above 0, 1 for none.
    `live_runs` are those that `measured` is of."""

    config: dict[str, Any]
    predicted: float
    measured: float
    live_runs: int

    @property
    def error(self) -> float:
        """Predicted over measured gain, minus 1: 0.1 where the simulator promised a tenth too much."""
        return self.predicted / self.measured - 1.0


@dataclass(frozen=True)
class Prediction:
    """A cell in both campaigns. `rank` is Spearman's correlation with its 95 % interval, None where fewer
    than five configurations ran in both; the default is none of the pairs."""

    cell: str
    pairs: list[Pair]
    rank: float | None
    low: float | None
    high: float | None
    median_error: float | None
    worst_error: float | None

    def document(self) -> dict[str, Any]:
        """Plain data."""
        pairs = [{**asdict(pair), "error": pair.error} for pair in self.pairs]
        return {**asdict(self), "pairs": pairs}

    def sentence(self) -> str:
        """What it says, in one or two sentences."""
        if not self.pairs:
            return (
                "no configuration but the default worked both simulated and live, so nothing is known of the"
                " simulator here"
            )
        median, worst = _percent(self.median_error), _percent(self.worst_error)
        found = f"gains were foretold with a median error of {median}, at worst {worst}"
        if self.rank is None:
            return f"{found}; {len(self.pairs)} configurations in both are too few for a correlation of ranks"
        ranks = f"ranks agree with {self.rank:.2f} (95 % interval {self.low:.2f} to {self.high:.2f})"
        return f"over {len(self.pairs)} configurations {ranks}; {found}"


def predictions(simulated: Path, live: Path) -> list[Prediction]:
    """All cells that two journals share, by what they say of the same configurations."""
    with Journal(simulated, writer=False) as before, Journal(live, writer=False) as after:
        cells = [key for key in after.claimed().document["cells"] if before.rows(key)]
        return [prediction(key, before.rows(key), after.rows(key)) for key in cells]


def prediction(cell: str, simulated: Sequence[Row], live: Sequence[Row]) -> Prediction:
    """What rows of both say of a cell. Means of log-costs, so that a run of many is as good as its number."""
    foretold, measured = _costs(simulated), _costs(live)
    configs = {_name(row): row.trial.config for row in reversed(live) if _worked(row)}
    default = next((_name(row) for row in live if row.trial.origin == "default"), None)
    pairs = []
    if default in foretold and default in measured:
        for text in measured:
            if text != default and text in foretold:
                predicted, _ = _gain(foretold[default], foretold[text])
                gain, runs = _gain(measured[default], measured[text])
                pairs.append(Pair(dict(configs[text]), math.exp(predicted), math.exp(gain), runs))
    pairs.sort(key=lambda pair: -pair.predicted)
    rank = low = high = None
    if len(pairs) >= LEAST:
        rank = spearman([(pair.predicted, pair.measured) for pair in pairs])
        low, high = _interval(rank, len(pairs))
    errors = [abs(pair.error) for pair in pairs]
    middle = statistics.median(errors) if errors else None
    return Prediction(cell, pairs, rank, low, high, middle, max(errors, default=None))


def _name(row: Row) -> str:
    """Equal for rows of one configuration: a search writes the searched knobs alone, judgement of the default
    all there are."""
    return canonical(complete(row.trial.system, row.trial.config))


def _costs(rows: Sequence[Row]) -> dict[str, dict[int, float]]:
    """Costs of the runs that worked, by configuration and seed."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        if _worked(row) and row.cost is not None:
            found.setdefault(_name(row), {})[row.trial.seed] = row.cost
    return found


def _worked(row: Row) -> bool:
    return row.status is Status.OK and row.trial.fidelity == 1.0


def _gain(default: Mapping[int, float], other: Mapping[int, float]) -> tuple[float, int]:
    """By how much the cost of `other` is lower, and from how many of its runs: those in blocks with the
    default, where seed and drift hit both; where it was in none, against all runs of the default."""
    shared = default.keys() & other.keys()
    if shared:
        return statistics.fmean(default[seed] - other[seed] for seed in shared), len(shared)
    return statistics.fmean(default.values()) - statistics.fmean(other.values()), len(other)


def _interval(rank: float, count: int) -> tuple[float, float]:
    """Fisher's transformation, with the variance that Fieller, Hartley and Pearson (1957) give for ranks."""
    inside = math.atanh(max(-0.999999, min(0.999999, rank)))
    half = CONFIDENCE_Z * math.sqrt(1.06 / (count - 3))
    return min(rank, math.tanh(inside - half)), max(rank, math.tanh(inside + half))


def _percent(share: float | None) -> str:
    return "nothing" if share is None else f"{share * 100:.1f} %"
