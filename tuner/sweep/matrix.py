"""From a sweep to its rows: every combination, each either a run or a reason why it cannot be one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from tiertune import engine
from tiertune.document import Path as Place
from tiertune.files import InputError
from tiertune.machines.definition import Machine
from tiertune.tuner.campaign import fit_mistake
from tiertune.tuner.sweep.axes import NONE, Axes, ConfigEntry, Contention, Override
from tiertune.tuner.sweep.definition import Sweep, configs_of, systems_of
from tiertune.tuner.sweep.override import Misplaced, overridden
from tiertune.tuner.sweep.row import Coordinates, PlannedRow, Run, Setting
from tiertune.tuner.sweep.tuned import Configs, NotApplicable
from tiertune.tuner.trial import Config
from tiertune.units import format_size
from tiertune.workloads.definition import Workload

MOST_ROWS = 1_000_000
"""More is a slip of the file, and would not fit in memory."""


@dataclass(frozen=True)
class _Scene:
    """Workload and machine as a row uses them, or why these do not go together."""

    workload: str
    machine: str
    override: str
    setting_of: dict[tuple[int, int], Setting]
    workload_model: Workload | None
    machine_model: Machine | None
    reason: str = ""


def rows_of(sweep: Sweep, results: Path) -> list[PlannedRow]:
    """All rows in the order of the file, equal ones of a part once. `results` is where campaigns are.

    Raises `InputError` for overrides that a file refuses, for campaigns that are not there, and for a matrix
    that is too large to be meant.
    """
    configs = Configs(results)
    rows: dict[Coordinates, PlannedRow] = {}
    scenes: dict[tuple[str, str, str, str], _Scene] = {}
    for place, axes in sweep.matrices():
        for row in _matrix(sweep, place, axes, configs, scenes):
            if rows.setdefault(row.at, row).config != row.config:
                raise InputError(
                    f"sweep {sweep.name}: two configs of {row.at.system} are called {row.at.config}, one of"
                    " them by 'ablate'; rename the other"
                )
            if len(rows) > MOST_ROWS:
                raise InputError(f"sweep {sweep.name} has more than {MOST_ROWS} rows; split it")
    return list(rows.values())


def _matrix(
    sweep: Sweep,
    place: Place,
    axes: Axes,
    configs: Configs,
    scenes: dict[tuple[str, str, str, str], _Scene],
) -> Iterator[PlannedRow]:
    part = sweep.parts[int(place[1])].name if place else sweep.name
    sizes: list[str | int] = [*(axes.ratios or ()), *(axes.fast_bytes or ())]
    outer = product(axes.workloads or (), axes.overrides or [Override(name=NONE)], axes.machines or ())
    for workload, override, machine in outer:
        key = (part, workload, override.name, machine)
        if key not in scenes:
            scenes[key] = _scene(sweep, workload, override, machine)
        scene = scenes[key]
        inner = product(
            sizes,
            axes.threads or [0],
            axes.contention or [Contention(name=NONE)],
            systems_of(axes),
            configs_of(axes),
        )
        for fast, threads, level, system, entry in inner:
            if entry.systems is not None and system not in entry.systems:
                continue
            own = scene.workload_model.threads if scene.workload_model else 0
            for page_bytes in axes.page_sizes or [engine.system(system).page_bytes[0]]:
                at = Coordinates(
                    part=part,
                    system=system,
                    config=entry.name,
                    workload=scene.workload,
                    override=override.name,
                    machine=scene.machine,
                    fast=fast if isinstance(fast, str) else format_size(fast),
                    threads=threads or own,
                    contention=level.name,
                    page_bytes=page_bytes,
                    seed=0,
                )
                yield from _seeds(sweep, axes, scene, at, fast, level, entry, configs)


def _seeds(
    sweep: Sweep,
    axes: Axes,
    scene: _Scene,
    at: Coordinates,
    fast: str | int,
    level: Contention,
    entry: ConfigEntry,
    configs: Configs,
) -> Iterator[PlannedRow]:
    reason = scene.reason or _misfit(scene, at, fast, level)
    traffic = _traffic(level, scene.machine_model)
    for name, config in configs.expanded(entry, at):
        here = replace(at, config=name)
        why = reason or (str(config) if isinstance(config, NotApplicable) else "")
        knobs: Config = {} if isinstance(config, NotApplicable) else config
        for seed in dict.fromkeys(axes.seeds or [1]):
            run = None
            if not why:
                run = Run(
                    _setting(scene, at), at.system, knobs, fast, traffic, seed, sweep.mode, sweep.noise,
                    sweep.timeline_points, tuple(sweep.observe), tuple(sweep.windows),
                )  # fmt: skip
            yield PlannedRow(replace(here, seed=seed), run, knobs, why, traffic)


def _scene(sweep: Sweep, workload_name: str, override: Override, machine_name: str) -> _Scene:
    workload, machine = sweep.workload(workload_name), sweep.machine(machine_name)
    names = (workload.name, machine.name, override.name)
    said = f"override {override.name} of"
    try:
        changed = overridden(workload, override.workload, f"{said} workload {workload.name}")
        other = overridden(machine, override.machine, f"{said} machine {machine.name}")
    except Misplaced as problem:
        return _Scene(*names, {}, None, None, f"override {override.name}: {problem}")
    return _Scene(*names, {}, changed, other)


def _setting(scene: _Scene, at: Coordinates) -> Setting:
    assert scene.workload_model is not None
    assert scene.machine_model is not None
    key = (at.threads, at.page_bytes)
    if key not in scene.setting_of:
        scene.setting_of[key] = Setting(scene.workload_model, scene.machine_model, *key)
    return scene.setting_of[key]


def _traffic(level: Contention, machine: Machine | None) -> tuple[dict[str, float], ...]:
    """The level as the engine takes it; tiers that the machine lacks are left to `_misfit`."""
    entries = []
    for entry in level.traffic:
        if machine is None or entry.tier >= len(machine.tiers):
            continue
        tier = machine.tiers[entry.tier]
        traffic = {
            "tier": entry.tier,
            "read_gbps": entry.read_gbps + entry.read_share * tier.read_gbps,
            "write_gbps": entry.write_gbps + entry.write_share * tier.write_gbps,
        }
        given = {name: getattr(entry, name) for name in ("read_lines", "write_lines", "from_s", "until_s")}
        entries.append(traffic | {name: value for name, value in given.items() if value})
    return tuple(entries)


def _misfit(scene: _Scene, at: Coordinates, fast: str | int, level: Contention) -> str:
    """Why this combination cannot run, as far as that is known before anything is recorded; else empty."""
    workload, machine = scene.workload_model, scene.machine_model
    assert workload is not None
    assert machine is not None
    pages = engine.system(at.system).page_bytes
    if at.page_bytes not in pages:
        supported = " and ".join(format_size(size) for size in pages)
        return f"{at.system} does not manage pages of {format_size(at.page_bytes)}; it manages {supported}"
    if workload.sim.streams is not None and at.threads != workload.threads:
        return f"the streams of {workload.name} run on {workload.threads} threads, not on {at.threads}"
    if at.threads > machine.cores:
        return f"{at.threads} threads are more than the {machine.cores} cores of {machine.name}"
    for entry in level.traffic:
        if entry.tier >= len(machine.tiers):
            return f"contention {level.name}: {machine.name} has no tier {entry.tier}"
    try:
        if workload.sim.record is not None:
            workload.record_plan(machine.llc_bytes, at.threads)
    except engine.EngineError as error:
        return f"{workload.name} on {at.threads} threads: {error}"
    return fast_misfit(workload.footprint_bytes, fast, at.page_bytes, machine) or ""


def fast_misfit(footprint_bytes: int, fast: str | int, page_bytes: int, machine: Machine) -> str | None:
    """Why a footprint cannot be split over the machine with so much fast memory; None when it can."""
    if isinstance(fast, str):
        return fit_mistake(footprint_bytes, fast, page_bytes, machine)
    room, slow = machine.tiers[0].capacity_bytes, sum(tier.capacity_bytes for tier in machine.tiers[1:])
    if fast < page_bytes:
        return f"{format_size(fast)} of fast memory is less than a page of {format_size(page_bytes)}"
    if fast > room:
        return f"{machine.name} has {room / 2**30:.2f} GiB of fast memory, {format_size(fast)} are asked for"
    if footprint_bytes - fast > slow:
        left = (footprint_bytes - fast) / 2**30
        return (
            f"{format_size(fast)} of fast memory leaves {left:.2f} GiB to the {slow / 2**30:.2f} GiB below it"
        )
    return None
