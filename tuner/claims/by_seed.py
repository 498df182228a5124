"""A claim judged on its measured rows: by the median over seeds, and by each seed alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tiertune.tuner.claims.definition import Claim
from tiertune.tuner.claims.verdict import Judged, Verdict, judge
from tiertune.tuner.sweep.axes import Reference
from tiertune.tuner.sweep.measured import groups_of, measured_rows
from tiertune.tuner.sweep.row import PlannedRow, Result


def judged_by_seed(
    claim: Claim,
    plans: Sequence[PlannedRow],
    found: Mapping[str, Result],
    references: Sequence[Reference],
) -> Judged:
    """The verdict by medians over the seeds of `plans`, with those by each seed alone; `found` is by key.

    Three seeds have no interval to speak of, but where they differ, chance has decided.
    """
    rows = measured_rows(plans, found, references)
    judged = judge(claim, groups_of(rows))
    seeds = sorted({row.at.seed for row in rows})
    if judged.verdict is Verdict.NOT_CHECKABLE or len(seeds) < 2:
        return judged
    alone = {seed: judge(claim, groups_of([row for row in rows if row.at.seed == seed])) for seed in seeds}
    return replace(judged, by_seed={seed: one.verdict for seed, one in alone.items()})
