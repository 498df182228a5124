"""One evaluation of a system: a config, a scenario, some seeds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, TypeAlias, get_args

if TYPE_CHECKING:
    import pandas as pd

    from tiertune.adapters.base import Adapter, Value
    from tiertune.engine import SystemInfo
    from tiertune.machines.definition import Machine
    from tiertune.workloads.definition import Workload

MAX_SEEDS = 10_000
AT_A_TIME = 2
"""Seeds that run beside each other."""
MAX_SEED = 2**53 - 1
"""JSON readers without 64-bit integers keep it exact."""

Seeds: TypeAlias = SupportsIndex | str | Iterable[SupportsIndex]
Mode: TypeAlias = Literal["fast", "reference"]
Noise: TypeAlias = Literal["independent", "paired"]
"""Whether two configs at one seed share their random numbers, so that differences between them stand out."""


@dataclass(frozen=True)
class Run:
    """What an evaluation came to.

    `runs` has a row for each seed and a column for each metric; `timeline` a row for each point of each seed,
    with the columns ``seed``, ``time_s`` and the series; it is empty unless points were asked for. `median`
    is over seeds.
    """

    system: str
    config: dict[str, Value]
    """Every knob as it applied."""
    scenario: dict[str, Any]
    notes: tuple[str, ...]
    """What was assumed, and how the workload was carried to its size."""
    runs: pd.DataFrame
    median: pd.Series[float]
    timeline: pd.DataFrame
    gauges: pd.DataFrame = field(repr=False)
    """What the policy reported of itself, a row for each seed."""
    document: dict[str, Any] = field(repr=False)
    """The same as `tiertune run --json` prints."""

    def _repr_html_(self) -> str:
        from html import escape

        at = self.scenario
        head = f"{self.system} on {at['workload']}, {at['machine']}, fast:slow {at['ratio']}"
        seeds = "seed" if len(self.runs) == 1 else "seeds"
        table = self.median.rename("median").to_frame()._repr_html_()
        return f"<p><b>{escape(head)}</b>, {len(self.runs)} {seeds}</p>{table}"


def run(
    system: str,
    workload: str | Path,
    machine: str | Path,
    *,
    config: Mapping[str, Value] | None = None,
    ratio: str = "1:8",
    page_size: str = "2MiB",
    threads: int | None = None,
    seeds: Seeds = 1,
    mode: Mode = "fast",
    noise: Noise = "independent",
    timeline_points: int = 0,
    results: str | Path = "results",
    notify: Callable[[str], None] | None = None,
) -> Run:
    """Evaluates a config of `system`: knobs of `config`, defaults for all others.

    `ratio` is fast to slow memory as shares of the footprint, `seeds` a number, numbers, or text such as
    ``1-5``. Recordings are kept under `results`; `notify` is told when one is made. Raises `InputError` or
    `EngineError`.
    """
    import pandas as pd

    from tiertune.adapters.registry import adapter_for
    from tiertune.files import InputError
    from tiertune.tuner.api import limits

    adapter = adapter_for(system)
    for name, given, valid in (("mode", mode, get_args(Mode)), ("noise", noise, get_args(Noise))):
        if given not in valid:
            raise InputError(f"{name} {given}: use {' or '.join(valid)}")
    limits.check("timeline_points", timeline_points, limits.TIMELINE_POINTS)
    if threads is not None:
        limits.check("threads", threads, limits.THREADS)
    document, measured = evaluate(
        adapter, dict(config or {}), str(workload), str(machine), ratio, page_size, threads, seeds_of(seeds),
        mode, Path(results), notify or (lambda text: None), timeline_points, noise,
    )  # fmt: skip
    seeds_run = pd.Index([one["seed"] for one in document["runs"]], name="seed")
    series = [
        pd.DataFrame(one["timeline"]).assign(seed=seed)
        for seed, one in zip(seeds_run, measured, strict=True)
        if timeline_points
    ]
    timeline = pd.concat(series, ignore_index=True) if series else pd.DataFrame()
    if series:
        timeline = timeline[["seed", *(name for name in timeline.columns if name != "seed")]]
    return Run(
        system=system,
        config=document["config"],
        scenario=document["scenario"],
        notes=tuple(document["workload"]["notes"]),
        runs=pd.DataFrame([one["metrics"] for one in document["runs"]], index=seeds_run),
        median=pd.Series(document["median"], dtype=float),
        timeline=timeline,
        gauges=pd.DataFrame([one["gauges"] for one in measured], index=seeds_run),
        document=document,
    )


def evaluate(
    adapter: Adapter,
    config: Mapping[str, Value],
    workload: str,
    machine: str,
    ratio: str,
    page_size: str,
    threads: int | None,
    numbers: Sequence[int],
    mode: Mode,
    results: Path,
    notify: Callable[[str], None],
    timeline_points: int = 0,
    noise: Noise = "independent",
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The document of `tiertune run --json`, and what the engine returned for each of the seeds `numbers`."""
    from tiertune import engine
    from tiertune.files import InputError
    from tiertune.machines.definition import load_machine
    from tiertune.tuner.campaign import fit_mistake
    from tiertune.tuner.memory_need import check_memory
    from tiertune.units import fast_tier_bytes
    from tiertune.workloads.definition import load_workload
    from tiertune.workloads.profile import profile_for

    system = adapter.system
    resolved = adapter.start(config).config
    page_bytes = checked("--page-size", page_size)
    checked("--ratio", ratio)
    model = load_machine(machine)
    definition = load_workload(workload)
    check_fit(adapter.info, definition, model, threads, page_bytes, ratio)
    profile = profile_for(definition, model, threads, results / "profiles", notify, page_bytes=page_bytes)
    described = profile.describe()
    misfit = fit_mistake(int(described["footprint_bytes"]), ratio, page_bytes, model)
    if misfit:
        raise InputError(f"--ratio: {misfit}")
    check_memory(int(described["footprint_bytes"]), page_bytes, min(AT_A_TIME, len(numbers)))
    request = {
        "machine": model.document(),
        "system": system,
        "config": resolved,
        "page_bytes": page_bytes,
        "fast_bytes": fast_tier_bytes(int(described["footprint_bytes"]), ratio, page_bytes),
        "noise": noise,
        "mode": mode,
        "timeline_points": timeline_points,
        "contention": [],
    }
    measured = engine.run_many(profile, [{**request, "seed": seed} for seed in numbers], threads=AT_A_TIME)
    document = {
        "system": system,
        "config": dict(resolved),
        "scenario": {
            "workload": definition.name,
            "machine": model.name,
            "ratio": ratio,
            "threads": threads or definition.threads,
            "page_bytes": page_bytes,
            "mode": mode,
        },
        "workload": {
            "footprint_bytes": described["footprint_bytes"],
            "measured": definition.sim.profile is not None,
            "notes": described.get("notes", []),
        },
        "runs": [
            {"seed": seed, "metrics": result["metrics"]}
            for seed, result in zip(numbers, measured, strict=True)
        ],
        "median": medians([result["metrics"] for result in measured]),
    }
    return document, measured


def check_fit(
    system: SystemInfo, workload: Workload, machine: Machine, threads: int | None, page_bytes: int, ratio: str
) -> None:
    """Raises `InputError` where these cannot run together, before anything is recorded for them."""
    from tiertune.files import InputError
    from tiertune.tuner.campaign import fit_mistake
    from tiertune.units import format_size

    if page_bytes not in system.page_bytes:
        near = min(system.page_bytes, key=lambda size: abs(size - page_bytes))
        raise InputError(
            f"--page-size: {format_size(page_bytes)} is not a page size of {system.name};"
            f" the nearest valid size is {format_size(near)}"
        )
    streams = workload.sim.streams
    if streams is not None and threads not in (None, workload.threads):
        raise InputError(
            f"--threads: {threads} is not what the streams of {workload.name} add up to;"
            f" the valid value is {workload.threads}"
        )
    if (threads or workload.threads) > machine.cores:
        raise InputError(
            f"--threads: {threads or workload.threads} is more than the cores of {machine.name};"
            f" the largest valid value is {machine.cores}"
        )
    if workload.sim.record is not None:
        # The engine says here, not after seconds of recording, what it cannot record on so many threads.
        workload.record_plan(machine.llc_bytes, threads)
    misfit = fit_mistake(workload.footprint_bytes, ratio, page_bytes, machine)
    if misfit:
        raise InputError(f"--ratio: {misfit}")


def medians(runs: list[Mapping[str, float]]) -> dict[str, float]:
    """Median of every metric that all runs have."""
    return {name: median(run[name] for run in runs) for name in runs[0] if all(name in run for run in runs)}


def parse_seeds(text: str) -> list[int]:
    """`1-3,7` -> [1, 2, 3, 7]; raises `InputError`."""
    from tiertune.files import InputError

    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or len(first) > 15 or len(last) > 15:
            raise InputError(
                f"--seeds {text}: '{part}' is no seed; write numbers and ranges, such as 1-5 or 1,7,9"
            )
        low, high = int(first), int(last or first)
        if high < low:
            raise InputError(
                f"--seeds {text}: {part} runs backwards; the nearest valid range is {high}-{low}"
            )
        if len(seeds) + high - low >= MAX_SEEDS:
            raise InputError(f"--seeds {text}: more than {MAX_SEEDS} seeds")
        seeds.extend(range(low, high + 1))
    return list(dict.fromkeys(seeds))


def checked(option: str, text: str) -> int:
    """Bytes of --page-size, or the fast part of --ratio; raises `InputError` naming the option."""
    from tiertune.files import InputError
    from tiertune.units import UnitError, parse_ratio, parse_size

    try:
        if option == "--ratio":
            return parse_ratio(text)[0]
        return parse_size(text)
    except UnitError as error:
        raise InputError(f"{option}: '{text}' {error}") from None


def seeds_of(seeds: Seeds) -> list[int]:
    """Seeds as numbers; raises `InputError`."""
    from tiertune.files import InputError

    if isinstance(seeds, str):
        return parse_seeds(seeds)
    given = list(seeds) if isinstance(seeds, Iterable) else [seeds]
    try:
        numbers = [operator.index(one) for one in given if not isinstance(one, bool)]
    except TypeError:
        numbers = []
    if not given or len(numbers) < len(given) or not all(0 <= one <= MAX_SEED for one in numbers):
        raise InputError(f"seeds {given}: give whole numbers from 0 to 2^53 - 1, such as 1 or [1, 2, 3]")
    return list(dict.fromkeys(numbers))
