"""`run`: one evaluation of a system with a config, on as many seeds as wanted."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiertune.tuner.cli.failures import guarded
from tiertune.tuner.cli.options import RESULTS, Json, MachineName, Results, Threads

if TYPE_CHECKING:
    from tiertune.engine import MetricInfo, SystemInfo
    from tiertune.machines.definition import Machine
    from tiertune.workloads.definition import Workload

MAX_SEEDS = 10_000


class Mode(StrEnum):
    """How the engine runs a trial."""

    FAST = "fast"
    REFERENCE = "reference"


@guarded
def run(
    system: Annotated[str, typer.Argument(help="A system of `tiertune list systems`.")],
    workload: Annotated[str, typer.Option("--workload", "-w", help="Workload: a name or a file.")],
    machine: MachineName,
    knob: Annotated[
        list[str] | None,
        typer.Option("--knob", "-k", metavar="NAME=VALUE", help="Set one knob; may be repeated."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Knobs from YAML, or a native block such as pebs.h."),
    ] = None,
    ratio: Annotated[str, typer.Option(help="Fast to slow memory, as shares of the footprint.")] = "1:8",
    page_size: Annotated[str, typer.Option(help="Page size: 2MiB or 4KiB.")] = "2MiB",
    threads: Threads = None,
    seeds: Annotated[str, typer.Option(help="Seeds, such as 1, 1-5 or 1,7,9.")] = "1",
    mode: Annotated[
        Mode, typer.Option(help="fast, or reference: every access, for small workloads.")
    ] = Mode.FAST,
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Evaluate one config of a system: metrics, medians over seeds.

    \b
    Examples:
      tiertune run hemem -w bc-kron -m skx-numa
      tiertune run hemem -w gups -m skx-numa -k read_hot_threshold=2 --seeds 1-5
      tiertune run notier -w bc-kron -m skx-numa --ratio 1:4 --json
    """
    from tiertune import engine
    from tiertune.adapters.registry import adapter_for
    from tiertune.files import InputError
    from tiertune.machines.definition import load_machine
    from tiertune.tuner.campaign import fit_mistake
    from tiertune.tuner.cli.configs import read_config
    from tiertune.tuner.cli.failures import say
    from tiertune.units import fast_tier_bytes
    from tiertune.workloads.definition import load_workload
    from tiertune.workloads.profile import profile_for

    adapter = adapter_for(system)
    resolved = adapter.start(read_config(adapter, config, knob or [])).config
    numbers = parse_seeds(seeds)
    page_bytes = checked("--page-size", page_size)
    checked("--ratio", ratio)
    model = load_machine(machine)
    definition = load_workload(workload)
    check_fit(adapter.info, definition, model, threads, page_bytes, ratio)
    profile = profile_for(definition, model, threads, results / "profiles", say, page_bytes=page_bytes)
    described = profile.describe()
    misfit = fit_mistake(int(described["footprint_bytes"]), ratio, page_bytes, model)
    if misfit:
        raise InputError(f"--ratio: {misfit}")
    request = {
        "machine": model.document(),
        "system": system,
        "config": resolved,
        "page_bytes": page_bytes,
        "fast_bytes": fast_tier_bytes(int(described["footprint_bytes"]), ratio, page_bytes),
        "noise": "independent",
        "mode": mode.value,
        "timeline_points": 0,
        "contention": [],
    }
    measured = engine.run_many(profile, [{**request, "seed": seed} for seed in numbers], threads=2)
    document = {
        "system": system,
        "config": dict(resolved),
        "scenario": {
            "workload": definition.name,
            "machine": model.name,
            "ratio": ratio,
            "threads": threads or definition.threads,
            "page_bytes": page_bytes,
            "mode": mode.value,
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
    if as_json:
        from tiertune.tuner.cli.output import print_json

        print_json(document)
    else:
        _print(document, engine.metrics())


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


def _print(document: dict[str, Any], declared: tuple[MetricInfo, ...]) -> None:
    from tiertune.tuner.cli.output import console, print_table
    from tiertune.tuner.report.numbers import binary_unit, number, quantity

    scenario, runs = document["scenario"], document["runs"]
    out = console()
    out.print(
        f"{document['system']} on {scenario['workload']}, {scenario['machine']},"
        f" fast:slow {scenario['ratio']}, {scenario['threads']} threads,"
        f" {quantity(scenario['page_bytes'], 'bytes')} pages,"
        f" footprint {quantity(document['workload']['footprint_bytes'], 'bytes')}",
        markup=False,
    )
    notes = len(document["workload"]["notes"])
    if notes and document["workload"]["measured"]:
        out.print(f"as measured; {notes} notes on what was assumed: --json", markup=False)
    elif notes:
        pages = quantity(scenario["page_bytes"], "bytes").replace(" ", "")
        what = f"tiertune record {scenario['workload']} -m {scenario['machine']} --page-size {pages}"
        out.print(f"carried to that size; {notes} notes on how: {what}", markup=False)
    spread = len(runs) > 1
    out.print(f"median over {len(runs)} seeds\n" if spread else f"seed {runs[0]['seed']}\n")
    rows = []
    for metric in declared:
        if metric.name not in document["median"]:
            continue
        values = [run["metrics"][metric.name] for run in runs]
        size, unit = binary_unit(document["median"][metric.name]) if metric.unit == "B" else (1, metric.unit)
        row = [metric.name, number(document["median"][metric.name] / size), unit]
        ends = [number(end / size) for end in (min(values), max(values))]
        rows.append([*row, *(ends if spread else [metric.meaning])])
    numeric = ["value", "median", "lowest", "highest"]
    if spread:
        print_table(["metric", "median", "unit", "lowest", "highest"], rows, numeric)
    else:
        print_table(["metric", "value", "unit", "meaning"], rows, numeric)
