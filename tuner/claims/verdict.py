"""Claims against measured groups: met, missed by how much, or not checkable and why."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from tiertune.tuner.claims.definition import PERFORMANCE, Check, Claim, Selector
from tiertune.tuner.sweep.measured import Group


class Verdict(StrEnum):
    """How a claim fares."""

    MET = "met"
    MISSED = "missed"
    NOT_CHECKABLE = "not-checkable"


class MissingRowError(Exception):
    """A check names a row or figure that the sweep does not have. One sentence."""


@dataclass(frozen=True)
class Finding:
    """What one check came to, at one place of its `each`."""

    holds: bool
    measured: str
    expected: str


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict; `measured` and `expected` are those of its checks, failed ones first."""

    claim: Claim
    verdict: Verdict
    measured: str
    expected: str
    reason: str

    def document(self) -> dict[str, str]:
        """One row of the scoreboard."""
        claim = self.claim
        return {
            "id": claim.id,
            "paper": claim.paper,
            "gate": claim.gate,
            "verdict": self.verdict,
            "measured": self.measured,
            "expected": self.expected,
            "reason": self.reason,
            "statement": claim.statement,
            "where": claim.where,
        }


def judge(claim: Claim, groups: Sequence[Group]) -> Judged:
    """The verdict on `claim` by the groups of its sweep."""
    if claim.not_checkable is not None:
        return Judged(claim, Verdict.NOT_CHECKABLE, "", "", claim.not_checkable)
    broken = [
        f"{group.at.system}: {error}"
        for group in groups
        for (_, error) in group.errors
        if "ok" not in group.statuses
    ]
    findings: list[Finding] = []
    failed: list[Finding] = []
    try:
        for check in claim.checks:
            places = list(_places(check, groups))
            found = [finding for place in places for finding in _findings(check, place)]
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
    label = "".join(f"{groups[0].at.value(name)}: " for name in check.each)
    if check.kind == "order":
        yield _order(check, groups, label)
        return
    low, high = check.bounds()
    expected = _range(check, low, high)
    for group in _chosen(check.of, groups):
        figure = figure_of(group, check.metric)
        said = f"{label}{check.metric} {check.of.said()}"
        if check.to is not None:
            other = figure_of(_one(check.to, groups), check.metric)
            figure = figure / other if other else math.inf
            said = f"{label}{check.metric} {check.of.said()} / {check.to.said()}"
        yield Finding(low <= figure <= high, f"{said} = {figure:.4g}", f"{said}: {expected}")


def _order(check: Check, groups: Sequence[Group], label: str) -> Finding:
    tiers = [[figure_of(_one(row, groups), check.metric) for row in tier] for tier in check.rows]
    holds = all(max(lower) < min(upper) for lower, upper in pairwise(tiers))
    names = [[row.said() for row in tier] for tier in check.rows]
    flat = sorted(
        (figure, name)
        for tier, those in zip(tiers, names, strict=True)
        for figure, name in zip(tier, those, strict=True)
    )
    measured = " < ".join(f"{name} {figure:.4g}" for figure, name in flat)
    return Finding(
        holds, f"{label}{check.metric}: {measured}", label + " < ".join("|".join(tier) for tier in names)
    )


def _range(check: Check, low: float, high: float) -> str:
    if check.expected is not None:
        return f"{check.expected:.4g} ({low:.4g} to {high:.4g})"
    if math.isinf(high):
        return f"at least {low:.4g}"
    return f"at most {high:.4g}" if math.isinf(low) else f"{low:.4g} to {high:.4g}"


def _chosen(selector: Selector, groups: Sequence[Group]) -> list[Group]:
    wanted = selector.coordinates()
    found = [
        group for group in groups if all(getattr(group.at, name) == value for name, value in wanted.items())
    ]
    if not found:
        raise MissingRowError(f"the sweep has no row '{selector.said()}'")
    return found


def _one(selector: Selector, groups: Sequence[Group]) -> Group:
    found = _chosen(selector, groups)
    if len(found) > 1:
        raise MissingRowError(f"'{selector.said()}' is {len(found)} rows; name more coordinates")
    return found[0]


def figure_of(group: Group, metric: str) -> float:
    """The median over seeds of a figure of a group; raises `MissingRowError` when there is none."""
    spread = group.spreads.get("slowdown" if metric == PERFORMANCE else metric)
    if spread is None:
        raise MissingRowError(f"{group.at.system} has no '{metric}' ({', '.join(group.statuses)})")
    return 1 / spread.median if metric == PERFORMANCE else spread.median
