"""Systems that a host's own kernel runs: the settings that are the system, in their order.

`tierd hold` makes them, reads them back, and puts everything back afterwards. Knobs come from the adapters,
which know what the kernel calls them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from tiertune.adapters.base import Adapter
from tiertune.adapters.hmsdk import ADMIN, BOTH, DEMOTES, METRIC, PLACES, PROMOTES, SCHEME, HmsdkAdapter
from tiertune.adapters.kernel import LRU_GEN, MODE, KernelAdapter
from tiertune.adapters.memtis import FILES, SWITCH, SYSFS, WORD, MemtisAdapter, limit_of
from tiertune.adapters.registry import adapter_for
from tiertune.tuner.backend import ConfigRejected, HostUnfit
from tiertune.tuner.live.fitness import HUGE_BYTES, Nodes
from tiertune.tuner.trial import Config, Value

Setting: TypeAlias = dict[str, Value | dict[str, str]]
"""`path` and `value`, as `tierd hold --settings` reads them; `says` where a file has words of its own."""

PAGE_BYTES = 4096
GROUPS = "/sys/fs/cgroup"
GROUP = f"{GROUPS}/tiertune"
"""The control group of a workload whose fast memory the kernel limits itself."""


def systems_of_kernels() -> tuple[str, ...]:
    """Systems that some kernel runs itself."""
    from tiertune import engine

    return tuple(s.name for s in engine.systems() if _runs(adapter_for(s.name)))


def _runs(adapter: Adapter) -> bool:
    if isinstance(adapter, MemtisAdapter):
        return adapter.has_kernel
    return isinstance(adapter, (KernelAdapter, HmsdkAdapter))


def group_of(system: str) -> str | None:
    """The control group that a workload runs in, where the kernel that runs `system` looks after a group's
    memory and holds it to a limit on the fast node."""
    return GROUP if isinstance(adapter_for(system), MemtisAdapter) else None


def cap(nodes: Nodes, fast_bytes: int) -> list[Setting]:
    """What has a group hold `fast_bytes` of the fast node at most, and the kernel look after it."""
    # The switch last: when it is on, everything else is as it should be.
    limit = _setting(f"{GROUP}/{limit_of(nodes.fast)}", fast_bytes)
    return [limit, _setting(f"{GROUP}/{SWITCH}", WORD[True])]


def check_kernel(system: str, nodes: Nodes, root: Path = Path("/")) -> None:
    """Raises HostUnfit with what is missing where the kernel of `root` cannot run `system`."""
    adapter = adapter_for(system)
    if isinstance(adapter, MemtisAdapter):
        missing = list(_missing_of_memtis(root))
        if missing:
            raise HostUnfit(f"{system} is not run by this kernel: " + "; ".join(missing))
    if isinstance(adapter, KernelAdapter) and _demotes_nowhere(nodes.fast, root):
        # cpuhp state of set_migration_target_nodes, mended by commit a6a0251c6fce: Nomad's patch is older.
        cpus = "/sys/devices/system/cpu/cpuN/online"
        raise HostUnfit(
            f"{system} would fill node {nodes.fast} and then stop: /proc/zoneinfo has next_demotion_node -1"
            " there. Kernels before 5.15 do not notice when a slow node's last CPU goes offline; take some"
            f" CPU of node {nodes.fast} offline and online again (echo 0 > {cpus}; echo 1 > {cpus})"
        )


def _demotes_nowhere(node: int, root: Path) -> bool:
    """Whether the kernel says of a node that nothing can be demoted from it; those of TPP and Nomad tell."""
    try:
        text = (root / "proc/zoneinfo").read_text(encoding="utf-8")
    except OSError:
        return False
    return re.search(rf"(?m)^Node {node}, .*\bnext_demotion_node -1$", text) is not None


def _missing_of_memtis(root: Path) -> Iterator[str]:
    def words(name: str) -> list[str]:
        try:
            return (root / GROUPS[1:] / name).read_text(encoding="utf-8").split()
        except OSError:
            return []

    if not (root / SYSFS[1:]).is_dir():
        yield (
            f"{SYSFS} is not there; boot a kernel that was built from Memtis' sources with CONFIG_HTMM, or"
            " leave out --by-kernel, so that tierd runs it"
        )
    if "memory" not in words("cgroup.controllers"):
        yield (
            f"{GROUPS}/cgroup.controllers does not name memory; boot with cgroup_no_v1=memory (with systemd:"
            f" systemd.unified_cgroup_hierarchy=1) and mount -t cgroup2 none {GROUPS}"
        )
    elif "memory" not in words("cgroup.subtree_control"):
        control = f"{GROUPS}/cgroup.subtree_control"
        yield f"{control} does not name memory, so that groups have no limits; echo +memory > {control}"


def settings(system: str, config: Config, nodes: Nodes, root: Path = Path("/")) -> list[Setting]:
    """What makes the kernel run `system` with `config`, every knob given.

    Raises ConfigRejected for a knob that no file holds and that is not as this kernel has it, and HostUnfit
    where /proc does not say where a node's memory is, or the kernel of `root` has no generations of pages.
    """
    adapter = adapter_for(system)
    if not _runs(adapter):
        raise ConfigRejected(
            f"{system} is run by no kernel; those that are: {', '.join(systems_of_kernels())}"
        )
    _as_built(adapter, config)
    if isinstance(adapter, HmsdkAdapter):
        return [_setting(path, value) for path, value in _damon(adapter, config, nodes, root)]
    if isinstance(adapter, MemtisAdapter):
        return list(_htmm(adapter, config))
    assert isinstance(adapter, KernelAdapter)
    native = adapter.to_native(config)
    if LRU_GEN in native and not (root / LRU_GEN[1:]).exists():
        if config["lru_gen"] != "classic":
            raise HostUnfit(
                f"{LRU_GEN} is not there, and lru_gen is {config['lru_gen']}; boot a kernel from 6.1 on,"
                " built with CONFIG_LRU_GEN, or leave the knob at classic"
            )
        # Without it the kernel has no other lists than the classic ones.
        del native[LRU_GEN]
    # The switch last: when it is on, everything else is as it should be.
    together = sorted({**native, **adapter.kernel.fixed}.items(), key=lambda entry: entry[0] == MODE)
    return [_setting(path, value) for name, value in together if (path := _path(name)) is not None]


def constants_searched(system: str, knobs: Iterable[str]) -> list[str]:
    """Those of `knobs` that nobody can set where a kernel runs `system`: they are in its code."""
    adapter = adapter_for(system)
    return [knob for knob in knobs if not _settable(adapter, knob)]


def reservation(free_bytes: float, fast_bytes: int, reserved: int, nodes: Nodes) -> Setting | None:
    """What leaves `fast_bytes` of the fast node's `free_bytes` to the workload: the rest in huge pages that
    nobody takes, beside the `reserved` ones that are there. None where there is no more than that.

    Raises HostUnfit where there is less.
    """
    if free_bytes < fast_bytes:
        raise HostUnfit(
            f"node {nodes.fast} has {free_bytes / 2**30:.2f} GiB free, and the ratio grants"
            f" {fast_bytes / 2**30:.2f}; take a smaller ratio or input, or free some"
        )
    pages = int((free_bytes - fast_bytes) // HUGE_BYTES)
    if pages == 0:
        return None
    return _setting(huge_pages_file(nodes.fast), reserved + pages)


def huge_pages_file(node: int) -> str:
    """The number of huge pages of 2 MiB that are set aside on a node."""
    return f"/sys/devices/system/node/node{node}/hugepages/hugepages-{HUGE_BYTES >> 10}kB/nr_hugepages"


def _setting(path: str, value: Value) -> Setting:
    return {"path": path, "value": value}


def _path(name: str) -> str | None:
    """The file of a native setting, None for a constant of the kernel's code."""
    if name.startswith("/"):
        return name
    return "/proc/sys/" + name.replace(".", "/") if "." in name else None


def _settable(adapter: Adapter, knob: str) -> bool:
    """Whether `settings` can make another value of `knob` hold."""
    if isinstance(adapter, HmsdkAdapter):
        # The last one says how what is in the files is computed.
        return knob in PLACES or knob in ("young_filter", "wmark_metric", "thresholds")
    native = adapter.native_knob(knob)
    if isinstance(adapter, MemtisAdapter):
        return native is not None
    return native is not None and _path(native.name) is not None


def _as_built(adapter: Adapter, config: Config) -> None:
    """Raises ConfigRejected where a constant of the kernel would have to be another."""
    for knob, usual in adapter.resolve({}).items():
        if not _settable(adapter, knob) and config[knob] != usual:
            raise ConfigRejected(
                f"{adapter.system}, run by the kernel: {knob} is a constant there ({usual}), not"
                f" {config[knob]}; leave it out of the space, or have tierd run the system"
            )


def _htmm(adapter: MemtisAdapter, config: Config) -> Iterator[Setting]:
    """Files of the whole host; those of a group are `cap`."""
    # Balancing would move pages by itself; Memtis' own scripts switch it off, too.
    yield _setting(f"/proc/sys/{MODE.replace('.', '/')}", 0)
    for name, value in adapter.to_native(config).items():
        if name in FILES:
            file = FILES[name]
            setting = _setting(f"{file.folder}/{name}", file.text(value))
            yield {**setting, "says": dict(file.says)} if file.says else setting


def _damon(adapter: HmsdkAdapter, config: Config, nodes: Nodes, root: Path) -> Iterator[tuple[str, Value]]:
    """Two threads over physical memory: 0 demotes from the fast node, 1 promotes from the slow one."""
    native = adapter.to_native(config)
    watched = {DEMOTES[0]: nodes.fast, PROMOTES[0]: nodes.slow}
    yield f"{ADMIN}/nr_kdamonds", len(BOTH)
    for number, node in watched.items():
        thread, demotes = f"{ADMIN}/{number}", number in DEMOTES
        yield f"{thread}/contexts/nr_contexts", 1
        yield f"{thread}/contexts/0/operations", "paddr"
        yield f"{thread}/contexts/0/targets/nr_targets", 1
        spans = memory_of(node, root)
        yield f"{thread}/contexts/0/targets/0/regions/nr_regions", len(spans)
        for nth, (start, end) in enumerate(spans):
            yield f"{thread}/contexts/0/targets/0/regions/{nth}/start", start
            yield f"{thread}/contexts/0/targets/0/regions/{nth}/end", end
        yield f"{thread}/contexts/0/schemes/nr_schemes", 1
        yield f"{thread}/{SCHEME}/action", "migrate_cold" if demotes else "migrate_hot"
        yield f"{thread}/{SCHEME}/target_nid", nodes.slow if demotes else nodes.fast
        for place in PLACES.values():
            if number in place.kdamonds:
                yield f"{thread}/{place.path}", native[place.name]
        yield f"{thread}/{METRIC.removeprefix('*/')}", native[METRIC]
        if config["young_filter"]:
            yield f"{thread}/{SCHEME}/filters/nr_filters", 1
            yield f"{thread}/{SCHEME}/filters/0/type", "young"
            # A filter leaves out what matches: young pages are not demoted, others not promoted.
            yield f"{thread}/{SCHEME}/filters/0/matching", "Y" if demotes else "N"
    for number in watched:
        yield f"{ADMIN}/{number}/state", "on"


def memory_of(node: int, root: Path = Path("/")) -> list[tuple[int, int]]:
    """Spans of physical addresses of a node's zones: first byte and the byte after the last, in order.

    Raises HostUnfit where the kernel does not say.
    """
    try:
        text = (root / "proc/zoneinfo").read_text(encoding="utf-8")
    except OSError as error:
        raise HostUnfit(f"/proc/zoneinfo: {error.strerror}") from error
    spans = []
    for zone in re.split(r"(?m)^(?=Node )", text):
        if re.match(rf"Node {node}, zone", zone):
            found = {
                name: re.search(rf"\b{name}:?\s+(\d+)", zone) for name in ("spanned", "present", "start_pfn")
            }
            spanned, present, first = (int(hit[1]) if hit else 0 for hit in found.values())
            if present:
                spans.append((first * PAGE_BYTES, (first + spanned) * PAGE_BYTES))
    if not spans:
        raise HostUnfit(f"/proc/zoneinfo says nothing of the memory of node {node}")
    return sorted(spans)
