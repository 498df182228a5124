//! `memtis`: a histogram of sampled hotness, a hot threshold that fills fast memory, and huge pages split where
//! hotness is skewed.
//!
//! Every sample adds to its page's count and may move the page to another of 16 logarithmic bins. Every
//! `htmm_adaptation_period` samples the hot threshold becomes the lowest bin from which on all pages fit into fast
//! memory; a bin below it is *warm* while the hot set is small. Every cooling period (`cooling_ratio` times as long,
//! or after much allocation) all counts are halved, each when it is next sampled or walked over. Two threads do the
//! rest: the fast tier's splits huge pages, walks its lists after a halving or a change of the threshold, and demotes
//! inactive pages below the warm bin when what waits to be promoted does not fit above the promotion watermark; the
//! slow tier's does the same walks and promotes active pages into what is free above that watermark. The sampling
//! thread compares its CPU time with a quota every 15 s and changes the sampling periods by one step.
//!
//! What the published code does and one might not expect is kept:
//!
//! - but for splits the threshold *falls* at most one bin per halving, at the first adaptation after it, and rises at
//!   any adaptation;
//! - a halving while pages are still to be walked for the one before only counts: those pages are halved twice, and the
//!   histogram keeps what was in it;
//! - a new page has the count of the bin above the hot threshold; a base page is in that bin at once, a huge page at its
//!   first sample or walk. With `htmm_skip_cooling` it is left out of the next halving unless sampled before, and then
//!   also out of the new histogram until its bin changes;
//! - a threshold of 1 makes bin 0 the warm one, so that nothing is demoted unless hot pages wait in vain, which takes the
//!   warm bin back;
//! - promotion never makes room, and a huge page may be promoted into the reserve;
//! - a base page that a walk halves stays active down to the bin below the hot threshold, and one that was halved by a
//!   sample stays in its list; a part of a split page is active from that bin on as well;
//! - huge pages that wait to be split are split, also when splitting has ended;
//! - when nothing asks for a new decision on splitting, leftovers are spread over buckets that the halving has just
//!   emptied, so any skewed page will do for them;
//! - while an allocation wants room and nothing can be demoted, the fast tier's thread spins.
//!
//! What had to be decided here:
//!
//! - with pages of 2 MiB every page is a huge page about whose parts nothing is known, so none is split; all about
//!   splitting is inert there. With pages of 4 KiB an aligned run of 512 that is placed in one tier is a huge page, other
//!   pages are base pages, and a fast tier smaller than eight huge pages, or a kernel without `thp`, has base pages only;
//! - parts of a new huge page start at zero (originally with the huge page's first count, below a hundredth of a sample);
//! - a split run becomes a huge page again when khugepaged finds each of its parts hot by the base pages' threshold, as
//!   published, and all of them in one tier, at rest, where fast memory has room for the copy; parts are not gathered from
//!   two tiers for it, which would undo what the split was for;
//! - tier 0 is "fast", all others together are "slow"; demoted units go to the fastest slow tier with room;
//! - bounds in bytes shrink in proportion below 4 GiB of fast memory (see [`watermarks`]).

pub mod hotness;
mod knobs;
pub mod lists;
pub mod quota;
pub mod splitting;
mod threads;
pub mod watermarks;

use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

use crate::kernel_migration;
use crate::knob::{Config, KnobError};
use crate::mover::LIST_ENTRY_NS;
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::{
    Context, Extent, Gauge, Heat, Migrated, MigrationMechanics, Nanos, Outcome, Overheads, Page, PageMap, Placement,
    Policy, Sample, SamplerRequest, Takeover, Tier, Topology,
};

use hotness::{Counting, HUGE, Hotness, KNOWN, MAY_HOT, MIGRATING, QUEUED, fitting_bin};
pub use knobs::MemtisConfig;
use lists::{Lists, SIDES};
use quota::{Quota, QuotaKnobs};
use splitting::{FastSamples, SplitKnobs, Splitting};
use threads::Thread;
use watermarks::Watermarks;

/// Halving the 512 parts of a huge page (ours).
const HALVE_PARTS_NS: f64 = 1_000.0;
/// Splitting a huge page (10 to 20 us; ours).
const SPLIT_NS: f64 = 15_000.0;
/// Below this many huge pages in fast memory there are only base pages.
const LEAST_HUGE_PAGES: u32 = 8;
/// Samples whose counts are fetched together.
pub(crate) const BLOCK: usize = 64;
/// Units of a walk that are looked up together, as many steps before their turn.
const AHEAD: u32 = 16;

const FAST: usize = 0;
const SLOW: usize = 1;

/// Converts milliseconds of a knob.
pub(crate) fn ms(value: u64) -> Nanos {
    value * 1_000_000
}

/// The quota control that a config asks for.
pub(crate) fn quota(config: &MemtisConfig) -> Quota {
    Quota::new(QuotaKnobs {
        permil: config.ksampled_soft_cpu_quota,
        deadband_permil: config.quota_deadband_permil,
        check_ns: (config.quota_check_s * 1e9) as Nanos,
        sleep_ns: config.sampler_sleep_ms * 1e6,
        load_index: config.initial_period_index,
        store_period: config.htmm_inst_sample_period,
    })
}

/// The splitting that a config asks for.
pub(crate) fn splitting(config: &MemtisConfig, topology: &Topology) -> Splitting {
    Splitting::new(SplitKnobs {
        enabled: config.htmm_thres_split && topology.huge_pages() > 1,
        period_shift: config.htmm_split_period,
        gamma: config.htmm_gamma,
        cxl: config.htmm_cxl_mode,
        ehr_scale_pct: config.ehr_scale_pct,
        gain_stop_pct: config.split_gain_stop_pct,
    })
}

/// Numbers of samples scaled to a small footprint, at least `least`.
pub(crate) fn scaled(samples: u64, scale: f64, least: u64) -> u64 {
    ((samples as f64 * scale).round() as u64).max(least)
}

/// Events worth reporting.
#[derive(Default, Serialize, Deserialize)]
struct Tally {
    coolings: u64,
    overlapping_coolings: u64,
    adaptations: u64,
    splits: u64,
    collapses: u64,
    direct_demotions: u64,
    warm_bins_dropped: u64,
    no_space: u64,
    gone: u64,
}

#[derive(Serialize, Deserialize)]
struct Memtis {
    config: MemtisConfig,
    topology: Topology,
    watermarks: Watermarks,
    adaptation_period: u64,
    cooling_period: u64,
    cooling_alloc: u64,
    hotness: Hotness,
    lists: Lists,
    splitting: Splitting,
    quota: Quota,
    warm_threshold: u8,
    threads: [Thread; SIDES],
    /// Whether there are huge pages.
    huge_pages: bool,
    /// Placement is in the hands of a policy around this one: pages are judged, not promoted.
    counts_only: bool,
    /// The first adaptation after a halving is still to come.
    cooled: bool,
    direct_demotion: bool,
    arrived: Vec<Range<Page>>,
    /// First pages of runs that were split.
    split_runs: BTreeSet<Page>,
    khugepaged_next: Option<Nanos>,
    khugepaged_at: Page,
    /// 4 KiB pages in use, and how many there were at the last cooling for growth.
    used: u64,
    used_when_cooled: u64,
    samples: u64,
    /// Since the last halving, and before it (halved by and by).
    fast_samples: FastSamples,
    older_fast_samples: FastSamples,
    samples_since_halving: u64,
    older_samples: u64,
    tally: Tally,
}

impl Memtis {
    fn new(config: MemtisConfig, topology: &Topology) -> Self {
        let adaptation_period = scaled(config.htmm_adaptation_period, config.footprint_scale, 1);
        Self {
            watermarks: Watermarks::new(&config, topology),
            adaptation_period,
            cooling_period: adaptation_period * config.cooling_ratio,
            cooling_alloc: scaled(config.htmm_thres_cooling_alloc, config.footprint_scale, 1),
            hotness: Hotness::new(
                topology,
                Counting {
                    keep: 0.5,
                    very_hot_bin: config.very_hot_bin,
                    skew_divisor: config.skew_divisor,
                },
                config.htmm_thres_hot,
            ),
            lists: Lists::new(topology.pages),
            splitting: splitting(&config, topology),
            quota: quota(&config),
            warm_threshold: config.htmm_thres_hot,
            threads: [0, 0].map(|next| Thread {
                next: Some(next),
                ..Thread::default()
            }),
            huge_pages: topology.huge_pages() == 1
                || (config.thp && topology.capacity_pages[0] / topology.huge_pages() >= LEAST_HUGE_PAGES),
            counts_only: false,
            cooled: false,
            direct_demotion: false,
            arrived: Vec::new(),
            split_runs: BTreeSet::new(),
            khugepaged_next: None,
            khugepaged_at: 0,
            used: 0,
            used_when_cooled: 0,
            samples: 0,
            fast_samples: FastSamples::default(),
            older_fast_samples: FastSamples::default(),
            samples_since_halving: 0,
            older_samples: 0,
            tally: Tally::default(),
            topology: topology.clone(),
            config,
        }
    }

    fn fast_capacity(&self) -> u32 {
        self.topology.capacity_pages[0]
    }

    /// Pages of fast memory that are taken.
    fn fast_used(&self, pages: &dyn PageMap) -> u32 {
        self.fast_capacity().saturating_sub(pages.free_pages(0))
    }

    /// Enters new pages, which the driver has placed since, at the back of the inactive lists.
    fn admit(&mut self, pages: &dyn PageMap) {
        for range in std::mem::take(&mut self.arrived) {
            let run_pages = self.hotness.run_pages();
            let first_bin = u32::from(self.hotness.active_threshold) + 1;
            let mut page = range.start;
            while page < range.end {
                let last = page + (run_pages - 1);
                let huge = page % run_pages == 0
                    && last < range.end
                    && self.huge_pages
                    && pages.tier_of(page) == pages.tier_of(last);
                self.hotness
                    .admit(page, huge, 1 << first_bin, self.config.htmm_skip_cooling);
                self.lists.enlist(&mut self.hotness, page, pages.tier_of(page) == 0);
                page += if huge { run_pages } else { 1 };
            }
        }
    }

    /// The sampling thread's work for samples between two decisions.
    fn observe(&mut self, samples: &[Sample]) {
        let (mut fast, mut as_base) = (0, 0);
        for block in samples.chunks(BLOCK) {
            self.hotness.fetch(block.iter().map(|sample| sample.page));
            for sample in block {
                let Some(counted) = self.hotness.count(sample.page) else {
                    continue;
                };
                fast += u64::from(sample.tier == 0);
                as_base += u64::from(counted.in_fast_as_base);
                let active = counted.to >= self.hotness.active_threshold;
                self.lists.judge(&mut self.hotness, counted.unit, active);
            }
        }
        self.samples += samples.len() as u64;
        self.samples_since_halving += samples.len() as u64;
        self.fast_samples.real += fast;
        self.fast_samples.as_base += as_base;
        self.splitting.sampled(samples.len());
    }

    fn grew_much(&self) -> bool {
        self.used_when_cooled + self.cooling_alloc <= self.used
    }

    /// A halving of all counts.
    fn cool(&mut self) {
        self.tally.coolings += 1;
        if self.threads.iter().any(|thread| thread.halving) {
            self.tally.overlapping_coolings += 1;
            self.hotness.clock = self.hotness.clock.wrapping_add(1);
            return;
        }
        self.hotness.start_halving();
        self.cooled = true;
        self.threads.iter_mut().for_each(|thread| thread.halving = true);
        self.older_samples = self.older_samples / 2 + std::mem::take(&mut self.samples_since_halving);
        let (before, now) = (self.older_fast_samples, std::mem::take(&mut self.fast_samples));
        self.older_fast_samples = FastSamples {
            real: before.real / 2 + now.real,
            as_base: before.as_base / 2 + now.as_base,
        };
        let fast = self.hotness.weight(self.fast_capacity());
        self.splitting.after_halving(
            &self.hotness,
            self.used,
            fast,
            self.older_fast_samples.real,
            before.real,
        );
    }

    /// New thresholds from the histograms.
    fn adapt(&mut self) {
        self.tally.adaptations += 1;
        let room = self.fast_capacity().saturating_sub(self.watermarks.promotion);
        let capacity = self.hotness.weight(room);
        let (hot, hot_pages) = fitting_bin(&self.hotness.histogram, capacity);
        let (base_hot, _) = fitting_bin(&self.hotness.as_base, capacity);
        let hot = hot.max(self.config.htmm_thres_hot);
        let base_hot = base_hot.max(self.config.htmm_thres_hot);
        let old = self.hotness.active_threshold;
        let mut changed = false;
        if std::mem::take(&mut self.cooled) {
            // Many pages are not in the histogram yet, so it is only believed a little.
            if hot < old && old > 1 {
                self.hotness.active_threshold -= 1;
            }
            self.hotness.base_threshold = self.hotness.base_threshold.min(base_hot);
            changed = true;
            self.splitting
                .plan(&self.hotness, self.older_fast_samples, self.cooling_period);
        } else {
            if hot > old || (hot < old && self.splitting.changed_histogram()) {
                self.hotness.active_threshold = hot;
                changed = true;
            }
            self.hotness.base_threshold = base_hot;
        }
        for thread in &mut self.threads {
            thread.adjusting |= changed;
        }
        let wants_warm = (hot_pages as f64) < capacity as f64 * self.config.warm_fill_pct / 100.0;
        let warm = u8::from(wants_warm && !self.config.htmm_nowarm);
        self.warm_threshold = self.hotness.active_threshold.saturating_sub(warm);
    }

    /// Asks for what the walk from the front of a list that is at `step` will need a little later.
    fn look_up_ahead(&self, step: u32, side: usize, active: bool) {
        if step % AHEAD == 0 {
            let entries = AHEAD as usize..2 * AHEAD as usize;
            self.lists.look_up(&self.hotness, side == FAST, active, entries);
        }
    }

    /// Walks a list: units are halved if `halving`, queued for splitting or put where they belong.
    fn walk(&mut self, side: usize, active: bool, halving: bool, cx: &mut Context<'_>) -> bool {
        let fast = side == FAST;
        let entries = self.lists.len(fast, active);
        let chunk = ((f64::from(entries) * self.config.list_walk_chunk_pct / 100.0) as u32).max(1);
        let walked = entries.min(chunk.saturating_mul(self.config.list_walk_chunks));
        let mut parts_halved = 0u32;
        for step in 0..walked {
            let Some(unit) = self.lists.front(fast, active) else {
                break;
            };
            self.look_up_ahead(step, side, active);
            let huge = self.hotness.is_huge(unit);
            let skew = if huge { self.hotness.skew_of(unit) } else { 0 };
            let split = huge && self.splitting.takes(&mut self.hotness, skew);
            if split {
                self.lists.unlist(&mut self.hotness, unit);
                self.hotness.set(unit, QUEUED, true);
                self.splitting.queues[side].push_back(unit);
            }
            let halved = halving && self.hotness.catch_up(unit);
            parts_halved += u32::from(halved && huge && self.hotness.run_pages() > 1);
            if !split {
                let (bin, threshold) = (self.hotness.bin_of(unit), self.hotness.active_threshold);
                let hot = match (huge, halving, halved) {
                    (true, ..) | (false, false, _) => bin >= threshold,
                    // A base page may fall a bin with its halving, as the threshold is about to.
                    (false, true, true) => bin + 1 >= threshold,
                    (false, true, false) => active,
                };
                if hot == active {
                    self.lists.rotate(fast, active);
                } else {
                    self.lists.judge(&mut self.hotness, unit, hot);
                }
            }
        }
        cx.spend(f64::from(walked) * LIST_ENTRY_NS + f64::from(parts_halved) * HALVE_PARTS_NS);
        walked == entries
    }

    /// What both threads do at the start of a round.
    fn keep_lists(&mut self, side: usize, cx: &mut Context<'_>) {
        self.split_queued(side, cx);
        if self.threads[side].halving {
            self.walk(side, true, true, cx);
            self.walk(side, false, true, cx);
            self.threads[side].halving = false;
        } else if self.threads[side].adjusting {
            let all_active = self.walk(side, true, false, cx);
            let all_inactive = self.walk(side, false, false, cx);
            self.threads[side].adjusting = !(all_active && all_inactive);
        }
    }

    fn split_queued(&mut self, side: usize, cx: &mut Context<'_>) {
        for _ in 0..self.config.split_per_wake {
            let Some(unit) = self.splitting.queues[side].pop_front() else {
                break;
            };
            self.hotness.set(unit, QUEUED, false);
            self.split(unit, cx);
            self.splitting.done();
        }
    }

    /// Makes base pages of a huge page that is in no list.
    fn split(&mut self, unit: Page, cx: &mut Context<'_>) {
        self.tally.splits += 1;
        self.hotness.split(unit);
        for page in unit..unit + self.hotness.run_pages() {
            let fast = cx.pages.tier_of(page) == 0;
            self.lists.enlist(&mut self.hotness, page, fast);
        }
        self.split_runs.insert(unit);
        self.khugepaged_next
            .get_or_insert(cx.now + ms(self.config.khugepaged_sleep_ms));
        cx.spend(SPLIT_NS);
    }

    /// One scan of khugepaged.
    fn collapse_some(&mut self, cx: &mut Context<'_>) {
        let run_pages = self.hotness.run_pages();
        let looked_at = (u64::from(self.config.khugepaged_scan_pages) / HUGE) as usize;
        let after: Vec<Page> = self.split_runs.range(self.khugepaged_at..).copied().collect();
        let before = self.split_runs.range(..self.khugepaged_at).copied();
        for unit in after.into_iter().chain(before).take(looked_at).collect::<Vec<_>>() {
            self.khugepaged_at = unit + 1;
            cx.spend(f64::from(run_pages) * LIST_ENTRY_NS);
            let tier = cx.pages.tier_of(unit);
            let room = tier > 0 || cx.pages.free_pages(0) >= run_pages;
            let mut parts = unit..unit + run_pages;
            let fits = |page| cx.pages.tier_of(page) == tier && self.hotness.has(page, MAY_HOT);
            if room && parts.all(|page| fits(page) && !self.hotness.has(page, MIGRATING)) {
                for page in unit..unit + run_pages {
                    self.lists.unlist(&mut self.hotness, page);
                }
                self.hotness.collapse(unit);
                self.lists.enlist(&mut self.hotness, unit, tier == 0);
                self.split_runs.remove(&unit);
                self.tally.collapses += 1;
                cx.spend(kernel_migration::cpu_ns(PAGE_2M)); // it is copied into a new huge page
            }
        }
        let again = (!self.split_runs.is_empty()).then(|| cx.now + ms(self.config.khugepaged_sleep_ms));
        self.khugepaged_next = again;
    }

    fn schedule(&self, cx: &mut Context<'_>) {
        let threads = self.threads.iter().filter_map(|thread| thread.next);
        let next = threads.chain(self.khugepaged_next).chain(self.quota.next_look()).min();
        if let Some(at) = next {
            cx.wake_at(at.max(cx.now));
        }
    }

    /// Takes a unit, or the part of one, to be where it is now, whoever moved it.
    fn settle(&mut self, request: &crate::Move, cx: &mut Context<'_>) {
        let run_pages = self.hotness.run_pages();
        if run_pages > 1 && request.pages < run_pages && self.hotness.is_huge(request.page) {
            // A part was moved by a policy around this one, which has split the huge page by that.
            let unit = self.hotness.unit(request.page);
            if self.hotness.has(unit, KNOWN) {
                self.drop_from_queue(unit);
                self.lists.unlist(&mut self.hotness, unit);
                self.split(unit, cx);
            }
            return;
        }
        for page in request.range() {
            let unit = self.hotness.unit(page);
            if unit == page && self.hotness.has(unit, KNOWN) {
                self.lists.unlist(&mut self.hotness, unit);
                self.lists.enlist(&mut self.hotness, unit, cx.pages.tier_of(unit) == 0);
            }
        }
    }

    fn drop_from_queue(&mut self, unit: Page) {
        if self.hotness.has(unit, QUEUED) {
            self.hotness.set(unit, QUEUED, false);
            let other = |queue: &mut VecDeque<Page>| queue.retain(|queued| *queued != unit);
            self.splitting.queues.iter_mut().for_each(other);
        }
    }

    fn warm_pages(&self) -> u64 {
        let bins = usize::from(self.warm_threshold)..usize::from(self.hotness.active_threshold);
        self.hotness.histogram[bins].iter().sum::<u64>() / self.hotness.weight(1)
    }
}

impl Heat for Memtis {
    fn probability(&self, page: Page) -> f64 {
        let all = self.older_samples as f64 / 2.0 + self.samples_since_halving as f64;
        if all == 0.0 {
            return 0.0;
        }
        (self.hotness.samples_of(self.hotness.unit(page)) / all).min(1.0)
    }

    fn run_of(&self, page: Page) -> (Page, u32) {
        let unit = self.hotness.unit(page);
        (unit, self.hotness.pages(unit))
    }

    /// The active list of the side that `tier` belongs to, the oldest first; inactive pages are left out.
    fn for_each(&self, tier: Tier, pages: &dyn PageMap, visit: &mut dyn FnMut(Page, f64) -> bool) {
        for unit in self.lists.iter(tier == 0, true) {
            if pages.tier_of(unit) == tier && !visit(unit, self.probability(unit)) {
                return;
            }
        }
    }
}

impl Policy for Memtis {
    crate::saves_itself!();

    fn samplers(&self) -> Vec<SamplerRequest> {
        self.quota.samplers()
    }

    fn mechanics(&self) -> MigrationMechanics {
        MigrationMechanics {
            lanes: SIDES as u32, // one of each thread
            ..kernel_migration::mechanics(self.topology.page_bytes)
        }
    }

    fn overheads(&self) -> Overheads {
        self.quota.overheads()
    }

    fn hand_over(&mut self, taken: Takeover) -> bool {
        self.counts_only |= taken == Takeover::Placement;
        taken == Takeover::Placement
    }

    fn heat(&self) -> Option<&dyn Heat> {
        Some(self)
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.admit(cx.pages);
        self.arrived.push(extent.start..extent.start + extent.pages);
        self.used += self.hotness.weight(extent.pages);
        let left = i64::from(cx.pages.free_pages(0)) - i64::from(extent.pages);
        if left <= i64::from(self.watermarks.demotion) && self.config.htmm_mode > 0 {
            self.direct_demotion = true;
            if let Some(next) = &mut self.threads[FAST].next {
                *next = (*next).min(cx.now);
            }
        }
        self.schedule(cx);
        Placement::FastestFree
    }

    fn on_free(&mut self, extent: &Extent, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        self.used -= self.hotness.weight(extent.pages);
        let end = extent.start + extent.pages;
        let mut page = extent.start;
        while page < end {
            let pages = self.hotness.pages(page);
            self.drop_from_queue(page);
            self.lists.unlist(&mut self.hotness, page);
            self.hotness.forget(page);
            self.split_runs.remove(&page);
            page += pages;
        }
    }

    fn on_samples(&mut self, samples: &[Sample], cx: &mut Context<'_>) {
        self.admit(cx.pages);
        if self.config.htmm_mode == 0 {
            return;
        }
        self.quota.handled(samples.len());
        let mut rest = samples;
        while !rest.is_empty() {
            let grew = self.grew_much();
            let until = self.adaptation_period - self.samples % self.adaptation_period;
            let count = if grew { 1 } else { rest.len().min(until as usize) };
            let (now, later) = rest.split_at(count);
            self.observe(now);
            if grew {
                self.used_when_cooled = self.used;
            }
            if grew || self.samples % self.cooling_period == 0 {
                self.cool();
            } else if self.samples % self.adaptation_period == 0 {
                self.adapt();
            }
            rest = later;
        }
    }

    fn on_migrations(&mut self, ended: &[Migrated], _idle: bool, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        for migrated in ended {
            let request = &migrated.request;
            self.tally.no_space += u64::from(migrated.outcome == Outcome::NoSpace);
            self.tally.gone += u64::from(migrated.outcome == Outcome::Gone);
            if self.hotness.has(request.page, MIGRATING) {
                self.hotness.set(request.page, MIGRATING, false);
                let side = if request.to == 0 { SLOW } else { FAST };
                self.threads[side].in_flight -= 1;
                if self.threads[side].in_flight == 0 {
                    if side == FAST {
                        self.end_demoting(false, cx);
                    } else {
                        self.threads[SLOW].next = Some(cx.now + ms(self.config.htmm_promotion_period_in_ms));
                    }
                }
            }
            self.settle(request, cx);
        }
        self.schedule(cx);
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        self.quota.look(cx);
        if self.khugepaged_next.is_some_and(|at| at <= cx.now) {
            self.collapse_some(cx);
        }
        for side in [FAST, SLOW] {
            if self.threads[side].next.is_some_and(|at| at <= cx.now) {
                match side {
                    FAST => self.demoting_round(cx),
                    _ => self.promoting_round(cx),
                }
            }
        }
        self.schedule(cx);
    }

    fn gauges(&self) -> Vec<Gauge> {
        let active = self.lists.pages(true, true) + self.lists.pages(false, true);
        let warm = self.warm_pages() as f64;
        let listed = f64::from(active + self.lists.pages(true, false) + self.lists.pages(false, false));
        let tally = &self.tally;
        [
            ("hot_pages", "pages in the active lists", f64::from(active)),
            ("warm_pages", "pages in warm bins", warm),
            (
                "cold_pages",
                "pages in the inactive lists and no warm bin",
                (listed - f64::from(active) - warm).max(0.0),
            ),
            (
                "hot_pages_waiting",
                "active pages of slow memory",
                f64::from(self.lists.pages(false, true)),
            ),
            (
                "active_threshold_bin",
                "lowest hot bin",
                self.hotness.active_threshold.into(),
            ),
            ("warm_threshold_bin", "lowest warm bin", self.warm_threshold.into()),
            ("coolings", "halvings of all counts", tally.coolings as f64),
            (
                "overlapping_coolings",
                "halvings before all pages were walked for the last",
                tally.overlapping_coolings as f64,
            ),
            (
                "adaptations",
                "times the threshold was looked at",
                tally.adaptations as f64,
            ),
            ("huge_pages_split", "huge pages split", tally.splits as f64),
            (
                "huge_pages_collapsed",
                "split runs collapsed again",
                tally.collapses as f64,
            ),
            (
                "direct_demotions",
                "rounds that made room for an allocation",
                tally.direct_demotions as f64,
            ),
            (
                "warm_bins_dropped",
                "times hot pages waited in vain and warm ones lost protection",
                tally.warm_bins_dropped as f64,
            ),
            (
                "load_sampling_period",
                "load misses per sample",
                self.quota.load_period() as f64,
            ),
            (
                "sampler_cpu_permil",
                "CPU time of the sampling thread at the last look",
                self.quota.used_permil,
            ),
            ("failed_moves", "moves that found no space", tally.no_space as f64),
            (
                "gone_moves",
                "moves of pages that were freed meanwhile",
                tally.gone as f64,
            ),
        ]
        .map(|(name, meaning, value)| Gauge { name, meaning, value })
        .into()
    }
}

/// The registry entry.
pub const SYSTEM: System = System {
    name: "memtis",
    summary: "histogram of sampled hotness, a hot threshold that fills fast memory, warm pages kept, huge pages split",
    source: "Memtis, SOSP'23; as described in DIMES'25, FlexMem (ATC'24) and Colloid (SOSP'24), and as published",
    signal: "hardware samples of LLC load misses and stores",
    page_bytes: &[PAGE_2M, PAGE_4K],
    knobs: MemtisConfig::knobs,
    build,
};

fn build(config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    Ok(Box::new(Memtis::new(MemtisConfig::from_config(config)?, topology)))
}
