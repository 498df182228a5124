//! `arms`: no thresholds; pages are ranked, and a page goes up when that pays for the copies.
//!
//! ARMS (arXiv 2508.04417) comes from the group that tuned the other systems (DIMES'25) and asks what a system
//! would have to do that nobody needs to tune. Its summary names three mechanisms, and these are here:
//!
//! 1. *hot and cold by a short and a long moving average* of samples per page ([`averages`]): the pages that would
//!    fill fast memory, by rank, are the hot ones, however many samples that takes;
//! 2. *migration by cost and benefit*: hot pages of slow memory go up, the hottest first, each for the coldest page
//!    of fast memory, if the time that the exchange is expected to save is more than what it takes;
//! 3. *batches by bandwidth*: a round moves no more than fits into the bandwidth that is free ([`memory`]).
//!
//! How the three are computed is not public in a form that we have read, so **all of the following is ours**:
//!
//! - rounds of fixed length with exponential averages; the weight of the two averages is the one that would have
//!   foretold the last rounds best (least squares over all pages seen), so that after a change of the hot set the
//!   short one takes over by itself; both are taken for the rounds that there were, not as averages that began
//!   at nothing;
//! - the saved time is the difference in expected loads per round of the two pages, less one standard error of
//!   the two averages, times the difference of the tiers' measured latencies (occupancy over requests), divided by
//!   the parallelism that the cores' counters show, times the number of rounds that the page is likely to stay
//!   hot: as many as it has been (a guess without a parameter, right for lifetimes without a scale);
//! - the cost is the time of the copies, as measured for earlier ones: a thread's time, and an upper bound of
//!   what a writer waits;
//! - a round looks at no more candidates than may move in it, the hottest ones, whether they pay or not;
//! - the free share of bandwidth is the least latency ever measured over the present one, multiplied over the
//!   tiers; a batch is what can be copied in that share of a round, one exchange at least;
//! - a page of which no more is expected than of one sampled once, a long half-life ago, is forgotten and counts as
//!   never sampled; such pages of fast memory go first, in order of address; new pages go to fast memory while it has room;
//! - with more than two tiers, tier 0 is "fast" and all others together are "slow"; a demoted page goes to the
//!   fastest slow tier with room. It copies as `hemem` does, so that only decisions differ.
//!
//! Surprising: it has knobs, since rounds and half-lives have to be something, but none of them is compared with
//! a count. Three switches take one mechanism away each, for ablations.

pub mod averages;
pub mod memory;

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

use crate::knob::{Config, KnobError};
use crate::mover::{self, LIST_ENTRY_NS, Mover, Room};
use crate::page_bits::PageBits;
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::{
    Context, Event, Extent, Gauge, Migrated, MigrationMechanics, Nanos, Needs, Outcome, Overheads, Page, PageMap,
    Placement, Policy, Sample, SamplerRequest, Tier, Topology,
};
use averages::{Averages, Trust};
use memory::Memory;

crate::knobs! {
    /// Knobs of `arms`.
    pub struct ArmsConfig for "arms" {
        /// LLC load misses per hardware sample
        sampling_period: u64 = 5003, int(100, 50_000, log), unit "events/sample", special [], tuned, restart,
            source "as hemem's, to compare at equal cost";
        /// Length of a round: averages are updated, ranks taken, a batch is moved
        period_ms: f64 = 250.0, float(10.0, 5000.0, log), unit "ms", special [], tuned, restart, source "ours";
        /// Time after which half of the short average is gone
        short_half_life_ms: f64 = 500.0, float(10.0, 30_000.0, log), unit "ms", special [], tuned, restart,
            source "ours; the paper has two averages";
        /// Half-life of the long average over that of the short one
        long_ratio: f64 = 20.0, float(2.0, 200.0, log), unit "", special [], tuned, restart,
            source "ours; a ratio, so that long is never shorter than short";
        /// Which average ranks pages: both, weighted as they foretold the last rounds, or one alone
        average: String = "both".to_string(), choice("both", "short", "long"), unit "", special [], fixed, rebuild,
            source "arXiv 2508.04417, summary; the single ones for ablation";
        /// Whether a move has to pay for itself; without, a page goes up for any that is colder
        cost_benefit: bool = true, bool, unit "", special [], fixed, rebuild,
            source "arXiv 2508.04417, summary; off for ablation";
        /// Whether batches leave the application its bandwidth; without, a round is filled with copies
        bandwidth_aware: bool = true, bool, unit "", special [], fixed, rebuild,
            source "arXiv 2508.04417, summary; off for ablation";
    }
}

/// Time to update and rank one record, in two passes over consecutive memory (ours).
const RECORD_PASS_NS: f64 = 10.0;

/// Pages of fast memory without a record, which go first. May name pages that are elsewhere: extents are
/// added as a whole, and where their pages are is looked at when one is needed.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Unseen {
    pages: PageBits,
    words: usize,
    hand: usize,
}

impl Unseen {
    fn new(pages: u32) -> Self {
        Self {
            pages: PageBits::new(pages),
            words: pages.div_ceil(u64::BITS) as usize,
            hand: 0,
        }
    }

    /// The next one, which stays where it is.
    fn next(&mut self, map: &dyn PageMap) -> Option<Page> {
        for _ in 0..self.words {
            let mut bits = self.pages.word(self.hand);
            while bits != 0 {
                let page = self.hand as Page * u64::BITS + bits.trailing_zeros();
                if map.tier_of(page) == 0 {
                    return Some(page);
                }
                self.pages.set(page, false);
                bits &= bits - 1;
            }
            self.hand = (self.hand + 1) % self.words;
        }
        None
    }
}

/// A page that may move, with its expected samples per round.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Ranked {
    score: f64,
    page: Page,
    hot_rounds: u32,
}

/// The first `most` in an order, sorted.
fn first(mut ranked: Vec<Ranked>, most: usize, order: impl Fn(&Ranked, &Ranked) -> Ordering) -> Vec<Ranked> {
    if ranked.len() > most {
        ranked.select_nth_unstable_by(most, &order);
        ranked.truncate(most);
    }
    ranked.sort_unstable_by(order);
    ranked
}

#[derive(Serialize, Deserialize)]
struct Arms {
    config: ArmsConfig,
    topology: Topology,
    averages: Averages,
    unseen: Unseen,
    memory: Memory,
    mover: Mover,
    round_began: Nanos,
    batch_moves: u32,
    waiting_pages: u64,
    not_worth_it: u64,
}

impl Arms {
    fn new(config: ArmsConfig, topology: &Topology) -> Self {
        let mechanics = mover::mechanics(topology.page_bytes);
        let copy_ns = topology.page_bytes as f64 / mechanics.copy_gbps;
        let short_rounds = config.short_half_life_ms / config.period_ms;
        let trust = match config.average.as_str() {
            "short" => Trust::Short,
            "long" => Trust::Long,
            _ => Trust::Learned,
        };
        Self {
            averages: Averages::new(topology.pages, short_rounds, short_rounds * config.long_ratio, trust),
            unseen: Unseen::new(topology.pages),
            memory: Memory::new(topology.capacity_pages.len(), mechanics.fixed_ns as f64 + copy_ns),
            mover: Mover::new(config.period_ms),
            topology: topology.clone(),
            round_began: 0,
            batch_moves: 0,
            waiting_pages: 0,
            not_worth_it: 0,
            config,
        }
    }

    /// The hottest pages of slow memory, the hottest first, no more than may move in a round.
    fn candidates(&self, pages: &dyn PageMap) -> (Vec<Ranked>, usize) {
        let records = self.averages.records().iter();
        let hot = records.filter(|record| self.averages.is_hot(record) && pages.tier_of(record.page) != 0);
        let all: Vec<Ranked> = hot.map(|record| self.ranked(record)).collect();
        let waiting = all.len();
        let hotter = |a: &Ranked, b: &Ranked| b.score.total_cmp(&a.score).then(a.page.cmp(&b.page));
        (first(all, self.batch_moves as usize, hotter), waiting)
    }

    /// The `most` coldest pages of fast memory that have records, the coldest last.
    fn victims(&self, most: usize, pages: &dyn PageMap) -> Vec<Ranked> {
        let records = self.averages.records().iter();
        let fast = records.filter(|record| pages.tier_of(record.page) == 0);
        let all: Vec<Ranked> = fast.map(|record| self.ranked(record)).collect();
        let colder = |a: &Ranked, b: &Ranked| a.score.total_cmp(&b.score).then(a.page.cmp(&b.page));
        let mut ranked = first(all, most, colder);
        ranked.reverse();
        ranked
    }

    fn ranked(&self, record: &averages::Record) -> Ranked {
        Ranked {
            score: record.score.into(),
            page: record.page,
            hot_rounds: record.hot_rounds,
        }
    }

    /// Whether to bring `hot` up from `from`, and `cold` down to the tier named with it.
    fn pays(&self, hot: &Ranked, from: Tier, cold: Option<(f64, Tier)>) -> bool {
        let (cold_score, below) = cold.unwrap_or((0.0, from));
        if !self.config.cost_benefit {
            return hot.score > cold_score || cold.is_none();
        }
        let error = ((hot.score + cold_score) * self.averages.noise()).sqrt();
        let saved_samples_ns =
            (hot.score - error) * self.memory.extra_ns(from) - cold_score * self.memory.extra_ns(below);
        let saved_ns = saved_samples_ns * self.config.sampling_period as f64 * f64::from(hot.hot_rounds);
        let moves = 1.0 + f64::from(u8::from(cold.is_some()));
        saved_ns > moves * self.memory.move_ns()
    }

    fn move_batch(&mut self, cx: &mut Context<'_>) {
        let share = if self.config.bandwidth_aware {
            self.memory.free_share()
        } else {
            1.0
        };
        let fitting = share * self.mover.period_ns() as f64 / self.memory.move_ns().max(1.0);
        self.batch_moves = (fitting as u32).max(2);
        let mut left = self.batch_moves;
        let (candidates, waiting) = self.candidates(cx.pages);
        let mut looked_at = waiting;
        let mut room = Room::now(cx.pages, self.topology.capacity_pages.len());
        let mut seen_victims: Option<Vec<Ranked>> = None;
        for hot in &candidates {
            let from = cx.pages.tier_of(hot.page);
            if room.is_in_fast() {
                if left < 1 {
                    break;
                }
                if self.pays(hot, from, None) {
                    left -= 1;
                    room.moved(from, 0);
                    self.mover.ask(hot.page, 0, cx);
                } else {
                    self.not_worth_it += 1;
                }
                continue;
            }
            let Some(below) = room.below() else { break };
            if left < 2 {
                break;
            }
            let unseen = self.unseen.next(cx.pages);
            if unseen.is_none() && seen_victims.is_none() {
                seen_victims = Some(self.victims(left as usize / 2, cx.pages));
                looked_at += self.averages.records().len();
            }
            let seen = || seen_victims.as_ref().and_then(|victims| victims.last());
            let Some((cold_score, cold)) = unseen
                .map(|page| (0.0, page))
                .or_else(|| seen().map(|victim| (victim.score, victim.page)))
            else {
                break;
            };
            if !self.pays(hot, from, Some((cold_score, below))) {
                self.not_worth_it += 1;
                continue;
            }
            if unseen.is_some() {
                self.unseen.pages.set(cold, false);
            } else if let Some(victims) = &mut seen_victims {
                victims.pop();
            }
            left -= 2;
            room.moved(0, below);
            self.mover.ask(cold, below, cx);
            room.moved(from, 0);
            self.mover.ask(hot.page, 0, cx);
        }
        self.waiting_pages = waiting as u64;
        cx.spend(looked_at as f64 * LIST_ENTRY_NS);
    }
}

impl Policy for Arms {
    crate::saves_itself!();

    fn samplers(&self) -> Vec<SamplerRequest> {
        vec![SamplerRequest {
            event: Event::LoadMiss,
            period: self.config.sampling_period,
        }]
    }

    fn needs(&self) -> Needs {
        Needs {
            counters: true,
            ..Needs::default()
        }
    }

    fn mechanics(&self) -> MigrationMechanics {
        mover::mechanics(self.topology.page_bytes)
    }

    fn overheads(&self) -> Overheads {
        self.mover.overheads(0.0) // what its own thread does is charged as it is done
    }

    fn on_alloc(&mut self, extent: &Extent, _: &mut Context<'_>) -> Placement {
        self.unseen
            .pages
            .set_all(extent.start..extent.start + extent.pages, true);
        Placement::FastestFree
    }

    fn on_free(&mut self, extent: &Extent, _: &mut Context<'_>) {
        let gone = extent.start..extent.start + extent.pages;
        self.unseen.pages.set_all(gone.clone(), false);
        gone.for_each(|page| self.averages.forget(page));
    }

    fn on_samples(&mut self, samples: &[Sample], _: &mut Context<'_>) {
        for sample in samples {
            if self.averages.see(sample.page) {
                self.unseen.pages.set(sample.page, false);
            }
        }
    }

    fn on_migrations(&mut self, ended: &[Migrated], _: bool, cx: &mut Context<'_>) {
        self.memory.ended(ended);
        for migrated in ended.iter().filter(|migrated| migrated.outcome != Outcome::Gone) {
            let page = migrated.request.page;
            if !self.averages.has(page) {
                self.unseen.pages.set(page, cx.pages.tier_of(page) == 0);
            }
        }
        self.mover.arrived(ended, cx);
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        if !self.mover.begin(cx.now) {
            return;
        }
        let elapsed_ns = cx.now - self.round_began;
        if elapsed_ns > 0 {
            self.round_began = cx.now;
            let length = elapsed_ns as f64 / self.mover.period_ns() as f64;
            let unseen = &mut self.unseen.pages;
            self.averages
                .round(length, self.topology.capacity_pages[0], |page| unseen.set(page, true));
            self.memory.read(cx.counters);
            self.memory.begin(cx.now);
            cx.spend(self.averages.records().len() as f64 * RECORD_PASS_NS);
            self.move_batch(cx);
        }
        self.mover.decided(cx);
    }

    fn gauges(&self) -> Vec<Gauge> {
        [
            (
                "seen_pages",
                "pages that were sampled not too long ago",
                self.averages.records().len() as f64,
            ),
            (
                "waiting_pages",
                "pages of slow memory that were among the hottest in the last round",
                self.waiting_pages as f64,
            ),
            (
                "short_weight",
                "weight of the short average, from 0 to 1",
                self.averages.short_weight(),
            ),
            (
                "batch_moves",
                "moves that fitted into the last round",
                f64::from(self.batch_moves),
            ),
            (
                "not_worth_it",
                "promotions that would not have paid for themselves",
                self.not_worth_it as f64,
            ),
            (
                "failed_moves",
                "moves that found no space",
                self.mover.failed_moves() as f64,
            ),
        ]
        .map(|(name, meaning, value)| Gauge { name, meaning, value })
        .into()
    }
}

/// The registry entry.
pub const SYSTEM: System = System {
    name: "arms",
    summary: "no thresholds: pages are ranked by two moving averages and move when that pays for the copies",
    source: "ARMS, arXiv 2508.04417: three mechanisms as its summary names them, their formulas ours",
    signal: "hardware samples of LLC load misses; request and occupancy counters of each tier and of the cores",
    page_bytes: &[PAGE_2M, PAGE_4K],
    knobs: ArmsConfig::knobs,
    build,
};

fn build(config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    Ok(Box::new(Arms::new(ArmsConfig::from_config(config)?, topology)))
}
