"""What the same choices would have come to in contexts that had no part in them.

A context is left out with its own search: only configs that the searches of the others had found may be
chosen. Leaving out one at a time still leaves its relatives in; leaving out a whole machine, input, number of
threads or ratio says what a new one would meet.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tiertune.tuner.transfer.candidate import Candidate
from tiertune.tuner.transfer.context import Context
from tiertune.tuner.transfer.feature import Distances, Value
from tiertune.tuner.transfer.portfolio import grow, leaf_of
from tiertune.tuner.transfer.robust import Aim, best_for

ONE = "one context"
PARTS = ("workload", "machine", "threads", "ratio", "pages", "contention")


@dataclass(frozen=True)
class Picks:
    """Candidates (by number) that would have been run in `context`, chosen without what is left out."""

    left_out: str
    context: int
    robust_mean: int
    robust_worst: int
    portfolio: int
    nearest: int

    @property
    def by_way(self) -> dict[str, int]:
        """The picks by the way they are chosen."""
        return {
            "robust, best mean": self.robust_mean,
            "robust, best worst case": self.robust_worst,
            "portfolio with its rule": self.portfolio,
            "tuned for the nearest context": self.nearest,
        }


def picks_of(
    gains: np.ndarray,
    candidates: Sequence[Candidate],
    contexts: Sequence[Context],
    properties: Sequence[dict[str, Value]],
    distances: Distances,
    size: int,
    aim: Aim,
) -> list[Picks]:
    """Every context left out by itself, then with all that share a part of it. `gains` are of the choice
    seeds, log, candidates x contexts."""
    found = []
    tuned = [_tuned(candidates, context) for context in contexts]
    for left_out, context, kept in _leavings(contexts):
        rows = [row for row, candidate in enumerate(candidates) if candidate.known_from(kept)]
        leaves = grow(gains, rows, kept, properties, size, aim)
        found.append(
            Picks(
                left_out,
                context,
                best_for(gains, rows, kept, "mean"),
                best_for(gains, rows, kept, "worst"),
                leaf_of(leaves, properties[context]).candidate,
                tuned[distances.nearest(context, kept)],
            )
        )
    return found


def _tuned(candidates: Sequence[Candidate], context: Context) -> int:
    return next(row for row, candidate in enumerate(candidates) if candidate.config == context.tuned)


def _leavings(contexts: Sequence[Context]) -> Iterator[tuple[str, int, list[int]]]:
    """What is left out in words, the context that is judged, and the contexts that stay (two or more)."""
    everyone = range(len(contexts))
    if len(contexts) > 2:
        for context in everyone:
            yield ONE, context, [other for other in everyone if other != context]
    for part in PARTS:
        if len({one.words[part] for one in contexts}) == 1:
            continue
        for context in everyone:
            word = contexts[context].words[part]
            kept = [other for other in everyone if contexts[other].words[part] != word]
            if len(kept) > 1:
                yield f"all with its {part}", context, kept
