"""`doctor`: what this machine is ready for, and the one command that mends each thing that is not."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from tiertune.tuner.cli.failures import UNFIT_HOST, guarded
from tiertune.tuner.cli.options import RESULTS, Json, Results
from tiertune.tuner.cli.ui import PORT

PACKAGES = (
    "smac",
    "ConfigSpace",
    "mlflow",
    "numpy",
    "scipy",
    "pyarrow",
    "pydantic",
    "matplotlib",
    "jinja2",
    "psutil",
)
GIB = 1 << 30
MEMORY_BYTES, TIGHT_MEMORY_BYTES, DISK_BYTES = 384 << 20, 6 * GIB, 1 * GIB
MARKS = {"ok": "ok", "warning": "!!", "bad": "XX"}


@dataclass(frozen=True)
class Finding:
    """One thing looked at. `remedy` is a command or an instruction, empty where all is well."""

    name: str
    state: Literal["ok", "warning", "bad"]
    detail: str
    remedy: str = ""


@guarded
def doctor(
    results: Results = RESULTS,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port that `tiertune ui` would use.")] = PORT,
    host: Annotated[
        bool, typer.Option("--host", help="Also whether live trials can run here, and by which signals.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check what this machine is ready for.

    Python, engine, packages, memory, disk, results, tracking, port; with
    --host also memory tiers, signals, and who else uses the machine.

    \b
    Ends with 0 when everything needed is there, 3 when something is missing.
    Examples:
      tiertune doctor
      tiertune doctor --host
    """
    from tiertune.tuner.cli.output import console, print_json, print_table
    from tiertune.tuner.live.readiness import readiness

    found = findings(results, port)
    if host:
        found += [Finding(name, state, detail, remedy) for name, state, detail, remedy in readiness()]
    bad = any(finding.state == "bad" for finding in found)
    if as_json:
        print_json({"fit": not bad, "findings": [asdict(finding) for finding in found]})
    else:
        print_table(["", "what", "found"], [(MARKS[f.state], f.name, f.detail) for f in found])
        out = console()
        for finding in found:
            if finding.remedy:
                out.print(f"\n{finding.name}: {finding.remedy}", markup=False, soft_wrap=True)
        fit = "Fit for live trials on this host." if host else "Fit for campaigns on the simulator."
        out.print("\nNot fit yet." if bad else f"\n{fit}")
    if bad:
        raise typer.Exit(UNFIT_HOST)


def findings(results: Path, port: int) -> list[Finding]:
    """Everything looked at, in the order of the table. Changes nothing on this machine."""
    return [
        _python(),
        _engine(),
        *_packages(),
        _memory(),
        _disk(results),
        _writable(results),
        _tracking(results),
        _port(port),
    ]


def _python() -> Finding:
    import platform
    import sys

    version = platform.python_version()
    # An older Python fails while installing; this is for environments that were copied or pinned by hand.
    if tuple(sys.version_info) < (3, 11):
        return Finding("python", "bad", version, "install Python 3.11 or newer, then `make setup`")
    return Finding("python", "ok", version)


def _engine() -> Finding:
    from tiertune import __version__, engine

    try:
        version = engine.version()
    except engine.EngineError as error:
        return Finding("engine", "bad", str(error), "make setup")
    if version != __version__:
        return Finding("engine", "bad", f"{version}, but tiertune is {__version__}", "make setup")
    return Finding("engine", "ok", f"{version}, {len(engine.systems())} systems")


def _packages() -> list[Finding]:
    from importlib import metadata

    missing, present = [], []
    for package in PACKAGES:
        try:
            present.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            missing.append(package)
    if missing:
        return [Finding("packages", "bad", f"missing: {', '.join(missing)}", "make setup")]
    return [Finding("packages", "ok", ", ".join(present))]


def _memory() -> Finding:
    import psutil

    from tiertune.memory_limit import free_bytes

    free = free_bytes()
    detail = f"{free / GIB:.1f} GiB available, {psutil.cpu_count()} CPUs"
    if free < MEMORY_BYTES:
        return Finding("memory", "bad", detail, f"free some: campaigns want {MEMORY_BYTES >> 20} MiB")
    if free < TIGHT_MEMORY_BYTES:
        return Finding(
            "memory", "warning", detail, "enough for the demo; large 4 KiB-page workloads want more"
        )
    return Finding("memory", "ok", detail)


def _disk(results: Path) -> Finding:
    import psutil

    place = _existing(results)
    free = psutil.disk_usage(str(place)).free
    detail = f"{free / GIB:.1f} GiB free at {place}"
    if free < DISK_BYTES:
        return Finding("disk", "bad", detail, "free some, or point TIERTUNE_RESULTS at another disk")
    return Finding("disk", "ok", detail)


def _writable(results: Path) -> Finding:
    import os

    place = _existing(results)
    if not os.access(place, os.W_OK | os.X_OK) or not place.is_dir():
        return Finding(
            "results", "bad", f"{place} cannot be written to", "point TIERTUNE_RESULTS at a folder of yours"
        )
    return Finding("results", "ok", f"{results} " + ("exists" if results.is_dir() else "will be made"))


def _tracking(results: Path) -> Finding:
    import sqlite3

    path = results / "mlflow.sqlite"
    if not path.exists():
        return Finding("mlflow db", "ok", f"{path} will be made by the first campaign")
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:
            runs = connection.execute("select count(*) from runs").fetchone()[0]
        finally:
            connection.close()
    except sqlite3.Error as error:
        remedy = f"mv {path} {path}.broken && tiertune resume CAMPAIGN (it fills a new one from the journal)"
        return Finding("mlflow db", "warning", f"{path}: {error}", remedy)
    return Finding("mlflow db", "ok", f"{path}, {runs} runs")


def _port(port: int) -> Finding:
    import socket

    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return Finding("port", "warning", f"{port} is taken", f"tiertune ui --port {port + 1}")
    return Finding("port", "ok", f"{port} is free for `tiertune ui`")


def _existing(path: Path) -> Path:
    """`path` or the closest folder above it that exists."""
    place = path.resolve()
    while not place.exists():
        place = place.parent
    return place
