"""`record`: the access profile of a workload's kernel, or of any process of this host."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiertune.tuner.cli.failures import guarded
from tiertune.tuner.cli.options import RESULTS, Json, Results, Threads

if TYPE_CHECKING:
    from tiertune.workloads.measured import Declaration, Sightings

KERNEL_ONLY = ("page_size", "threads")
PROCESS_ONLY = ("pid", "out", "seconds", "sampler", "interval_ms", "access", "stalled")


@guarded
def record(
    context: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORKLOAD ... | -- COMMAND ...", help="Workloads, or a command."),
    ] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", "-m", help="For a workload: a machine, by name or file.")
    ] = None,
    page_size: Annotated[str, typer.Option(help="For a workload: page size, 2MiB or 4KiB.")] = "2MiB",
    threads: Threads = None,
    pid: Annotated[int | None, typer.Option(min=1, help="A process that runs, instead of a command.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="Profile of a process; by default results/profiles/PROGRAM.parquet."
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0.1, help="Watch for so long, then end the command; by default until it ends."),
    ] = None,
    sampler: Annotated[
        str, typer.Option(help="auto, referenced (loads and stores, 2 MiB) or written (stores, 4 KiB).")
    ] = "auto",
    interval_ms: Annotated[
        float, typer.Option(min=1, max=60_000, help="Least time from one look to the next.")
    ] = 100.0,
    access: Annotated[
        list[str] | None,
        typer.Option(
            "--class",
            metavar="CLASS[:RANGE]",
            help="dependent, independent or sequential; for an area (heap) or addresses (0x..-0x..).",
        ),
    ] = None,
    stalled: Annotated[
        float, typer.Option(min=0.01, max=0.95, help="Share of its time that the program waits for memory.")
    ] = 0.5,
    results: Results = RESULTS,
    as_json: Json = False,
) -> None:
    """Record a workload's kernel, or any process.

    With --machine: executes the workload's kernel and keeps its profile, as
    campaigns do by themselves; use it to see what was scaled and how. Several
    are recorded side by side; @ci is all that have a preset of that name.

    Without: runs COMMAND, or watches --pid, and samples which pages it and its
    children touch. The profile can be used at once wherever a workload can.

    \b
    Examples:
      tiertune record bc-kron -m skx-numa
      tiertune record @ci -m skx-numa
      tiertune record -o sort.parquet -- sort /usr/share/dict/words
      tiertune record --pid 4711 --seconds 30 --class dependent:heap
      tiertune run hemem -w results/profiles/sort.parquet -m skx-numa
    """
    from tiertune.files import InputError
    from tiertune.tuner.cli.writable import check_file, check_folder

    given = {name for name in (*KERNEL_ONLY, *PROCESS_ONLY) if _given(context, name)}
    if machine is not None:
        extra = sorted(given & set(PROCESS_ONLY))
        if extra:
            raise InputError(
                f"{_option(extra[0])} is for processes, and --machine for workloads; give one of them"
            )
        if not what:
            raise InputError("with --machine workloads are recorded: tiertune record WORKLOAD -m MACHINE")
        if len(what) == 1 and not what[0].startswith("@"):
            _record_kernel(what[0], machine, page_size, threads, results, as_json)
            return
        from tiertune.tuner.cli.record_set import record_all

        record_all(what, machine, _page_bytes(page_size), threads, results, as_json)
        return
    extra = sorted(given & set(KERNEL_ONLY))
    if extra:
        raise InputError(f"{_option(extra[0])} is for workloads, which need --machine, too")
    if (pid is None) == (not what):
        raise InputError("give a command (tiertune record -- COMMAND ...) or --pid, one of the two")
    if out is not None and out.suffix != ".parquet":
        raise InputError(f"--out: {out} must end in .parquet")
    declared = [declaration(text) for text in access or []]
    folder = results / "profiles"
    # What a program did is seen once: it must not be lost at the end.
    if out is not None:
        check_file("--out", out, makes_folders=True)
    else:
        check_folder("--results", folder)
    seen = _sample(what or [], pid, sampler, seconds, interval_ms / 1000, as_json)
    path = out or folder / f"{_plain(seen.program)}.parquet"
    finish(seen, declared, stalled, path, as_json, once=True)


def _given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _option(name: str) -> str:
    return "--class" if name == "access" else f"--{name.replace('_', '-')}"


def _plain(program: str) -> str:
    from tiertune.workloads.measured import default_name

    return default_name(Path(Path(program.split()[0]).name + ".parquet"))


def declaration(text: str) -> Declaration:
    """`dependent`, `sequential:heap` or `independent:0x7f..-0x7f..`; raises `InputError`."""
    from tiertune.files import InputError
    from tiertune.nearest import nearest
    from tiertune.workloads.measured import DECLARED, PAGE_BYTES, Declaration

    name, colon, where = text.partition(":")
    if name not in DECLARED:
        raise InputError(f"--class {text}: '{name}' is no class; did you mean '{nearest(name, DECLARED)}'?")
    if not colon:
        return Declaration(name)
    low, dash, high = where.partition("-")
    if where.startswith("0x") and dash:
        try:
            first, last = int(low, 16), int(high, 16)
        except ValueError:
            raise InputError(f"--class {text}: write addresses as 0x7f0000000000-0x7f0000200000") from None
        if last <= first:
            raise InputError(f"--class {text}: the range ends before it begins")
        return Declaration(name, pages=(first // PAGE_BYTES, -(-last // PAGE_BYTES)))
    if not where:
        raise InputError(
            f"--class {text}: after the colon an area (heap) or addresses (0x..-0x..) are expected"
        )
    return Declaration(name, label=where)


def _sample(
    command: list[str], pid: int | None, wanted: str, seconds: float | None, interval_s: float, quiet: bool
) -> Sightings:
    """Chooses a sampler, runs it on the command or process, and tells about both."""
    from tiertune import engine
    from tiertune.files import InputError
    from tiertune.nearest import nearest
    from tiertune.tuner.cli.failures import say
    from tiertune.workloads.measured import NothingSeen
    from tiertune.workloads.sampling import SEES, choose, sample_process

    names = ("auto", *engine.samplers())
    if wanted not in names:
        raise InputError(
            f"--sampler: there is no sampler '{wanted}'; did you mean '{nearest(wanted, names)}'?"
        )
    chosen, why = choose(wanted)
    say(f"sampler {chosen}, {why}; it sees {SEES[chosen]}")
    try:
        if pid is not None:
            return sample_process(pid, _program_of(pid), chosen, seconds, interval_s)
        return _sample_command(command, chosen, seconds, interval_s, quiet)
    except NothingSeen as error:
        raise InputError(f"{error}") from error


def _program_of(pid: int) -> str:
    from tiertune.files import InputError

    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return _spelled(" ".join(word.decode(errors="replace") for word in words if word) or f"process {pid}")
    except OSError:
        raise InputError(f"--pid: there is no process {pid}") from None


def _spelled(program: str) -> str:
    """A command on one line, not too long for reports."""
    program = " ".join(program.split())
    return program if len(program) <= 120 else program[:117] + "..."


def _sample_command(
    command: list[str], sampler: str, seconds: float | None, interval_s: float, quiet: bool
) -> Sightings:
    import dataclasses
    import shlex
    import subprocess
    import sys

    from tiertune.arithmetic import restore_environment
    from tiertune.engine import EngineError
    from tiertune.files import InputError
    from tiertune.tuner.cli.failures import say
    from tiertune.workloads.sampling import sample_process

    restore_environment()
    try:
        process = subprocess.Popen(command, stdout=sys.stderr if quiet else None)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "; a workload of ours is recorded with --machine" if len(command) == 1 else ""
        raise InputError(f"{command[0]} cannot be started: {reason}{hint}") from error
    try:
        seen = sample_process(process.pid, _spelled(shlex.join(command)), sampler, seconds, interval_s)
    except EngineError:
        raise InputError(f"{command[0]} ended before it could be watched") from None
    finally:
        ended = _ended(process)
    if ended == 0:
        return seen
    if ended is None:
        note = "The command still ran when the recording ended; what it had yet to do is not in the profile"
    else:
        how = f"by {_signal_name(-ended)}" if ended < 0 else f"with exit code {ended}"
        say(f"warning: {command[0]} ended {how}")
        note = f"The command ended {how}; the profile may be of a part of its work"
    return dataclasses.replace(seen, notes=(*seen.notes, note))


def _signal_name(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:  # of the real-time signals only the first and the last have names
        return f"signal {number}"


def _ended(process: object) -> int | None:
    """Its exit code; None for one that still ran, which is ended with all that it started, first with a
    request: how it ended says nothing about it."""
    import contextlib
    import subprocess

    import psutil

    assert isinstance(process, subprocess.Popen)
    try:
        return int(process.wait(timeout=0.2))
    except subprocess.TimeoutExpired:
        pass
    family: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        family = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    for one in family:
        with contextlib.suppress(psutil.Error):
            one.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for one in psutil.wait_procs(family, timeout=5)[1]:
        with contextlib.suppress(psutil.Error):
            one.kill()
    return None


def finish(
    seen: Sightings,
    declared: list[Declaration],
    stalled: float,
    path: Path,
    as_json: bool,
    *,
    once: bool = False,
) -> None:
    """Makes a profile of what was seen, keeps it at `path` and tells about it; raises `InputError`.

    What was seen `once` is kept also where something was declared of memory that is not there.
    """
    from tiertune.files import InputError
    from tiertune.workloads.measured import NothingSeen, profile_of

    wrong = {entry: text for entry in declared if (text := _astray(seen, entry)) is not None}
    if wrong and not once:
        raise InputError(*wrong.values())
    try:
        columns, metadata = profile_of(seen, [entry for entry in declared if entry not in wrong], stalled)
    except NothingSeen as error:
        raise InputError(str(error)) from error
    write_measured(path, columns, metadata)
    if as_json:
        from tiertune.tuner.cli.output import print_json

        print_json({"file": str(path), **describe(metadata)})
    else:
        print_measured(path, metadata)
    if wrong:
        raise InputError(*(f"{text}; {path} is kept without that" for text in wrong.values()))


def _astray(seen: Sightings, entry: Declaration) -> str | None:
    """What is wrong with a declaration that is of no memory that was seen."""
    from tiertune.workloads.measured import PAGE_BYTES, PROCESS_SHIFT

    labels = sorted({area.label for area in seen.areas})
    if entry.label is not None and entry.label not in labels:
        return f"--class: there is no area '{entry.label}'; areas are {', '.join(labels)}"
    if entry.pages is not None:
        pages = seen.resident & ((1 << PROCESS_SHIFT) - 1)
        low, high = entry.pages
        if not ((pages >= low) & (pages < high)).any():
            return f"--class: no page was seen in {low * PAGE_BYTES:#x}-{high * PAGE_BYTES:#x}"
    return None


def write_measured(path: Path, columns: object, metadata: str) -> None:
    """Keeps a measured profile; raises `InputError` where it cannot be written."""
    from typing import cast

    from tiertune.files import InputError
    from tiertune.workloads.profile_file import write_profile

    try:
        write_profile(path, cast("dict[str, Any]", columns), metadata)
    except OSError as error:
        raise InputError(
            f"--out: {path} cannot be written ({(error.strerror or str(error)).lower()})"
        ) from error


def describe(metadata: str) -> dict[str, Any]:
    """What a measured profile says of itself."""
    import json

    told = json.loads(metadata)
    objects = [{"name": info["name"], "bytes": info["bytes"]} for info in told["objects"]]
    return {
        **told["measured"],
        "footprint_bytes": sum(info["bytes"] for info in told["objects"]),
        "slices": len(told["slices"]),
        "objects": objects,
    }


def print_measured(path: Path, metadata: str) -> None:
    """A measured profile in words."""
    from tiertune.tuner.cli.output import console
    from tiertune.tuner.report.numbers import quantity

    told = describe(metadata)
    out = console()
    size = quantity(told["footprint_bytes"], "bytes")
    out.print(
        f"{told['program']}: {size}, {told['threads']} busy threads, {told['slices']} slices", markup=False
    )
    looks = told["parameters"]
    if "looking_share" in looks:
        share = float(looks["looking_share"])
        out.print(f"{looks['looks']} looks, which took {share:.1%} of the time", markup=False)
    for note in told["notes"]:
        out.print(f"note: {note}", markup=False)
    out.print(f"profile {path}", markup=False, soft_wrap=True)


def _page_bytes(page_size: str) -> int:
    from tiertune.engine import systems
    from tiertune.files import InputError
    from tiertune.tuner.api.evaluation import checked
    from tiertune.units import format_size

    page_bytes = checked("--page-size", page_size)
    sizes = sorted({size for system in systems() for size in system.page_bytes})
    if page_bytes not in sizes:
        near = format_size(min(sizes, key=lambda size: abs(size - page_bytes)))
        raise InputError(f"--page-size: no system manages pages of {page_size}; the nearest size is {near}")
    return page_bytes


def _record_kernel(
    workload: str, machine: str, page_size: str, threads: int | None, results: Path, as_json: bool
) -> None:
    from tiertune.machines.definition import load_machine
    from tiertune.tuner.cli.failures import say
    from tiertune.tuner.cli.output import console, print_json
    from tiertune.tuner.report.numbers import quantity
    from tiertune.workloads.definition import load_workload
    from tiertune.workloads.profile import profile_for

    definition, model = load_workload(workload), load_machine(machine)
    page_bytes = _page_bytes(page_size)
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
