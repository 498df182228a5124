"""Verdicts while runs are measured: all of them take hours, and the first is known after seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tiertune.tuner.backend import Notify
from tiertune.tuner.claims.by_seed import judged_by_seed
from tiertune.tuner.claims.definition import Claim
from tiertune.tuner.claims.verdict import Judged, Verdict
from tiertune.tuner.sweep.definition import Sweep
from tiertune.tuner.sweep.measured import measured_rows
from tiertune.tuner.sweep.measurement import Ended, runs_of
from tiertune.tuner.sweep.row import PlannedRow, Result, Run


class Arrivals:
    """Claims with the runs that each waits for; `plans` and `sweeps` are by id of the claim."""

    def __init__(
        self,
        claims: Sequence[Claim],
        plans: Mapping[str, Sequence[PlannedRow]],
        sweeps: Mapping[str, Sweep],
    ) -> None:
        self._plans = plans
        self._sweeps = sweeps
        self._keys = {claim.id: {run.key for run in runs_of(plans[claim.id])} for claim in claims}
        self._waiting: dict[str, list[Claim]] = {}
        for claim in claims:
            for key in self._keys[claim.id]:
                self._waiting.setdefault(key, []).append(claim)

    def judged_with(self, run: Run, found: Mapping[str, Result]) -> list[Judged]:
        """Claims whose last run this was, `found` being all results by key."""
        return [
            judged_by_seed(
                claim, measured_rows(self._plans[claim.id], found, self._sweeps[claim.id].relative_to)
            )
            for claim in self._waiting.get(run.key, [])
            if self._keys[claim.id] <= found.keys()
        ]

    def teller(self, notify: Notify) -> Ended:
        """Says each verdict in a sentence."""

        def ended(run: Run, found: Mapping[str, Result]) -> None:
            for judged in self.judged_with(run, found):
                notify(sentence(judged))

        return ended


def sentence(judged: Judged) -> str:
    """A verdict in a line; of a miss with what was found."""
    said = f"{judged.claim.id} {judged.verdict}"
    if judged.split:
        said += f" ({judged.split})"
    if judged.verdict is Verdict.MET:
        return said
    if judged.verdict is Verdict.NOT_CHECKABLE:
        return f"{said}: {judged.reason}"
    return f"{said}: {judged.measured}; expected: {judged.expected}"
