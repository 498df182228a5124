"""`record` of several workloads side by side: those that are named, or all that have a preset."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tiertune.machines.definition import Machine
    from tiertune.workloads.definition import Workload


@dataclass(frozen=True)
class Recorded:
    """What came of one of them."""

    workload: str
    footprint_bytes: int
    profile_bytes: int
    seconds: float


class Room:
    """Memory that recordings share: as many of them run side by side as fit together."""

    def __init__(self, free_bytes: int) -> None:
        self._free_bytes, self._taken_bytes, self._closed = free_bytes, 0, False
        self._changed = threading.Condition()

    @contextmanager
    def for_bytes(self, needed: int) -> Iterator[None]:
        """Waits until so much is left, or until nothing else runs: whether it fits alone is for the recording
        to say. Raises `InterruptedError` once closed."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._closed or self._taken_bytes == 0 or self._taken_bytes + needed <= self._free_bytes
                )
            )
            if self._closed:
                raise InterruptedError("another recording failed")
            self._taken_bytes += needed
        try:
            yield
        finally:
            with self._changed:
                self._taken_bytes -= needed
                self._changed.notify_all()

    def close(self) -> None:
        """Whoever waits need not begin any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


def workloads_named(names: Sequence[str]) -> list[Workload]:
    """The workloads; `@ci` alone is every one that has this preset and executes a kernel."""
    from tiertune import files
    from tiertune.files import InputError
    from tiertune.nearest import nearest
    from tiertune.workloads.definition import load_workload

    found: list[Workload] = []
    for name in names:
        if not name.startswith("@"):
            one = load_workload(name)
            if one.sim.record is None:
                raise InputError(f"workload {one.name} executes no kernel; there is nothing to record")
            found.append(one)
            continue
        preset = name[1:]
        every = [load_workload(known) for known in files.names("workloads")]
        having = [one.preset(preset) for one in every if preset in one.presets and one.sim.record is not None]
        if not having:
            known = sorted({word for one in every for word in one.presets})
            raise InputError(
                f"no workload has a preset '{preset}'; did you mean '@{nearest(preset, known)}'?"
            )
        found += having
    return found


def record_all(
    names: Sequence[str], machine: str, page_bytes: int, threads: int | None, results: Path, as_json: bool
) -> None:
    """Records workloads, as many at a time as there are processors and memory for, and prints what came of
    each."""
    from tiertune.machines.definition import load_machine
    from tiertune.tuner.cli.output import print_json, print_table
    from tiertune.tuner.report.numbers import quantity

    model, started = load_machine(machine), time.monotonic()
    rows = _side_by_side(workloads_named(names), model, page_bytes, threads, results / "profiles")
    seconds = time.monotonic() - started
    if as_json:
        print_json({"machine": model.name, "seconds": seconds, "recorded": [vars(row) for row in rows]})
        return
    print_table(
        ["workload", "footprint", "profile", "seconds"],
        [
            (
                row.workload,
                quantity(row.footprint_bytes, "bytes"),
                quantity(row.profile_bytes, "bytes"),
                f"{row.seconds:.1f}",
            )
            for row in rows
        ],
        numeric=["footprint", "profile", "seconds"],
    )
    print(f"{len(rows)} profiles in {seconds:.0f} s")


def _side_by_side(
    workloads: Sequence[Workload], machine: Machine, page_bytes: int, threads: int | None, folder: Path
) -> list[Recorded]:
    from tiertune.engine import EngineError
    from tiertune.memory_limit import free_bytes
    from tiertune.tuner.cli.failures import say
    from tiertune.workloads.profile import profile_for, profile_path, record_request, recording_bytes

    room = Room(free_bytes())

    def one(workload: Workload) -> Recorded:
        count = threads or workload.threads
        try:
            path = profile_path(folder, workload.name, record_request(workload, machine, count))
            needed = 0 if path.is_file() else recording_bytes(workload, machine, count)
            with room.for_bytes(needed):
                started = time.monotonic()
                loaded = profile_for(
                    workload, machine, threads, folder, lambda _: None, page_bytes=page_bytes
                )
        except EngineError as error:
            raise EngineError(f"{workload.name}: {error}") from error
        size = path.stat().st_size if path.is_file() else 0
        return Recorded(workload.name, loaded.footprint_bytes, size, time.monotonic() - started)

    rows: dict[str, Recorded] = {}
    # The engine lets other threads run while it records.
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        waiting = [pool.submit(one, workload) for workload in workloads]
        try:
            for done in as_completed(waiting):
                row = done.result()
                rows[row.workload] = row
                say(f"{len(rows)} of {len(workloads)}: {row.workload}, {row.seconds:.1f} s")
        except BaseException:
            # What has not begun need not.
            room.close()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [rows[workload.name] for workload in workloads]
