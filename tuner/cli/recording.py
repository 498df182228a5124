"""`record`: execute a workload's kernel once and keep its access profile."""

from __future__ import annotations

from typing import Annotated

import typer

from tiertune.tuner.cli.failures import guarded
from tiertune.tuner.cli.options import RESULTS, Json, MachineName, Results, Threads


@guarded
def record(
    workload: Annotated[str, typer.Argument(help="Workload: a name or a file.")],
    machine: MachineName,
    page_size: Annotated[str, typer.Option(help="Page size of the runs: 2MiB or 4KiB.")] = "2MiB",
    threads: Threads = None,
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Record a workload's access profile for a machine.

    Campaigns do this by themselves; use it to see what was scaled and how.
    A recording that is there already is read back.

    \b
    Example:
      tiertune record bc-kron -m skx-numa
    """
    from tiertune.engine import systems
    from tiertune.files import InputError
    from tiertune.machines.definition import load_machine
    from tiertune.tuner.cli.evaluate import checked
    from tiertune.tuner.cli.failures import say
    from tiertune.tuner.cli.output import console, print_json
    from tiertune.tuner.report.numbers import quantity
    from tiertune.units import format_size
    from tiertune.workloads.definition import load_workload
    from tiertune.workloads.profile import profile_for

    definition, model = load_workload(workload), load_machine(machine)
    page_bytes = checked("--page-size", page_size)
    sizes = sorted({size for system in systems() for size in system.page_bytes})
    if page_bytes not in sizes:
        near = format_size(min(sizes, key=lambda size: abs(size - page_bytes)))
        raise InputError(f"--page-size: no system manages pages of {page_size}; the nearest size is {near}")
    profile = profile_for(definition, model, threads, results / "profiles", say, page_bytes=page_bytes)
    described = profile.describe()
    if as_json:
        print_json({"workload": definition.name, "machine": model.name, **described})
        return
    out = console()
    out.print(f"{definition.name}: {definition.description}", markup=False)
    out.print(
        f"footprint {quantity(described['footprint_bytes'], 'bytes')}, {len(described['phases'])} phases"
    )
    for note in described.get("notes", []):
        out.print(f"note: {note}", markup=False)
