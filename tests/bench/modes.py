"""``make bench-modes``: the public claims' scenes in the fast mode and in the reference mode.

They are made small enough to execute every access. A scene keeps its workload's laws, its machine, system,
threads, contention, ratio and page size. Its objects, or its input, and the last-level cache become smaller
by one factor, and the run shorter by another; times among the knobs, and events per sample, become shorter
with the run, as far as their bounds go, so that a system does in it what it does in the whole. What a move,
a fault or a sample costs stays. The error is that of the mean over seeds, beside what seeds differ by.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TextIO

from tiertune import engine
from tiertune.files import InputError
from tiertune.tuner.claims.definition import load_claims
from tiertune.tuner.sweep.matrix import rows_of
from tiertune.tuner.sweep.row import ALL_FAST, Run, Setting
from tiertune.tuner.trial import Config, canonical
from tiertune.workloads.definition import Workload
from tiertune.workloads.profile import profile_for

MEDIAN, WORST = 0.01, 0.05
"""Most that the median and the worst runtime may be off, the project's promise."""

STREAM_BYTES = 2**28
RECORDED_SCALE, CARRIED_SCALE = 14, 18
"""Vertices of a graph as powers of two: a run is then long beside what the reference mode takes to see a
load, which it knows from what was read before."""
LEAST_LLC_BYTES = 2**16
LEAST_SLICE_NS = 10_000
SECONDS = 0.1
"""What runs of streams are shortened to, with everything in fast memory."""
MOST_ACCESSES = 4e7
"""A run of more is left out: it takes the reference mode five seconds."""
REFERENCE_SEEDS, FAST_SEEDS = 3, 6
MOST_NAMED = 10

TIMES = {"ms", "s", "us"}
EVENTS = {"events/sample", "stores/sample"}


@dataclass(frozen=True)
class Scene:
    """A run of a claim and the claims that have it."""

    run: Run
    claims: tuple[str, ...]

    @property
    def name(self) -> str:
        """Workload, machine, system and fast memory."""
        run = self.run
        load = "" if not run.contention else " beside load"
        return f"{run.setting.workload.name} {run.setting.machine.name} {run.system} {run.fast}{load}"


def scenes(claims: str, results: Path) -> list[Scene]:
    """One for each workload, machine, system, knobs, contention and page size; the first ratio of it."""
    loaded = load_claims(claims)
    found: dict[str, Scene] = {}
    for claim in loaded.claims:
        sweep = loaded.sweep_of(claim)
        if sweep is None:
            continue
        try:
            plans = rows_of(sweep, results)
        except InputError:
            continue  # configurations of campaigns that were not run
        for run in (plan.run for plan in plans if plan.run is not None):
            setting = run.setting
            load = [dict(entry) for entry in run.contention]
            key = canonical(
                [
                    setting.workload.name,
                    setting.machine.name,
                    run.system,
                    run.config,
                    load,
                    setting.page_bytes,
                ]
            )
            scene = found.setdefault(key, Scene(run, ()))
            found[key] = replace(scene, claims=tuple(dict.fromkeys([*scene.claims, claim.id])))
    return list(found.values())


def smaller(workload: Workload, llc_bytes: int) -> Workload:
    """Objects of `STREAM_BYTES` in all, or the input that is recorded, behind a cache of `llc_bytes`."""
    document = workload.model_dump(mode="json", by_alias=True, exclude_unset=True)
    sim: dict[str, Any] = document["sim"]
    if sim.get("streams") is not None:
        objects = sim["streams"]["objects"]
        share = min(1.0, STREAM_BYTES / sum(model["bytes"] for model in objects))
        for model in objects:
            model["bytes"] = max(4096, round(model["bytes"] * share / 2**21) * 2**21)
    else:
        record = sim["record"]
        sim["carry"] = {"llc_bytes": llc_bytes, "runs": 1}
        if "scale" in record:
            record["scale"] = min(record["scale"], RECORDED_SCALE)
            sim["carry"]["scale"] = CARRIED_SCALE
    return Workload.model_validate(document)


def shorter(workload: Workload, share: float) -> Workload:
    """Streams that run, or operate, for a share; recordings are as they are."""
    document = workload.model_dump(mode="json", by_alias=True, exclude_unset=True)
    for block in (document["sim"].get("streams") or {"blocks": []})["blocks"]:
        for phase in block["phases"]:
            if phase.get("seconds") is not None:
                phase["seconds"] *= share
            for group in phase["groups"]:
                if group.get("ops") is not None:
                    group["ops"] *= share
    return Workload.model_validate(document)


def quicker(system: str, config: Config, time_share: float, event_share: float) -> Config:
    """A system's knobs, those in units of time and events per sample as small as their bounds allow."""
    values = dict(config)
    for knob in engine.system(system).knobs:
        share = time_share if knob.unit in TIMES else event_share if knob.unit in EVENTS else 1.0
        if share == 1.0 or knob.min is None or knob.max is None:
            continue
        value = min(max(float(values.get(knob.name, knob.default)) * share, float(knob.min)), float(knob.max))
        values[knob.name] = round(value) if knob.type == "int" else value
    return values


@dataclass(frozen=True)
class Small:
    """A run made small, its workload in the engine, and the slices that its fast mode takes."""

    run: Run
    loaded: engine.EngineWorkload
    slice_ns: int

    def metrics(self, mode: str, seed: int) -> dict[str, float]:
        """One run in a mode."""
        asked = replace(self.run, mode=mode, seed=seed).request(self.loaded.footprint_bytes)
        found: dict[str, float] = engine.run(self.loaded, asked | {"slice_ns": self.slice_ns})["metrics"]
        return found


def small(run: Run, whole_s: float, whole_bytes: int, whole_misses: float, profiles: Path) -> Small:
    """The run made small; raises `EngineError` where that cannot be."""
    setting = run.setting
    guess = smaller(setting.workload, LEAST_LLC_BYTES)
    if guess.sim.streams is not None:
        guess = shorter(guess, SECONDS / whole_s)
    loaded = _loaded(Setting(guess, setting.machine, setting.threads, setting.page_bytes), profiles)
    share = loaded.footprint_bytes / whole_bytes
    llc_bytes = max(LEAST_LLC_BYTES, round(setting.machine.llc_bytes * share / 4096) * 4096)
    machine = setting.machine.model_copy(update={"llc_bytes": llc_bytes})
    workload = guess
    if guess.sim.streams is None:
        workload = smaller(setting.workload, llc_bytes)
    other = Setting(workload, machine, setting.threads, setting.page_bytes)
    loaded = _loaded(other, profiles)
    fast = run.fast if isinstance(run.fast, str) else round(run.fast * share)
    changed = replace(run, setting=other, fast=fast)
    reference = engine.run(loaded, changed.baseline().request(loaded.footprint_bytes))["metrics"]
    time_share = reference["runtime_s"] / whole_s
    # As many samples of each page as in the whole run.
    event_share = (
        min(1.0, reference["simulated_accesses"] / whole_misses / share) if whole_misses else time_share
    )
    config = quicker(run.system, run.config, time_share, event_share)
    # What kswapd frees in a slice is in proportion to fast memory, and so a slice is.
    return Small(replace(changed, config=config), loaded, max(LEAST_SLICE_NS, round(1e6 * share)))


def _loaded(setting: Setting, profiles: Path) -> engine.EngineWorkload:
    return profile_for(
        setting.workload,
        setting.machine,
        setting.threads,
        profiles,
        lambda _: None,
        page_bytes=setting.page_bytes,
    )


def compared(scene: Scene, profiles: Path) -> dict[str, Any]:
    """Both modes on a scene made small: runtimes and promotions, means over seeds, or why it was not run."""
    run = scene.run
    found: dict[str, Any] = {"scene": scene.name, "claims": list(scene.claims)}
    try:
        whole = _loaded(run.setting, profiles)
        metrics = engine.run(whole, run.baseline().request(whole.footprint_bytes))["metrics"]
        reads = metrics["simulated_accesses"]
        little = small(run, metrics["runtime_s"], whole.footprint_bytes, reads, profiles)
        del whole
        footprint = little.loaded.footprint_bytes
        base = engine.run(little.loaded, little.run.baseline().request(footprint))["metrics"]
        accesses = base["simulated_accesses"]
        if accesses > MOST_ACCESSES:
            return found | {"left_out": f"{accesses:.2g} accesses"}
        by_mode: dict[str, list[dict[str, float]]] = {}
        for mode, seeds in (("fast", FAST_SEEDS), ("reference", REFERENCE_SEEDS)):
            by_mode[mode] = [little.metrics(mode, run.seed + seed) for seed in range(seeds)]
    except (engine.EngineError, InputError, ValueError) as error:
        return found | {"left_out": str(error).splitlines()[0][:160]}
    for mode, results in by_mode.items():
        runtimes = [result["runtime_s"] for result in results]
        found[mode] = {
            "runtime_s": statistics.mean(runtimes),
            "spread": (max(runtimes) - min(runtimes)) / statistics.mean(runtimes),
            "promotions": statistics.mean(result["promotions"] for result in results),
            "demotions": statistics.mean(result["demotions"] for result in results),
            "samples": statistics.mean(result["samples"] for result in results),
            "hint_faults": statistics.mean(result["hint_faults"] for result in results),
        }
    found["footprint_mib"] = footprint / 2**20
    found["accesses"] = accesses
    found["error"] = found["fast"]["runtime_s"] / found["reference"]["runtime_s"] - 1.0
    return found


def results(claims: str, folder: Path, jobs: int, only: str) -> Iterator[dict[str, Any]]:
    """Every scene compared, in no particular order of time."""
    (folder / "profiles").mkdir(parents=True, exist_ok=True)
    chosen = [
        scene for scene in scenes(claims, folder) if scene.run.system != ALL_FAST and only in scene.name
    ]
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda scene: compared(scene, folder / "profiles"), chosen)


def summary(found: Sequence[Mapping[str, Any]], out: TextIO) -> None:
    """Scenes whose runtimes differ most; errors of all, of those with hint faults, and of those without."""
    ran = sorted((entry for entry in found if "error" in entry), key=lambda entry: -abs(entry["error"]))
    faulting = [entry for entry in ran if entry["reference"]["hint_faults"]]
    for entry in ran[:MOST_NAMED]:
        spread = max(entry[mode]["spread"] for mode in ("fast", "reference"))
        moved = [round(entry[mode]["promotions"]) for mode in ("fast", "reference")]
        print(
            f"{entry['scene']}: {entry['error']:+.2%}, seeds differ by {spread:.1%}, promotions {moved}",
            file=out,
        )
    for name, some in (
        ("all", ran),
        ("with hint faults", faulting),
        ("without", [entry for entry in ran if entry not in faulting]),
    ):
        if some:
            errors = [abs(entry["error"]) for entry in some]
            median, worst = statistics.median(errors), max(errors)
            said = "met" if median <= MEDIAN and worst <= WORST else "missed"
            beyond = sum(error > WORST for error in errors)
            print(
                f"{name}: {len(some)} scenes, median {median:.2%}, worst {worst:.2%},"
                f" {beyond} beyond {WORST:.0%}; {said}",
                file=out,
            )
    left_out = sum("left_out" in entry for entry in found)
    print(f"left out: {left_out}, most of them with more than {MOST_ACCESSES:.0e} accesses", file=out)


def main() -> int:
    """One line of JSON a scene on standard output, and a summary on standard error."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.modes", description=__doc__)
    parser.add_argument("--claims", default="public", help="a claims file of claims/, or a path")
    parser.add_argument("--results", type=Path, default=Path("results/bench-modes"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="scenes whose name contains this")
    asked = parser.parse_args()
    found = []
    for entry in results(asked.claims, asked.results, asked.jobs, asked.only):
        print(json.dumps(entry), flush=True)
        found.append(entry)
    summary(found, sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
