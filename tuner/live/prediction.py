"""How well the simulator had foretold what a host then measured: ranks, and how far gains were off."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tiertune.tuner.journal import Journal, Row
from tiertune.tuner.optimiser.warm import spearman
from tiertune.tuner.trial import Status, canonical

LEAST = 5
"""Configurations that both must have run before a rank correlation is told."""
CONFIDENCE_Z = 1.959964


@dataclass(frozen=True)
class Pair:
    """A configuration that ran in both places: its gain over the default, as a ratio above 0, 1 for none."""

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
    default = next((canonical(row.trial.config) for row in live if row.trial.origin == "default"), None)
    pairs = []
    if default in foretold and default in measured:
        for text in measured:
            if text != default and text in foretold:
                gains = [_mean(of[default]) - _mean(of[text]) for of in (foretold, measured)]
                config = next(row.trial.config for row in live if canonical(row.trial.config) == text)
                pairs.append(Pair(dict(config), math.exp(gains[0]), math.exp(gains[1]), len(measured[text])))
    pairs.sort(key=lambda pair: -pair.predicted)
    rank = low = high = None
    if len(pairs) >= LEAST:
        rank = spearman([(pair.predicted, pair.measured) for pair in pairs])
        low, high = _interval(rank, len(pairs))
    errors = [abs(pair.error) for pair in pairs]
    middle = statistics.median(errors) if errors else None
    return Prediction(cell, pairs, rank, low, high, middle, max(errors, default=None))


def _costs(rows: Sequence[Row]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for row in rows:
        if row.status is Status.OK and row.cost is not None and row.trial.fidelity == 1.0:
            found.setdefault(canonical(row.trial.config), []).append(row.cost)
    return found


def _mean(costs: Sequence[float]) -> float:
    return statistics.fmean(costs)


def _interval(rank: float, count: int) -> tuple[float, float]:
    """Fisher's transformation, with the variance that Fieller, Hartley and Pearson (1957) give for ranks."""
    inside = math.atanh(max(-0.999999, min(0.999999, rank)))
    half = CONFIDENCE_Z * math.sqrt(1.06 / (count - 3))
    return min(rank, math.tanh(inside - half)), max(rank, math.tanh(inside + half))


def _percent(share: float | None) -> str:
    return "nothing" if share is None else f"{share * 100:.1f} %"
