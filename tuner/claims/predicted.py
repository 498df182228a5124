"""Checks that one figure predicts another over rows, and better when it is corrected by a third."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from tiertune.tuner.claims.check import Check, Correction
from tiertune.tuner.claims.figure import MissingRowError, figure_of, twin_of
from tiertune.tuner.claims.finding import Finding, shown, span_of
from tiertune.tuner.sweep.measured import Group

Figures = NDArray[np.float64]


def prediction(check: Check, chosen: Sequence[Group], groups: Sequence[Group], label: str) -> Finding:
    """Pearson's correlation of what predicts, corrected or not, with what is predicted."""
    assert check.beside is not None
    if len(chosen) < 4:
        raise MissingRowError(f"'{check.of.said()}' is {len(chosen)} rows; a prediction needs four or more")
    there = chosen if check.to is None else [twin_of(group, check.to, groups) for group in chosen]
    plain = np.array([figure_of(group, check.metric, check.per) for group in chosen])
    told = np.array([figure_of(group, check.beside, check.beside_per) for group in there])
    said, own = f"{label}correlation with {check.beside_called()}", pearson(plain, told)
    measured, found = f"of {check.called()} = ", own
    if check.corrected_by is not None:
        by = np.array([figure_of(group, check.corrected_by) for group in chosen])
        if by.min() <= 0:
            raise MissingRowError(f"'{check.corrected_by}' is {by.min():g} in a row; it has to be above 0")
        predictor, how = _CORRECTIONS[check.correction](plain, by, told)
        found = pearson(predictor, told)
        measured += f"{own:.3g}, corrected by {check.corrected_by} ({how}) "
    low, high = check.bounds()
    measured += shown(found, low, high, least_digits=3)
    expected = span_of(check, low, high)
    holds = low <= found <= high
    if check.gain is not None:
        holds = holds and found - own >= check.gain
        expected += f" corrected, {check.gain:.3g} or more above that of {check.called()}"
    return Finding(holds, f"{said} {measured} over {len(chosen)} rows", f"{said}: {expected}")


def pearson(first: Figures, other: Figures) -> float:
    """Pearson's correlation; nan where either does not vary."""
    if np.ptp(first) == 0 or np.ptp(other) == 0:
        return math.nan
    return float(np.corrcoef(first, other)[0, 1])


def _quotient(plain: Figures, by: Figures, told: Figures) -> tuple[Figures, str]:
    return plain / by, "divided by it"


def _saturating(plain: Figures, by: Figures, told: Figures) -> tuple[Figures, str]:
    """plain / (a + b / by) with the a and b, not below 0, of the least squared error over these rows."""
    from scipy.optimize import least_squares, nnls

    # Where told = plain / (a + b / by) for all rows, plain = told (a + b / by): a start without guessing.
    start, _ = nnls(np.column_stack((told, told / by)), plain)

    def predicted(terms: Figures) -> Figures:
        found: Figures = plain / np.maximum(terms[0] + terms[1] / by, 1e-12)
        return found

    fitted = least_squares(lambda terms: predicted(terms) - told, np.maximum(start, 1e-9), bounds=(0, np.inf))
    a, b = fitted.x
    return predicted(fitted.x), f"times 1 / ({a:.3g} + {b:.3g} / it)"


_CORRECTIONS: dict[Correction, Callable[[Figures, Figures, Figures], tuple[Figures, str]]] = {
    "quotient": _quotient,
    "saturating": _saturating,
}
