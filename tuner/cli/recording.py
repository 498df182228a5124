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
    from tiertune.machines.definition import load_machine
    from tiertune.tuner.cli.failures import say
    from tiertune.tuner.cli.output import console, print_json
    from tiertune.tuner.report.numbers import quantity
    from tiertune.workloads.definition import load_workload
    from tiertune.workloads.profile import profile_for

    definition, model = load_workload(workload), load_machine(machine)
    described = profile_for(definition, model, threads, results / "profiles", say).describe()
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
