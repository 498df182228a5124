//! `flexmem`: Memtis's histogram, with lists of pages by bin, joined by hint faults; no migration period.
//!
//! Samples are counted as in `memtis`, and each page is in the list of its bin, apart for fast and slow memory. A
//! scanner marks slow pages too, and a page that faults for the second time becomes *active*; it is not promoted by that.
//! All migration happens in rounds, one every `htmm_adaptation_period` samples: the hot threshold is the lowest bin from
//! which on all pages fit into fast memory; bins below it are warm as long as a share `beta_warm` of their pages has risen
//! since the last round; colder pages go down as far as room is needed, and hot and active pages of slow memory come up
//! in turns until fast memory is full. A page that came up for its faults and turns out to be in a cold bin is passed
//! over in `countdown_init` rounds before it is demoted, which counts as a mistake and lowers the weight `alpha` of
//! active pages.
//!
//! What had to be decided, as the paper is silent or at odds with itself:
//!
//! - the printed number of demotions, all pages of fast memory in cold bins plus promotions that failed, those of active
//!   pages times `alpha`, is the *most* that go down in a round. What is asked for is room for the hot pages of slow
//!   memory and for `alpha` times the active ones, as the abstract has it ("based on the needs of accommodating hot
//!   pages"). Were all cold pages to go down whatever waits, up to two fifths of fast memory would be empty whenever the
//!   threshold rises by a bin, and a low `alpha` could not spare demotions, as it is said to;
//! - as more pages may have to go down than are cold, warm ones follow, the coldest first, but never hot ones;
//! - a round is the only trigger, apart from the free-space trigger; the sentence about a thread that wakes periodically
//!   is taken to be a slip. One thread sets the thresholds and moves pages by them, so a round that comes while moves
//!   of the last are under way begins when they have ended;
//! - a page is selected at most once in a round, as a countdown is to leave time for evidence;
//! - a *small* `beta_warm` makes warm bins easier to get, as the algorithm has it, against the sentence on sensitivity;
//! - without a promotion by faults in a round `alpha` stays as it is; more mistakes than promotions make it 0;
//! - below the free-space trigger cold pages are demoted between rounds, just enough; without cold ones nothing is.
//!   Fast memory counts as full at the trigger, or what was promoted last would be followed down by as much;
//! - halving is done for all pages at once, by the thread that migrates, as there is no walk to put it off to;
//! - pages are huge pages of 2 MiB, or base pages of 4 KiB that are never part of a huge page: marks are per page here,
//!   where the kernel has one for a huge page. So nothing is split, and Memtis's knobs for that are not offered;
//! - tier 0 is "fast", all others together are "slow"; demoted pages go to the fastest slow tier with room.

mod bins;
mod knobs;

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;

use crate::kernel_migration;
use crate::knob::{Config, KnobError};
use crate::memtis::hotness::{BINS, Counting, Hotness, fitting_bin};
use crate::memtis::quota::Quota;
use crate::memtis::{self, MemtisConfig};
use crate::mover::{LIST_ENTRY_NS, Room};
use crate::numa_scan::{NumaScan, ScanPace, runs_by_tier};
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::{
    Context, Extent, Fault, FaultKind, Gauge, Migrated, MigrationMechanics, Nanos, Needs, Outcome, Overheads, Page,
    PageMap, Placement, Policy, Sample, SamplerRequest, Tier, Topology,
};

use bins::{ACTIVE, BY_FAULT, BinLists, KNOWN, MIGRATING};
pub use knobs::FlexmemOwn;

/// Longest scan period and delay of the first scan, as Linux has them.
const SCAN_PERIOD_MAX_MS: u32 = 60_000;
const SCAN_DELAY_MS: u32 = 1000;
/// Time between two checks of the free-space trigger, and so the shortest between two demotions by it (ours).
const TRIGGER_NS: Nanos = 10_000_000;

/// Events worth reporting.
#[derive(Default, Serialize, Deserialize)]
struct Tally {
    rounds: u64,
    rounds_put_off: u64,
    coolings: u64,
    promoted_by_fault: u64,
    mistakes: u64,
    passed_over: u64,
    failed: u64,
}

#[derive(Serialize, Deserialize)]
struct Flexmem {
    own: FlexmemOwn,
    base: MemtisConfig,
    topology: Topology,
    adaptation_period: u64,
    cooling_period: u64,
    cooling_alloc: u64,
    trigger_pages: u32,
    hotness: Hotness,
    bins: BinLists,
    quota: Quota,
    scan: NumaScan,
    /// Pages that faulted often enough, oldest first; entries whose flag is gone are stale.
    active: VecDeque<Page>,
    arrived: Vec<Range<Page>>,
    warm_threshold: u8,
    /// Pages that have risen out of each bin since the last round.
    risen: [u64; BINS],
    failed_hot: u64,
    failed_active: u64,
    alpha: f64,
    /// Since the last round: promotions for faults, and demotions of such pages.
    by_fault: u64,
    mistakes: u64,
    in_flight: u32,
    /// A round was called for while moves were under way.
    round_due: bool,
    next_trigger: Nanos,
    used: u64,
    used_when_cooled: u64,
    samples: u64,
    tally: Tally,
}

impl Flexmem {
    fn new(own: FlexmemOwn, base: MemtisConfig, topology: &Topology) -> Self {
        let scale = base.footprint_scale;
        let adaptation_period = memtis::scaled(base.htmm_adaptation_period, scale, 1);
        let counting = Counting {
            keep: own.ema_k,
            very_hot_bin: base.very_hot_bin,
            skew_divisor: base.skew_divisor,
        };
        let pace = ScanPace {
            delay_ms: SCAN_DELAY_MS.min(own.pf_scan_period_ms),
            period_min_ms: own.pf_scan_period_ms,
            period_max_ms: SCAN_PERIOD_MAX_MS.max(own.pf_scan_period_ms),
            size_mb: own.pf_scan_size_mb,
            footprint_scale: scale,
        };
        Self {
            adaptation_period,
            cooling_period: adaptation_period * base.cooling_ratio,
            cooling_alloc: memtis::scaled(base.htmm_thres_cooling_alloc, scale, 1),
            trigger_pages: (f64::from(topology.capacity_pages[0]) * own.free_space_trigger_pct / 100.0).round() as u32,
            hotness: Hotness::new(topology, counting, base.htmm_thres_hot),
            bins: BinLists::new(topology.pages),
            quota: memtis::quota(&base),
            scan: NumaScan::new(pace, false, topology),
            active: VecDeque::new(),
            arrived: Vec::new(),
            warm_threshold: base.htmm_thres_hot,
            risen: [0; BINS],
            failed_hot: 0,
            failed_active: 0,
            alpha: if own.alpha_mode == "fixed" {
                own.alpha_fixed
            } else {
                own.alpha_init
            },
            by_fault: 0,
            mistakes: 0,
            in_flight: 0,
            round_due: false,
            next_trigger: 0,
            used: 0,
            used_when_cooled: 0,
            samples: 0,
            tally: Tally::default(),
            topology: topology.clone(),
            own,
            base,
        }
    }

    fn hot(&self) -> usize {
        usize::from(self.hotness.active_threshold)
    }

    fn warm(&self) -> usize {
        usize::from(self.warm_threshold)
    }

    /// Enters new pages, which the driver has placed since.
    fn admit(&mut self, pages: &dyn PageMap) {
        let huge = self.topology.huge_pages() == 1;
        for range in std::mem::take(&mut self.arrived) {
            let first = 1 << (u32::from(self.hotness.active_threshold) + 1);
            for page in range.clone() {
                self.hotness.admit(page, huge, first, self.base.htmm_skip_cooling);
                self.bins.set(page, KNOWN, true);
                self.bins
                    .enlist(page, pages.tier_of(page) == 0, self.hotness.bin_of(page));
            }
            runs_by_tier(range, pages, |run, tier| self.scan.placed(run, tier));
        }
    }

    fn observe(&mut self, samples: &[Sample]) {
        for block in samples.chunks(memtis::BLOCK) {
            self.hotness.fetch(block.iter().map(|sample| sample.page));
            self.bins.fetch(block.iter().map(|sample| sample.page));
            for sample in block {
                let Some(counted) = self.hotness.count(sample.page) else {
                    continue;
                };
                if counted.to > counted.from {
                    self.risen[usize::from(counted.from)] += 1;
                }
                self.bins.sort_in(sample.page, counted.to);
                if usize::from(counted.to) >= self.hot() && self.bins.has(sample.page, BY_FAULT) {
                    self.bins.set(sample.page, BY_FAULT, false);
                    self.bins.mark(sample.page).countdown = 0;
                }
            }
        }
        self.samples += samples.len() as u64;
    }

    /// Halves all counts, and sorts all pages anew.
    fn cool(&mut self, cx: &mut Context<'_>) {
        self.tally.coolings += 1;
        self.hotness.start_halving();
        // A base page in the coldest bin has a count of 0, of which nothing is to be halved. A new huge page is in that
        // bin whatever its count.
        let coldest = usize::from(self.hotness.run_pages() > 1);
        for fast in [true, false] {
            // From the coldest bin up: a page that goes down a bin is not met again.
            for bin in coldest..BINS {
                self.bins.sort_anew(fast, bin as u8, &mut self.hotness);
            }
        }
        // The system itself walks all its lists.
        let listed: u64 = self.sizes().iter().sum();
        cx.spend(listed as f64 * LIST_ENTRY_NS);
    }

    fn sizes(&self) -> [u64; BINS] {
        std::array::from_fn(|bin| self.bins.both(bin))
    }

    /// New thresholds and a new `alpha`.
    fn adapt(&mut self) {
        let sizes = self.sizes();
        let (hot, _) = fitting_bin(&sizes, self.topology.capacity_pages[0].into());
        self.hotness.active_threshold = hot.max(self.base.htmm_thres_hot);
        let rises = |bin: &usize| self.risen[*bin] as f64 >= self.own.beta_warm * sizes[*bin] as f64;
        let warm = if self.base.htmm_nowarm {
            0
        } else {
            (0..self.hot()).rev().take_while(rises).count()
        };
        self.warm_threshold = self.hotness.active_threshold - warm as u8;
        self.risen = [0; BINS];
        if self.own.alpha_mode == "adaptive" && self.by_fault > 0 {
            self.alpha = (1.0 - self.mistakes as f64 / self.by_fault as f64).max(0.0);
        }
        (self.by_fault, self.mistakes) = (0, 0);
    }

    /// One round, if the thread is free for it; counts what could not be promoted for the next one.
    fn round(&mut self, cx: &mut Context<'_>) {
        self.round_due = self.in_flight > 0;
        if self.round_due {
            self.tally.rounds_put_off += 1;
            return;
        }
        self.tally.rounds += 1;
        self.adapt();
        let cold: u64 = (0..self.warm()).map(|bin| u64::from(self.bins.len(true, bin))).sum();
        let most = cold as f64 + self.failed_hot as f64 + self.alpha * self.failed_active as f64;
        let waiting = self.hot_in_slow() as f64 + self.alpha * f64::from(self.bins.active_pages());
        let needed = waiting + f64::from(self.trigger_pages) - f64::from(cx.pages.free_pages(0));
        let mut room = Room::now(cx.pages, self.topology.capacity_pages.len());
        self.demote(most.min(needed) as u64, self.hot(), &mut room, cx);
        self.promote(&mut room, cx);
        self.failed_hot = self.hot_in_slow();
        self.failed_active = self.bins.active_pages().into();
    }

    /// Demotes up to `wanted` pages of bins below `end`, the coldest first; each is looked at once.
    fn demote(&mut self, mut wanted: u64, end: usize, room: &mut Room, cx: &mut Context<'_>) {
        let mut looked_at = 0u64;
        'all: for bin in 0..end {
            for _ in 0..self.bins.len(true, bin) {
                if wanted == 0 {
                    break 'all;
                }
                let Some(page) = self.bins.front(true, bin) else { break };
                let Some(below) = room.below() else { break 'all };
                looked_at += 1;
                let by_fault = self.bins.has(page, BY_FAULT);
                if by_fault && self.bins.mark(page).countdown > 0 {
                    self.bins.mark(page).countdown -= 1;
                    self.tally.passed_over += 1;
                    self.bins.rotate(page);
                    continue;
                }
                if by_fault {
                    self.mistakes += 1;
                    self.tally.mistakes += 1;
                    self.bins.set(page, BY_FAULT, false);
                }
                wanted -= 1;
                room.moved(0, below);
                self.ask(page, below, cx);
            }
        }
        cx.spend(looked_at as f64 * LIST_ENTRY_NS);
    }

    /// Promotes hot and active pages of slow memory in turns until fast memory is full.
    fn promote(&mut self, room: &mut Room, cx: &mut Context<'_>) {
        let mut of_active = 0.0; // turns that active pages are owed
        let mut looked_at = 0u32;
        while room.in_fast() > self.trigger_pages {
            of_active += self.own.rr_share_pf;
            let turn = of_active >= 1.0;
            let (hot, active) = (self.next_hot(), self.next_active());
            let (page, by_fault) = match (hot, active) {
                (None, None) => break,
                (Some(page), None) => (page, false),
                (None, Some(page)) => (page, true),
                (Some(_), Some(page)) if turn => (page, true),
                (Some(page), Some(_)) => (page, false),
            };
            if turn {
                of_active -= 1.0;
            }
            looked_at += 1;
            self.bins.set(page, ACTIVE, false);
            self.bins.mark(page).faults = 0;
            if by_fault {
                self.by_fault += 1;
                self.tally.promoted_by_fault += 1;
                self.bins.set(page, BY_FAULT, true);
                self.bins.mark(page).countdown = self.own.countdown_init;
            }
            room.moved(cx.pages.tier_of(page), 0);
            self.ask(page, 0, cx);
        }
        cx.spend(f64::from(looked_at) * LIST_ENTRY_NS);
    }

    fn next_hot(&self) -> Option<Page> {
        (self.hot()..BINS).rev().find_map(|bin| self.bins.front(false, bin))
    }

    /// The oldest active page of slow memory that is not hot by its samples: those have their own turn.
    fn next_active(&mut self) -> Option<Page> {
        while let Some(page) = self.active.front().copied() {
            let waits = self.bins.has(page, ACTIVE) && !self.bins.has(page, MIGRATING);
            if waits && usize::from(self.hotness.bin_of(page)) < self.hot() {
                return Some(page);
            }
            self.bins.set(page, ACTIVE, false);
            self.active.pop_front();
        }
        None
    }

    fn hot_in_slow(&self) -> u64 {
        (self.hot()..BINS).map(|bin| u64::from(self.bins.len(false, bin))).sum()
    }

    fn ask(&mut self, page: Page, to: Tier, cx: &mut Context<'_>) {
        self.bins.unlist(page);
        self.bins.set(page, MIGRATING, true);
        self.in_flight += 1;
        cx.migrate(page, to);
    }

    /// Demotes cold pages when fast memory is nearly full.
    fn keep_free(&mut self, cx: &mut Context<'_>) {
        self.next_trigger = cx.now + TRIGGER_NS;
        let missing = self.trigger_pages.saturating_sub(cx.pages.free_pages(0));
        if missing > 0 && self.in_flight == 0 && self.base.htmm_mode > 0 {
            let mut room = Room::now(cx.pages, self.topology.capacity_pages.len());
            self.demote(missing.into(), self.warm(), &mut room, cx);
        }
    }

    fn schedule(&self, cx: &mut Context<'_>) {
        let next = self.scan.next_at(cx).min(self.next_trigger);
        let next = self.quota.next_look().map_or(next, |look| look.min(next));
        cx.wake_at(next.max(cx.now));
    }

    fn pages_in(&self, bins: Range<usize>) -> f64 {
        bins.map(|bin| self.bins.both(bin)).sum::<u64>() as f64
    }
}

impl Policy for Flexmem {
    crate::saves_itself!();

    fn samplers(&self) -> Vec<SamplerRequest> {
        self.quota.samplers()
    }

    fn needs(&self) -> Needs {
        Needs {
            hint_faults: true,
            ..Needs::default()
        }
    }

    fn mechanics(&self) -> MigrationMechanics {
        kernel_migration::mechanics(self.topology.page_bytes)
    }

    fn overheads(&self) -> Overheads {
        self.quota.overheads()
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.admit(cx.pages);
        self.arrived.push(extent.start..extent.start + extent.pages);
        self.used += self.hotness.weight(extent.pages);
        self.schedule(cx);
        Placement::FastestFree
    }

    fn on_free(&mut self, extent: &Extent, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        self.used -= self.hotness.weight(extent.pages);
        let gone = extent.start..extent.start + extent.pages;
        self.active.retain(|page| !gone.contains(page));
        for page in gone.clone() {
            self.bins.unlist(page);
            self.bins.forget(page);
            self.hotness.forget(page);
        }
        self.scan.freed(gone);
    }

    fn on_samples(&mut self, samples: &[Sample], cx: &mut Context<'_>) {
        self.admit(cx.pages);
        if self.base.htmm_mode == 0 {
            return;
        }
        self.quota.handled(samples.len());
        let mut rest = samples;
        while !rest.is_empty() {
            let grew = self.used_when_cooled + self.cooling_alloc <= self.used;
            let until = self.adaptation_period - self.samples % self.adaptation_period;
            let count = if grew { 1 } else { rest.len().min(until as usize) };
            let (now, later) = rest.split_at(count);
            self.observe(now);
            if grew {
                self.used_when_cooled = self.used;
            }
            if grew || self.samples % self.cooling_period == 0 {
                self.cool(cx);
            }
            if self.samples % self.adaptation_period == 0 {
                self.round(cx);
            }
            rest = later;
        }
    }

    fn on_faults(&mut self, faults: &[Fault], cx: &mut Context<'_>) {
        self.admit(cx.pages);
        for fault in faults.iter().filter(|fault| fault.kind == FaultKind::Hint) {
            self.scan.faulted(fault.page);
            let waits = self.bins.has(fault.page, ACTIVE | MIGRATING) || !self.bins.has(fault.page, KNOWN);
            if waits || fault.tier == 0 {
                continue;
            }
            let mark = self.bins.mark(fault.page);
            mark.faults = mark.faults.saturating_add(1);
            if mark.faults >= self.own.pf_faults_to_active {
                self.bins.set(fault.page, ACTIVE, true);
                self.active.push_back(fault.page);
            }
        }
    }

    fn on_migrations(&mut self, ended: &[Migrated], _idle: bool, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        for migrated in ended {
            let page = migrated.request.page;
            self.in_flight -= 1;
            self.tally.failed += u64::from(migrated.outcome == Outcome::NoSpace);
            self.bins.set(page, MIGRATING, false);
            if !self.bins.has(page, KNOWN) {
                continue;
            }
            let fast = cx.pages.tier_of(page) == 0;
            if !fast {
                self.bins.set(page, BY_FAULT, false);
            }
            self.bins.enlist(page, fast, self.hotness.bin_of(page));
            if migrated.outcome == Outcome::Done {
                self.scan.moved(migrated.request.range(), migrated.request.to);
            }
        }
        if self.round_due && self.in_flight == 0 {
            self.round(cx);
        }
        self.schedule(cx);
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        self.quota.look(cx);
        self.scan.scan_if_due(cx);
        if cx.now >= self.next_trigger {
            self.keep_free(cx);
        }
        self.schedule(cx);
    }

    fn gauges(&self) -> Vec<Gauge> {
        let tally = &self.tally;
        [
            ("hot_pages", "pages in hot bins", self.pages_in(self.hot()..BINS)),
            (
                "warm_pages",
                "pages in warm bins",
                self.pages_in(self.warm()..self.hot()),
            ),
            ("cold_pages", "pages in cold bins", self.pages_in(0..self.warm())),
            (
                "active_pages",
                "pages of slow memory that have faulted often enough",
                f64::from(self.bins.active_pages()),
            ),
            ("active_threshold_bin", "lowest hot bin", self.hot() as f64),
            ("warm_threshold_bin", "lowest warm bin", self.warm() as f64),
            ("alpha", "weight of failed promotions of faulted pages", self.alpha),
            ("rounds", "rounds", tally.rounds as f64),
            (
                "rounds_put_off",
                "rounds that were called for while moves were under way",
                tally.rounds_put_off as f64,
            ),
            ("coolings", "halvings of all counts", tally.coolings as f64),
            (
                "promoted_by_fault",
                "pages promoted for their faults",
                tally.promoted_by_fault as f64,
            ),
            (
                "passed_over",
                "times such a page was spared in a cold bin",
                tally.passed_over as f64,
            ),
            ("mistakes", "such pages demoted in the end", tally.mistakes as f64),
            (
                "armed_pages",
                "pages marked by the scanner",
                self.scan.armed_pages() as f64,
            ),
            (
                "load_sampling_period",
                "load misses per sample",
                self.quota.load_period() as f64,
            ),
            ("failed_moves", "moves that found no space", tally.failed as f64),
        ]
        .map(|(name, meaning, value)| Gauge { name, meaning, value })
        .into()
    }
}

/// The registry entry.
pub const SYSTEM: System = System {
    name: "flexmem",
    summary: "Memtis's histogram joined by hint faults, adaptive warm bins and demotion, migration by number of samples",
    source: "FlexMem, ATC'24, from the paper alone; its base is Memtis, SOSP'23",
    signal: "hardware samples of LLC load misses and stores, hint faults",
    page_bytes: &[PAGE_2M, PAGE_4K],
    knobs: knobs::knobs,
    build,
};

fn build(config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    let (own, base) = knobs::parts(config)?;
    Ok(Box::new(Flexmem::new(own, base, topology)))
}
