"""Recorded profiles: executed once, kept as Parquet, carried to the workload's input for every campaign.

A profile's file name is the hash of what was asked for, so equal requests share one file and nothing stale is
ever read. The files are ordinary Parquet: one row per time slice, object, access class and 4 KiB page; what
the numbers stand for is JSON in the schema metadata under `tiertune.metadata`.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiertune.engine import EngineError, EngineWorkload, profile_version, record, version
from tiertune.files import InputError
from tiertune.machines.definition import Machine
from tiertune.workloads.definition import Workload

if TYPE_CHECKING:
    import numpy as np

Columns = Mapping[str, "np.ndarray[Any, Any]"]
Notify = Callable[[str], None]

DEFAULT_PAGE_BYTES = 2 * 2**20
METADATA_KEY = b"tiertune.metadata"
DIGEST_KEY = b"tiertune.sha256"


class UnreadableProfile(Exception):
    """A stored profile that is not what was written; the sentence says why."""


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
    `EngineError` when the engine refuses the request.
    """
    sim = workload.sim
    if sim.streams is not None:
        return EngineWorkload.from_streams(sim.streams.document())
    threads = threads or workload.threads
    if sim.profile is not None:
        columns, metadata = opened(Path(sim.profile.file), sim.profile.sha256)
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


def write_profile(path: Path, columns: Columns, metadata: str) -> None:
    """Writes a profile as Parquet; the file appears whole or not at all. Raises `OSError`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    table = table.replace_schema_metadata(
        {METADATA_KEY: metadata.encode(), DIGEST_KEY: _digest(columns, metadata).encode()}
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.stem}-", suffix=".part", dir=path.parent)
    os.close(handle)
    try:
        pq.write_table(table, temporary, compression="zstd")
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_profile(path: Path) -> tuple[dict[str, np.ndarray[Any, Any]], str]:
    """Columns and metadata as they were written; raises `UnreadableProfile`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        stored = table.schema.metadata or {}
        metadata = stored[METADATA_KEY].decode()
        columns = {name: table.column(name).to_numpy() for name in table.column_names}
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UnreadableProfile(str(error).splitlines()[0].rstrip(".")) from error
    except KeyError as error:
        raise UnreadableProfile("it holds no tiertune.metadata") from error
    if stored.get(DIGEST_KEY, b"").decode(errors="replace") != _digest(columns, metadata):
        raise UnreadableProfile("its content does not match its checksum")
    return columns, metadata


def opened(path: Path, sha256: str | None = None) -> tuple[dict[str, np.ndarray[Any, Any]], str]:
    """`read_profile` for a file that a user names; raises `InputError`, also where its content is not `sha256`."""
    try:
        columns, metadata = read_profile(path)
    except UnreadableProfile as error:
        raise InputError(f"{path}: this is not a profile ({error})") from error
    found = _digest(columns, metadata)
    if sha256 is not None and sha256 != found:
        raise InputError(f"{path}: the profile is another one than that the workload names (sha256 {found})")
    return columns, metadata


def read_head(path: Path) -> tuple[dict[str, Any], str]:
    """Metadata of a profile and the digest of its content, without its rows; raises `UnreadableProfile`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        stored = pq.read_schema(path).metadata or {}
        metadata = json.loads(stored[METADATA_KEY].decode())
    except (pa.ArrowException, OSError, ValueError) as error:
        raise UnreadableProfile(str(error).splitlines()[0].rstrip(".")) from error
    except KeyError as error:
        raise UnreadableProfile("it holds no tiertune.metadata") from error
    if not isinstance(metadata, dict):
        raise UnreadableProfile("its metadata is no mapping")
    return metadata, stored.get(DIGEST_KEY, b"").decode(errors="replace")


def _digest(columns: Columns, metadata: str) -> str:
    digest = hashlib.sha256(metadata.encode())
    for name in sorted(columns):
        values = columns[name]
        digest.update(f"\n{name} {values.dtype.str} {len(values)}\n".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def _spelled(request: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in request.items())
