"""`calibrate`: a machine file from measurements of this host, or from a published curve."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiertune.tuner.cli.failures import guarded, say
from tiertune.tuner.cli.options import RESULTS, Json, Results

if TYPE_CHECKING:
    from tiertune.machines.definition import Machine
    from tiertune.tuner.calibration.machine_file import Calibrated

TAIL = "skx-numa"
"""Machine whose first tier's curve continues a measured one: the public curve of six channels of DDR4."""


@guarded
def calibrate(
    machine: Annotated[
        str,
        typer.Argument(metavar="MACHINE", help="Name of the new machine; with --curve: one to start from."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Machine file to write; machines/NAME.yaml by default."),
    ] = None,
    slow_from: Annotated[
        str | None, typer.Option(metavar="MACHINE", help="Slow tier of a host that has one memory node.")
    ] = None,
    curve: Annotated[
        Path | None, typer.Option(metavar="FILE.csv", help="Import a published curve instead of measuring.")
    ] = None,
    tier: Annotated[str, typer.Option(help="Tier that the curve is of: name or number.")] = "0",
    measurements: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Fit earlier measurements again, without measuring.")
    ] = None,
    short: Annotated[
        bool, typer.Option("--short", help="Seconds in place of a minute, wider intervals.")
    ] = False,
    tierload: Annotated[
        Path | None, typer.Option(metavar="COMMAND", help="The tierload that measures.")
    ] = None,
    hosts: Annotated[
        Path | None,
        typer.Option(metavar="INVENTORY", help="Measure the host of this name in an Ansible inventory."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Fit a machine file to a host's memory.

    Measured by tierload: idle and loaded latency, bandwidth of reads and writes,
    overlap of random accesses, moves of pages. Every figure has an interval, and
    the file says where each comes from. A CSV has the columns bandwidth_gbps,
    latency_ns and perhaps read_share.

    \b
    Examples:
      tiertune calibrate my-host --slow-from spr-cxl
      tiertune calibrate icx-upi --curve measured.csv --tier upi --out my.yaml
      tiertune calibrate rack-07 --hosts inventory.yml
    """
    from tiertune.files import InputError
    from tiertune.machines.definition import load_machine
    from tiertune.tuner.calibration.machine_file import check_target
    from tiertune.tuner.cli.writable import check_file

    if curve is not None:
        for option, given in (
            ("--slow-from", slow_from),
            ("--measurements", measurements),
            ("--hosts", hosts),
        ):
            if given is not None:
                raise InputError(f"{option} cannot stand beside --curve: nothing is measured then; keep one")
        _import(machine, curve, tier, out, force, as_json)
        return
    target = out or Path("machines") / f"{_name(machine)}.yaml"
    check_target(target, force)
    check_file("--out", target, makes_folders=True)
    below = load_machine(slow_from) if slow_from is not None else None
    measured, kept = _measured(machine, measurements, below, tierload, hosts, short, results)
    from tiertune.tuner.calibration.machine_file import calibrated

    found = calibrated(_name(machine), measured, below, load_machine(TAIL))
    _write(target, found.machine)
    if as_json:
        from tiertune.tuner.cli.output import print_json

        files = [str(path) for path in (target, kept) if path is not None]
        print_json({**found.document(), "files": files})
        return
    _print(found)
    for path in (target, kept):
        if path is not None:
            print(path)


def _measured(
    name: str,
    earlier: Path | None,
    below: Machine | None,
    tierload: Path | None,
    hosts: Path | None,
    short: bool,
    results: Path,
) -> tuple[dict[str, Any], Path | None]:
    """Measurements, read or made; made ones are kept, so that they can be fitted again."""
    import json

    from tiertune.tuner.backend import HostUnfit
    from tiertune.tuner.calibration import measuring
    from tiertune.tuner.calibration.kept import read_measurements
    from tiertune.tuner.report.files import write_whole

    if earlier is not None:
        return read_measurements(earlier), None
    effort = measuring.SHORT if short else measuring.LONG
    if hosts is not None:
        from tiertune.tuner.fleet.calibration import remote

        host = remote(hosts, name)
    else:
        from tiertune.tuner.host_facts import environment_facts

        command = measuring.find_tierload(tierload)
        host = measuring.HostToMeasure(
            measuring.host_cpu(),
            measuring.nodes(),
            functools.partial(measuring.measured_here, command),
            environment_facts(),
        )
    if len(host.nodes) == 1 and below is None:
        raise HostUnfit(
            "this host has one memory node and a machine needs two tiers: name the machine whose slow tier"
            " stands below it with --slow-from, such as --slow-from spr-cxl"
        )
    measured = measuring.measure_host(host, effort, say)
    kept = results / "calibrations" / f"{name}.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_whole(kept, json.dumps(measured) + "\n")
    return measured, kept


def _import(machine: str, curve: Path, tier: str, out: Path | None, force: bool, as_json: bool) -> None:
    from tiertune.machines.definition import load_machine
    from tiertune.tuner.calibration.imported import imported_tier
    from tiertune.tuner.calibration.machine_file import check_target, with_curve
    from tiertune.tuner.calibration.published import read_points
    from tiertune.tuner.cli.output import print_json, print_table

    base = load_machine(machine)
    number = _tier_number(base, tier)
    points = read_points(curve)
    name = out.stem if out is not None else f"{base.name}-imported"
    target = out or Path("machines") / f"{name}.yaml"
    check_target(target, force)
    found = imported_tier(base.tiers[number], curve, points)
    _write(target, with_curve(base, number, found.tier, _name(name)))
    if as_json:
        print_json(
            {
                "machine": name,
                "tier": found.tier.name,
                "latency_ns": found.curve.latency_ns,
                "read_gbps": found.peaks.read_gbps,
                "write_gbps": found.tier.write_gbps,
                "curve": [list(point) for point in found.curve.points],
                "r_squared": found.curve.r_squared,
                "typical_residual": found.curve.typical_residual,
                "worst_residual": found.curve.worst_residual,
                "points": found.curve.count,
                "left_out": found.left_out,
                "files": [str(target)],
            }
        )
        return
    print_table(
        ["utilisation", "latency in ns", "multiple"],
        [
            (f"{place:.3f}", f"{found.curve.latency_ns * multiple:.1f}", f"{multiple:.3f}")
            for place, multiple in found.curve.points
        ],
        ["utilisation", "latency in ns", "multiple"],
    )
    print(found.tier.sources["curve"])
    print(target)


def _tier_number(machine: Machine, tier: str) -> int:
    from tiertune.files import InputError
    from tiertune.nearest import nearest

    names = [one.name for one in machine.tiers]
    if tier in names:
        return names.index(tier)
    if tier.isdecimal() and int(tier) < len(names):
        return int(tier)
    raise InputError(
        f"--tier {tier}: {machine.name} has no such tier; did you mean '{nearest(tier, names)}'?"
    )


def _name(text: str) -> str:
    """A name of a machine; raises `InputError`."""
    from pydantic import TypeAdapter, ValidationError

    from tiertune.fields import Name
    from tiertune.files import InputError

    try:
        return TypeAdapter(Name).validate_python(text)
    except ValidationError as error:
        raise InputError(f"MACHINE {text}: {error.errors()[0]['msg']}") from error


def _write(target: Path, machine: Machine) -> None:
    from tiertune.tuner.calibration.machine_file import machine_text
    from tiertune.tuner.report.files import write_whole

    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(target, machine_text(machine))


def _print(found: Calibrated) -> None:
    from tiertune.tuner.cli.output import console, print_table

    out = console()
    figures = [("", name, figure) for name, figure in found.figures.items()]
    figures += [
        (tier, name, figure) for tier, fit in found.fits.items() for name, figure in fit.figures.items()
    ]
    print_table(
        ["tier", "figure", "value", "low", "high", "unit"],
        [
            (tier, name, f"{one.value:.4g}", f"{one.low:.4g}", f"{one.high:.4g}", one.unit)
            for tier, name, one in figures
        ],
        ["value", "low", "high"],
    )
    for name, fit in found.fits.items():
        out.print()
        print_table(
            [f"{name}: utilisation", "multiple", "low", "high"],
            [
                (f"{place:.3f}", f"{multiple:.3f}", f"{low:.3f}", f"{high:.3f}")
                for (place, multiple), low, high in zip(
                    fit.curve.points, fit.curve_low, fit.curve_high, strict=True
                )
            ],
            [f"{name}: utilisation", "multiple", "low", "high"],
        )
    for fitted in found.machine.tiers:
        out.print(f"{fitted.name}: {fitted.sources['curve']}", markup=False)
    for note in found.machine.notes:
        out.print(note, markup=False)
