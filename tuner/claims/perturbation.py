"""Claims on scenes that are a little off: a verdict that hangs on one seed, size or ratio says little."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from pydantic import ValidationError

from tiertune.tuner.claims.definition import Claim
from tiertune.tuner.claims.verdict import Judged, Verdict, judge
from tiertune.tuner.sweep.axes import Reference
from tiertune.tuner.sweep.measured import groups_of, measured_rows
from tiertune.tuner.sweep.row import PlannedRow, Result, Run, Setting
from tiertune.workloads.definition import Carry, Workload

SEED_STEP = 1000
CUBIC = ("edge",)
"""Sizes whose cube is the footprint."""
ONE_OF_THREE = {"nx": False, "ny": False, "nz": True}
"""Of sizes that multiply, one is changed."""
POWERS_OF_TWO = ("npb_ft",)
"""Kernels whose sizes are powers of two."""


LEAST_STEP = 100
"""A common divisor of sizes below this could not be changed by a fifth without rounding it away."""


class UnchangeableError(Exception):
    """The scene cannot be changed in this way. One sentence."""


@dataclass(frozen=True)
class Perturbation:
    """A change of a scene under a name."""

    name: str
    meaning: str
    change: Callable[[Run], Run]


def other_seed(run: Run) -> Run:
    """The same run with a seed that the claim does not use."""
    return replace(run, seed=run.seed + SEED_STEP)


def other_footprint(factor: float) -> Callable[[Run], Run]:
    """The workload larger or smaller; fast memory in bytes goes with it, so that its share stays."""

    def change(run: Run) -> Run:
        setting = run.setting
        workload = resized(setting.workload, factor)
        other = Setting(workload, setting.machine, setting.threads, setting.page_bytes)
        if isinstance(run.fast, str):
            return replace(run, setting=other)
        return with_room(replace(run, setting=other, fast=round(run.fast * factor)))

    return change


def other_ratio(factor: float) -> Callable[[Run], Run]:
    """More or less fast memory for each byte of slow; a size of fast memory is multiplied."""

    def change(run: Run) -> Run:
        if isinstance(run.fast, int):
            return with_room(replace(run, fast=round(run.fast * factor)))
        fast, slow = (int(part) for part in run.fast.split(":"))
        share = Fraction(fast, slow) * Fraction(factor).limit_denominator(100)
        return replace(run, fast=f"{share.numerator}:{share.denominator}")

    return change


def with_room(run: Run) -> Run:
    """The run on a machine with as much fast memory as it asks for: no latency hangs on what is installed."""
    setting, fast = run.setting, run.fast
    first, *others = setting.machine.tiers
    if isinstance(fast, str) or fast <= first.capacity_bytes:
        return run
    tiers = [first.model_copy(update={"capacity_bytes": fast}), *others]
    machine = setting.machine.model_copy(update={"tiers": tiers})
    return replace(run, setting=Setting(setting.workload, machine, setting.threads, setting.page_bytes))


PERTURBATIONS = (
    Perturbation("seed", f"seeds {SEED_STEP} higher", other_seed),
    Perturbation("rss-20", "footprint 20 % smaller", other_footprint(0.8)),
    Perturbation("rss+20", "footprint 20 % larger", other_footprint(1.2)),
    Perturbation("ratio-20", "a fifth less fast memory for each byte of slow", other_ratio(0.8)),
    Perturbation("ratio+25", "a quarter more fast memory for each byte of slow", other_ratio(1.25)),
)


def resized(workload: Workload, factor: float) -> Workload:
    """The workload with its objects, or the input that it is carried to, larger by a factor.

    Graphs have 2^n vertices, so that edges for each of them are changed, which records anew. Raises
    `UnchangeableError` where the workload has no size that can be changed so.
    """
    if workload.sim.profile is not None:
        raise UnchangeableError(f"{workload.name} is the measured profile of one size")
    if workload.sim.record is not None and workload.sim.record.kernel in POWERS_OF_TWO:
        raise UnchangeableError(f"{workload.name} has sizes that are powers of two")
    document = workload.model_dump(mode="json", by_alias=True, exclude_unset=True)
    sim: dict[str, Any] = document["sim"]
    if sim.get("streams") is not None:
        for model in sim["streams"]["objects"]:
            model["bytes"] = round(model["bytes"] * factor / 4096) * 4096
    else:
        carry = sim.get("carry") or {}
        sizes = {key: carry[key] for key in Carry.sizes() if key != "scale" and key in carry}
        if "degree" in sim["record"] or "scale" in carry:
            record = sim["record"]
            record["degree"] = max(1, round(record.get("degree", 16) * factor))
        elif not sizes:
            raise UnchangeableError(f"{workload.name} is not carried to a size that could be changed")
        changed = {key: value for key, value in sizes.items() if ONE_OF_THREE.get(key, True)}
        # Sizes keep their proportions, which some kernels insist on.
        common = math.gcd(*changed.values()) if changed else 1
        step = common if common >= LEAST_STEP else 1
        for key, value in changed.items():
            power = 1 / 3 if key in CUBIC else 1.0
            carry[key] = (
                value // step * round(step * factor)
                if step > 1 and power == 1.0
                else round(value * factor**power)
            )
    try:
        changed_workload = Workload.model_validate(document)
    except ValidationError as error:
        said = error.errors()[0]["msg"]
        raise UnchangeableError(f"{workload.name} cannot be {factor:g} times as large: {said}") from error
    if changed_workload == workload:
        raise UnchangeableError(f"{workload.name} is too small to be {factor:g} times as large")
    return changed_workload


@dataclass(frozen=True)
class Perturbed:
    """What became of a claim under a perturbation; `reason` says what cannot be perturbed so."""

    perturbation: Perturbation
    judged: Judged | None
    reason: str = ""

    def document(self, usual: Judged) -> dict[str, Any]:
        """One entry of the report, beside the verdict on the claim as it is."""
        judged = self.judged
        return {
            "perturbation": self.perturbation.name,
            "meaning": self.perturbation.meaning,
            "verdict": None if judged is None else str(judged.verdict),
            "stays": None if judged is None else judged.verdict == usual.verdict,
            "measured": "" if judged is None else judged.measured,
            "reason": self.reason,
        }


@dataclass(frozen=True)
class Perturbable:
    """Rows of a claim under a perturbation, where they stood, and why some are as they were."""

    plans: list[PlannedRow]
    unchanged: tuple[str, ...] = ()


def planned(plans: Sequence[PlannedRow], perturbation: Perturbation) -> Perturbable:
    """The rows under a perturbation; raises `UnchangeableError` where none of them can be changed so."""
    changed: list[PlannedRow] = []
    reasons: dict[str, None] = {}
    different = False
    for plan in plans:
        if plan.run is None:
            changed.append(plan)
            continue
        try:
            changed.append(replace(plan, run=perturbation.change(plan.run)))
            different = True
        except UnchangeableError as error:
            changed.append(plan)
            reasons[str(error)] = None
    if reasons and not different:
        raise UnchangeableError("; ".join(reasons))
    return Perturbable(changed, tuple(f"{reason}, and is as it was" for reason in reasons))


def rejudged(
    claim: Claim,
    perturbable: Perturbable,
    perturbation: Perturbation,
    found: Mapping[str, Result],
    references: Sequence[Reference] = (),
) -> Perturbed:
    """The claim judged on perturbed rows."""
    judged = judge(claim, groups_of(measured_rows(perturbable.plans, found, references)))
    if judged.verdict == Verdict.NOT_CHECKABLE:
        return Perturbed(perturbation, None, judged.reason)
    return Perturbed(perturbation, judged, "; ".join(perturbable.unchanged))
