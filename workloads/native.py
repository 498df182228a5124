"""The `host` part of a workload that has none: our own `tierload`, with the kernel and the parameters that
are recorded for the simulation, at the input that the recording is carried to; for streams, the kernel that
the file names beside them.

`tierload` makes the work grow with the input as the engine does, so that nothing is declared twice. It does
the work as often as `carry.runs` says where a kernel can go on with the same data; kernels that come to an
end (connected components, a training) run once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tiertune.workloads.kernels import THREADS, KernelRecord, carried, kernel, work_parameter
from tiertune.workloads.live import HEADROOM_BYTES, ContainerPart, HostPart
from tiertune.workloads.streams import share_of_bytes

LOADING_PER_BYTE = 3
"""Most memory that a kernel takes for a byte of its objects while it fills them: a graph is built from a list
of edges."""

TIMEOUT_S = 36_000.0


def native_part(
    record: Mapping[str, Any], sizes: Mapping[str, int], footprint_bytes: int, runs: int = 1
) -> HostPart:
    """What a host runs: `record` as in a workload's file, carried to `sizes`, its work done `runs` times."""
    info = kernel(str(record["kernel"]))
    words = ["tierload", info.family, info.name]
    for parameter in info.parameters:
        if parameter.name != THREADS and record.get(parameter.name) is not None:
            words.append(f"--{parameter.name.replace('_', '-')}={_spelled(record[parameter.name])}")
    words += [f"--carry={name}={size}" for name, size in sizes.items()]
    if runs > 1 and work_parameter(info.name) is not None:
        words.append(f"--runs={runs}")
    return HostPart(
        command=[*words, "--threads={threads}", "--json"],
        footprint=footprint_bytes,
        timeout_s=TIMEOUT_S,
        container=ContainerPart(memory=LOADING_PER_BYTE * footprint_bytes + HEADROOM_BYTES),
    )


def shorter(record: KernelRecord, share: float) -> KernelRecord | None:
    """The kernel with `share` of its work; None for one whose work is not counted by itself."""
    work = work_parameter(record.kernel)
    if work is None:
        return None
    return record.model_copy(update={work: max(1, round(getattr(record, work) * share))})


def smaller(record: KernelRecord, share: float) -> KernelRecord:
    """The kernel on memory of `share` of its size, as `Streams.resized` makes objects."""
    sizes = {name: share_of_bytes(getattr(record, name), share) for name in carried(record.kernel)}
    return record.model_copy(update=sizes)


def _spelled(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
