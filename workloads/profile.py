"""Recorded profiles: executed once, kept as Parquet, carried to the workload's input for every campaign.

A profile's file name is the hash of what was asked for, so equal requests share one file and nothing stale is
ever read. The files are ordinary Parquet: one row per time slice, object, access class and 4 KiB page; what
the numbers stand for is JSON in the schema metadata under `tiertune.metadata`.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tiertune.engine import EngineError, EngineWorkload, profile_version, record, version
from tiertune.machines.definition import Machine
from tiertune.memory_limit import TooLittleMemory, free_bytes, too_little
from tiertune.workloads.definition import Workload
from tiertune.workloads.kernels import carried
from tiertune.workloads.profile_file import UnreadableProfile, opened, read_profile, write_profile

Notify = Callable[[str], None]

DEFAULT_PAGE_BYTES = 2 * 2**20

RECORDING_BYTES = 64 * 2**20
"""What a recording takes beside what grows with its objects."""
MOST_PER_BYTE = 3.0
"""Most memory that a recording takes for a byte of its objects: 1.1 to 3.0 where kernels keep their data (a
graph is built from a list of edges), measured for every kernel at two sizes."""
ADDRESSES_PER_BYTE = {"gups": 1.0, "gups_objects": 1.0}
"""The same for kernels that keep no data while they are recorded, only addresses: 0.3 to 0.9."""


def profile_for(
    workload: Workload,
    machine: Machine,
    threads: int | None,
    cache_dir: Path,
    notify: Notify,
    *,
    page_bytes: int = DEFAULT_PAGE_BYTES,
) -> EngineWorkload:
    """The workload as the engine runs it, for `threads` threads (None: as the workload says).

    Synthetic streams are built at once. A kernel is executed and recorded the first time, which takes
    seconds, and read from `cache_dir` afterwards; `notify` gets plain sentences about that. A stored profile
    that cannot be used is recorded again. `page_bytes` is the page size of the runs to come. Raises
    `EngineError` when the engine refuses the request, `TooLittleMemory` where a recording would not fit.
    """
    sim = workload.sim
    if sim.streams is not None:
        return EngineWorkload.from_streams(sim.streams.document())
    threads = threads or workload.threads
    if sim.profile is not None:
        columns, metadata = opened(Path(sim.profile.file), sim.profile.digest)
        return EngineWorkload.from_profile(columns, metadata, workload.carry_request(page_bytes), threads)
    request = record_request(workload, machine, threads)
    carry = workload.carry_request(page_bytes)
    path = profile_path(cache_dir, workload.name, request)
    if path.exists():
        try:
            columns, metadata = read_profile(path)
            return EngineWorkload.from_profile(columns, metadata, carry, threads)
        except (UnreadableProfile, EngineError) as error:
            notify(f"warning: the stored profile {path} cannot be used ({error}); recording it again")
    check_recording_fits(workload, machine, threads)
    notify(f"recording {workload.name}: {_spelled(request)}")
    started = time.monotonic()
    columns, metadata = record(request)
    loaded = EngineWorkload.from_profile(columns, metadata, carry, threads)
    took = time.monotonic() - started
    try:
        write_profile(path, columns, metadata)
        notify(
            f"recorded {workload.name} in {took:.1f} s, kept in {path} ({path.stat().st_size / 1e6:.1f} MB)"
        )
    except OSError as error:
        what = f"recorded {workload.name} in {took:.1f} s"
        notify(f"warning: {what}, but {path} cannot be written: {error.strerror}")
    return loaded


def recording_bytes(workload: Workload, machine: Machine, threads: int) -> int:
    """About the most memory that recording a workload's kernel takes."""
    plan = workload.record_plan(machine.llc_bytes, threads)
    kernel = str(workload.kernel_request(threads)["kernel"])
    return RECORDING_BYTES + int(plan.recorded_bytes * ADDRESSES_PER_BYTE.get(kernel, MOST_PER_BYTE))


def check_recording_fits(workload: Workload, machine: Machine, threads: int) -> None:
    """Raises `TooLittleMemory` where a recording would be ended for want of memory, before it begins."""
    needed, free = recording_bytes(workload, machine, threads), free_bytes()
    if needed <= free:
        return
    record = workload.kernel_request(threads)
    sizes = [name for name in carried(str(record["kernel"])) if name in record]
    smaller = "a smaller sim.record"
    if sizes:
        smaller += f".{sizes[0]} (it is {record[sizes[0]]}), sim.carry.{sizes[0]} keeps what it stands for"
    remedy = f"write {smaller}, or end what else runs; `tiertune doctor` says how much is free"
    raise TooLittleMemory(too_little(f"recording {workload.name}", needed, free, remedy))


def record_request(workload: Workload, machine: Machine, threads: int) -> dict[str, Any]:
    """What the engine is asked to execute, with the last-level cache scaled as the footprint is.

    A run that is recorded at a hundredth of its footprint sees a hundredth of the cache, so that the same
    share of accesses reaches memory. Raises `EngineError` when the engine refuses the kernel.
    """
    scaled = workload.record_plan(machine.llc_bytes, threads).llc_bytes
    return {**workload.kernel_request(threads), "llc_bytes": scaled}


def profile_path(cache_dir: Path, name: str, request: Mapping[str, Any]) -> Path:
    """Where the profile of `request` is kept; another one as soon as the recorder counts differently."""
    text = json.dumps([dict(request), version(), profile_version()], sort_keys=True, separators=(",", ":"))
    return cache_dir / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.parquet"


def _spelled(request: Mapping[str, Any]) -> str:
    """The request in one line; what has many of its own, such as a script, is not repeated."""
    texts = {key: str(value) for key, value in request.items()}
    return ", ".join(
        f"{key} of {len(text.splitlines())} lines" if "\n" in text else f"{key} {text}"
        for key, text in texts.items()
    )
