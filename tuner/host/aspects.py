"""Everything that is recorded of a host: where it is read, and why a difference matters.

Declared here and nowhere else; the reader, `tiertune host show`, `tiertune host diff` and docs follow it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Weight = Literal["decides", "shifts", "notes"]
"""`decides`: results of two hosts that differ in this must not be compared; `shifts`: may move them by more
than noise; `notes`: worth knowing when something looks odd."""


@dataclass(frozen=True)
class Aspect:
    """One thing about a host, read from files below / by `pattern` (a glob; what `*` stands for goes into
    names).

    `key` picks a line `key value` or `key: value` of the file; `chosen` takes the word in brackets, as the
    kernel marks a choice. `tolerance` is the relative difference up to which quantities count as alike.
    """

    name: str
    pattern: str
    why: str
    weight: Weight = "shifts"
    key: str | None = None
    chosen: bool = False
    tolerance: float | None = None


_THP = "sys/kernel/mm/transparent_hugepage"
_VM = "proc/sys/vm"
_KERNEL = "proc/sys/kernel"
_CPU = "sys/devices/system/cpu"
_DMI = "sys/class/dmi/id"

KERNEL_PARAMETERS = frozenset(
    [
        "default_hugepagesz",
        "efi_fake_mem",
        "hugepages",
        "hugepagesz",
        "idle",
        "intel_idle.max_cstate",
        "intel_iommu",
        "intel_pstate",
        "iommu",
        "isolcpus",
        "maxcpus",
        "mem",
        "memmap",
        "memory_hotplug.memmap_on_memory",
        "mitigations",
        "movable_node",
        "movablecore",
        "nohz_full",
        "nopti",
        "nosmt",
        "numa",
        "numa_balancing",
        "processor.max_cstate",
        "pti",
        "rcu_nocbs",
        "spectre_v2",
        "transparent_hugepage",
    ]
)
"""Words of the kernel's command line that are recorded."""

SETTINGS: tuple[Aspect, ...] = (
    Aspect("kernel", f"{_KERNEL}/osrelease", "migration and balancing change between releases", "decides"),
    Aspect("kernel parameters", "proc/cmdline", "memory reservations and mitigations are set there"),
    Aspect(
        "boot", f"{_KERNEL}/random/boot_id", "memory is as fragmented as the time since boot made it", "notes"
    ),
    Aspect("machine", f"{_DMI}/product_name", "another machine", "decides"),
    Aspect("firmware", f"{_DMI}/bios_version", "memory timings and interleaving are set there"),
    Aspect("processor", "proc/cpuinfo", "other latencies and caches", "decides", key="model name"),
    Aspect("microcode", "proc/cpuinfo", "mitigations and prefetchers change with it", key="microcode"),
    Aspect("THP", f"{_THP}/enabled", "decides whether pages are of 4 KiB or 2 MiB", "decides", chosen=True),
    Aspect(
        "THP defrag", f"{_THP}/defrag", "who waits for compaction when a huge page is allocated", chosen=True
    ),
    Aspect("THP for shared memory", f"{_THP}/shmem_enabled", "page size of shared mappings", chosen=True),
    Aspect(
        "khugepaged scan sleep (ms)", f"{_THP}/khugepaged/scan_sleep_millisecs", "how fast pages become huge"
    ),
    Aspect(
        "khugepaged allocation sleep (ms)",
        f"{_THP}/khugepaged/alloc_sleep_millisecs",
        "its pause after a failure",
    ),
    Aspect("khugepaged pages a scan", f"{_THP}/khugepaged/pages_to_scan", "how fast pages become huge"),
    Aspect("khugepaged defrag", f"{_THP}/khugepaged/defrag", "whether it compacts memory"),
    Aspect(
        "compaction proactiveness", f"{_VM}/compaction_proactiveness", "moves pages behind everybody's back"
    ),
    Aspect(
        "least free memory (kB)", f"{_VM}/min_free_kbytes", "what no tier may fill; sets reclaim watermarks"
    ),
    Aspect("watermark scale (1/10000)", f"{_VM}/watermark_scale_factor", "when demotion begins and ends"),
    Aspect("watermark boost (1/10000)", f"{_VM}/watermark_boost_factor", "more reclaim after fragmentation"),
    Aspect("swappiness", f"{_VM}/swappiness", "what reclaim takes first"),
    Aspect(
        "zone reclaim",
        f"{_VM}/zone_reclaim_mode",
        "reclaims near memory before far memory is used",
        "decides",
    ),
    Aspect("overcommit", f"{_VM}/overcommit_memory", "whether allocations fail early", "notes"),
    Aspect("huge pages reserved", f"{_VM}/nr_hugepages", "memory that nobody else has", "decides"),
    Aspect(
        "demotion",
        "sys/kernel/mm/numa/demotion_enabled",
        "reclaim moves pages instead of dropping them",
        "decides",
    ),
    Aspect("NUMA balancing", f"{_KERNEL}/numa_balancing", "the kernel moves pages itself", "decides"),
    Aspect(
        "NUMA balancing rate limit (MB/s)",
        f"{_KERNEL}/numa_balancing_promote_rate_limit_MBps",
        "caps promotion by the kernel",
    ),
    Aspect("multi-generational LRU", "sys/kernel/mm/lru_gen/enabled", "another order of reclaim"),
    Aspect("kernel samepage merging", "sys/kernel/mm/ksm/run", "scans and merges pages"),
    Aspect("perf paranoia", f"{_KERNEL}/perf_event_paranoid", "who may sample what", "notes"),
    Aspect(
        "perf samples at most (1/s)", f"{_KERNEL}/perf_event_max_sample_rate", "records beyond it are lost"
    ),
    Aspect("NMI watchdog", f"{_KERNEL}/nmi_watchdog", "takes one hardware counter", "notes"),
    Aspect("processors online", f"{_CPU}/online", "threads and who shares cores", "decides"),
    Aspect("hyper-threading", f"{_CPU}/smt/control", "threads that share a core's buffers", "decides"),
    Aspect("governor", f"{_CPU}/cpu*/cpufreq/scaling_governor", "clock rates that follow load"),
    Aspect("turbo off", f"{_CPU}/intel_pstate/no_turbo", "clock rates that follow temperature"),
    Aspect("boost", f"{_CPU}/cpufreq/boost", "clock rates that follow temperature"),
    Aspect(
        "uncore clock at most (kHz)",
        f"{_CPU}/intel_uncore_frequency/*/max_freq_khz",
        "latency of far memory; how CXL is emulated",
        "decides",
    ),
    Aspect(
        "uncore clock at least (kHz)",
        f"{_CPU}/intel_uncore_frequency/*/min_freq_khz",
        "latency of memory when little is asked of it",
    ),
    Aspect("interrupts go to", "proc/irq/default_smp_affinity", "who is interrupted", "notes"),
    Aspect("node processors", "sys/devices/system/node/node*/cpulist", "which node computes", "decides"),
    Aspect(
        "node distances",
        "sys/devices/system/node/node*/distance",
        "what the kernel holds for near",
        "decides",
    ),
    Aspect(
        "memory tiers",
        "sys/devices/virtual/memory_tiering/memory_tier*/nodelist",
        "where demotion goes",
        "decides",
    ),
)

QUANTITIES: tuple[Aspect, ...] = (
    Aspect(
        "node memory (kB)",
        "sys/devices/system/node/node*/meminfo",
        "another size",
        "decides",
        "MemTotal",
        tolerance=0.01,
    ),
    Aspect(
        "node free memory (kB)",
        "sys/devices/system/node/node*/meminfo",
        "new pages go where there is room when the trial starts",
        "shifts",
        "MemFree",
        tolerance=0.1,
    ),
    Aspect(
        "node page cache (kB)",
        "sys/devices/system/node/node*/meminfo",
        "fills fast memory that the workload then does not get",
        "shifts",
        "FilePages",
        tolerance=0.5,
    ),
    Aspect(
        "swap used (kB)",
        "proc/swaps",
        "a workload that swaps measures the disk",
        "decides",
        "used",
        tolerance=0.0,
    ),
    Aspect("load", "proc/loadavg", "somebody else computes", "shifts", tolerance=1.0),
)

THROTTLED = ("cores throttled (ms)", "sockets throttled (ms)")
"""Time for which processors ran slower than asked, for heat or power, summed up over all of them."""

COUNTERS: tuple[Aspect, ...] = tuple(
    Aspect(name, f"{_CPU}/cpu*/thermal_throttle/{file}_throttle_total_time_ms", "processors ran slower")
    for name, file in zip(THROTTLED, ("core", "package"), strict=True)
) + tuple(
    Aspect(name, "proc/vmstat", why, key=name)
    for name, why in (
        ("compact_stall", "allocations that waited for compaction"),
        ("compact_fail", "compactions in vain"),
        ("allocstall_normal", "allocations that had to reclaim themselves"),
        ("allocstall_movable", "allocations that had to reclaim themselves"),
        ("thp_fault_alloc", "huge pages made at a fault"),
        ("thp_fault_fallback", "faults that got small pages instead"),
        ("thp_collapse_alloc", "pages that khugepaged made huge"),
        ("thp_collapse_alloc_failed", "huge pages that khugepaged did not get"),
        ("thp_split_page", "huge pages that were split"),
        ("pgscan_kswapd", "pages that background reclaim looked at"),
        ("pgscan_direct", "pages that allocations looked at to reclaim"),
        ("pgdemote_kswapd", "pages demoted in the background"),
        ("pgdemote_direct", "pages demoted by allocations"),
        ("pgpromote_success", "pages that the kernel promoted"),
        ("pgmigrate_success", "pages moved, by anyone"),
        ("pgmigrate_fail", "pages that could not be moved"),
        ("numa_hint_faults", "hint faults of NUMA balancing"),
        ("numa_pages_migrated", "pages that NUMA balancing moved"),
        ("pswpin", "pages read from swap"),
        ("pswpout", "pages written to swap"),
        ("oom_kill", "processes killed for memory"),
    )
)
