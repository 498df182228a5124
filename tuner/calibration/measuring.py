"""Measures a host with `tierload measure`: which nodes, how long, and the samples that come out."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiertune.tuner.backend import HostUnfit
from tiertune.tuner.calibration.kept import SCHEMA

ENVIRONMENT = "TIERTUNE_TIERLOAD"
NODES = Path("/sys/devices/system/node")
CPU = Path("/sys/devices/system/cpu")

PAUSES = (0, 2, 4, 8, 16, 32, 64, 128, 512)
"""Turns of a waiting loop after each 4 KiB: from full speed to next to nothing, about evenly in bandwidth."""
WRITE_SHARES = (0.0, 0.5)
STREAM_WRITE_SHARES = (0.0, 0.5, 1.0)

Sample = dict[str, Any]


@dataclass(frozen=True)
class Effort:
    """How much is measured: samples of each kind, their length, and buffers as multiples of the cache."""

    samples: int
    window_s: float
    cache_multiple: int


LONG = Effort(15, 0.2, 8)
SHORT = Effort(6, 0.06, 4)


@dataclass(frozen=True)
class Node:
    """A memory node of the host."""

    number: int
    capacity_bytes: int
    processors: tuple[int, ...]


@dataclass(frozen=True)
class HostCpu:
    """What the system says of the processors that may be used."""

    name: str
    cores: int
    clock_ghz: float
    llc_bytes: int
    """The last level, of all parts of one socket together."""
    inner_cache_bytes: int
    """The cache before the last level, of one core."""


def find_tierload(given: Path | None = None) -> Path:
    """The `tierload` command: as given, by TIERTUNE_TIERLOAD, beside this Python, on PATH, in the checkout.

    Raises `HostUnfit` with a sentence on how to get one.
    """
    named = given or (Path(os.environ[ENVIRONMENT]) if ENVIRONMENT in os.environ else None)
    if named is not None:
        if os.access(named, os.X_OK) and named.is_file():
            return named
        raise HostUnfit(f"{named}: there is no such command; make tierload builds it")
    found = shutil.which("tierload")
    target = Path(__file__).resolve().parents[2] / "engine" / "target"
    candidates = [Path(sys.executable).with_name("tierload"), *([Path(found)] if found else [])]
    candidates += [target / profile / "tierload" for profile in ("release", "debug")]
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return candidate
    raise HostUnfit(
        "there is no tierload, which measures; make tierload builds it, and --tierload or"
        f" {ENVIRONMENT} name one that is elsewhere"
    )


def nodes() -> list[Node]:
    """The nodes with memory; a host that does not say has one, with all of it."""
    import psutil

    usable = os.sched_getaffinity(0)
    found = []
    for folder in sorted(NODES.glob("node[0-9]*"), key=lambda path: int(path.name[4:])):
        total = [line for line in (folder / "meminfo").read_text().splitlines() if "MemTotal" in line]
        capacity = int(total[0].split()[-2]) * 1024 if total else 0
        listed = _numbers((folder / "cpulist").read_text())
        if capacity:
            found.append(Node(int(folder.name[4:]), capacity, tuple(sorted(usable & set(listed)))))
    return found or [Node(0, int(psutil.virtual_memory().total), tuple(sorted(usable)))]


def host_cpu() -> HostCpu:
    """Name, usable cores, clock and caches of the processor, as Linux tells them."""
    import psutil

    from tiertune.tuner.host_facts import environment_facts

    caches = {}
    first = min(os.sched_getaffinity(0))
    for folder in sorted((CPU / f"cpu{first}" / "cache").glob("index*")):
        if (folder / "type").read_text().strip() != "Instruction":
            caches[int((folder / "level").read_text())] = _cache_bytes(folder)
    if not caches:
        raise HostUnfit(f"{CPU}: does not tell the size of the caches; measurements need it to miss them")
    frequency = psutil.cpu_freq()
    if frequency is None:
        raise HostUnfit("the clock of the processors is not told by this host; it is part of a machine file")
    levels = sorted(caches)
    # Processors made of parts have a last level in each.
    caches[levels[-1]] = sum(_of_socket(first, levels[-1]).values())
    return HostCpu(
        environment_facts()["host"]["processor"],
        len(os.sched_getaffinity(0)),
        round((frequency.max or frequency.current) / 1000, 2),
        caches[levels[-1]],
        caches[levels[-2]] if len(levels) > 1 else 0,
    )


def _of_socket(processor: int, level: int) -> dict[str, int]:
    """Sizes of a level's caches in a processor's socket, by the processors that share each, in bytes."""
    package = "topology/physical_package_id"
    own = _told(CPU / f"cpu{processor}" / package)
    found = {}
    for folder in CPU.glob("cpu[0-9]*"):
        if _told(folder / package) != own:
            continue
        for index in (folder / "cache").glob("index*"):
            if _told(index / "level") == str(level) and _told(index / "type") != "Instruction":
                found[_told(index / "shared_cpu_list") or folder.name] = _cache_bytes(index)
    return found


def _cache_bytes(index: Path) -> int:
    size = _told(index / "size")
    return int(size.rstrip("KM")) * (2**20 if size.endswith("M") else 2**10)


def _told(path: Path) -> str:
    """The text of a kernel file, empty where there is none, as of a processor that is switched off."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True)
class Measurement:
    """A `tierload measure`: of which node, with which arguments, from which processors."""

    node: Node
    arguments: list[str]
    processors: tuple[int, ...]


Measure = Callable[[Sequence[Measurement]], Sequence[Sequence[Sample]]]
"""Carries measurements out, one after the other, and gives the samples of each."""


@dataclass(frozen=True)
class HostToMeasure:
    """A host, this one or another: what it is, how measurements are carried out on it, what else is known."""

    cpu: HostCpu
    nodes: Sequence[Node]
    measure: Measure
    environment: Mapping[str, Any]


def measure_host(host: HostToMeasure, effort: Effort, notify: Callable[[str], None]) -> dict[str, Any]:
    """Every measurement of every node, from the processors of the first that has any. As plain data.

    Raises `HostUnfit` where the host does not let a measurement happen.
    """
    wanted = measurements(host.cpu, host.nodes, effort)
    for node in host.nodes:
        notify(f"node {node.number}: idle and loaded latency, streams, random updates")
    if len(host.nodes) == 1:
        notify("one node: parts of a page's move, since there is no other node to move to")
    samples: dict[int, list[Sample]] = {}
    for measurement, come in zip(wanted, host.measure(wanted), strict=True):
        samples.setdefault(measurement.node.number, []).extend(come)
    nodes = {measurement.node.number: measurement.node for measurement in wanted}
    runs = [
        {
            "number": number,
            "capacity_bytes": node.capacity_bytes,
            "processors": len(node.processors),
            "samples": samples[number],
        }
        for number, node in nodes.items()
    ]
    return {"schema": SCHEMA, "cpu": host.cpu.__dict__, "nodes": runs, "environment": dict(host.environment)}


def measurements(cpu: HostCpu, found: Sequence[Node], effort: Effort) -> list[Measurement]:
    """What is measured of these nodes, the one with the processors first."""
    near = next((node for node in found if node.processors), found[0])
    # More threads than the node has processors would share them, and no slot be undisturbed.
    cores = len(near.processors) or cpu.cores
    bound = len(found) > 1
    wanted = []
    for node in [near, *(node for node in found if node is not near)]:
        place = ["--node", str(node.number)] if bound else []
        wanted += [
            (node, [*arguments, *place]) for arguments in _measurements(cpu, cores, effort, near is node)
        ]
        many = ["--samples", str(effort.samples)]
        if bound and node is not near:
            wanted.append((node, ["moves", "--to", str(node.number), "--node", str(near.number), *many]))
        elif not bound:
            wanted.append((node, ["moves", *many]))
    return [Measurement(node, arguments, near.processors) for node, arguments in wanted]


def measured_here(tierload: Path, wanted: Sequence[Measurement]) -> list[list[Sample]]:
    """Carries measurements out on this host. Raises `HostUnfit` with what tierload says."""
    return [run_tierload(tierload, entry.arguments, entry.processors) for entry in wanted]


def run_tierload(tierload: Path, arguments: Sequence[str], processors: Sequence[int]) -> list[Sample]:
    """One `tierload measure` on these processors; its samples. Raises `HostUnfit` with what it says."""
    with _confined(processors):
        ran = subprocess.run(
            [str(tierload), "measure", *arguments], capture_output=True, text=True, check=False
        )
    if ran.returncode:
        said = ran.stderr.strip().splitlines()
        raise HostUnfit(said[-1] if said else f"{tierload} measure ended with {ran.returncode}")
    return samples_in(ran.stdout)


@contextlib.contextmanager
def _confined(processors: Sequence[int]) -> Iterator[None]:
    """This thread on these processors, so that what it starts is, too: code between fork and exec would hang
    other threads (see live/scope.py). Raises `HostUnfit` where it may use none of them."""
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, processors or before)
    except OSError as error:
        listed = ", ".join(map(str, processors))
        raise HostUnfit(f"none of the processors {listed} may be used here: {error.strerror}") from error
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def samples_in(output: str) -> list[Sample]:
    """The samples in what `tierload measure` printed."""
    documents = [json.loads(line) for line in output.splitlines()]
    return [document for document in documents if document["event"] == "sample"]


def _measurements(cpu: HostCpu, cores: int, effort: Effort, near: bool) -> list[list[str]]:
    buffer = str(max(effort.cache_multiple * cpu.llc_bytes, 64 << 20) // 4096 * 4096)
    common = ["--samples", str(effort.samples), "--window-s", str(effort.window_s)]
    large = ["--buffer-bytes", buffer, *common]
    counts = sorted({1, cores})
    levels = [*_listed("--write-shares", WRITE_SHARES), *_listed("--pauses", PAUSES)]
    wanted = [
        ["loaded", "--threads", str(cores - 1), *levels, *large],
        ["stream", *_listed("--threads", counts), *_listed("--write-shares", STREAM_WRITE_SHARES), *large],
        ["updates", "--threads", "1", *large],
    ]
    if near:
        # Twice the cache before, so that most hops miss that and hit the last level.
        inside = max(min(2 * cpu.inner_cache_bytes, cpu.llc_bytes // 2), 65536) // 4096 * 4096
        wanted.append(["loaded", "--threads", "0", "--buffer-bytes", str(inside), *common])
        wanted[-1] += ["--label", "cache"]
    return wanted


def _listed(option: str, values: Sequence[float]) -> list[str]:
    return [option, ",".join(f"{value:g}" for value in values)]


def _numbers(text: str) -> list[int]:
    """`0-3,8` as Linux writes lists of processors."""
    numbers: list[int] = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def of_kind(samples: Sequence[Mapping[str, Any]], measure: str, label: str | None = None) -> list[Sample]:
    """The samples of a measurement that were undisturbed at least for a slot."""
    return [
        dict(sample)
        for sample in samples
        if sample["measure"] == measure and sample.get("label") == label and sample.get("undisturbed") != 0
    ]
