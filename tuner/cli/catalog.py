"""`list` and `show`: what there is."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiertune.tuner.cli.failures import guarded
from tiertune.tuner.cli.gallery import GalleryFolder, show_nearest
from tiertune.tuner.cli.options import RESULTS, Json, PolicyFiles, Results, Threads, chosen, words_of

if TYPE_CHECKING:
    from tiertune.engine import KnobInfo, SystemInfo


class Kind(StrEnum):
    """What `list` can list."""

    SYSTEMS = "systems"
    WORKLOADS = "workloads"
    MACHINES = "machines"
    CAMPAIGNS = "campaigns"
    SPACES = "spaces"
    SUITES = "suites"
    SWEEPS = "sweeps"
    CLAIMS = "claims"


@guarded
def list_names(
    kind: Annotated[str, typer.Argument(help="What to list.", **words_of(Kind))], as_json: Json = False
) -> None:
    """List systems, workloads, machines, campaigns and so on.

    \b
    Examples:
      tiertune list systems
      tiertune list machines --json
    """
    from tiertune.tuner.cli.output import print_json, print_table

    wanted = chosen(Kind, "list", kind)
    rows = _systems() if wanted is Kind.SYSTEMS else described(wanted)
    if as_json:
        print_json(rows)
    elif wanted is Kind.SYSTEMS:
        print_table(
            ["system", "pages", "knobs", "what it is, what it looks at, where it is from"],
            [(row["name"], row["pages"], str(row["knobs"]), _in_lines(row)) for row in rows],
            numeric=["knobs"],
        )
    else:
        print_table(["name", "description"], [(row["name"], row["description"]) for row in rows])


@guarded
def show(
    system: Annotated[str, typer.Argument(help="A system or a workload of `tiertune list`.")],
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="Show the values of this config file.")
    ] = None,
    knob: Annotated[
        list[str] | None,
        typer.Option("--knob", "-k", metavar="NAME=VALUE", help="Change one knob; may be repeated."),
    ] = None,
    native: Annotated[
        bool, typer.Option("--native", help="Print the config in the system's own names.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="Also knobs that campaigns do not search.")] = False,
    gallery: Annotated[
        bool,
        typer.Option(
            "--gallery", help="Show what was tuned in the context nearest to -w, -m and so on; alone: all."
        ),
    ] = False,
    workload: Annotated[
        str | None, typer.Option("--workload", "-w", help="With --gallery: a name or a file.")
    ] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", "-m", help="With --gallery: a name or a file.")
    ] = None,
    ratio: Annotated[str | None, typer.Option(help="With --gallery: fast to slow memory; 1:8.")] = None,
    threads: Threads = None,
    page_size: Annotated[str | None, typer.Option(help="With --gallery: 2MiB or 4KiB; 2MiB.")] = None,
    gallery_dir: GalleryFolder = None,
    results: Results = RESULTS,
    policy_file: PolicyFiles = None,
    as_json: Json = False,
) -> None:
    """Show a system's knobs, a config, or a workload.

    Native names are those of the system itself. A workload is shown with its presets.

    \b
    Examples:
      tiertune show hemem
      tiertune show hemem -k read_hot_threshold=2 --native
      tiertune show bc-kron
      tiertune show hemem --gallery -w bc-kron -m skx-numa --ratio 1:4
    """
    from tiertune.tuner.cli.policies import register_policies
    from tiertune.tuner.cli.workload import is_workload, show_workload

    register_policies(policy_file)
    if not gallery and is_workload(system):
        _plain_workload(system, {"--config": config, "--knob": knob, "--native": native, "--all": every})
        show_workload(system, as_json)
        return
    _one_kind(
        gallery,
        config_of={"--config": config, "--knob": knob, "--all": every or None},
        context={
            "--workload": workload, "--machine": machine, "--ratio": ratio, "--threads": threads,
            "--page-size": page_size, "--gallery-dir": gallery_dir,
        },
    )  # fmt: skip
    if gallery:
        show_nearest(
            system, workload, machine, ratio, threads, page_size, results, gallery_dir, native, as_json
        )
        return
    from tiertune import engine
    from tiertune.adapters.registry import adapter_for
    from tiertune.tuner.cli.configs import read_config
    from tiertune.tuner.cli.output import print_json

    info = engine.system(system)
    adapter = adapter_for(system)
    values = adapter.resolve(read_config(adapter, config, knob or []))
    if as_json:
        print_json(_document(info, values, adapter.native_block(values)))
    elif native:
        print(adapter.native_block(values), end="")
    else:
        _print_system(info, values, every)


def _one_kind(gallery: bool, config_of: dict[str, object], context: dict[str, object]) -> None:
    """Raises InputError for options of the other of the two uses."""
    from tiertune.files import InputError

    for option, given in (config_of if gallery else context).items():
        if given is not None:
            what = "does not go with --gallery" if gallery else "goes with --gallery"
            raise InputError(f"{option}: {what}, which shows what was tuned already")


def _plain_workload(name: str, given: dict[str, object]) -> None:
    """Raises InputError for options of systems."""
    from tiertune.files import InputError

    for option, value in given.items():
        if value:
            raise InputError(f"{option}: is of systems, and {name} is a workload")


def _in_lines(row: dict[str, Any]) -> str:
    return f"{row['description']}\nsees: {row['signal']}\nfrom: {row['source']}"


def _systems() -> list[dict[str, Any]]:
    from tiertune import engine
    from tiertune.tuner.report.numbers import quantity

    return [
        {
            "name": system.name,
            "description": system.summary,
            "source": system.source,
            "signal": system.signal,
            "pages": ", ".join(quantity(size, "bytes") for size in system.page_bytes),
            "page_bytes": list(system.page_bytes),
            "knobs": len(system.knobs),
            "searched_knobs": sum(knob.tunable for knob in system.knobs),
        }
        for system in engine.systems()
    ]


def described(kind: Kind) -> list[dict[str, Any]]:
    """Name, description and path of every file of a kind that is not SYSTEMS."""
    from tiertune import files

    rows = []
    for name in files.names(kind.value):
        path = files.find(kind.value, name)
        description = getattr(_load(kind, str(path)), "description", "")
        rows.append({"name": name, "description": description, "file": str(path)})
    return rows


def _load(kind: Kind, name: str) -> object:
    if kind is Kind.MACHINES:
        from tiertune.machines.definition import load_machine

        return load_machine(name)
    if kind is Kind.WORKLOADS:
        from tiertune.workloads.definition import load_workload

        return load_workload(name)
    if kind is Kind.SPACES:
        from tiertune.spaces.definition import load_space

        return load_space(name)
    if kind is Kind.CLAIMS:
        from tiertune.tuner.claims.definition import load_claims

        return load_claims(name)
    if kind is Kind.SUITES:
        from tiertune.tuner.nightly.suite import load_suite

        return load_suite(name)
    if kind is Kind.SWEEPS:
        from tiertune.tuner.sweep.definition import load_sweep

        return load_sweep(name)
    from tiertune.tuner.campaign import load_campaign

    return load_campaign(name)


def _print_system(info: SystemInfo, values: dict[str, Any], every: bool) -> None:
    from rich.padding import Padding
    from rich.text import Text

    from tiertune.tuner.cli.output import console
    from tiertune.tuner.report.numbers import exact, quantity

    out = console()
    out.print(f"{info.name}: {info.summary}", markup=False)
    out.print(f"source  {info.source}", markup=False)
    out.print(f"signal  {info.signal}", markup=False)
    out.print(f"pages   {', '.join(quantity(size, 'bytes') for size in info.page_bytes)}", markup=False)
    if info.live_obstacle:
        out.print(f"live    on no host: {info.live_obstacle}", markup=False)
    shown = [knob for knob in info.knobs if every or knob.tunable]
    if not info.knobs:
        out.print("\nIt has no knobs.")
        return
    out.print()
    for knob in shown:
        value = exact(values[knob.name]) + ("" if values[knob.name] == knob.default else " *")
        out.print(f"{knob.name} = {value}    [{limits(knob)}]", markup=False, style="bold")
        for line in _explained(knob):
            out.print(Padding(Text(line), (0, 0, 0, 4), expand=False))
    hidden = len(info.knobs) - len(shown)
    if hidden:
        out.print(f"\n{hidden} more that campaigns do not search: tiertune show {info.name} --all")
    if any(values[knob.name] != knob.default for knob in shown):
        out.print("\n* not the default")


def _explained(knob: KnobInfo) -> list[str]:
    """Meaning with unit, then what it depends on, then special values, then where it is from."""
    from tiertune.tuner.report.numbers import exact

    lines = [f"{knob.meaning}{f' ({knob.unit})' if knob.unit else ''}"]
    if knob.condition:
        lines.append(f"only while {knob.condition.knob} {knob.condition.said(exact)}")
    lines += [f"{value}: {meaning}" for value, meaning in knob.special]
    lines.append(f"from: {knob.source}")
    return lines


def limits(knob: KnobInfo) -> str:
    """`1 to 64, log`, or the choices; special values in brackets."""
    from tiertune.tuner.report.numbers import exact

    if knob.type == "choice":
        return ", ".join(knob.choices)
    if knob.min is None or knob.max is None:
        return "true, false"
    whole = knob.type == "int"
    low, high = (exact(int(bound) if whole else bound) for bound in (knob.min, knob.max))
    special = f" or {', '.join(str(value) for value, _ in knob.special)}" if knob.special else ""
    return f"{low} to {high}{special}{', log' if knob.log else ''}"


def _document(info: SystemInfo, values: dict[str, Any], block: str) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(info), "config": values, "native_block": block}
