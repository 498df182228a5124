//! `tpp`: NUMA balancing made for tiers (TPP, a kernel patch): hint faults on slow pages, lists, early demotion.
//!
//! The process marks stretches of slow memory inaccessible as it runs ([`NumaScan`](crate::numa_scan)). A touch of
//! a marked page faults. If the page is on the active list, and fast memory has more than its high watermark free, the
//! faulting thread itself moves it up and waits for that. If it is not active the fault counts as an access, which
//! brings it closer to the active list. kswapd wakes as soon as less than `demote_scale_factor` of fast memory is free, far
//! earlier than for allocations, and demotes inactive pages until so much is free again. A demoted page is marked at once,
//! so that its next touch faults.
//!
//! What is surprising:
//!
//! - papers have a page promoted at its second fault; in the code the first only makes it
//!   "referenced" and the second "active", so it is the third (`faults_to_promote`);
//! - faults are the only thing that makes pages of slow memory active: nothing reclaims there, so
//!   nobody ages those lists, and a page once active stays so until it has been up and down again;
//! - the published code returns from such a fault without making the page accessible again, from the kernel on that delays
//!   that to the end of the fault (5.13; the artifacts use 5.15). So the access faults at once again, about thirty times, until
//!   the page is active, and is promoted: with demoted pages marked at once, every touch of one brings it up
//!   (`maps_inactive` false);
//! - promotions have no rate limit, each stalls its thread, and a page that finds no room has cost a fault for nothing;
//! - in mode 3 the scanner adapts to faults as in normal balancing, but only slow pages fault: with none shared
//!   between threads the period doubles each pass, with most shared it shrinks (`numa_balancing_mode`).
//!
//! What had to be decided: with three tiers 0 is fast, the rest slow, promotions go to 0 and
//! demotions to the fastest slow tier with room; a page of 2 MiB is one page of the lists; threads are taken to run
//! beside fast memory; `faults_to_promote` 4 is 3 and one fault that only arms the next.

use serde::{Deserialize, Serialize};

use crate::knob::{Config, KnobError};
use crate::numa_balancing::{Arrival, NumaBalancing, Statistics};
use crate::numa_scan::ScanPace;
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::watermarks::{WATERMARK_SCALE_FACTOR, Watermarks};
use crate::{
    Context, Extent, Fault, FaultKind, Gauge, Migrated, MigrationMechanics, Nanos, Needs, Page, Placement, Policy,
    Takeover, Topology,
};

crate::knobs! {
    /// Knobs of `tpp`.
    pub struct TppConfig for "tpp" {
        /// Free share of fast memory below which kswapd demotes, at least twice the high watermark
        demote_scale_factor: u32 = 200, int(1, 3000, log), unit "1/10000", special [], tuned, live,
            when "demotion_enabled" = true, source "TPP patch, vm.demote_scale_factor; range ours (kernel: to 10000)";
        /// Shortest scan period, for a process of one scan_size_mb; it is divided by the number of those
        scan_period_min_ms: u32 = 1000, int(20, 20_000, log), unit "ms", special [], tuned, live,
            source "Linux kernel/sched/fair.c (debugfs sched/numa_balancing); range ours";
        /// Longest scan period over the shortest
        scan_period_ratio: u32 = 60, int(1, 1000, log), unit "", special [], tuned, live,
            source "scan_period_max_ms 60000 over scan_period_min_ms; a ratio so that it cannot fall below it";
        /// Memory marked per scan
        scan_size_mb: u32 = 256, int(16, 8192, log), unit "MB", special [], tuned, live,
            source "Linux kernel/sched/fair.c (debugfs sched/numa_balancing); range ours";
        /// Faults until a page is promoted: 2 in papers, 3 in the published code
        faults_to_promote: u8 = 2, int(1, 4), unit "faults", special [], tuned, rebuild,
            when "promote_active_only" = true, source "TPP as FlexMem section 2 tells it; the code's mark_page_accessed takes one more";
        /// Time after which a kswapd that failed 16 times tries again
        kswapd_retry_ms: u32 = 10_000, int(100, 20_000, log), unit "ms", special [], tuned, rebuild,
            when "demotion_enabled" = true, source "TPP patch (mm/vmscan.c); range ours";
        /// kernel.numa_balancing: 2 tiering only, whose scan period is fixed, 3 with normal balancing, whose period adapts
        numa_balancing_mode: u8 = 3, int(2, 3), unit "", special [], fixed, live, source "run scripts of the Alto artifact";
        /// Time before the first scan, and first period of threads that the first one starts
        scan_delay_ms: u32 = 1000, int(0, 10_000), unit "ms", special [], fixed, live,
            source "Linux kernel/sched/fair.c (debugfs sched/numa_balancing); range ours";
        /// Whether only pages of the active list are promoted; otherwise every faulting page is
        promote_active_only: bool = true, bool, unit "", special [], fixed, rebuild, source "TPP patch (mm/memory.c)";
        /// Whether a fault on an inactive page makes it accessible; if not, the access faults again until it is active
        maps_inactive: bool = true, bool, unit "", special [], fixed, rebuild,
            when "promote_active_only" = true, source "TPP paper; the patch (mm/memory.c) on Linux 5.15, which maps pages at the end of a fault, returns before that";
        /// Whether demoted pages are marked at once
        poison_demoted: bool = true, bool, unit "", special [], fixed, rebuild, source "TPP patch (mm/migrate.c)";
        /// Whether kswapd demotes at all
        demotion_enabled: bool = true, bool, unit "", special [], fixed, live, source "/sys/kernel/mm/numa/demotion_enabled";
        /// What absolute sizes are multiplied by, for workloads smaller than the original ones
        footprint_scale: f64 = 1.0, float(0.001, 1.0, log), unit "", special [], fixed, live, source "ours";
    }
}

/// Note of a page: it was demoted and has not been up since.
const DEMOTED: u8 = 1;
/// Note of a page: with `faults_to_promote` 4, the first fault.
const SEEN: u8 = 2;

/// Entries of a CPU's batch of pages to be activated (`PAGEVEC_SIZE`).
pub(crate) const ACTIVATED_AT_ONCE: u32 = 15;
/// Faults for an entry: one makes the page referenced, the next enters it and takes that back.
const FAULTS_PER_ENTRY: u32 = 2;

/// The system, and what [`nomad`](crate::nomad) keeps of it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Tpp {
    config: TppConfig,
    topology: Topology,
    pub(crate) balancing: NumaBalancing,
    /// kswapd is woken when less of fast memory is free.
    pub(crate) demote_mark: u32,
    promoted_again: u64,
    repeated_faults: u64,
}

impl Tpp {
    pub(crate) fn new(config: TppConfig, topology: &Topology) -> Self {
        let marks = Watermarks::new(topology, WATERMARK_SCALE_FACTOR);
        let demote_mark = marks.demote(topology, config.demote_scale_factor);
        let pace = ScanPace {
            delay_ms: config.scan_delay_ms,
            period_min_ms: config.scan_period_min_ms,
            period_max_ms: config.scan_period_min_ms * config.scan_period_ratio,
            size_mb: config.scan_size_mb,
            footprint_scale: config.footprint_scale,
        };
        let mut balancing = NumaBalancing::new(pace, topology, marks, demote_mark).waking_below(demote_mark);
        balancing
            .kswapd
            .retry_after_ns(Nanos::from(config.kswapd_retry_ms) * 1_000_000);
        if config.numa_balancing_mode == 3 {
            balancing = balancing.counting(Statistics::AllFaults, topology);
        }
        if !config.demotion_enabled {
            balancing = balancing.without_demotion();
        }
        Self {
            demote_mark,
            balancing,
            topology: topology.clone(),
            promoted_again: 0,
            repeated_faults: 0,
            config,
        }
    }

    /// Whether a page may rise as far as the lists are concerned.
    pub(crate) fn is_active(&self, page: Page) -> bool {
        !self.config.promote_active_only || self.config.faults_to_promote == 1 || self.balancing.lru.is_active(page)
    }

    /// A fault as an access that the lists notice; whether the page is to become active.
    pub(crate) fn refer(&mut self, page: Page) -> bool {
        let lru = &mut self.balancing.lru;
        let note = lru.note(page);
        match self.config.faults_to_promote {
            4 if note & SEEN == 0 => {
                lru.set_note(page, note | SEEN);
                false
            }
            3 | 4 => lru.refer(page),
            _ => true,
        }
    }

    /// The page stays marked until it is active: every second fault puts it once more into the CPU's batch of pages to
    /// be activated, which is carried out when it is full, of nothing but this page. Pages of 2 MiB are not asked whether
    /// they are active.
    fn faults_until_active(&mut self, fault: &Fault, cx: &mut Context<'_>) {
        if self.topology.page_bytes < PAGE_2M {
            cx.fault_again(fault, FAULTS_PER_ENTRY * ACTIVATED_AT_ONCE);
            self.repeated_faults += u64::from(FAULTS_PER_ENTRY * ACTIVATED_AT_ONCE);
        }
        self.balancing.lru.activate(fault.page);
    }

    fn on_hint_fault(&mut self, fault: &Fault, cx: &mut Context<'_>) {
        let only_maps = fault.tier != 0 && self.config.maps_inactive && !self.is_active(fault.page);
        if only_maps && self.topology.page_bytes < PAGE_2M {
            // `do_numa_page` of the patch goes out before the page's thread is noted; that of 2 MiB pages is not patched.
            self.balancing.faulted_in_passing(fault, cx);
        } else {
            self.balancing.faulted(fault, cx);
        }
        if fault.tier == 0 {
            return; // marked for an outer policy only
        }
        if only_maps {
            if self.refer(fault.page) {
                self.balancing.lru.activate(fault.page);
            }
            return;
        }
        if !self.is_active(fault.page) {
            self.faults_until_active(fault, cx);
        }
        if self.balancing.has_room_above(self.balancing.marks.high, cx) {
            self.balancing.promote(fault, cx);
        } else {
            self.balancing.refused_in(fault);
        }
        if !self.balancing.has_room_above(self.demote_mark, cx) {
            self.balancing.wake_kswapd(cx);
        }
    }
}

impl Policy for Tpp {
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
        }
        gate
    }

    /// With normal balancing the test is the active list; in tiering mode it is how soon the touch came.
    fn is_hot(&self, fault: &Fault) -> bool {
        match self.config.numa_balancing_mode {
            3 => self.is_active(fault.page),
            _ => fault.at.saturating_sub(fault.armed_at) < 1_000_000_000,
        }
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
        for arrival in self.balancing.on_migrations(ended, cx) {
            match arrival {
                Arrival::Promoted(page) => {
                    self.promoted_again += u64::from(self.balancing.lru.note(page) & DEMOTED != 0);
                    self.balancing.lru.set_note(page, 0);
                }
                Arrival::Demoted(page) => {
                    self.balancing.lru.set_note(page, DEMOTED);
                    if self.config.poison_demoted {
                        self.balancing.scan.arm(page..page + 1, cx);
                    }
                }
            }
        }
        self.balancing.set_wake(cx);
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        self.balancing.on_wake(cx);
    }

    fn gauges(&self) -> Vec<Gauge> {
        let mut gauges = self.balancing.gauges();
        gauges.push(Gauge {
            name: "promoted_again_pages",
            meaning: "pages promoted that had been demoted before",
            value: self.promoted_again as f64,
        });
        gauges.push(Gauge {
            name: "repeated_faults",
            meaning: "faults at an access that had faulted already, as the page stayed marked",
            value: self.repeated_faults as f64,
        });
        gauges
    }
}

/// The registry entry.
pub const SYSTEM: System = System {
    name: "tpp",
    summary: "promotes slow pages that fault while active, in the fault; demotes inactive pages early",
    source: "TPP (ASPLOS 2023), as the Soar/Alto and PACT papers run it",
    signal: "NUMA hint faults and accessed bits",
    page_bytes: &[PAGE_2M, PAGE_4K],
    knobs: TppConfig::knobs,
    build,
};

fn build(config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    Ok(Box::new(Tpp::new(TppConfig::from_config(config)?, topology)))
}
