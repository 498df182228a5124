"""What this host can run live and what it cannot, each with the one thing that would change that."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from tiertune.tuner.backend import HostUnfit
from tiertune.tuner.live.backend import look_here, program_here
from tiertune.tuner.live.fitness import Nodes, two_nodes, unfitness

PROBE_S = 60.0


class Readiness(NamedTuple):
    """One thing looked at; `remedy` is empty where all is well."""

    name: str
    state: Literal["ok", "warning", "bad"]
    detail: str
    remedy: str = ""


REMEDIES: Mapping[str, str] = {
    "pebs": "bare metal with an Intel processor, or a virtual machine whose host passes its counters through",
    "ibs": "bare metal with an AMD processor, or a virtual machine whose host passes its counters through",
    "hint-faults": "boot with firmware that describes both nodes (HMAT), and mount debugfs:"
    " mount -t debugfs none /sys/kernel/debug",
    "damon": "end the DAMON monitor that runs, if it is yours, or boot a kernel with CONFIG_DAMON_VADDR",
    "written": "boot Linux 6.7 or newer",
    "referenced": "boot a kernel with CONFIG_PROC_PAGE_MONITOR, or use another source",
}
TWO_NODES = (
    "bring CXL or persistent memory online as a node of its own (daxctl reconfigure-device"
    " --mode=system-ram dax0.0; docs/fleet.md has a playbook), or tune on the simulator, which needs none"
)


def readiness() -> list[Readiness]:
    """Everything looked at on this host; changes nothing."""
    return [*_tierd(), *_host()]


def of_probe(probe: Mapping[str, Any]) -> Iterator[Readiness]:
    """What `tierd probe --json` says, in these terms."""
    nodes = probe["host"]["nodes"]
    told = ", ".join(f"node {n['node']}: {n['total_bytes'] / 2**30:.1f} GiB, {n['cpus']} CPUs" for n in nodes)
    if len(nodes) < 2:
        yield Readiness("memory nodes", "bad", told, TWO_NODES)
    else:
        yield Readiness("memory nodes", "ok", told)
    working = [source["name"] for source in probe["sources"] if source["problem"] is None]
    if working:
        yield Readiness("signals", "ok", ", ".join(working))
    else:
        yield Readiness("signals", "bad", "no source sees accesses", "see the sources below")
    for source in probe["sources"]:
        if source["problem"] is not None:
            remedy = REMEDIES.get(source["name"], "")
            yield Readiness(f"source {source['name']}", "warning", source["problem"], remedy)
    if probe["counters"] != "hardware":
        why = f" ({probe['counters_problem']})" if probe.get("counters_problem") else ""
        detail = f"{probe['counters']}{why}: Colloid, Alto and PACT work on estimates, and reports say so"
        remedy = REMEDIES["pebs"] if len(nodes) > 1 else "a second memory node first"
        yield Readiness("counters", "warning", detail, remedy)
    for rival in probe["rivals"]:
        yield Readiness("others", "warning", rival, "end them, if they are yours, before a campaign")


def _tierd() -> Iterator[Readiness]:
    try:
        program = program_here("tierd")
    except HostUnfit as error:
        yield Readiness("tierd", "bad", str(error).partition(";")[0], "make tierd")
        return
    try:
        # Without two nodes its exit code says unfit, and the document is there all the same.
        ran = subprocess.run(
            [program, "probe", "--json"], capture_output=True, text=True, timeout=PROBE_S, check=False
        )
        probe = json.loads(ran.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        yield Readiness("tierd", "bad", f"{program} probe: {error}", "make tierd")
        return
    yield Readiness("tierd", "ok", program)
    yield from of_probe(probe)


def _host() -> Iterator[Readiness]:
    state, busy_share = look_here()
    nodes = two_nodes() or Nodes(0, 0)
    for page_bytes, name in ((2 << 20, "pages of 2 MiB"), (4096, "pages of 4 KiB")):
        for wrong in unfitness(state, nodes, page_bytes, 0, busy_share):
            if wrong.about == "THP":
                yield Readiness(name, "warning", wrong.problem, wrong.remedy)
    for wrong in unfitness(state, nodes, 4096, 0, busy_share):
        if wrong.about in ("swap", "load"):
            yield Readiness(wrong.about, "warning", wrong.problem, wrong.remedy)
