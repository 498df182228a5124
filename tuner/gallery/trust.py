"""How far to trust a configuration in a context that it was not tuned in: what transfer tests saw."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tiertune.tuner.gallery.definition import Pair, Part, TransferTest
from tiertune.tuner.gallery.staleness import Now, staleness
from tiertune.tuner.statistics import CONFIDENCE

FEWEST_CONTEXTS = 4
"""For an interval: pairs that share a context are not independent, so that contexts are what is counted."""


@dataclass(frozen=True)
class Trust:
    """Pairs of a transfer test that differ as two contexts do. `kept` is the geometric mean of performance
    over what was tuned natively, with its interval; None where nothing of the kind was measured.

    `alone` says that the pairs differ in these parts only; else in these and others.
    """

    differs: tuple[Part, ...]
    alone: bool
    pairs: int
    failed: int
    worse: int
    kept: float | None
    low: float | None
    high: float | None
    lowest: float | None
    stale: str
    told: str


@dataclass(frozen=True)
class _Moved:
    origin: str
    to: str
    pair: Pair
    stale: str


def trust_in(tests: Sequence[TransferTest], space: str, differs: Sequence[Part], here: Now) -> Trust:
    """What is known of moving a configuration of `space` along `differs`."""
    wanted = set(differs)
    moved = _moved([test for test in tests if test.space == space], here)
    mine = [one for one in moved if set(one.pair.differs) == wanted]
    alone = bool(mine)
    if not alone:
        mine = [one for one in moved if wanted < set(one.pair.differs)]
    measured = [one for one in mine if one.pair.kept]
    logs = np.array([math.log(one.pair.kept) for one in measured if one.pair.kept])
    low, high = _interval(logs, measured)
    stale = next((one.stale for one in mine if one.stale), "")
    found = Trust(
        differs=tuple(differs),
        alone=alone,
        pairs=len(mine),
        failed=len(mine) - len(measured),
        worse=sum(one.pair.worse for one in measured),
        kept=math.exp(float(logs.mean())) if len(logs) else None,
        low=low,
        high=high,
        lowest=math.exp(float(logs.min())) if len(logs) else None,
        stale=stale,
        told="",
    )
    return Trust(**{**vars(found), "told": _told(found)})


def _moved(tests: Sequence[TransferTest], here: Now) -> list[_Moved]:
    """Every pair once: of two tests with the same one, the later is taken."""
    found: dict[tuple[str, str], _Moved] = {}
    for test in tests:
        stale = staleness(test.made_by, here)
        for pair in test.pairs:
            ends = test.contexts[pair.tuned_in - 1], test.contexts[pair.run_in - 1]
            found[ends] = _Moved(*ends, pair, stale)
    return list(found.values())


def _interval(logs: np.ndarray, moved: Sequence[_Moved]) -> tuple[float | None, float | None]:
    """Of the mean, by leaving out one context at a time with all its pairs (jackknife)."""
    from scipy.special import stdtrit

    contexts = sorted({end for one in moved for end in (one.origin, one.to)})
    kept = [np.array([end not in (one.origin, one.to) for one in moved]) for end in contexts]
    if len(contexts) < FEWEST_CONTEXTS or not all(some.any() for some in kept):
        return None, None
    means = np.array([logs[some].mean() for some in kept])
    count = len(means)
    error = math.sqrt((count - 1) / count * float(((means - means.mean()) ** 2).sum()))
    reach = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2)) * error
    mean = float(logs.mean())
    return math.exp(mean - reach), math.exp(mean + reach)


def _told(found: Trust) -> str:
    parts = " and ".join(found.differs)
    if not found.pairs:
        return f"nobody has tested how far configurations carry over to another {parts}"
    one = found.pairs == 1
    said = f"{'1 configuration' if one else f'{found.pairs} configurations'} carried to another {parts}"
    if not found.alone:
        said += ", with more that differed,"
    if found.kept is None:
        return f"{said} failed there"
    span = ""
    if found.low is not None and found.high is not None:
        span = f" ({CONFIDENCE * 100:.0f} % interval {_percent(found.low)} to {_percent(found.high)})"
    said += f" kept {_percent(found.kept)} %{span} of the performance of what is tuned there"
    if one:
        return f"{said}; it was {'' if found.worse else 'not '}worse than the default"
    if found.lowest is not None:
        said += f", the worst {_percent(found.lowest)} %"
    failed = f"; {found.failed} failed" if found.failed else ""
    return f"{said}{failed}; {found.worse or 'none'} of them worse than the default"


def _percent(share: float) -> str:
    return f"{share * 100:.3g}"
