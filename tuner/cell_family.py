"""The cells of a campaign as one family of tests: of many that are judged each by itself at 5 %, some seem
improved by luck alone."""

from __future__ import annotations

from collections.abc import Sequence

from tiertune.tuner.comparison.inference import ALPHA, chance, holm
from tiertune.tuner.validation import Outcome

ADJUSTMENT = f"at {100 * ALPHA:.0f} % after Holm's adjustment over cells"

BY_THEMSELVES = "each judged by itself"


def chance_of(judged: Outcome) -> float:
    """P of Student's test of the log-ratios behind the interval of a cell; 1 where it is not judged yet."""
    return chance(judged.gains) if judged.effect is not None and judged.complete else 1.0


def improved_together(improved: Sequence[bool], chances: Sequence[float]) -> list[bool]:
    """Which of the cells that are improved each by itself are so at `ALPHA` after Holm's adjustment over
    all."""
    adjusted = holm(chances)
    return [alone and p < ALPHA for alone, p in zip(improved, adjusted, strict=True)]
