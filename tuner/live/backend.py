"""Live trials on this machine: the workload's own program under tierd, one at a time."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from tiertune.tuner.backend import Backend, HostUnfit, Notify
from tiertune.tuner.host.state import HostState, read_state
from tiertune.tuner.live.arrangement import cap, check_kernel, group_of, reservation, settings
from tiertune.tuner.live.causes import cause, full_disk
from tiertune.tuner.live.fitness import MOST_OTHER_LOAD, Nodes, unfitness
from tiertune.tuner.live.launch import FOLDER, Launch, fast_bytes, launch, launch_held
from tiertune.tuner.live.measurement import measured
from tiertune.tuner.live.preloaded import Libraries, Library, sizes_of
from tiertune.tuner.live.probing import check_program
from tiertune.tuner.live.scope import run_in_scope
from tiertune.tuner.live.secret import secrets_of
from tiertune.tuner.live.stop import Stop
from tiertune.tuner.trial import Config, Measurement, Scenario, Trial
from tiertune.tuner.upstream import Upstream
from tiertune.units import fast_tier_bytes
from tiertune.workloads.definition import Workload
from tiertune.workloads.live import HostPart, NoMetrics


class HostBackend(Backend):
    """Runs live trials here; `inner` checks configs, and runs what has no host part.

    `workloads` has the workload of each scenario by the scenario's key. `look` says what the host is like and
    which share of its processors is in use, `find` where a program is. The systems of `by_kernel` are run by
    this host's own kernel, with the fast node cut down to what the ratio grants; `root` is where its files
    are. Those of `upstream` are run by a library of their authors.
    """

    name: ClassVar[str] = "host"

    def __init__(
        self,
        inner: Backend,
        workloads: Mapping[str, Workload],
        nodes: Nodes,
        look: Callable[[], tuple[HostState, float]] | None = None,
        find: Callable[[str], str] | None = None,
        by_kernel: Collection[str] = (),
        root: Path = Path("/"),
        upstream: Mapping[str, Upstream] | None = None,
    ) -> None:
        self._inner, self._workloads, self._nodes = inner, workloads, nodes
        self._root = root
        self._look, self._find = look or look_here, find or program_here
        self._by_kernel = frozenset(by_kernel)
        self._libraries = {system: Libraries(system, part) for system, part in (upstream or {}).items()}
        self._alone = threading.Lock()
        self._state: HostState | None = None
        self._stop = Stop()

    def prepare(self, scenario: Scenario, notify: Notify) -> None:
        """Prepares the simulated twin, which checks that the scenario fits, and looks at this host.

        Raises HostUnfit with everything that is not in order, InputError for a secret that is not there.
        """
        self._inner.prepare(scenario, notify)
        if self._is_live(scenario):
            secrets_of(self._workloads[scenario.key])
            for system in sorted(self._by_kernel):
                check_kernel(system, self._nodes, self._root)
            with self._alone:
                for libraries in self._libraries.values():
                    libraries.check(self._sizes(scenario), self._stop)
                self._state = self._fit(scenario, of_nodes=not self._libraries)
                part = self._workloads[scenario.key].on_host
                assert part is not None
                check_program(part, self._find)

    def apply(self, trial: Trial) -> Config:
        """Checks the config here; tierd takes it from a file, and its report says what it took."""
        return self._inner.apply(trial)

    def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
        """One run of the program, alone on this machine; what the host was like is stored beside it."""
        if not self._is_live(trial.scenario):
            return self._inner.run(trial, timeline_points)
        workload = self._workloads[trial.scenario.key]
        part, secrets = workload.on_host, secrets_of(workload)
        assert part is not None
        with self._alone:
            self._stop.keep_going()
            libraries = self._libraries.get(trial.system)
            before = self._fit(trial.scenario, of_nodes=libraries is None)
            library = self._library(libraries, trial)
            order = self._order(trial, workload, part, before, library)
            with _own_folder() as folder:
                for name, text in order.files.items():
                    (folder / name).write_text(text, encoding="utf-8")
                command = [word.replace(FOLDER, str(folder)) for word in order.command]
                command[0] = self._find(command[0])
                # Not with `env`, as arguments are everybody's to read.
                ended = run_in_scope(command, folder, part.timeout_s, self._stop, secrets.variables)
                ended = secrets.without(ended)
                fetched = {name: _text(folder / name) for name in order.fetch}
                free_bytes = shutil.disk_usage(folder).free
            self._stop.keep_going()
            after, busy_share = look_after(self._look)
        if libraries is not None:
            libraries.verify(ended)
        more = {} if library is None else {"upstream": library.document()}
        try:
            return measured(trial, part, ended, fetched, (before, after), timeline_points, more, busy_share)
        except (NoMetrics, RuntimeError) as error:
            raise cause(error, part, (before, after), free_bytes) from error

    def facts(self) -> dict[str, str]:
        """Those of the simulator, the nodes, and the settings of this host."""
        found = {**self._inner.facts(), "backend": self.name}
        found["nodes"] = f"{self._nodes.fast} fast, {self._nodes.slow} slow"
        settings = self._state.settings if self._state else {}
        return {**found, **{f"host: {name}": value for name, value in settings.items()}}

    def settle(self) -> None:
        """Gives load and heat a moment to go."""
        self._stop.settle()

    def cancel(self) -> None:
        """Ends the trial that runs, which raises BackendLost; tierd puts the host back. For any thread."""
        self._stop.set()

    def close(self) -> None:
        """Nothing of a trial outlives it; tierd has put the host back."""
        for libraries in self._libraries.values():
            libraries.close()
        self._inner.close()

    def _sizes(self, scenario: Scenario) -> dict[str, int]:
        part = self._workloads[scenario.key].on_host
        assert part is not None
        return sizes_of(fast_tier_bytes(part.footprint, scenario.ratio, scenario.page_bytes), part.footprint)

    def _library(self, libraries: Libraries | None, trial: Trial) -> Library | None:
        if libraries is None:
            return None
        return libraries.of(self._inner.apply(trial), self._sizes(trial.scenario), self._stop)

    def _order(
        self, trial: Trial, workload: Workload, part: HostPart, state: HostState, library: Library | None
    ) -> Launch:
        config, threads = self._inner.apply(trial), trial.scenario.threads or workload.threads
        if library is not None:
            # Below the daemon for its report, and since one runs on a host: it changes no setting.
            program = self._find(part.command[0])
            words = self._libraries[trial.system].command(library, program)
            return launch_held(trial, part, threads, [], prefix=words)
        if trial.system not in self._by_kernel:
            return launch(trial, config, part, threads, self._nodes)
        granted, group = fast_bytes(trial, part), group_of(trial.system)
        if group is not None:
            found = [*settings(trial.system, config, self._nodes, self._root), *cap(self._nodes, granted)]
            return launch_held(trial, part, threads, found, group)
        node = f"node{self._nodes.fast}"
        free_bytes = 1024 * state.quantities.get(f"node free memory (kB) of {node}", 0.0)
        reserved = int(state.quantities.get(f"node huge pages of {node}", 0))
        found = settings(trial.system, config, self._nodes, self._root)
        rest = reservation(free_bytes, granted, reserved, self._nodes)
        return launch_held(trial, part, threads, found if rest is None else [rest, *found])

    def _is_live(self, scenario: Scenario) -> bool:
        return self._workloads[scenario.key].on_host is not None

    def _fit(self, scenario: Scenario, of_nodes: bool) -> HostState:
        """What the host is like. `of_nodes`: memory is that of the nodes, and not of devices."""
        part = self._workloads[scenario.key].on_host
        assert part is not None
        state, busy_share = self._look()
        taken = part.footprint if of_nodes else 0
        found = unfitness(state, self._nodes, scenario.page_bytes, taken, busy_share, one_node=not of_nodes)
        if found:
            raise HostUnfit("\n".join(f"this host is not in order: {one}" for one in found))
        return state


def look_after(look: Callable[[], tuple[HostState, float]]) -> tuple[HostState, float]:
    """The host right after a trial, and what others use of it: looked at twice where it is much, as the end
    of a trial has work of its own."""
    state, busy_share = look()
    if busy_share > MOST_OTHER_LOAD:
        busy_share = min(busy_share, look()[1])
    return state, busy_share


def look_here() -> tuple[HostState, float]:
    """What this host is like, and the share of its processors that others used for a fifth of a second."""
    return read_state(), used_by_others(0.2)


def used_by_others(seconds: float) -> float:
    """Share of all processors that processes other than this one use meanwhile: its own work, such as showing
    progress, rests while a trial runs or is the same for all of them."""
    import psutil

    began, own_s = time.perf_counter(), time.process_time()
    busy_share = psutil.cpu_percent(seconds) / 100
    own_s, wall_s = time.process_time() - own_s, time.perf_counter() - began
    return float(max(busy_share - own_s / wall_s / (psutil.cpu_count() or 1), 0.0))


def program_here(name: str) -> str:
    """Beside this Python, where `make tierd` puts programs, or on PATH; a path as it is. Raises HostUnfit."""
    if "/" in name:
        if not os.access(name, os.X_OK) or not Path(name).is_file():
            raise HostUnfit(f"there is no program {name} here; put it there, or name where it is")
        return name
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if beside.is_file() else shutil.which(name)
    if found is None:
        remedy = (
            f"`make {name}` builds it" if name in ("tierd", "tierload") else "install it, or put it on PATH"
        )
        raise HostUnfit(f"there is no program {name} here; {remedy}")
    return found


@contextmanager
def _own_folder() -> Iterator[Path]:
    """A folder for one trial. Raises HostUnfit where its disk is full."""
    try:
        with tempfile.TemporaryDirectory(prefix="tiertune-trial-") as name:
            yield Path(name)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise HostUnfit(full_disk(tempfile.gettempdir())) from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
