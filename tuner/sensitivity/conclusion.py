"""A conclusion in words, `A beats B by 5 %`, and the rows of a sweep that it is about."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tiertune.files import InputError
from tiertune.machines.definition import Machine
from tiertune.nearest import nearest
from tiertune.tuner.sweep.row import Coordinates, PlannedRow

_FORM = re.compile(
    r"\s*(?P<better>\S+)\s+beats\s+(?P<worse>\S+)"
    r"(?:\s+by\s+(?P<by>[0-9]+(?:\.[0-9]+)?)\s*%)?(?:\s+on\s+(?P<workload>\S+))?\s*"
)


@dataclass(frozen=True)
class Conclusion:
    """`better` beats `worse`, both a system or `system/config`, by `by_pct`, on one workload or all."""

    better: str
    worse: str
    by_pct: float
    workload: str | None

    @property
    def text(self) -> str:
        """The conclusion in words."""
        by = f" by {self.by_pct:g} %" if self.by_pct else ""
        on = f" on {self.workload}" if self.workload else ""
        return f"{self.better} beats {self.worse}{by}{on}"


def read_conclusion(text: str) -> Conclusion:
    """Reads `A beats B`, `A beats B by 5 %`, `A beats B by 5 % on bc-kron`; raises `InputError`."""
    match = _FORM.fullmatch(text)
    if match is None:
        raise InputError(
            f"--claim '{text}': write it as 'hemem beats notier', 'hemem/tuned beats hemem/default by 5 %' or"
            " 'hemem beats notier on bc-kron'"
        )
    found = match.groupdict()
    if found["better"] == found["worse"]:
        raise InputError(f"--claim '{text}': {found['better']} is compared with itself; name two")
    return Conclusion(found["better"], found["worse"], float(found["by"] or 0.0), found["workload"])


@dataclass(frozen=True)
class Scene:
    """Rows of both sides that differ in nothing else but their seeds, and how the scene is called."""

    name: str
    better: tuple[PlannedRow, ...]
    worse: tuple[PlannedRow, ...]


def machines_of(scenes: Sequence[Scene]) -> list[Machine]:
    """The machines of all rows; one for each setting."""
    runs = [row.run for scene in scenes for row in (*scene.better, *scene.worse)]
    return list({run.setting.key: run.setting.machine for run in runs if run is not None}.values())


def scenes_of(conclusion: Conclusion, plans: Sequence[PlannedRow]) -> list[Scene]:
    """The scenes of a sweep that have both sides. Page sizes are paired where both have them.

    Raises `InputError` for a side or a workload that no row has, and where no scene has both.
    """
    rows = [plan for plan in plans if plan.run is not None]
    workloads = sorted({plan.at.workload for plan in rows})
    if conclusion.workload is not None and conclusion.workload not in workloads:
        near = nearest(conclusion.workload, workloads)
        raise InputError(f"--claim: no row has the workload '{conclusion.workload}'; did you mean '{near}'?")
    rows = [plan for plan in rows if conclusion.workload in (None, plan.at.workload)]
    names = sorted({name for plan in rows for name in (plan.at.system, f"{plan.at.system}/{plan.at.config}")})
    for side in (conclusion.better, conclusion.worse):
        if side not in names:
            raise InputError(f"--claim: no row is '{side}'; did you mean '{nearest(side, names)}'?")
    found: dict[tuple[object, ...], dict[str, dict[tuple[str, int], list[PlannedRow]]]] = {}
    for plan in rows:
        at = plan.at
        key = (at.part, at.workload, at.override, at.machine, at.fast, at.threads, at.contention)
        for side in (conclusion.better, conclusion.worse):
            if side in (at.system, f"{at.system}/{at.config}"):
                kind = (at.config, at.page_bytes)
                found.setdefault(key, {}).setdefault(side, {}).setdefault(kind, []).append(plan)
    scenes = []
    for sides in found.values():
        if len(sides) == 2:
            scenes += _paired(conclusion, sides[conclusion.better], sides[conclusion.worse])
    if not scenes:
        raise InputError(
            f"--claim: no scene of the sweep has both {conclusion.better} and {conclusion.worse}"
        )
    return _named(scenes)


def _paired(
    conclusion: Conclusion,
    better: dict[tuple[str, int], list[PlannedRow]],
    worse: dict[tuple[str, int], list[PlannedRow]],
) -> list[Scene]:
    for name, side in ((conclusion.better, better), (conclusion.worse, worse)):
        configs = sorted({config for config, _ in side})
        if len(configs) > 1:
            raise InputError(f"--claim: {name} has configs {', '.join(configs)}; write {name}/{configs[0]}")
    shared = sorted({page for _, page in better} & {page for _, page in worse})
    pairs = []
    for (_, page), mine in better.items():
        for (_, other), theirs in worse.items():
            if page == other or not shared:
                pairs.append(Scene("", tuple(mine), tuple(theirs)))
    return pairs


def _named(scenes: Sequence[Scene]) -> list[Scene]:
    """Scenes under what tells them apart, the workload at least."""
    names = [
        name for name in Coordinates.__dataclass_fields__ if name not in ("system", "config", "seed", "part")
    ]
    telling = [
        name
        for name in names
        if name == "workload" or len({getattr(scene.better[0].at, name) for scene in scenes}) > 1
    ]
    spelled = {"page_bytes": "page_size"}
    return [
        Scene(
            " ".join(scene.better[0].at.value(spelled.get(name, name)) for name in telling),
            scene.better,
            scene.worse,
        )
        for scene in scenes
    ]
