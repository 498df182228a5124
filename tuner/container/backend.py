"""Live trials in containers of this machine: the workload, below tierd where its system moves pages."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from tiertune.tuner.backend import Backend, HostUnfit, Notify, OutOfMemory
from tiertune.tuner.container.confinement import FOLDER, Limits, create_options, departures, limits_of
from tiertune.tuner.container.engine import FULL, Engine, Order, Ran, refusal
from tiertune.tuner.container.image import PROGRAMS, own_image, static
from tiertune.tuner.container.owner import boot_id
from tiertune.tuner.host.state import HostState
from tiertune.tuner.live.backend import look_after, look_here, program_here
from tiertune.tuner.live.fitness import Nodes, unfitness
from tiertune.tuner.live.launch import BARE, launch
from tiertune.tuner.live.launch import FOLDER as ANY_FOLDER
from tiertune.tuner.live.measurement import measured
from tiertune.tuner.live.secret import secrets_of
from tiertune.tuner.live.stop import Stop
from tiertune.tuner.trial import Config, Measurement, Scenario, Trial
from tiertune.units import format_size
from tiertune.workloads.definition import Workload
from tiertune.workloads.live import HostPart

LIMITS = "limits.json"
ONE_NODE = (
    "moves pages between two memory nodes, and the container has node {node} alone; systems that move none"
    f" ({BARE}) run there, and without --container the others are simulated"
)
BALANCING = "NUMA balancing"


class ContainerBackend(Backend):
    """Runs live trials in containers of `engine`; `inner` checks configs, and runs what has no host part.

    `workloads` has the workload of each scenario by the scenario's key. `look` says what the host is like and
    which share of its processors is in use, `find` where our programs are.
    """

    name: ClassVar[str] = "container"

    def __init__(
        self,
        inner: Backend,
        workloads: Mapping[str, Workload],
        nodes: Nodes,
        engine: Engine,
        look: Callable[[], tuple[HostState, float]] | None = None,
        find: Callable[[str], str] | None = None,
    ) -> None:
        self._inner, self._workloads, self._nodes, self._engine = inner, workloads, nodes, engine
        self._look, self._find = look or look_here, find or program_here
        self._alone = threading.Lock()
        self._state: HostState | None = None
        self._images: dict[str, str] = {}
        self._told: dict[str, str] = {}
        self._stop = Stop()

    def prepare(self, scenario: Scenario, notify: Notify) -> None:
        """Prepares the simulated twin, looks at this host, has the image ready, and removes what a
        tiertune that was killed has left.

        Raises HostUnfit with everything that is not in order, InputError for an image without a digest and
        for a secret that is not there.
        """
        self._inner.prepare(scenario, notify)
        if not self._is_live(scenario):
            return
        secrets_of(self._workloads[scenario.key])
        with self._alone:
            self._state = self._fit(scenario, tiering=False)
            left = self._engine.sweep()
            if left:
                notify(f"removed {left} container(s) that a tiertune which is gone had left")
            self._told = self._engine.facts()
            workload = self._workloads[scenario.key]
            self._images[workload.name] = self._image(_part(workload))

    def apply(self, trial: Trial) -> Config:
        """Checks the config here; tierd takes it from a file, and its report says what it took."""
        return self._inner.apply(trial)

    def run(self, trial: Trial, timeline_points: int = 0) -> Measurement:
        """One run in a container of its own, alone on this machine. Its limits as they were asked for and as
        the kernel holds them, and what the host was like, are stored beside it."""
        if not self._is_live(trial.scenario):
            return self._inner.run(trial, timeline_points)
        workload = self._workloads[trial.scenario.key]
        part, tiering = _part(workload), trial.system != BARE
        if tiering and self._nodes.fast == self._nodes.slow:
            raise HostUnfit(f"{trial.system} {ONE_NODE.format(node=self._nodes.fast)}")
        limits = limits_of(part, self._nodes)
        with self._alone:
            self._stop.keep_going()
            self._engine.sweep()
            before = self._fit(trial.scenario, tiering)
            order = self._order(trial, workload, limits, tiering)
            try:
                ran = self._engine.run(order, part.timeout_s)
            except HostUnfit:
                self._stop.keep_going()
                raise
            self._stop.keep_going()
            after, busy_share = look_after(self._look)
        ran = replace(ran, ended=order.secrets.without(ran.ended))
        inside = _checked(ran, limits, tiering)
        if ran.oom_killed:
            given = format_size(limits.memory_bytes)
            raise OutOfMemory(
                f"the kernel ended the workload when the container had used its {given} of memory;"
                " footprint or container.memory of the workload's host part is too small for it"
            )
        more = {"container": {"image": order.image, "asked": limits.document(), "inside": inside}}
        return measured(
            trial, part, ran.ended, ran.fetched, (before, after), timeline_points, more, busy_share
        )

    def facts(self) -> dict[str, str]:
        """Those of the simulator, the engine, the images, and the settings of this host."""
        found = {**self._inner.facts(), "backend": self.name}
        found["nodes"] = f"{self._nodes.fast} fast, {self._nodes.slow} slow"
        found.update({f"container: {name}": value for name, value in self._told.items()})
        found.update({f"container: image of {name}": image for name, image in self._images.items()})
        settings = self._state.settings if self._state else {}
        return {**found, **{f"host: {name}": value for name, value in settings.items()}}

    def settle(self) -> None:
        """Gives load and heat a moment to go."""
        self._stop.settle()

    def cancel(self) -> None:
        """Ends the container that runs; its trial raises BackendLost. For any thread."""
        self._stop.set()
        self._engine.stop()

    def close(self) -> None:
        """Ends what still runs. Idempotent."""
        self._engine.stop()
        self._inner.close()

    def _image(self, part: HostPart) -> str:
        if part.container is not None and part.container.image is not None:
            return self._engine.given(part.container.image)
        return self._engine.own(own_image({name: Path(self._find(name)) for name in PROGRAMS}))

    def _order(self, trial: Trial, workload: Workload, limits: Limits, tiering: bool) -> Order:
        part, threads = _part(workload), trial.scenario.threads or workload.threads
        order = launch(trial, self._inner.apply(trial), part, threads, self._nodes)
        files = {name: text.encode() for name, text in order.files.items()}
        daemon = "tierd"
        if part.container is not None and part.container.image is not None:
            # The image of somebody else has none.
            daemon, files["tierd"] = f"{FOLDER}/tierd", static(Path(self._find("tierd")))
        words = [word.replace(ANY_FOLDER, FOLDER) for word in order.command]
        if tiering:
            words[0] = daemon
        command = [daemon, "limits", "--report", f"{FOLDER}/{LIMITS}", "--", *words]
        options = create_options(limits, tiering)
        # By its id, which no pull or build can give to another.
        fetch = [*order.fetch, LIMITS]
        return Order(self._image(part), command, files, fetch, options, secrets_of(workload))

    def _is_live(self, scenario: Scenario) -> bool:
        return self._workloads[scenario.key].on_host is not None

    def _fit(self, scenario: Scenario, tiering: bool) -> HostState:
        part = _part(self._workloads[scenario.key])
        state, busy_share = self._look()
        wrong = [
            str(one)
            for one in unfitness(
                state, self._nodes, scenario.page_bytes, part.footprint, busy_share, one_node=True
            )
        ]
        if tiering and state.settings.get(BALANCING, "0") != "0":
            wrong.append(
                "the kernel balances memory between nodes, which no container may turn off;"
                " sysctl kernel.numa_balancing=0"
            )
        if wrong:
            raise HostUnfit("\n".join(f"this host is not in order: {one}" for one in wrong))
        return state


def _part(workload: Workload) -> HostPart:
    part = workload.on_host
    assert part is not None
    return part


def _checked(ran: Ran, limits: Limits, tiering: bool) -> dict[str, Any]:
    """The limits that the kernel held the container to. Raises HostUnfit where they are others."""
    errors = ran.ended.errors
    if ran.ended.returncode and FULL in errors.lower():
        raise HostUnfit(refusal(errors.strip().splitlines()[-1]))
    try:
        inside = json.loads(ran.fetched.get(LIMITS, ""))
    except ValueError:
        if ran.oom_killed or ran.ended.timed_out or ran.ended.returncode:
            # It ended before it could say; how it ended is what there is to tell.
            return {}
        raise HostUnfit("the container did not say which limits it had") from None
    found = list(departures(limits, tiering, inside, boot_id()))
    if found:
        raise HostUnfit("\n".join(found))
    return dict(inside)
