"""Loaded latency as the engine reads it: monotone, piecewise linear in the logarithm, over utilisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

MOST_KNOTS = 16
LEAST_STEP = 0.02
LEAST_STEP_AT_PEAK = 0.005
"""Knots are no closer than the first without load, and the second at the peak, where curves are steep."""


@dataclass(frozen=True)
class Curve:
    """A fit. `points` are utilisation and multiple of `latency_ns`, from (0, 1) to the highest measured."""

    latency_ns: float
    points: tuple[tuple[float, float], ...]
    r_squared: float
    typical_residual: float
    """Median of |measured / fitted - 1|."""
    worst_residual: float
    count: int

    @property
    def measured_to(self) -> float:
        """The highest utilisation that was measured."""
        return self.points[-1][0]

    def multiplier(self, utilisation: float) -> float:
        """Multiple of the unloaded latency, as the engine interpolates it; flat past the last point."""
        return multiplier(self.points, utilisation)


def multiplier(points: Sequence[tuple[float, float]], utilisation: float) -> float:
    """Multiple of the unloaded latency at a utilisation, interpolated in the logarithm; flat past the end."""
    import numpy as np

    places, values = np.array(points, dtype=float).T
    return float(np.exp(np.interp(utilisation, places, np.log(values))))


def fit_curve(utilisation: Numbers, latency_ns: Numbers) -> Curve:
    """The monotone curve that fits samples best, by least squares of log latency.

    `utilisation` (shares of peak bandwidth) and `latency_ns` are alike in length, at least 3. The curve rises
    or stays in every piece, because pieces are summed with slopes of at least 0 (non-negative least squares);
    the latency at utilisation 0 is fitted with them.
    """
    import numpy as np

    if len(utilisation) < 3 or len(utilisation) != len(latency_ns):
        raise ValueError("a curve needs three samples or more, each with utilisation and latency")
    utilisation = np.clip(np.asarray(utilisation, dtype=float), 0.0, 1.0)
    knots = _knots(utilisation)
    logs = np.log(latency_ns)
    base, heights = _monotone(_pieces(utilisation, knots), logs)
    fitted = base + _pieces(utilisation, knots) @ heights
    spread = float(np.sum((logs - logs.mean()) ** 2))
    residuals = np.abs(np.exp(logs - fitted) - 1.0)
    values = np.exp(np.concatenate([[0.0], np.cumsum(heights * np.diff(knots))]))
    points = tuple((float(place), float(value)) for place, value in zip(knots, values, strict=True))
    return Curve(
        float(np.exp(base)),
        points,
        1.0 - float(np.sum((logs - fitted) ** 2)) / spread if spread > 0 else 1.0,
        float(np.median(residuals)),
        float(np.max(residuals)),
        len(logs),
    )


def with_tail(
    points: Sequence[tuple[float, float]], tail: Sequence[tuple[float, float]]
) -> tuple[tuple[float, float], ...]:
    """`points` continued to full utilisation with the shape of another curve, scaled to join it."""
    end, value = points[-1]
    joined = value / multiplier(tail, end)
    more = [(place, multiple * joined) for place, multiple in tail if place > end + _step(end)]
    return (*points, *more)


def _knots(utilisation: Numbers) -> Numbers:
    """Places of the curve's points: 0 and where samples are; quantiles of these where they are all over."""
    import numpy as np

    groups: list[list[float]] = []
    for place in np.unique(utilisation):
        if groups and place - groups[-1][0] < _step(place):
            groups[-1].append(float(place))
        else:
            groups.append([float(place)])
    wanted = [float(np.mean(group)) for group in groups]
    if len(wanted) > MOST_KNOTS:
        wanted = [
            float(place) for place in np.quantile(utilisation, np.linspace(0.0, 1.0, MOST_KNOTS + 1)[1:])
        ]
    last = max(float(np.max(utilisation)), LEAST_STEP)
    kept = [0.0]
    for place in wanted:
        if place - kept[-1] >= _step(place) and last - place >= _step(last):
            kept.append(place)
    return np.array([*kept, last])


def _step(place: float) -> float:
    return LEAST_STEP + min(place, 1.0) * (LEAST_STEP_AT_PEAK - LEAST_STEP)


def _pieces(utilisation: Numbers, knots: Numbers) -> Any:
    """How much of each piece lies below each sample; shape (samples, pieces)."""
    import numpy as np

    return np.clip(utilisation[:, None] - knots[None, :-1], 0.0, np.diff(knots)[None, :])


def _monotone(pieces: Any, logs: Numbers) -> tuple[float, Numbers]:
    import numpy as np
    from scipy.optimize import nnls

    # Latencies are far above 1 ns, so that the constant is positive like the slopes.
    solution, _ = nnls(
        np.column_stack([np.ones(len(logs)), pieces]), logs, maxiter=100 * (1 + pieces.shape[1])
    )
    return float(solution[0]), solution[1:]
