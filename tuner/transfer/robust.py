"""One configuration for many contexts: the best on average, or the best in its worst context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

Aim = Literal["mean", "worst"]


def score(gains: np.ndarray, aim: Aim) -> tuple[float, float]:
    """What is to be high of log gains over contexts; the other figure breaks ties."""
    mean, worst = float(gains.mean()), float(gains.min())
    return (mean, worst) if aim == "mean" else (worst, mean)


def best_for(gains: np.ndarray, rows: Sequence[int], columns: Sequence[int], aim: Aim) -> int:
    """The row (candidate) of `rows` that is best over `columns` (contexts); ties go to the earlier one.

    `gains` are log gains over the default, minus infinity where a candidate failed. The default is a
    candidate that never fails, so there always is one.
    """
    return max(rows, key=lambda row: (*score(gains[row, list(columns)], aim), -rows.index(row)))
