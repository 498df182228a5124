"""`run`: one evaluation of a system with a config, on as many seeds as wanted."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiertune.tuner.cli.failures import guarded
from tiertune.tuner.cli.options import (
    RESULTS,
    Json,
    MachineName,
    PolicyFiles,
    Results,
    Threads,
    chosen,
    words_of,
)

if TYPE_CHECKING:
    from tiertune.engine import MetricInfo


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
        str, typer.Option(help="fast, or reference: every access, for small workloads.", **words_of(Mode))
    ] = Mode.FAST,
    policy_file: PolicyFiles = None,
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Evaluate one config of a system, medians over seeds.

    \b
    Examples:
      tiertune run hemem -w bc-kron -m skx-numa
      tiertune run hemem -w gups -m skx-numa -k read_hot_threshold=2 --seeds 1-5
      tiertune run notier -w bc-kron -m skx-numa --ratio 1:4 --json
      tiertune run greedy -w gups -m skx-numa --policy-file greedy/greedy.py
    """
    from tiertune import engine
    from tiertune.adapters.registry import adapter_for
    from tiertune.tuner.api.evaluation import evaluate, parse_seeds
    from tiertune.tuner.cli.configs import read_config
    from tiertune.tuner.cli.failures import say
    from tiertune.tuner.cli.policies import register_policies

    executed = chosen(Mode, "--mode", mode)
    register_policies(policy_file)
    adapter = adapter_for(system)
    document, _ = evaluate(
        adapter, read_config(adapter, config, knob or []), workload, machine, ratio, page_size, threads,
        parse_seeds(seeds), "reference" if executed is Mode.REFERENCE else "fast", results, say,
    )  # fmt: skip
    if as_json:
        from tiertune.tuner.cli.output import print_json

        print_json(document)
    else:
        _print(document, engine.metrics(), f"{quote(workload)} -m {quote(machine)}")


def _print(document: dict[str, Any], declared: tuple[MetricInfo, ...], given: str) -> None:
    """`given` are workload and machine in the user's words, as options: a preset has no name of its own."""
    from tiertune.tuner.cli.output import console, print_table
    from tiertune.tuner.report.numbers import number, quantity
    from tiertune.units import binary_unit

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
        what = f"tiertune record {given} --page-size {pages}"
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
