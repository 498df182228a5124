//! `random`: exchanges pages at a given rate without judging any of them.
//!
//! It pays for samples and copies as a tiering system does, yet what goes up is any page of slow
//! memory that was sampled in the last period, and what goes down is any page of fast memory. What
//! another system gains over it at the same rate is what that system's judgement is worth.
//!
//! What had to be decided:
//!
//! - a page counts once per period however often it was sampled: otherwise chance would favour hot
//!   pages, which is judgement by frequency;
//! - with more than two tiers, tier 0 is "fast" and all others together are "slow"; a demoted page
//!   goes to the fastest slow tier with room;
//! - samples during copies are kept for the next tick, which starts when the copies have ended.

use serde::{Deserialize, Serialize};
use std::ops::Range;

use crate::knob::{Config, KnobError};
use crate::mover::{self, Mover, Room};
use crate::random::CounterRng;
use crate::rate_limit::RateLimit;
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::{
    Context, Event, Extent, Gauge, Migrated, MigrationMechanics, Outcome, Overheads, Page, PageMap, Placement, Policy,
    Sample, SamplerRequest, Topology, prefetch,
};

/// Samples whose page states are fetched together before any is worked on; see `hemem`'s counts.
const BLOCK: usize = 64;

crate::knobs! {
    /// Knobs of `random`.
    pub struct RandomConfig for "random" {
        /// LLC load misses per hardware sample
        sampling_period: u64 = 5003, int(100, 50_000, log), unit "events/sample", special [], tuned, restart,
            source "as hemem's, to compare at equal cost";
        /// Time between two rounds of exchanges
        period_ms: f64 = 10.0, float(1.0, 1000.0, log), unit "ms", special [], tuned, live,
            source "as hemem's migration_period_ms; range ours";
        /// Cap on promoted bytes
        promotion_rate_mib: f64 = 256.0, float(1.0, 32_768.0, log), unit "MiB/s", special [], tuned, live,
            source "ours";
    }
}

/// A uniform choice among the distinct pages offered since it was last emptied, of which only as
/// many are kept as a tick can use (reservoir sampling, Vitter's algorithm R).
#[derive(Serialize, Deserialize)]
struct Reservoir {
    kept: Vec<Page>,
    capacity: usize,
    /// Distinct pages offered.
    offered: u64,
    /// The round in which each page was last offered: 4 bytes per page are all that is kept.
    offered_in: Vec<u32>,
    round: u32,
}

impl Reservoir {
    fn new(pages: u32, capacity: usize) -> Self {
        Self {
            kept: Vec::new(),
            capacity,
            offered: 0,
            offered_in: vec![0; pages as usize],
            round: 1, // a page of round 0 was never offered
        }
    }

    fn observe(&mut self, samples: &[Sample], rng: &mut CounterRng) {
        for block in samples.chunks(BLOCK) {
            // Asking for a block of states before working on any lets the cache misses overlap.
            for sample in block {
                prefetch(&self.offered_in, sample.page as usize);
            }
            for sample in block {
                let offered_in = &mut self.offered_in[sample.page as usize];
                if sample.tier == 0 || *offered_in == self.round {
                    continue;
                }
                *offered_in = self.round;
                self.offered += 1;
                if self.kept.len() < self.capacity {
                    self.kept.push(sample.page);
                } else {
                    let slot = rng.below(self.offered) as usize;
                    if slot < self.capacity {
                        self.kept[slot] = sample.page;
                    }
                }
            }
        }
    }

    fn empty(&mut self) {
        self.kept.clear();
        self.offered = 0;
        self.round = self.round.wrapping_add(1);
    }
}

#[derive(Serialize, Deserialize)]
struct RandomExchange {
    config: RandomConfig,
    topology: Topology,
    candidates: Reservoir,
    /// The pages of fast memory that are not about to leave it, in no order.
    fast: Vec<Page>,
    arrived: Vec<Range<Page>>,
    rate_limit: RateLimit,
    mover: Mover,
}

/// Takes a random element out.
fn draw(pages: &mut Vec<Page>, rng: &mut CounterRng) -> Option<Page> {
    (!pages.is_empty()).then(|| pages.swap_remove(rng.below(pages.len() as u64) as usize))
}

impl RandomExchange {
    fn new(config: RandomConfig, topology: &Topology) -> Self {
        let mover = Mover::new(config.period_ms);
        let rate_bytes = (config.promotion_rate_mib * f64::from(1 << 20)).round() as u64;
        // One period's worth, and a page, so that a rate of less than a page per period still adds up.
        let burst_bytes = (rate_bytes as f64 * mover.period_ns() as f64 / 1e9) as u64 + topology.page_bytes;
        let burst_pages = (burst_bytes / topology.page_bytes) as usize;
        Self {
            candidates: Reservoir::new(topology.pages, burst_pages),
            fast: Vec::new(),
            arrived: Vec::new(),
            rate_limit: RateLimit::new(rate_bytes, burst_bytes),
            mover,
            topology: topology.clone(),
            config,
        }
    }

    /// Notes which pages of new extents the driver has placed in fast memory.
    fn admit(&mut self, pages: &dyn PageMap) {
        for page in std::mem::take(&mut self.arrived).into_iter().flatten() {
            // First touch fills fast memory first: most of a large extent need not be looked at.
            if self.fast.len() >= self.topology.capacity_pages[0] as usize {
                break;
            }
            if pages.tier_of(page) == 0 {
                self.fast.push(page);
            }
        }
    }

    fn exchange(&mut self, cx: &mut Context<'_>) {
        let page_bytes = self.topology.page_bytes;
        let mut room = Room::now(cx.pages, self.topology.capacity_pages.len());
        while self.rate_limit.holds(page_bytes) {
            let Some(page) = draw(&mut self.candidates.kept, cx.rng) else {
                break;
            };
            let from = cx.pages.tier_of(page);
            if from == 0 {
                continue; // sampled while it was on its way up
            }
            if !room.is_in_fast() {
                let Some(below) = room.below() else { break };
                let Some(victim) = draw(&mut self.fast, cx.rng) else {
                    break;
                };
                room.moved(0, below);
                self.mover.ask(victim, below, cx);
            }
            room.moved(from, 0);
            self.rate_limit.take(page_bytes);
            self.mover.ask(page, 0, cx);
        }
    }
}

impl Policy for RandomExchange {
    crate::saves_itself!();

    fn samplers(&self) -> Vec<SamplerRequest> {
        vec![SamplerRequest {
            event: Event::LoadMiss,
            period: self.config.sampling_period,
        }]
    }

    fn mechanics(&self) -> MigrationMechanics {
        mover::mechanics(self.topology.page_bytes)
    }

    fn overheads(&self) -> Overheads {
        self.mover.overheads(2.0 * self.candidates.capacity as f64)
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.admit(cx.pages);
        self.arrived.push(extent.start..extent.start + extent.pages);
        Placement::FastestFree
    }

    fn on_free(&mut self, extent: &Extent, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        let gone = extent.start..extent.start + extent.pages;
        self.fast.retain(|page| !gone.contains(page));
        self.candidates.kept.retain(|page| !gone.contains(page));
    }

    fn on_samples(&mut self, samples: &[Sample], cx: &mut Context<'_>) {
        self.admit(cx.pages);
        self.candidates.observe(samples, cx.rng);
    }

    fn on_migrations(&mut self, ended: &[Migrated], _: bool, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        // Both a page that went up and one that could not go down are in fast memory.
        let there = ended.iter().filter(|migrated| migrated.outcome != Outcome::Gone);
        let pages = there.map(|migrated| migrated.request.page);
        self.fast.extend(pages.filter(|page| cx.pages.tier_of(*page) == 0));
        self.mover.arrived(ended, cx);
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        if self.mover.begin(cx.now) {
            self.rate_limit.fill(cx.now);
            self.exchange(cx);
            self.candidates.empty();
            self.mover.decided(cx);
        }
    }

    fn gauges(&self) -> Vec<Gauge> {
        vec![
            Gauge {
                name: "candidate_pages",
                meaning: "distinct slow pages sampled since the last tick",
                value: self.candidates.offered as f64,
            },
            Gauge {
                name: "failed_moves",
                meaning: "moves that found no space",
                value: self.mover.failed_moves() as f64,
            },
        ]
    }
}

/// The registry entry.
pub const SYSTEM: System = System {
    name: "random",
    summary: "exchanges random sampled pages of slow memory for random pages of fast memory at a given rate",
    source: "baseline",
    signal: "hardware samples of LLC load misses",
    page_bytes: &[PAGE_2M, PAGE_4K],
    knobs: RandomConfig::knobs,
    build,
};

fn build(config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    Ok(Box::new(RandomExchange::new(
        RandomConfig::from_config(config)?,
        topology,
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each of 50 pages, the first sampled a hundred times as often, is kept in 10 of 50 rounds on average.
    #[test]
    fn the_reservoir_chooses_uniformly_whatever_the_number_of_samples() {
        let (pages, capacity, rounds) = (50u32, 10, 4000);
        let mut reservoir = Reservoir::new(pages, capacity);
        let mut rng = CounterRng::new(5, &[]);
        let sample = |page| Sample {
            page,
            tier: 1,
            event: Event::LoadMiss,
        };
        let mut samples = vec![sample(0); 99];
        samples.extend((0..pages).map(sample));
        let mut kept = vec![0u32; pages as usize];
        for _ in 0..rounds {
            reservoir.observe(&samples, &mut rng);
            assert_eq!(reservoir.kept.len(), capacity);
            reservoir.kept.iter().for_each(|page| kept[*page as usize] += 1);
            reservoir.empty();
        }
        // Binomial with mean 800 and standard deviation 25: five of them either way.
        assert!(kept.iter().all(|count| (675..=925).contains(count)), "{kept:?}");
    }

    #[test]
    fn pages_of_fast_memory_are_no_candidates() {
        let mut reservoir = Reservoir::new(2, 4);
        let samples = [0u8, 1].map(|tier| Sample {
            page: Page::from(tier),
            tier,
            event: Event::LoadMiss,
        });
        reservoir.observe(&samples, &mut CounterRng::new(1, &[]));
        assert_eq!((reservoir.kept, reservoir.offered), (vec![1], 1));
    }
}
