"""A claim judged on its measured rows: by the median over seeds, and by each seed alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tiertune.tuner.claims.definition import Claim
from tiertune.tuner.claims.verdict import Judged, Verdict, judge
from tiertune.tuner.sweep.measured import MeasuredRow, groups_of


def judged_by_seed(claim: Claim, rows: Sequence[MeasuredRow]) -> Judged:
    """The verdict by medians over the seeds of `rows`, with those by each seed alone.

    Three seeds have no interval to speak of, but where they differ, chance has decided.
    """
    judged = judge(claim, groups_of(rows))
    seeds = sorted({row.at.seed for row in rows})
    if judged.verdict is Verdict.NOT_CHECKABLE or len(seeds) < 2:
        return judged
    alone = {seed: judge(claim, groups_of([row for row in rows if row.at.seed == seed])) for seed in seeds}
    return replace(judged, by_seed={seed: one.verdict for seed, one in alone.items()})
