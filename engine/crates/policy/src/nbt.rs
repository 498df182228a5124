//! `nbt`: NUMA balancing of the Linux kernel in its memory-tiering mode, in either of its generations.
//!
//! The process marks stretches of slow memory inaccessible as it runs ([`NumaScan`](crate::numa_scan)); a touch of a marked
//! page faults. In Linux 5.18 every such page is to be promoted. From 6.1 on only pages touched soon enough after being
//! marked are, at a limited rate, and the threshold follows that rate ([`HotThreshold`]); while fast memory has a lot of
//! room everything is promoted. The faulting thread moves the page itself if that leaves the high watermark free;
//! otherwise it wakes kswapd, which demotes inactive pages until the promotion watermark is free.
//!
//! What is surprising:
//!
//! - the shortest scan period has nothing to do with `scan_period_min_ms` from 2.5 GiB on: 2560 MB/s are scanned then, by the
//!   first thread alone, as others begin with a period of `scan_delay_ms`;
//! - it does not stay the shortest. In 5.18 one promotion without room, and a thread's period doubles after every pass; from
//!   6.1 on promotions themselves count as faults that are neither shared nor local, which has the same effect
//!   ([`ScanPeriods`](crate::scan_period::ScanPeriods)). So it ends at `scan_period_ratio` times the shortest, and
//!   promotions at a small fraction of their first rate, unless the patched kernel leaves faults uncounted
//!   (`adapts_scan_period` false, as Colloid's does);
//! - the rate limit counts candidates, whether or not they find room, and by default (64 GiB/s) limits nothing;
//! - with no limit in force the threshold only ever grows, to twice its default;
//! - colder pages than that are promoted as well when marking and touch happen to be close.
//!
//! What had to be decided: with three tiers 0 is fast, the rest slow, promotions go to 0 and demotions to the fastest slow
//! tier with room; a page of 2 MiB counts as one page of the lists, and as 512 for the rate; threads are taken to run
//! beside fast memory. Reclaim goes through the classic active and inactive lists ([`Lru`]), as in the papers; from 6.1 on
//! a kernel may be told to keep generations instead ([`LruGen`], `lru_gen`), of which 5.18 has none.

use serde::{Deserialize, Serialize};

use crate::hot_threshold::{HotThreshold, Judgement, Selection};
use crate::knob::{Config, KnobError};
use crate::lru::Lru;
use crate::lru_gen::LruGen;
use crate::numa_balancing::{NumaBalancing, Statistics};
use crate::numa_scan::ScanPace;
use crate::reclaim_lists::ReclaimLists;
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::watermarks::Watermarks;
use crate::{
    Context, Extent, Fault, FaultKind, Gauge, Migrated, MigrationMechanics, Needs, Placement, Policy, Takeover,
    Topology,
};

crate::knobs! {
    /// Knobs of `nbt`.
    pub struct NbtConfig for "nbt" {
        /// Which kernel: 5.18 promotes every faulting page, 6.1 and later those touched soon
        generation: String = "v6.1".to_string(), choice("v5.18", "v6.1"), unit "", special [], fixed, rebuild,
            source "Linux; 5.18 in Alto's and PACT's baselines, 6.1 and later in Colloid's";
        /// Shortest scan period, for a process of one scan_size_mb; it is divided by the number of those
        scan_period_min_ms: u32 = 1000, int(20, 20_000, log), unit "ms", special [], tuned, live,
            source "Linux kernel/sched/fair.c (debugfs sched/numa_balancing); range ours";
        /// Longest scan period, after which the threshold is adjusted as well, over the shortest
        scan_period_ratio: u32 = 60, int(1, 1000, log), unit "", special [], tuned, live, source "scan_period_max_ms 60000; a ratio so that it cannot fall below the minimum";
        /// Memory marked per scan
        scan_size_mb: u32 = 256, int(16, 8192, log), unit "MB", special [], tuned, live,
            source "Linux kernel/sched/fair.c (debugfs sched/numa_balancing); range ours";
        /// A page touched within this time of being marked is hot, to begin with
        hot_threshold_ms: u32 = 1000, int(5, 20_000, log), unit "ms", special [], tuned, live,
            when "generation" = "v6.1", source "Linux kernel/sched/fair.c (debugfs hot_threshold_ms); range ours";
        /// Bytes of hot pages per second beyond which none is promoted; 65536 limits nothing
        promote_rate_limit_mbps: u32 = 65_536, int(16, 65_536, log), unit "MB/s", special [], tuned, live,
            when "generation" = "v6.1", source "Linux kernel.numa_balancing_promote_rate_limit_MBps; range ours";
        /// Distance between watermarks, as a share of the node
        watermark_scale_factor: u32 = 10, int(1, 3000, log), unit "1/10000", special [], tuned, live,
            source "Linux vm.watermark_scale_factor (mm/page_alloc.c)";
        /// Free memory above the promotion watermark with which everything is promoted, at least
        free_enough_mib: u32 = 1024, int(1, 65_536, log), unit "MiB", special [], tuned, rebuild,
            when "generation" = "v6.1", source "Linux pgdat_free_space_enough; range ours";
        /// The same as a share of the node; the larger of the two counts
        free_enough_share: f64 = 0.0625, float(0.0, 0.5), unit "", special [], fixed, rebuild,
            when "generation" = "v6.1", source "Linux pgdat_free_space_enough, a sixteenth; range ours";
        /// Steps of the threshold from zero to twice its default
        threshold_steps: u32 = 16, int(4, 64), unit "steps", special [], fixed, rebuild,
            when "generation" = "v6.1", source "Linux NUMA_MIGRATION_ADJUST_STEPS; range ours";
        /// Whether a fault that finds no room wakes kswapd even if it failed 16 times before
        reset_kswapd_failures: bool = false, bool, unit "", special [], fixed, live, when "demotion_enabled" = true, source "patch of the Alto artifact";
        /// Whether faults make the scan period longer; the kernel of Colloid's artifact leaves that out
        adapts_scan_period: bool = true, bool, unit "", special [], fixed, rebuild,
            source "Linux kernel/sched/fair.c (task_numa_fault); false in Colloid's artifact (Linux 6.3)";
        /// Time before the first scan, and first period of threads that the first one starts
        scan_delay_ms: u32 = 1000, int(0, 10_000), unit "ms", special [], fixed, live,
            source "Linux kernel/sched/fair.c (debugfs sched/numa_balancing); range ours";
        /// Which pages kswapd takes for cold: those of the active and inactive lists, or of the oldest generation
        lru_gen: String = "classic".to_string(), choice("classic", "mglru"), unit "", special [], fixed, live,
            when "generation" = "v6.1", source "/sys/kernel/mm/lru_gen/enabled (Linux 6.1, mm/vmscan.c)";
        /// Whether kswapd demotes at all
        demotion_enabled: bool = true, bool, unit "", special [], fixed, live, source "/sys/kernel/mm/numa/demotion_enabled";
        /// What absolute sizes and rates are multiplied by, for workloads smaller than the original ones
        footprint_scale: f64 = 1.0, float(0.001, 1.0, log), unit "", special [], fixed, live, source "ours";
    }
}

#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
struct Nbt<L: ReclaimLists> {
    config: NbtConfig,
    topology: Topology,
    balancing: NumaBalancing<L>,
    /// None in 5.18.
    hot: Option<HotThreshold>,
    free_enough_pages: u32,
}

impl<L: ReclaimLists> Nbt<L> {
    fn new(config: NbtConfig, topology: &Topology) -> Self {
        let marks = Watermarks::new(topology, config.watermark_scale_factor);
        let period_max_ms = config.scan_period_min_ms * config.scan_period_ratio;
        let scale = config.footprint_scale;
        let pace = ScanPace {
            delay_ms: config.scan_delay_ms,
            period_min_ms: config.scan_period_min_ms,
            period_max_ms,
            size_mb: config.scan_size_mb,
            footprint_scale: scale,
        };
        let hot = (config.generation == "v6.1").then(|| {
            HotThreshold::new(Selection {
                hot_threshold_ns: u64::from(config.hot_threshold_ms) * 1_000_000,
                limit_bytes_per_s: scaled(u64::from(config.promote_rate_limit_mbps) << 20, scale),
                page_bytes: topology.page_bytes,
                adjust_period_ns: u64::from(period_max_ms) * 1_000_000,
                steps: config.threshold_steps,
            })
        });
        let free_bytes = scaled(u64::from(config.free_enough_mib) << 20, scale);
        let free_share = f64::from(topology.capacity_pages[0]) * config.free_enough_share;
        let mut balancing = NumaBalancing::new(pace, topology, marks, marks.promo);
        if config.adapts_scan_period {
            balancing = balancing.counting(
                match hot {
                    Some(_) => Statistics::Promotions,
                    None => Statistics::AllFaults,
                },
                topology,
            );
        }
        if !config.demotion_enabled {
            balancing = balancing.without_demotion();
        }
        Self {
            free_enough_pages: topology.pages_in(free_bytes).max(free_share as u32),
            hot,
            balancing,
            topology: topology.clone(),
            config,
        }
    }

    fn is_to_rise(&mut self, fault: &Fault, cx: &Context<'_>) -> bool {
        let Some(hot) = &mut self.hot else { return true };
        let enough = self.balancing.marks.promo.saturating_add(self.free_enough_pages);
        if self.balancing.has_room_above(enough, cx) {
            hot.reset();
            return true;
        }
        hot.judge(fault.at, fault.at.saturating_sub(fault.armed_at)) == Judgement::Hot
    }

    fn on_hint_fault(&mut self, fault: &Fault, cx: &mut Context<'_>) {
        self.balancing.faulted(fault, cx);
        // Pages of fast memory are marked for an outer policy only.
        if fault.tier == 0 || !self.is_to_rise(fault, cx) {
            return;
        }
        if self.balancing.has_room_above(self.balancing.marks.high, cx) {
            self.balancing.promote(fault, cx);
            return;
        }
        self.balancing.refused_in(fault);
        if self.config.reset_kswapd_failures {
            self.balancing.kswapd.forget_failures();
        }
        self.balancing.wake_kswapd(cx);
    }
}

fn scaled(bytes: u64, scale: f64) -> u64 {
    (bytes as f64 * scale).ceil() as u64
}

impl<L: ReclaimLists> Policy for Nbt<L> {
    crate::saves_itself!();

    fn needs(&self) -> Needs {
        Needs {
            hint_faults: true,
            accessed_bits: true,
            ..Needs::default()
        }
    }

    fn mechanics(&self) -> MigrationMechanics {
        self.balancing.kswapd.mechanics()
    }

    fn hand_over(&mut self, taken: Takeover) -> bool {
        let gate = taken == Takeover::Gate;
        if gate {
            self.balancing.serve_gate();
            // Colloid's kernel leaves fault statistics out, as both tiers' pages fault for its sake.
            self.balancing.stop_counting();
        }
        gate
    }

    fn idle_knobs(&self) -> &'static [&'static str] {
        &["adapts_scan_period"]
    }

    /// In 5.18 every page that faults is taken for hot.
    fn is_hot(&self, fault: &Fault) -> bool {
        let after_ns = fault.at.saturating_sub(fault.armed_at);
        self.hot.as_ref().is_none_or(|hot| after_ns < hot.threshold_ns())
    }

    fn widen_scans(&mut self, factor: f64) -> bool {
        self.balancing.scan.widen(factor);
        true
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.balancing.on_alloc(extent, cx)
    }

    fn on_free(&mut self, extent: &Extent, cx: &mut Context<'_>) {
        self.balancing.on_free(extent, cx);
    }

    fn on_faults(&mut self, faults: &[Fault], cx: &mut Context<'_>) {
        self.balancing.admit(cx);
        self.balancing.look_up(faults);
        for fault in faults.iter().filter(|fault| fault.kind == FaultKind::Hint) {
            self.on_hint_fault(fault, cx);
        }
        self.balancing.set_wake(cx);
    }

    fn on_migrations(&mut self, ended: &[Migrated], _: bool, cx: &mut Context<'_>) {
        self.balancing.on_migrations(ended, cx);
        self.balancing.set_wake(cx);
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        self.balancing.on_wake(cx);
    }

    fn gauges(&self) -> Vec<Gauge> {
        let mut gauges = self.balancing.gauges();
        gauges.extend(self.hot.iter().flat_map(HotThreshold::gauges));
        gauges
    }
}

/// The registry entry.
pub const SYSTEM: System = System {
    name: "nbt",
    summary: "promotes slow pages that fault soon after being marked, in the fault; demotes inactive pages when it must",
    source: "Linux NUMA balancing, memory-tiering mode (5.18 and 6.1); lru_gen from its multigen_lru.rst and mm/vmscan.c",
    signal: "NUMA hint faults and accessed bits",
    page_bytes: &[PAGE_2M, PAGE_4K],
    knobs: NbtConfig::knobs,
    build,
};

fn build(config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    let config = NbtConfig::from_config(config)?;
    Ok(if config.generation == "v6.1" && config.lru_gen == "mglru" {
        Box::new(Nbt::<LruGen>::new(config, topology))
    } else {
        Box::new(Nbt::<Lru>::new(config, topology))
    })
}
