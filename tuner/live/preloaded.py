"""Libraries of a system as published: built for each configuration, and loaded before the workload."""

from __future__ import annotations

import hashlib
import shutil
import struct
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tiertune.adapters.hemem import RATE_MODE
from tiertune.adapters.registry import adapter_for
from tiertune.tuner.backend import ConfigRejected, HostUnfit
from tiertune.tuner.live.fitness import HUGE_BYTES
from tiertune.tuner.live.scope import Ended, run_in_scope
from tiertune.tuner.live.stop import Stop
from tiertune.tuner.trial import Config
from tiertune.tuner.upstream import Upstream

MACROS = "macros.h"
NOT_LOADED = "cannot be preloaded"
"""What the dynamic linker says of a library that it leaves out, before it goes on without it."""
PROBED: Config = {"sampling_period": 997}
"""A knob that every fork's code reads, with a value that is nobody's default."""
INTERPRETER = 3
"""Type of the part of an executable that names the dynamic linker."""


@dataclass(frozen=True)
class Library:
    """A library that was built, with what it was built from."""

    path: Path
    sha256: str
    macros: str
    sizes: Mapping[str, int]

    def document(self) -> dict[str, Any]:
        """What of it is stored with a trial."""
        return {"sha256": self.sha256, "macros": self.macros, **self.sizes}


def constants_searched(system: str, knobs: Iterable[str]) -> list[str]:
    """Those of `knobs` that the published sources have no macro for."""
    return [knob for knob in knobs if not _is_macro(system, knob)]


def sizes_of(fast_bytes: int, footprint_bytes: int) -> dict[str, int]:
    """Sizes of both tiers, in the whole huge pages that the library maps. The slow one holds everything."""
    fast, slow = fast_bytes // HUGE_BYTES, -(-footprint_bytes // HUGE_BYTES)
    return {"fast_bytes": fast * HUGE_BYTES, "slow_bytes": slow * HUGE_BYTES}


class Libraries:
    """Those of one system. Each is built once, and kept as long as this object is."""

    def __init__(self, system: str, part: Upstream) -> None:
        self._system, self._part = system, part
        self._adapter = adapter_for(system)
        self._built: dict[str, Library] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def check(self, sizes: Mapping[str, int], stop: Stop | None = None) -> None:
        """Raises HostUnfit where something that it takes is not there, or builds do not read the macros."""
        missing = []
        if shutil.which(self._part.build[0]) is None:
            missing.append(
                f"the program {self._part.build[0]}, which is to build it; install it, or mend build"
            )
        for device in (self._part.fast, self._part.slow):
            if not Path(device).exists():
                missing.append(
                    f"the device {device}; `ndctl create-namespace --mode=devdax` makes one of persistent"
                    " memory, memmap=SIZE!START on the kernel's command line sets DRAM aside for one, and"
                    " `daxctl list` shows those that there are"
                )
        if missing:
            raise HostUnfit(f"{self._system} as published lacks " + "; and ".join(missing))
        default = self.of({}, sizes, stop)
        if self.of(PROBED, sizes, stop).sha256 == default.sha256:
            ((knob, value),) = PROBED.items()
            raise HostUnfit(
                f"{self._part.library} is the same whether {knob} is as usual or {value}: the build does not"
                " read the macros; have it put {header} in place of those of pebs.h"
            )

    def of(self, config: Config, sizes: Mapping[str, int], stop: Stop | None = None) -> Library:
        """The library of a configuration.

        Raises ConfigRejected for a knob without a macro that is not as usual, HostUnfit where nothing is
        built.
        """
        resolved = self._adapter.resolve(config)
        for knob, usual in self._adapter.resolve({}).items():
            if not _is_macro(self._system, knob) and resolved[knob] != usual:
                raise ConfigRejected(
                    f"{self._system} as published has no macro for {knob} (as usual: {usual}, not"
                    f" {resolved[knob]}); leave it out of the space, or have tierd run the system"
                )
        macros = self._adapter.native_block(resolved)
        key = hashlib.sha256(repr((macros, sorted(sizes.items()))).encode()).hexdigest()[:16]
        if key not in self._built:
            self._built[key] = self._build(key, macros, sizes, stop)
        return self._built[key]

    def command(self, library: Library, program: str) -> list[str]:
        """What stands before `program` and its arguments. Raises HostUnfit where nothing is loaded in it."""
        if is_static(Path(program)):
            raise HostUnfit(
                f"{program} is linked statically, so that no library is loaded before it; link it dynamically"
            )
        variables = self._part.variables(str(library.path), library.sizes)
        return ["env", *(f"{name}={value}" for name, value in variables.items())]

    def verify(self, ended: Ended) -> None:
        """Raises HostUnfit where the workload ran without the library."""
        said = next((line for line in ended.errors.splitlines() if NOT_LOADED in line), None)
        if said is not None:
            raise HostUnfit(
                f"the workload ran without {self._part.library}: {said.strip()}; what it needs itself may be"
                " missing (ldd), and LD_LIBRARY_PATH in upstream.environment says where that is"
            )

    def close(self) -> None:
        """Removes them. Idempotent."""
        self._built.clear()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _build(self, key: str, macros: str, sizes: Mapping[str, int], stop: Stop | None) -> Library:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="tiertune-libraries-")
        folder, made = Path(self._folder.name) / key, Path(self._part.library)
        folder.mkdir(exist_ok=True)
        (folder / MACROS).write_text(macros, encoding="utf-8")
        before = _written(made)
        words = self._part.words(str(folder / MACROS), sizes)
        shown = " ".join(words)
        try:
            ended = run_in_scope(words, folder, self._part.build_timeout_s, stop)
        except OSError as error:
            raise HostUnfit(f"`{shown}` cannot be run: {error.strerror}") from error
        if stop is not None:
            stop.keep_going()
        if ended.timed_out:
            raise HostUnfit(
                f"`{shown}` did not end within {self._part.build_timeout_s:g} s, build_timeout_s of upstream"
            )
        if ended.returncode != 0:
            lines = [line for line in (ended.output + ended.errors).splitlines() if line.strip()]
            last = lines[-1].strip()[-500:] if lines else "it said nothing"
            raise HostUnfit(f"`{shown}` ended with {ended.returncode}: {last}")
        if _written(made) in (None, before):
            raise HostUnfit(
                f"`{shown}` did not write {made}; name the library that it writes, and have it written each"
                " time (make -B)"
            )
        # The next build overwrites it.
        place = folder / made.name
        shutil.copy2(made, place)
        return Library(place, _sha256(place), macros, dict(sizes))


def is_static(program: Path) -> bool:
    """Whether an executable file asks for no dynamic linker. Scripts are no executables of their own."""
    with program.open("rb") as file:
        head = file.read(64)
        if head[:5] != b"\x7fELF\x02":
            return False
        (start,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        file.seek(start)
        parts = file.read(size * count)
    types = [struct.unpack_from("<I", parts, number * size)[0] for number in range(count)]
    return INTERPRETER not in types


def _is_macro(system: str, knob: str) -> bool:
    # What the rate is of is said by the rate itself, which is written for one tick.
    return knob == RATE_MODE or adapter_for(system).native_knob(knob) is not None


def _written(path: Path) -> tuple[int, int] | None:
    """What changes when a file is written again; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
