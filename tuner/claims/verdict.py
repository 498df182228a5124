"""Claims against measured groups: met, missed by how much, or not checkable and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tiertune.tuner.claims.check import Check, listed
from tiertune.tuner.claims.compared import compared, together
from tiertune.tuner.claims.definition import Claim
from tiertune.tuner.claims.figure import MissingRowError, chosen_by
from tiertune.tuner.claims.finding import Finding, label_of
from tiertune.tuner.claims.ordered import balance, correlation, optima, order, trend
from tiertune.tuner.claims.predicted import prediction
from tiertune.tuner.sweep.measured import Group


class Verdict(StrEnum):
    """How a claim fares."""

    MET = "met"
    MISSED = "missed"
    NOT_CHECKABLE = "not-checkable"


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict; `measured` and `expected` are those of its checks, failed ones first.

    `by_seed` has the verdict of each seed alone where there are several.
    """

    claim: Claim
    verdict: Verdict
    measured: str
    expected: str
    reason: str
    findings: tuple[Finding, ...] = ()
    by_seed: Mapping[int, Verdict] = field(default_factory=dict)

    @property
    def split(self) -> str:
        """Which seeds alone say something else than the median of all, if any do."""
        others = [seed for seed, verdict in self.by_seed.items() if verdict is not self.verdict]
        if not others:
            return ""
        told: dict[Verdict, list[str]] = {}
        for seed in others:
            told.setdefault(self.by_seed[seed], []).append(str(seed))
        return "; ".join(
            f"{verdict} by {'seeds' if seeds[1:] else 'seed'} {listed(seeds)} alone"
            for verdict, seeds in told.items()
        )

    @property
    def would_take(self) -> str:
        """What it would take for a miss to be met, if that is known."""
        return (self.claim.would_take or "") if self.verdict is Verdict.MISSED else ""

    def document(self) -> dict[str, Any]:
        """One row of the scoreboard."""
        claim = self.claim
        return {
            "id": claim.id,
            "paper": claim.paper,
            "gate": claim.gate,
            "verdict": self.verdict,
            "by_seed": {str(seed): verdict for seed, verdict in self.by_seed.items()},
            "measured": self.measured,
            "expected": self.expected,
            "reason": self.reason,
            "would_take": self.would_take,
            "statement": claim.statement,
            "where": claim.where,
        }


def judge(claim: Claim, groups: Sequence[Group]) -> Judged:
    """The verdict on `claim` by the groups of its sweep."""
    if claim.not_checkable is not None:
        return Judged(claim, Verdict.NOT_CHECKABLE, "", "", claim.not_checkable)
    broken = [f"{group.at.system}: {error}" for group in groups for (_, error) in group.errors]
    findings: list[Finding] = []
    failed: list[Finding] = []
    try:
        for check in claim.checks:
            places = list(_places(check, groups))
            found = (
                [finding for place in places for finding in _findings(check, place)]
                if check.together is None
                else [together(check, places)]
            )
            if 0 < len(found) <= check.misses_allowed:
                raise MissingRowError(
                    f"misses_allowed: {check.misses_allowed} would let all {len(found)} figures of"
                    f" '{check.called()}' fail"
                )
            misses = [finding for finding in found if not finding.holds]
            findings += found
            if len(misses) > check.misses_allowed:
                failed += misses
    except MissingRowError as missing:
        return Judged(claim, Verdict.NOT_CHECKABLE, "", "", "; ".join([str(missing), *broken[:3]]))
    told = failed or findings
    verdict = Verdict.MISSED if failed else Verdict.MET
    return Judged(
        claim,
        verdict,
        "; ".join(dict.fromkeys(finding.measured for finding in told)),
        "; ".join(dict.fromkeys(finding.expected for finding in told)),
        (claim.if_missed or "") if failed else "",
        tuple(findings),
    )


def _places(check: Check, groups: Sequence[Group]) -> Iterator[Sequence[Group]]:
    """The groups that each evaluation of a check is about."""
    if not check.each:
        yield groups
        return
    keys = dict.fromkeys(tuple(group.at.value(name) for name in check.each) for group in groups)
    for key in keys:
        yield [group for group in groups if tuple(group.at.value(name) for name in check.each) == key]


def _findings(check: Check, groups: Sequence[Group]) -> Iterator[Finding]:
    label = label_of(check, groups)
    if check.kind == "order":
        yield order(check, groups, label)
        return
    chosen = chosen_by(check.of, groups)
    if check.kind == "trend":
        yield trend(check, chosen, label)
    elif check.kind == "balance":
        yield balance(check, chosen, label)
    elif check.kind == "optima":
        yield optima(check, chosen, label)
    elif check.kind == "prediction":
        yield prediction(check, chosen, groups, label)
    elif check.kind == "correlation":
        yield correlation(check, chosen, label)
    else:
        yield from compared(check, chosen, groups, label)
