//! `pact`: pages are scored by the stalls they cause, and the outliers go up.
//!
//! Only loads that slow memory served are sampled. At the end of every window the counters say how
//! long cores have stalled on slow memory: misses over their parallelism (occupancy over busy time of
//! the memory controllers' queues), times a constant of the machine. The window's samples share that
//! out among their pages, so a miss of a lonely pointer chase weighs more than one of eight in flight.
//! Scores add up for good, every `adaptive_interval_ms`. They fall in bins, as wide as Freedman and Diaconis advise for a sample of
//! all scores seen; a page that a sample finds in the last bin waits in a ring and wakes the thread
//! that promotes. The least recently used pages of fast memory make room, one for each promotion.
//!
//! What the published code does and one might not expect is kept:
//!
//! - the last bin starts at `(bin_count - 1)` widths, and widths shrink with the number of tracked
//!   pages, so what is promoted depends on how many pages there are, not on what fits;
//! - the sample of scores never forgets, and is taken per hardware sample: hot pages come up often;
//! - with the published `t_scale` bins are doubled as soon as one candidate waits;
//! - a promoted page keeps its score: demoted, its next sample makes it a candidate again.
//!
//! What had to be decided here:
//!
//! - samples wait for the window's end and then count as taken then; a page that has moved meanwhile
//!   is scored, but no candidate. The gap in which the original's counters are stopped is not modelled;
//! - bins are computed before the thread that a candidate wakes has taken any of the same call off the ring: in the original
//!   the two race;
//! - with several slow tiers the stalls of each, from its own parallelism, are pooled;
//! - on 2 MiB pages a page has one score, where the original has one for each 4 KiB and moves all 512
//!   with the first that is a candidate;
//! - promotion may use the kernel's reserve below its watermarks, allocation may not; a promotion
//!   without room is given up (its next sample tries again), but counts for the demotion switch,
//!   which otherwise might never be turned on;
//! - demotion, where it follows promotion, only keeps the low watermark and `demotion_margin` free:
//!   as long as more is, nothing needs to go down;
//! - one thread moves pages, a demotion before the promotion that needs its room.

mod bins;
mod knobs;

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;

use crate::kernel_migration;
use crate::knob::{Config, KnobError};
use crate::lru::{Lru, PAGE_SCAN_NS};
use crate::mover::RECORD_NS;
use crate::numa_scan::runs_by_tier;
use crate::reclaim_lists::{ReclaimLists, Verdict};
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::watermarks::{WATERMARK_SCALE_FACTOR, Watermarks};
use crate::{
    Context, Counters, Event, Extent, Gauge, Migrated, MigrationMechanics, Nanos, Needs, Outcome, Overheads, Page,
    PageMap, Placement, Policy, Sample, SamplerRequest, Tier, TierCounters, Topology,
};

use bins::{Bins, Reservoir, Scaling};
pub use knobs::PactConfig;

/// Pages looked at for one victim after which reclaim takes the oldest, accessed or not: the kernel too gets
/// less choosy with every round that finds nothing.
const MOST_LOOKS: u32 = 1024;
/// Time to look at one score in a pass that cools: memory is read in order.
const COOLING_ENTRY_NS: f64 = 5.0;

// What is known about a page beside its score.
const TRACKED: u8 = 1;
/// It waits in the promotion ring or is on its way up.
const QUEUED: u8 = 2;

#[derive(Serialize, Deserialize)]
struct Pact {
    config: PactConfig,
    topology: Topology,
    bins: Bins,
    reservoir: Reservoir,
    lru: Lru,
    watermarks: Watermarks,
    /// Extents whose pages the driver has placed since the last call.
    arrived: Vec<Range<Page>>,
    scores: Vec<f64>,
    /// Number of the sample that saw each page last.
    seen: Vec<u32>,
    flags: Vec<u8>,
    tracked_pages: u64,
    samples: u32,
    /// Samples of this window: pages and the tiers that served them.
    window: Vec<(Page, Tier)>,
    /// Samples of ended windows that wait to be added to scores.
    attributed: VecDeque<Attributed>,
    /// Windows ended so far.
    windows: u32,
    /// Counters at the start of the window.
    counters: Vec<TierCounters>,
    ring: VecDeque<Page>,
    in_flight: u32,
    /// The kernel may reclaim.
    reclaiming: bool,
    promoted_pages: u64,
    demoted_pages: u64,
    next: Deadlines,
    parallelism: f64,
    stall_cycles: f64,
    lost_samples: u64,
    untracked_samples: u64,
    full_rings: u64,
    roomless_promotions: u64,
    failed_moves: u64,
}

/// A sample and its share of its window's stalls.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Attributed {
    page: Page,
    /// Cycles, or 1 where frequency is the criterion.
    amount: f64,
    window: u32,
}

/// When each of the threads' jobs is due.
#[derive(Serialize, Deserialize)]
struct Deadlines {
    window: Nanos,
    bins: Nanos,
    balance: Nanos,
    cooling: Nanos,
    migration: Nanos,
}

const NEVER: Nanos = Nanos::MAX;

fn nanos(ms: f64) -> Nanos {
    (ms * 1e6).round() as Nanos
}

/// The deadline after `now` on the grid of `period`; `true` when `at` has passed.
fn due(at: &mut Nanos, now: Nanos, period: Nanos) -> bool {
    let passed = *at <= now;
    if passed {
        *at += ((now - *at) / period + 1) * period;
    }
    passed
}

impl Pact {
    fn new(config: PactConfig, topology: &Topology) -> Self {
        let pages = topology.pages as usize;
        let scaling = match config.width_scaling.as_str() {
            "fresh" => Scaling::Fresh,
            "compounding" => Scaling::Compounding,
            _ => Scaling::None,
        };
        let lru = config.demotion_policy == "lru";
        Self {
            bins: Bins::new(config.initial_bin_width, config.bin_count, scaling, config.t_scale),
            reservoir: Reservoir::new(config.reservoir_size),
            lru: Lru::new(topology.pages, topology.page_bytes),
            watermarks: Watermarks::new(topology, WATERMARK_SCALE_FACTOR),
            arrived: Vec::new(),
            scores: vec![0.0; pages],
            seen: vec![0; pages],
            flags: vec![0; pages],
            tracked_pages: 0,
            samples: 0,
            window: Vec::new(),
            attributed: VecDeque::new(),
            windows: 0,
            counters: vec![TierCounters::default(); topology.capacity_pages.len()],
            ring: VecDeque::new(),
            in_flight: 0,
            reclaiming: false,
            promoted_pages: 0,
            demoted_pages: 0,
            next: Deadlines {
                window: nanos(config.sampling_interval_ms.into()),
                bins: nanos(config.adaptive_interval_ms.into()),
                balance: if lru && config.demotion_trigger == "switch" {
                    nanos(config.balance_interval_s * 1e3)
                } else {
                    NEVER
                },
                cooling: if config.cooling_mode == "pass" {
                    nanos(config.cooling_interval_ms.into())
                } else {
                    NEVER
                },
                migration: 0,
            },
            parallelism: 0.0,
            stall_cycles: 0.0,
            lost_samples: 0,
            untracked_samples: 0,
            full_rings: 0,
            roomless_promotions: 0,
            failed_moves: 0,
            topology: topology.clone(),
            config,
        }
    }

    fn has(&self, page: Page, flag: u8) -> bool {
        self.flags[page as usize] & flag != 0
    }

    /// Stalls on slow memory since the last call, and the weight of a sample from each tier.
    fn read_stalls(&mut self, counters: &Counters) -> (f64, Vec<f64>) {
        let mut stalls = 0.0;
        let mut weights = vec![0.0; counters.tiers.len()];
        let (mut occupancy_ns, mut busy_ns) = (0.0, 0.0);
        for (tier, (now, then)) in counters.tiers.iter().zip(&self.counters).enumerate().skip(1) {
            let misses = now.inserts - then.inserts;
            let occupied = now.occupancy_ns - then.occupancy_ns;
            let busy = now.busy_ns - then.busy_ns;
            if misses <= 0.0 || busy <= 0.0 {
                continue;
            }
            // Less than one request in flight while one is in flight is a counter read too late.
            stalls += self.config.k_slow * misses / (occupied / busy).max(1.0);
            weights[tier] = occupied / misses;
            occupancy_ns += occupied;
            busy_ns += busy;
        }
        if self.config.attribution == "proportional" {
            weights.fill(1.0);
        } else if let Some(nearest) = weights.iter().copied().find(|weight| *weight > 0.0) {
            // With one slow tier it is 1, to the last bit, and weighting changes nothing.
            weights.iter_mut().for_each(|weight| *weight /= nearest);
        }
        if busy_ns > 0.0 {
            self.parallelism = occupancy_ns / busy_ns;
        }
        self.stall_cycles += stalls;
        self.counters.clone_from(&counters.tiers);
        (stalls, weights)
    }

    /// The end of a window: its stalls are shared out among its samples.
    fn attribute(&mut self, cx: &mut Context<'_>) {
        let (stalls, weights) = self.read_stalls(cx.counters);
        let whole: f64 = self.window.iter().map(|(_, tier)| weights[usize::from(*tier)]).sum();
        let room = (self.config.pac_update_ring as usize).saturating_sub(self.attributed.len());
        self.lost_samples += self.window.len().saturating_sub(room) as u64;
        self.windows += 1;
        for (page, tier) in self.window.drain(..).take(room) {
            let weight = weights[usize::from(tier)];
            let share = if whole > 0.0 { stalls * weight / whole } else { 0.0 };
            self.attributed.push_back(Attributed {
                page,
                amount: match self.config.criterion.as_str() {
                    "frequency" => 1.0,
                    _ => share.min(f64::from(self.config.sample_stall_max)),
                },
                window: self.windows,
            });
        }
    }

    /// Shares become part of scores, and pages candidates.
    fn update_scores(&mut self, cx: &mut Context<'_>) {
        let (mut window, mut begun) = (0, self.samples);
        while let Some(sample) = self.attributed.pop_front() {
            if sample.window != window {
                (window, begun) = (sample.window, self.samples);
            }
            self.score(sample.page, sample.amount, begun, cx);
        }
    }

    fn score(&mut self, page: Page, amount: f64, begun: u32, cx: &mut Context<'_>) {
        let index = page as usize;
        if !self.has(page, TRACKED) {
            if self.tracked_pages >= self.config.pac_pool_max {
                self.untracked_samples += 1;
                return;
            }
            self.tracked_pages += 1;
            self.flags[index] |= TRACKED;
        } else if self.config.cooling_mode == "update" && self.seen[index] <= begun {
            self.scores[index] *= self.config.cooling_alpha; // once a window
        }
        self.samples += 1;
        self.seen[index] = self.samples;
        self.scores[index] += amount;
        let score = self.scores[index];
        self.reservoir.offer(score, cx.rng);
        if self.bins.is_last(self.bins.of(score)) && !self.has(page, QUEUED) && cx.pages.tier_of(page) != 0 {
            if self.ring.len() < self.config.promotion_ring as usize {
                self.flags[index] |= QUEUED;
                self.ring.push_back(page);
            } else {
                self.full_rings += 1;
            }
        }
    }

    /// Cools what was not sampled for long.
    fn cool(&mut self, cx: &mut Context<'_>) {
        let distance = self.config.cooling_trigger_samples as f64 * self.config.footprint_scale;
        for (score, seen) in self.scores.iter_mut().zip(&self.seen) {
            if f64::from(self.samples - seen) > distance {
                *score *= self.config.cooling_alpha;
            }
        }
        cx.spend(self.tracked_pages as f64 * COOLING_ENTRY_NS);
    }

    /// New pages join the kernel's lists once the driver has placed them.
    fn admit(&mut self, pages: &dyn PageMap) {
        for range in std::mem::take(&mut self.arrived) {
            runs_by_tier(range, pages, |run, tier| self.lru.placed(run, tier));
        }
    }

    /// The oldest inactive page of fast memory that was not accessed lately, off its list.
    fn victim(&mut self, cx: &mut Context<'_>) -> Option<Page> {
        let mut looks = 0;
        let victim = loop {
            let balanced = !self.lru.inactive_is_low() || !self.lru.shrink_active(cx.accessed);
            looks += 1 + u32::from(!balanced);
            match self.lru.judge_oldest(cx.accessed) {
                Verdict::Isolated(page) => break Some(page),
                Verdict::Empty if !self.lru.shrink_active(cx.accessed) => break None,
                Verdict::SecondChance | Verdict::Activated if looks >= MOST_LOOKS => {
                    break self.lru.take_oldest();
                }
                Verdict::Empty | Verdict::SecondChance | Verdict::Activated => {}
            }
        };
        cx.spend(f64::from(looks) * PAGE_SCAN_NS);
        victim
    }

    /// Sends the least recently used page down; `false` when there is none or no room below.
    fn demote(&mut self, free: &mut [u32], cx: &mut Context<'_>) -> bool {
        let Some(below) = (1..free.len()).find(|tier| free[*tier] > 0) else {
            return false;
        };
        let Some(victim) = self.victim(cx) else { return false };
        cx.spend(kernel_migration::cpu_ns(self.topology.page_bytes));
        free[0] += 1;
        free[below] -= 1;
        self.demoted_pages += 1;
        self.ask(victim, below as Tier, cx);
        true
    }

    fn ask(&mut self, page: Page, to: Tier, cx: &mut Context<'_>) {
        self.in_flight += 1;
        cx.migrate(page, to);
    }

    /// The kernel's reclaim, while the switch lets it.
    fn reclaim(&mut self, free: &mut [u32], cx: &mut Context<'_>) {
        let margin = self.config.demotion_margin;
        if self.reclaiming && free[0] < self.watermarks.low + margin {
            while free[0] < self.watermarks.high + margin && self.demote(free, cx) {}
        }
    }

    /// One call of the thread that promotes; pages asked for.
    fn promote(&mut self, free: &mut [u32], cx: &mut Context<'_>) -> u32 {
        let follows = self.config.demotion_policy == "lru" && self.config.demotion_trigger == "promotion";
        let margin = self.config.demotion_margin;
        let mut asked = 0;
        while asked < self.config.max_migrations_per_cycle {
            let Some(page) = self.ring.pop_front() else { break };
            let from = cx.pages.tier_of(page);
            if from == 0 {
                self.flags[page as usize] &= !QUEUED;
                continue;
            }
            self.promoted_pages += 1;
            if follows {
                let most = self.promoted_pages + u64::from(margin);
                while free[0] <= self.watermarks.low + margin && self.demoted_pages < most && self.demote(free, cx) {}
            }
            if free[0] == 0 {
                self.roomless_promotions += 1;
                self.flags[page as usize] &= !QUEUED;
                continue;
            }
            free[0] -= 1;
            free[usize::from(from)] += 1;
            asked += 1;
            self.lru.isolate(page);
            self.ask(page, 0, cx);
        }
        asked
    }

    /// What moves pages, as soon as nothing is on its way.
    fn migrate(&mut self, cx: &mut Context<'_>) {
        if self.in_flight > 0 {
            return;
        }
        let mut free: Vec<u32> = (0..self.topology.capacity_pages.len())
            .map(|tier| cx.pages.free_pages(tier as Tier))
            .collect();
        self.reclaim(&mut free, cx);
        if self.next.migration > cx.now {
            return;
        }
        // Without such a limit it goes on as soon as these moves have ended, or as a candidate wakes it.
        if self.promote(&mut free, cx) > 0 && self.config.migration_limit == "cycle" {
            self.next.migration = cx.now + nanos(self.config.sampling_interval_ms.into());
        }
    }

    fn schedule(&self, cx: &mut Context<'_>) {
        let next = &self.next;
        let waits = self.in_flight == 0 && !self.ring.is_empty();
        let migration = if waits { next.migration } else { NEVER };
        let jobs = [next.window, next.bins, next.balance, next.cooling, migration];
        cx.wake_at(jobs.into_iter().min().unwrap_or(NEVER));
    }
}

impl Policy for Pact {
    crate::saves_itself!();

    fn samplers(&self) -> Vec<SamplerRequest> {
        vec![SamplerRequest {
            event: Event::SlowLoadMiss,
            period: self.config.pebs_period,
        }]
    }

    fn needs(&self) -> Needs {
        Needs {
            counters: true,
            accessed_bits: self.config.demotion_policy == "lru",
            ..Needs::default()
        }
    }

    fn mechanics(&self) -> MigrationMechanics {
        kernel_migration::mechanics(self.topology.page_bytes)
    }

    fn overheads(&self) -> Overheads {
        // Both threads share one core that is theirs (section 4.6).
        Overheads {
            busy_cores: 1.0,
            record_ns: RECORD_NS,
        }
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.admit(cx.pages);
        self.arrived.push(extent.start..extent.start + extent.pages);
        Placement::FastestAbove {
            free_pages: self.watermarks.low,
        }
    }

    fn on_free(&mut self, extent: &Extent, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        let gone = extent.start..extent.start + extent.pages;
        self.lru.freed(gone.clone());
        self.window.retain(|(page, _)| !gone.contains(page));
        self.attributed.retain(|sample| !gone.contains(&sample.page));
        self.ring.retain(|page| !gone.contains(page));
        for page in gone {
            self.tracked_pages -= u64::from(self.has(page, TRACKED));
            let index = page as usize;
            (self.flags[index], self.scores[index], self.seen[index]) = (0, 0.0, 0);
        }
    }

    fn on_samples(&mut self, samples: &[Sample], _cx: &mut Context<'_>) {
        let room = (self.config.pac_update_ring as usize).saturating_sub(self.window.len());
        let kept = samples.len().min(room);
        self.window
            .extend(samples[..kept].iter().map(|sample| (sample.page, sample.tier)));
        self.lost_samples += (samples.len() - kept) as u64;
    }

    fn on_migrations(&mut self, ended: &[Migrated], _idle: bool, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        for migrated in ended {
            self.in_flight -= 1;
            if migrated.outcome == Outcome::Gone {
                continue; // freed, and forgotten with its extent
            }
            let page = migrated.request.page;
            let failed = migrated.outcome != Outcome::Done;
            self.failed_moves += u64::from(failed);
            if migrated.request.to == 0 {
                self.flags[page as usize] &= !QUEUED;
            }
            self.lru.put(page, cx.pages.tier_of(page));
        }
        self.schedule(cx);
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        if due(
            &mut self.next.window,
            cx.now,
            nanos(self.config.sampling_interval_ms.into()),
        ) {
            self.attribute(cx);
        }
        if due(
            &mut self.next.bins,
            cx.now,
            nanos(self.config.adaptive_interval_ms.into()),
        ) {
            self.update_scores(cx);
            if self.config.binning == "adaptive" {
                let pages = self.tracked_pages as f64 / self.config.footprint_scale;
                self.bins.adapt(&self.reservoir, pages, self.ring.len());
            }
        }
        if due(
            &mut self.next.balance,
            cx.now,
            nanos(self.config.balance_interval_s * 1e3),
        ) {
            self.reclaiming = self.demoted_pages < self.promoted_pages + u64::from(self.config.demotion_margin);
        }
        if due(
            &mut self.next.cooling,
            cx.now,
            nanos(self.config.cooling_interval_ms.into()),
        ) {
            self.cool(cx);
        }
        self.migrate(cx);
        self.schedule(cx);
    }

    fn gauges(&self) -> Vec<Gauge> {
        let (mut hot, mut warm) = (0u64, 0u64);
        for score in self.scores.iter().filter(|score| **score > 0.0) {
            let bin = self.bins.of(*score);
            hot += u64::from(self.bins.is_last(bin));
            warm += u64::from(bin >= 1.0 && !self.bins.is_last(bin));
        }
        let tracked = self.tracked_pages;
        [
            ("tracked_pages", "pages with a score", tracked as f64),
            ("hot_pages", "pages in the last bin", hot as f64),
            ("warm_pages", "pages in bins between", warm as f64),
            (
                "cold_pages",
                "tracked pages in the first bin",
                tracked.saturating_sub(hot + warm) as f64,
            ),
            ("candidates", "pages that wait to be promoted", self.ring.len() as f64),
            ("bin_width_cycles", "width of a bin", self.bins.width),
            (
                "slow_parallelism",
                "misses in flight to slow memory, last window",
                self.parallelism,
            ),
            (
                "slow_stall_cycles",
                "stalls on slow memory, as estimated",
                self.stall_cycles,
            ),
            (
                "lost_samples",
                "samples beyond what a window keeps",
                self.lost_samples as f64,
            ),
            (
                "untracked_samples",
                "samples of pages beyond pac_pool_max",
                self.untracked_samples as f64,
            ),
            (
                "full_rings",
                "candidates that found the promotion ring full",
                self.full_rings as f64,
            ),
            (
                "roomless_promotions",
                "promotions given up for want of room",
                self.roomless_promotions as f64,
            ),
            ("failed_moves", "moves that failed", self.failed_moves as f64),
        ]
        .map(|(name, meaning, value)| Gauge { name, meaning, value })
        .into()
    }
}

/// The registry entry.
pub const SYSTEM: System = System {
    name: "pact",
    summary: "pages scored by the stalls they cause; statistical outliers go up, the least recently used make room",
    source: "PACT, ASPLOS'26; as published by its authors",
    signal: "hardware samples of loads from slow memory, occupancy counters, accessed bits",
    page_bytes: &[PAGE_4K, PAGE_2M],
    knobs: PactConfig::knobs,
    build,
};

fn build(config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    Ok(Box::new(Pact::new(PactConfig::from_config(config)?, topology)))
}
