//! `autonuma`: the two kernel baselines of the FlexMem paper that know no tiers, or hardly.
//!
//! `autonuma` is NUMA balancing as it always was: pages of *both* tiers are marked inaccessible and fault, so that
//! the scan period can adapt; a faulting page of slow memory moves to where the threads run, in the fault, if that leaves
//! the high watermark of fast memory free. Nothing is ever demoted: once fast memory is full, it stays as it is, each
//! attempt fails, and failures make the scanner slow down.
//!
//! `tiering-0.8` is the out-of-tree kernel from which Linux took its tiering mode later: only slow memory is marked, the
//! time from mark to touch is compared with a threshold that follows a rate limit ([`HotThreshold`]), and kswapd
//! demotes inactive pages when promotions find no room.
//!
//! What had to be decided, as papers only name these systems:
//!
//! - everything not said here is the documented behaviour of Linux: for `tiering-0.8`, of 6.1, which has its selection
//!   of hot pages; promotion of everything while fast memory has 1 GiB and a sixteenth free included;
//! - all threads run beside fast memory, so the kernel's tests on which node and task used a page last (two faults of one
//!   node, shared groups) pass for every page of slow memory, at its first fault, and no page ever moves down;
//! - with three tiers 0 is fast, the rest slow; a page of 2 MiB counts as one page of the lists.

use serde::{Deserialize, Serialize};

use crate::hot_threshold::{HotThreshold, Judgement, Selection};
use crate::kernel_migration;
use crate::knob::{Config, KnobError};
use crate::numa_balancing::{NumaBalancing, Statistics};
use crate::numa_scan::ScanPace;
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::watermarks::{WATERMARK_SCALE_FACTOR, Watermarks};
use crate::{
    Context, Extent, Fault, FaultKind, Gauge, Migrated, MigrationMechanics, Needs, Placement, Policy, Topology,
};

/// `NUMA_MIGRATION_ADJUST_STEPS`.
const THRESHOLD_STEPS: u32 = 16;
/// Free memory above the promotion watermark with which everything is promoted: 1 GiB, or a sixteenth of the node.
const FREE_ENOUGH_BYTES: f64 = (1u64 << 30) as f64;
const FREE_ENOUGH_PART: u32 = 16;

crate::knobs! {
    /// Knobs of `autonuma`.
    pub struct AutonumaConfig for "autonuma" {
        /// Plain NUMA balancing, or the out-of-tree tiering kernel 0.8
        variant: String = "autonuma".to_string(), choice("autonuma", "tiering-0.8"), unit "", special [], fixed, rebuild,
            source "FlexMem section 8 (baselines)";
        /// Shortest scan period, for a process of one scan_size_mb; it is divided by the number of those
        scan_period_min_ms: u32 = 1000, int(20, 20_000, log), unit "ms", special [], tuned, live,
            source "Linux kernel/sched/fair.c (debugfs sched/numa_balancing); range ours";
        /// Longest scan period over the shortest
        scan_period_ratio: u32 = 60, int(1, 1000, log), unit "", special [], tuned, live,
            source "scan_period_max_ms 60000 over scan_period_min_ms; a ratio so that it cannot fall below it";
        /// Memory marked per scan
        scan_size_mb: u32 = 256, int(16, 8192, log), unit "MB", special [], tuned, live,
            source "Linux kernel/sched/fair.c (debugfs sched/numa_balancing); range ours";
        /// A page touched within this time of being marked is hot, to begin with
        hot_threshold_ms: u32 = 1000, int(5, 20_000, log), unit "ms", special [], tuned, live,
            when "variant" = "tiering-0.8", source "Linux 6.1 as tiering-0.8 is not printed; range ours";
        /// Bytes of hot pages per second beyond which none is promoted; 65536 limits nothing
        rate_limit_mbps: u32 = 65_536, int(16, 65_536, log), unit "MB/s", special [], tuned, live,
            when "variant" = "tiering-0.8", source "kernel.numa_balancing_rate_limit_mbps of that kernel; default of Linux 6.1; range ours";
        /// Time before the first scan, and first period of threads that the first one starts
        scan_delay_ms: u32 = 1000, int(0, 10_000), unit "ms", special [], fixed, live,
            source "Linux kernel/sched/fair.c (debugfs sched/numa_balancing); range ours";
        /// What absolute sizes and rates are multiplied by, for workloads smaller than the original ones
        footprint_scale: f64 = 1.0, float(0.001, 1.0, log), unit "", special [], fixed, live, source "ours";
    }
}

#[derive(Serialize, Deserialize)]
struct Autonuma {
    topology: Topology,
    balancing: NumaBalancing,
    /// None in plain balancing.
    hot: Option<HotThreshold>,
    free_enough_pages: u32,
}

impl Autonuma {
    fn new(config: &AutonumaConfig, topology: &Topology) -> Self {
        let marks = Watermarks::new(topology, WATERMARK_SCALE_FACTOR);
        let period_max_ms = config.scan_period_min_ms * config.scan_period_ratio;
        let pace = ScanPace {
            delay_ms: config.scan_delay_ms,
            period_min_ms: config.scan_period_min_ms,
            period_max_ms,
            size_mb: config.scan_size_mb,
            footprint_scale: config.footprint_scale,
        };
        let hot = (config.variant == "tiering-0.8").then(|| {
            let limit_bytes = (u64::from(config.rate_limit_mbps) << 20) as f64 * config.footprint_scale;
            HotThreshold::new(Selection {
                hot_threshold_ns: u64::from(config.hot_threshold_ms) * 1_000_000,
                limit_bytes_per_s: limit_bytes.ceil() as u64,
                page_bytes: topology.page_bytes,
                adjust_period_ns: u64::from(period_max_ms) * 1_000_000,
                steps: THRESHOLD_STEPS,
            })
        });
        let mut balancing = NumaBalancing::new(pace, topology, marks, marks.promo);
        if hot.is_some() {
            balancing = balancing.counting(Statistics::Promotions, topology);
        } else {
            balancing.scan.mark_all_tiers();
            balancing = balancing.counting(Statistics::AllFaults, topology).without_demotion();
        }
        let free_enough_pages = topology.pages_in((FREE_ENOUGH_BYTES * config.footprint_scale) as u64);
        Self {
            free_enough_pages: free_enough_pages.max(topology.capacity_pages[0] / FREE_ENOUGH_PART),
            hot,
            balancing,
            topology: topology.clone(),
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
        if fault.tier == 0 || !self.is_to_rise(fault, cx) {
            return;
        }
        if self.balancing.has_room_above(self.balancing.marks.high, cx) {
            self.balancing.promote(fault, cx);
        } else {
            self.balancing.refused_in(fault);
            self.balancing.wake_kswapd(cx);
        }
    }
}

impl Policy for Autonuma {
    crate::saves_itself!();

    fn needs(&self) -> Needs {
        Needs {
            hint_faults: true,
            accessed_bits: self.hot.is_some(),
            ..Needs::default()
        }
    }

    fn mechanics(&self) -> MigrationMechanics {
        kernel_migration::mechanics(self.topology.page_bytes)
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
    name: "autonuma",
    summary: "moves faulting pages to fast memory while it has room (plain), or those touched soon (tiering-0.8)",
    source: "Linux NUMA balancing and the tiering-0.8 kernel, as baselines of FlexMem",
    signal: "NUMA hint faults and accessed bits",
    page_bytes: &[PAGE_2M, PAGE_4K],
    knobs: AutonumaConfig::knobs,
    build,
};

fn build(config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    Ok(Box::new(Autonuma::new(&AutonumaConfig::from_config(config)?, topology)))
}
