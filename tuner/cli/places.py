"""Where the trials of a campaign run: in this process, on a scheduler's workers, on hosts."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tiertune.spaces.definition import Space
    from tiertune.tuner.backend import Backend
    from tiertune.tuner.campaign import Campaign
    from tiertune.tuner.events import Listener
    from tiertune.tuner.fleet.pool import Block
    from tiertune.tuner.live.fitness import Nodes
    from tiertune.tuner.plan import CampaignPlan


@dataclass(frozen=True)
class Places:
    """What the command line says of it."""

    scheduler: str | None = None
    hosts: Path | None = None
    mixed: bool = False
    here: str | None = None
    by_kernel: tuple[str, ...] = ()
    container: str | None = None

    @property
    def live(self) -> str | None:
        """The option that asks for live trials, None where all are simulated."""
        named = {"--hosts": self.hosts, "--here": self.here, "--container": self.container}
        return next((option for option, given in named.items() if given is not None), None)


ELSEWHERE = Places()
"""Nothing was said: threads of this process."""


def places_of(
    scheduler: str | None,
    hosts: Path | None,
    mixed: bool,
    here: str | None,
    by_kernel: Sequence[str],
    container: str | None = None,
) -> Places:
    """What options say. Raises InputError where they exclude each other, name no nodes, or no inventory."""
    from tiertune.files import InputError
    from tiertune.tuner.fleet.inventory import check_inventory

    check_scheduler(scheduler)
    if by_kernel:
        _run_by_kernels(by_kernel)
        if here is None:
            raise InputError("--by-kernel goes with --here: elsewhere there is no kernel of yours to run it")
    if hosts is not None and here is not None:
        raise InputError("--hosts and --here exclude each other; an inventory may hold this machine, too")
    if container is not None and (hosts is not None or here is not None):
        other = "--hosts" if hosts is not None else "--here"
        raise InputError(f"--container and {other} exclude each other; a container is of this machine")
    if mixed and hosts is None:
        raise InputError("--mixed-hosts goes with --hosts, which names the hosts that may be unlike")
    if hosts is not None:
        check_inventory(hosts)
    if here is not None:
        _named_here(here)
    if container is not None:
        _named_of_container(container)
    return Places(scheduler, hosts, mixed, here, tuple(by_kernel), container)


def place_options(places: Places) -> tuple[str, ...]:
    """Places as options of a command that somebody starts later, from whatever folder."""
    told: list[str] = []
    told += ["--scheduler", places.scheduler] if places.scheduler else []
    told += ["--hosts", str(places.hosts.resolve())] if places.hosts else []
    told += ["--mixed-hosts"] if places.mixed else []
    told += ["--here", places.here] if places.here else []
    for system in places.by_kernel:
        told += ["--by-kernel", system]
    told += ["--container", places.container] if places.container else []
    return tuple(told)


def check_scheduler(scheduler: str | None) -> None:
    """Raises InputError where `--scheduler` is neither an address nor the word for processes here."""
    from tiertune.tuner.spread.address import LOCAL, check_address

    if scheduler is not None and scheduler != LOCAL:
        check_address("--scheduler", scheduler)


def _run_by_kernels(systems: Sequence[str]) -> None:
    from tiertune.files import InputError
    from tiertune.nearest import nearest
    from tiertune.tuner.live.arrangement import systems_of_kernels

    known = systems_of_kernels()
    for system in systems:
        if system not in known:
            raise InputError(
                f"--by-kernel {system}: no kernel runs it; kernels run {', '.join(known)}; did you mean"
                f" '{nearest(system, known)}'?"
            )


def live_plan(campaign: Campaign, plan: CampaignPlan, places: Places) -> CampaignPlan:
    """The plan whose journal knows which cells are measured on hosts: no simulated one may go on with it.

    Raises InputError where there is no such cell, or a kernel is to change a constant of its code.
    """
    from tiertune.files import InputError
    from tiertune.tuner.campaign import refuse_objectives

    refuse_objectives(campaign, places.live or "live trials", "hosts are measured by")
    if campaign.budget.short_runs is not None:
        # Run whole and counted as short, they would be no measurements of anything.
        raise InputError(
            f"budget.short_runs: programs run whole on hosts ({places.live}); leave it out, or run the"
            " campaign simulated first (--then-host)"
        )
    live = [cell.key for cell in plan.cells if campaign.workload(cell.scenario.workload).on_host is not None]
    if not live:
        names = ", ".join(sorted({entry.workload for entry in campaign.scenarios}))
        raise InputError(
            f"{places.live}: no workload of this campaign says how it runs on a host ({names} have no 'host'"
            f" part{_programs_words(campaign)}); simulated trials go to workers with --scheduler"
        )
    for cell in plan.cells:
        if cell.key in live:
            _runs_live(cell.system, places)
            _measured_live(campaign, cell.system, cell.scenario.workload, places)
    decisive = {**plan.document["campaign"], "live": live}
    for cell in plan.cells:
        if cell.system in places.by_kernel and cell.key in live:
            _settable(cell.system, cell.space)
    if places.by_kernel:
        decisive["by_kernel"] = sorted(places.by_kernel)
    upstreams = campaign.upstreams()
    if upstreams:
        _loadable(campaign, plan, places, live)
        decisive["upstream"] = {name: part.model_dump(mode="json") for name, part in upstreams.items()}
    if places.container is not None:
        if campaign.programs is not None:
            raise InputError(
                f"programs: {campaign.programs} is a folder of hosts, which containers do not see; leave it"
                " out"
            )
        decisive["container"] = True
    document = {**plan.document, "campaign": decisive}
    return replace(plan, document=document)


def _runs_live(system: str, places: Places) -> None:
    """Raises InputError where no host can run the system."""
    from tiertune import engine
    from tiertune.files import InputError

    reason = engine.system(system).live_obstacle
    if reason is not None:
        raise InputError(
            f"{places.live}: {system} cannot run live: {reason}; leave it out, or have it simulated without"
            f" {places.live}"
        )


def _measured_live(campaign: Campaign, system: str, workload: str, places: Places) -> None:
    """Raises InputError where no live run would say what the workload is improved in, or whether it keeps a
    constraint: none would be a measurement, or all would break it."""
    from tiertune.engine import metrics
    from tiertune.files import InputError
    from tiertune.tuner.live.report import COUNTED
    from tiertune.tuner.trial import called

    part = campaign.workload(workload).on_host
    assert part is not None
    by_daemon = system not in places.by_kernel and system not in campaign.upstreams()
    measured = part.measures | set(COUNTED if by_daemon else ())
    known = sorted(measured & {one.name for one in metrics()})  # campaigns take no others
    wanted = {
        f"constraints[{number}].metric": rule.metric for number, rule in enumerate(campaign.constraints)
    }
    wanted["metric of the workload"] = campaign.workload(workload).metric.name
    for place, metric in wanted.items():
        if metric not in known:
            raise InputError(
                f"{place}: {metric} is not measured in live runs of"
                f" {called(workload)} under {system}; there are {', '.join(known)}"
            )


def _programs_words(campaign: Campaign) -> str:
    has = sorted(
        {e.workload for e in campaign.scenarios if campaign.workload(e.workload).upstream is not None}
    )
    return (
        f", but {', '.join(has)} an original program: programs: FOLDER in the campaign runs it" if has else ""
    )


def _loadable(campaign: Campaign, plan: CampaignPlan, places: Places, live: Sequence[str]) -> None:
    """Raises InputError where what authors published cannot be run as the campaign says."""
    from tiertune.files import InputError
    from tiertune.tuner.live.fitness import HUGE_BYTES
    from tiertune.tuner.live.preloaded import constants_searched
    from tiertune.tuner.trial import called

    upstreams = campaign.upstreams()
    for cell in plan.cells:
        if cell.system not in upstreams or cell.key not in live:
            continue
        if places.here is None:
            raise InputError(
                f"{places.live}: upstream of {cell.system} goes with --here; leave it out, so that tierd runs"
                " the system"
            )
        if cell.scenario.page_bytes != HUGE_BYTES:
            raise InputError(
                f"upstream of {cell.system} has pages of 2 MiB; write page_size: 2MiB for"
                f" {cell.scenario.workload}"
            )
        workload = cell.scenario.workload
        part = campaign.workload(workload).on_host
        own = {**(part.environment or {}), **(part.secret_environment or {})} if part else {}
        taken = upstreams[cell.system].sets & set(own)
        if taken:
            # The workload's own comes last, and nothing would be loaded, or something else worked on.
            raise InputError(
                f"upstream of {cell.system} sets {', '.join(sorted(taken))} itself, and so does the"
                f" environment of {called(workload)}; leave it out there"
            )
        constants = constants_searched(cell.system, [axis.name for axis in cell.space.axes()])
        if constants:
            raise InputError(
                f"upstream of {cell.system}: the space {cell.space.name} searches {', '.join(constants)}, for"
                " which the published sources have no macro; leave out what has none, or upstream"
            )


def _settable(system: str, space: Space) -> None:
    """Raises InputError where the kernel that runs `system` has no file for a knob of its space."""
    from tiertune.files import InputError, names
    from tiertune.spaces.definition import load_space
    from tiertune.tuner.live.arrangement import constants_searched

    constants = constants_searched(system, [axis.name for axis in space.axes()])
    if not constants:
        return
    spaces = [known for known in map(load_space, names("spaces")) if known.system == system]
    fits = [
        known.name for known in spaces if not constants_searched(system, [axis.name for axis in known.axes()])
    ]
    several = len(constants) > 1
    left_out = f"leave {'them' if several else 'it'} out of a space of your own"
    remedy = f"take the space {' or '.join(fits)}" if fits else left_out
    raise InputError(
        f"--by-kernel {system}: the space {space.name} searches {', '.join(constants)},"
        f" {'constants' if several else 'a constant'} of the kernel's code; {remedy}, or have tierd run the"
        " system"
    )


AUTO = "auto"


def nodes_here(text: str) -> Nodes:
    """The nodes of `--here`: FAST,SLOW, or auto. Raises InputError, and HostUnfit where there is one tier."""
    from tiertune.tuner.backend import HostUnfit
    from tiertune.tuner.live.fitness import two_nodes

    found = _named_here(text) or two_nodes()
    if found is None:
        raise HostUnfit(
            "--here: this host has one memory node, and tiering takes two; `tiertune doctor --host` says"
            " more, --hosts runs trials on others, and without either option they are simulated"
        )
    return found


def _named_here(text: str) -> Nodes | None:
    """The nodes that `--here` names, None for auto."""
    from tiertune.files import InputError
    from tiertune.tuner.live.fitness import Nodes

    if text == AUTO:
        return None
    fast, comma, slow = text.partition(",")
    if not (comma and fast.isdecimal() and slow.isdecimal()):
        raise InputError(f"--here: {text!r} is neither {AUTO} nor two memory nodes such as 0,1")
    return Nodes(int(fast), int(slow))


def nodes_of_container(text: str, systems: Sequence[str]) -> Nodes:
    """The nodes of `--container`: FAST,SLOW, one node, or auto.

    Raises InputError, and HostUnfit where one of `systems` moves pages and there is one node.
    """
    from tiertune.tuner.backend import HostUnfit
    from tiertune.tuner.container.backend import ONE_NODE
    from tiertune.tuner.live.fitness import Nodes, two_nodes
    from tiertune.tuner.live.launch import BARE

    nodes = _named_of_container(text) or two_nodes() or Nodes(0, 0)
    moving = [system for system in systems if system != BARE]
    if moving and nodes.fast == nodes.slow:
        raise HostUnfit(f"--container {text}: {moving[0]} {ONE_NODE.format(node=nodes.fast)}")
    return nodes


def _named_of_container(text: str) -> Nodes | None:
    """The nodes that `--container` names, twice the same where it is one; None for auto."""
    from tiertune.files import InputError
    from tiertune.tuner.live.fitness import Nodes

    if text == AUTO:
        return None
    fast, comma, slow = text.partition(",")
    if not (fast.isdecimal() and (slow.isdecimal() if comma else True)):
        raise InputError(f"--container: {text!r} is neither {AUTO} nor memory nodes such as 0,1 or 0")
    return Nodes(int(fast), int(slow or fast))


@contextmanager
def running(
    campaign: Campaign, plan: CampaignPlan, results: Path, places: Places, listener: Listener
) -> Iterator[Backend]:
    """The backend of a campaign. SIGTERM stops it as Ctrl-C does; both end live trials, too."""
    workloads = {cell.scenario.key: campaign.workload(cell.scenario.workload) for cell in plan.cells}
    if places.container is not None:
        from tiertune.tuner.container.backend import ContainerBackend
        from tiertune.tuner.container.engine import DockerEngine

        systems = [cell.system for cell in plan.cells if workloads[cell.scenario.key].on_host is not None]
        nodes, engine = nodes_of_container(places.container, systems), DockerEngine()
        inner = backend_for(campaign, plan, results, places.scheduler, listener)
        boxed = ContainerBackend(inner, workloads, nodes, engine)
        with _told_to_stop(boxed.cancel):
            yield boxed
        return
    inner = backend_for(campaign, plan, results, places.scheduler, listener)
    if places.live is None:
        with _terminated_as_interrupted():
            yield inner
        return
    if places.hosts is None:
        from tiertune.tuner.live.backend import HostBackend

        nodes = nodes_here(places.here or AUTO)
        live = HostBackend(inner, workloads, nodes, by_kernel=places.by_kernel, upstream=campaign.upstreams())
        with _told_to_stop(live.cancel):
            yield live
        return
    from tiertune.tuner.events import Note
    from tiertune.tuner.fleet.backend import FleetBackend
    from tiertune.tuner.fleet.inventory import hosts_of

    hosts = hosts_of(places.hosts)
    backend = FleetBackend(
        inner,
        places.hosts,
        hosts,
        workloads,
        lambda text: listener(Note(text)),
        places.mixed,
        _begun(results, plan.name),
    )
    with _told_to_stop(backend.cancel):
        yield backend


def _begun(results: Path, name: str) -> dict[Block, str]:
    """The hosts on which an earlier run of the campaign began blocks of its judgement."""
    from tiertune.tuner.fleet.pool import begun_blocks
    from tiertune.tuner.journal import Journal
    from tiertune.tuner.loop import journal_path

    path = journal_path(results, name)
    if not path.is_file():
        return {}
    with Journal(path, writer=False) as journal:
        return begun_blocks(journal.rows())


def backend_for(
    campaign: Campaign, plan: CampaignPlan, results: Path, scheduler: str | None, listener: Listener
) -> Backend:
    """The simulator in this process, or on the workers of a scheduler."""
    from tiertune.tuner.events import Note
    from tiertune.tuner.simulation import SimBackend

    here = SimBackend(results / "profiles", campaign.workload, campaign.machine)
    if scheduler is None:
        return here
    from tiertune.tuner.spread.backend import DaskBackend

    contents = plan.document["cells"]
    files = {cell.scenario.key: contents[cell.key] for cell in plan.cells}
    return DaskBackend(
        here, scheduler, files, plan.workers, results / "profiles", lambda text: listener(Note(text))
    )


@contextmanager
def _told_to_stop(cancel: Any) -> Iterator[None]:
    """SIGINT and SIGTERM end live trials before they stop this process as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: Any) -> None:
        # In a thread: what a signal interrupts may hold the lock that `cancel` needs.
        threading.Thread(target=cancel, daemon=True).start()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM stops simulated trials as Ctrl-C does; a second one ends this process at once."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return

    def stop(number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
