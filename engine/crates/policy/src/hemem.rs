//! `hemem`: hardware samples, per-page counts with lazy halving, and one background mover.
//!
//! A sampling thread counts samples per page. A page whose counts reach a threshold is announced
//! in a ring as hot, one that fell below as cold. Every period a policy thread serves the rings,
//! which moves pages between the FIFO lists {fast, slow} x {hot, cold}, then takes hot pages of
//! slow memory to fast memory, each for a cold page that goes down when nothing is free, and last
//! walks a part of the hot lists for pages that have cooled.
//!
//! What the published code does and one might not expect is kept:
//!
//! - a page is judged hot or cold on counts to which pending coolings are not yet applied;
//! - a single count of a single page above `cooling_threshold` halves the counts of all pages;
//! - victims and promotions go by age in their lists, not by temperature;
//! - when a hot page finds fast memory full of hot pages, the tick ends *before* the walk that
//!   would cool them (`cool_when_full` mends that);
//! - a walk that cools is over with the oldest page of the list, which is the one that it begins with. So a halving is
//!   followed by one look at `cooling_pages` pages, and as hot ones stay in their place, the next looks begin behind where
//!   the last one ended, at pages that have become hot since, until the page there leaves the list
//!   (`cooling_ends_at_newest` has every halving walk the whole list).
//!
//! What had to be decided here, because the original has no such case:
//!
//! - with more than two tiers, tier 0 is "fast" and all others together are "slow"; a demoted page
//!   goes to the fastest slow tier with room, a promoted one always to tier 0;
//! - all decisions of a tick are taken at its start, the copies follow; the next tick starts when
//!   the period is over and all copies have ended, as in a thread that copies and then sleeps;
//! - mappings below `mmap_filter_size_bytes` lie in DRAM beside the pool that is managed. Here the pool is what they leave of
//!   fast memory: managed pages give way to them where it is full;
//! - a page that could not be moved returns to the back of the list it came from;
//! - the cold list of slow memory is never taken from, so it is not kept: a page of slow memory in
//!   no list is cold;
//! - counts are one byte and stop at 255. With cooling by threshold they never pass
//!   `cooling_threshold` + 2, so only `sample_based_cooling` can see the stop.

mod counts;
mod knobs;

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;

use crate::knob::{Config, KnobError};
use crate::mover::{LIST_ENTRY_NS, RECORD_NS, REMAP_NS, Room, fixed_ns, shootdowns};
use crate::page_list::{Links, NIL, PageList};
use crate::rate_limit::RateLimit;
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::{
    Context, CopyMode, Event, Extent, Gauge, Heat, How, Migrated, MigrationMechanics, Nanos, Outcome, Overheads, Page,
    PageMap, Placement, Policy, Sample, SamplerRequest, Takeover, Tier, Topology,
};

use counts::{Counts, FAST, HOT, LISTED, MIGRATING, QUEUED, Rings, UNMANAGED};
pub use knobs::HememConfig;

/// A round of a spinning policy thread: serving the rings and walking twice 8192 list entries takes
/// about this long, and no decision can change faster than samples arrive.
const SPIN_ROUND_NS: Nanos = 1_000_000;
const DMA_CHANNEL_GBPS: f64 = 4.5;
const COPY_THREAD_GBPS: f64 = 2.5;

/// The hot list of fast or of slow memory, and whether a halving has left it to be walked.
#[derive(Serialize, Deserialize)]
struct Side {
    hot: PageList,
    needs_cooling: bool,
    /// The page that cooling has looked at last; [`NIL`]: it begins with the oldest.
    looked_at: Page,
    /// The page that was the oldest when a halving called for cooling: it ends there.
    ends_at: Page,
}

impl Default for Side {
    fn default() -> Self {
        Self {
            hot: PageList::default(),
            needs_cooling: false,
            looked_at: NIL,
            ends_at: NIL,
        }
    }
}

impl Side {
    /// Takes a page out of the hot list, past which cooling goes on if it has looked at it last.
    fn remove(&mut self, links: &mut Links, page: Page) {
        if self.looked_at == page {
            self.looked_at = links.next(page);
        }
        self.hot.remove(links, page);
    }
}

#[derive(Serialize, Deserialize)]
struct Hemem {
    config: HememConfig,
    topology: Topology,
    period_ns: Nanos,
    counts: Counts,
    rings: Rings,
    links: Links,
    fast: Side,
    slow: Side,
    cold_fast: PageList,
    /// Pages that are in front of all of `cold_fast` but not listed there: those of these ranges
    /// that were placed in fast memory and never did anything since. Listing them one by one would
    /// take longer than all the rest of a short trial.
    cold_since_alloc: VecDeque<Range<Page>>,
    /// Samples until the next halving, with `sample_based_cooling`.
    until_cooling: usize,
    /// Extents whose pages the driver has placed since the last call.
    arrived: Vec<Range<Page>>,
    tick_start: Nanos,
    in_flight: u32,
    tick_bytes: u64,
    /// The cap on bytes per second; `None` when `tick_bytes` caps each tick.
    rate_limit: Option<RateLimit>,
    starved_ticks: u64,
    failed_moves: u64,
    unmanaged_pages: u32,
    /// Another policy places pages; this one only keeps count of them.
    only_counts: bool,
}

impl Hemem {
    fn new(config: HememConfig, topology: &Topology) -> Self {
        let period_ns = match (config.migration_period_ms * 1e6).round() as Nanos {
            0 => SPIN_ROUND_NS,
            period_ns => period_ns,
        };
        let rate_bytes = (config.max_migration_rate_gib * f64::from(1 << 30)).round() as u64;
        // One period's worth, so that a tick that copied for long is not followed by an even longer
        // one, and a page, so that a rate of less than a page per period still adds up.
        let burst_bytes = (rate_bytes as f64 * period_ns as f64 / 1e9) as u64 + topology.page_bytes;
        Self {
            period_ns,
            counts: Counts::new(&config, topology.pages),
            rings: Rings {
                capacity: config.ring_capacity,
                ..Rings::default()
            },
            links: Links::new(topology.pages),
            topology: topology.clone(),
            fast: Side::default(),
            slow: Side::default(),
            cold_fast: PageList::default(),
            cold_since_alloc: VecDeque::new(),
            until_cooling: config.sample_cooling_interval as usize,
            arrived: Vec::new(),
            tick_start: 0,
            in_flight: 0,
            tick_bytes: rate_bytes,
            rate_limit: (config.rate_mode == "per_second").then(|| RateLimit::new(rate_bytes, burst_bytes)),
            starved_ticks: 0,
            failed_moves: 0,
            unmanaged_pages: 0,
            only_counts: false,
            config,
        }
    }

    fn side(&mut self, fast: bool) -> &mut Side {
        if fast { &mut self.fast } else { &mut self.slow }
    }

    /// New pages are cold: those in fast memory join the end of its cold list.
    fn admit(&mut self, pages: &dyn PageMap) {
        for range in std::mem::take(&mut self.arrived) {
            if self.only_counts || self.cold_fast.is_empty() {
                self.cold_since_alloc.push_back(range);
            } else {
                range
                    .filter(|page| pages.tier_of(*page) == 0)
                    .for_each(|page| self.enlist(page, true));
            }
        }
    }

    /// Puts a page that is in no list at the back of the list it belongs to.
    fn enlist(&mut self, page: Page, fast: bool) {
        let hot = self.counts.has(page, HOT);
        self.counts.set(page, FAST, fast);
        self.counts.set(page, LISTED, hot || fast);
        match (hot, fast) {
            (true, true) => self.fast.hot.push_back(&mut self.links, page),
            (true, false) => self.slow.hot.push_back(&mut self.links, page),
            (false, true) => self.cold_fast.push_back(&mut self.links, page),
            (false, false) => {}
        }
    }

    /// Takes a page out of the list that it is in, if any.
    fn unlist(&mut self, page: Page) {
        if self.counts.has(page, LISTED) {
            self.counts.set(page, LISTED, false);
            match (self.counts.has(page, HOT), self.counts.has(page, FAST)) {
                (true, true) => self.fast.remove(&mut self.links, page),
                (true, false) => self.slow.remove(&mut self.links, page),
                (false, _) => self.cold_fast.remove(&mut self.links, page),
            }
        }
    }

    /// Moves a page to the hot or the cold list of its side.
    fn reclassify(&mut self, page: Page, hot: bool, pages: &dyn PageMap) {
        let fast = if self.counts.has(page, LISTED) {
            self.counts.has(page, FAST)
        } else {
            pages.tier_of(page) == 0
        };
        self.unlist(page);
        self.counts.set(page, HOT, hot);
        self.enlist(page, fast);
    }

    /// The sampling thread's work for one batch.
    fn observe(&mut self, samples: &[Sample]) {
        let halvings = self.counts.halvings();
        self.counts.observe(samples, &mut self.rings);
        if self.counts.halvings() != halvings {
            self.need_cooling();
        }
    }

    fn need_cooling(&mut self) {
        self.fast.needs_cooling = true;
        self.slow.needs_cooling = true;
    }

    /// Serves at most `limit` requests of a ring.
    fn serve_ring(&mut self, hot: bool, limit: u32, pages: &dyn PageMap) {
        for _ in 0..limit {
            let ring = if hot { &mut self.rings.hot } else { &mut self.rings.cold };
            let Some(page) = ring.pop_front() else { break };
            self.counts.set(page, QUEUED, false);
            if self.counts.has(page, HOT) != hot {
                self.reclassify(page, hot, pages);
            }
        }
    }

    /// The front of fast memory's cold list, or [`NIL`].
    fn oldest_cold_fast(&mut self, pages: &dyn PageMap) -> Page {
        while let Some(range) = self.cold_since_alloc.front_mut() {
            let counts = &self.counts;
            match range.find(|page| !counts.has(*page, LISTED | MIGRATING) && pages.tier_of(*page) == 0) {
                Some(page) => {
                    range.start = page; // it stays in front until something is done with it
                    return page;
                }
                None => self.cold_since_alloc.pop_front(),
            };
        }
        self.cold_fast.front()
    }

    /// The back of fast memory's cold list, or [`NIL`].
    fn newest_cold_fast(&mut self, pages: &dyn PageMap) -> Page {
        if !self.cold_fast.is_empty() {
            return self.cold_fast.back();
        }
        while let Some(range) = self.cold_since_alloc.back_mut() {
            let counts = &self.counts;
            match range.rfind(|page| !counts.has(*page, LISTED | MIGRATING) && pages.tier_of(*page) == 0) {
                Some(page) => {
                    range.end = page + 1; // it stays at the back until something is done with it
                    return page;
                }
                None => self.cold_since_alloc.pop_back(),
            };
        }
        NIL
    }

    /// Frees fast memory for `pages` that are not managed, as far as there are cold pages in it.
    ///
    /// They lie in DRAM beside the original's pool, which is as much smaller from the start on: what the pool would
    /// have had no room for goes down while the application loads, and what has been cold for longest later.
    fn make_room(&mut self, pages: u32, cx: &mut Context<'_>) {
        let mut room = Room::now(cx.pages, self.topology.capacity_pages.len());
        for _ in 0..pages.saturating_sub(cx.pages.free_pages(0)) {
            let victim = if cx.now == 0 {
                self.newest_cold_fast(cx.pages)
            } else {
                self.oldest_cold_fast(cx.pages)
            };
            let (true, Some(below)) = (victim != NIL, room.below()) else {
                return;
            };
            room.moved(0, below);
            self.unlist(victim);
            self.counts.set(victim, MIGRATING, true);
            cx.reclaim(victim, below); // by the allocating thread, not by the mover
        }
    }

    /// Promotes hot pages of slow memory; `false` when it stopped because fast memory is all hot.
    fn promote(&mut self, cx: &mut Context<'_>) -> bool {
        let tiers = self.topology.capacity_pages.len();
        let mut free: Vec<u32> = (0..tiers).map(|tier| cx.pages.free_pages(tier as u8)).collect();
        let page_bytes = self.topology.page_bytes;
        let mut moved_bytes = 0;
        loop {
            // Per tick, the original's test: another page as long as the cap is not reached.
            let allowed = match &self.rate_limit {
                Some(limit) => limit.holds(page_bytes),
                None => moved_bytes < self.tick_bytes,
            };
            let page = self.slow.hot.front();
            if !allowed || page == NIL {
                return true;
            }
            let looked_at = self.slow.looked_at == page;
            let hot = self.counts.hot_as_counted(page);
            if hot {
                self.unlist(page);
            } else {
                self.reclassify(page, false, cx.pages);
            }
            if looked_at {
                self.slow.looked_at = self.slow.hot.back(); // and what is hot there by now is not looked at
            }
            if !hot {
                continue;
            }
            if free[0] == 0 {
                let victim = self.oldest_cold_fast(cx.pages);
                let below = (1..tiers).find(|tier| free[*tier] > 0);
                let (true, Some(below)) = (victim != NIL, below) else {
                    self.enlist(page, false); // at the back of the list it came from
                    return false;
                };
                self.unlist(victim);
                free[0] += 1;
                free[below] -= 1;
                self.ask(victim, below as u8, cx);
            }
            free[0] -= 1;
            free[usize::from(cx.pages.tier_of(page))] += 1;
            moved_bytes += page_bytes;
            if let Some(limit) = &mut self.rate_limit {
                limit.take(page_bytes);
            }
            self.ask(page, 0, cx);
        }
    }

    fn ask(&mut self, page: Page, to: u8, cx: &mut Context<'_>) {
        self.counts.set(page, MIGRATING, true);
        self.in_flight += 1;
        cx.migrate(page, to);
    }

    /// Walks a part of a side's hot list and moves what has cooled to its cold list.
    fn cool(&mut self, fast: bool) {
        if !self.side(fast).needs_cooling {
            return;
        }
        if self.config.cooling_ends_at_newest {
            self.cool_all(fast);
        } else {
            self.cool_some(fast);
        }
    }

    /// As published.
    fn cool_some(&mut self, fast: bool) {
        let side = self.side(fast);
        if side.ends_at == NIL {
            side.ends_at = side.hot.front();
        }
        for _ in 0..self.config.cooling_pages {
            let in_place = self.config.cool_in_place;
            let side = if fast { &mut self.fast } else { &mut self.slow };
            let page = match side.looked_at {
                looked_at if in_place && looked_at != NIL => self.links.next(looked_at),
                _ => side.hot.front(),
            };
            if page == NIL {
                break;
            }
            if page == side.ends_at {
                side.ends_at = NIL;
                side.needs_cooling = false;
            }
            let hot = self.counts.hot_when_halved(page);
            if in_place {
                side.looked_at = if hot { page } else { self.links.previous(page) };
            }
            if !hot || !in_place {
                self.unlist(page);
                self.counts.set(page, HOT, hot);
                self.enlist(page, fast);
            }
        }
    }

    /// All that was hot when a halving called for it, tick by tick.
    fn cool_all(&mut self, fast: bool) {
        self.side(fast).hot.start_walk();
        for _ in 0..self.config.cooling_pages {
            let page = self.side(fast).hot.walk_next();
            if page == NIL {
                break; // nothing is hot yet, so what becomes hot next is what is walked next
            }
            let hot = self.counts.hot_when_halved(page);
            if hot && self.config.cool_in_place {
                let side = if fast { &mut self.fast } else { &mut self.slow };
                side.hot.walk_past(&self.links);
            } else {
                self.unlist(page);
                self.counts.set(page, HOT, hot);
                self.enlist(page, fast);
            }
            if self.side(fast).hot.walk_next() == NIL {
                self.side(fast).needs_cooling = false;
                break;
            }
        }
    }
}

/// The port of Colloid to HeMem takes a page's share of all counts for its access probability.
impl Heat for Hemem {
    fn probability(&self, page: Page) -> f64 {
        let total = self.counts.total();
        if total > 0.0 {
            (f64::from(self.counts.count(page)) / total).min(1.0)
        } else {
            0.0
        }
    }

    fn for_each(&self, tier: Tier, pages: &dyn PageMap, visit: &mut dyn FnMut(Page, f64) -> bool) {
        for page in (0..self.counts.pages()).filter(|page| self.counts.count(*page) > 0) {
            if pages.tier_of(page) == tier && !visit(page, self.probability(page)) {
                return;
            }
        }
    }

    fn ceiling(&self) -> Option<f64> {
        let total = self.counts.total();
        (total > 0.0 && !self.config.sample_based_cooling).then(|| f64::from(self.config.cooling_threshold) / total)
    }

    fn manages(&self, page: Page) -> bool {
        !self.counts.has(page, UNMANAGED)
    }
}

impl Policy for Hemem {
    crate::saves_itself!();

    fn hand_over(&mut self, taken: Takeover) -> bool {
        self.only_counts = taken == Takeover::Placement;
        if self.only_counts {
            self.counts.keep_total();
            self.rings.capacity = 0; // there is no policy thread left to serve them
        }
        self.only_counts
    }

    fn idle_knobs(&self) -> &'static [&'static str] {
        &[
            "read_hot_threshold",
            "write_hot_threshold",
            "cooling_pages",
            "migration_period_ms",
            "max_migration_rate_gib",
            "hot_ring_reqs_threshold",
            "cold_ring_reqs_threshold",
            "rate_mode",
            "cool_when_full",
            "cooling_ends_at_newest",
            "cool_in_place",
            "ring_capacity",
        ]
    }

    fn heat(&self) -> Option<&dyn Heat> {
        Some(self)
    }

    fn samplers(&self) -> Vec<SamplerRequest> {
        let mut samplers = vec![SamplerRequest {
            event: Event::LoadMiss,
            period: self.config.sampling_period,
        }];
        if self.config.use_store_samples {
            samplers.push(SamplerRequest {
                event: Event::Store,
                period: self.config.write_sampling_period,
            });
        }
        samplers
    }

    fn mechanics(&self) -> MigrationMechanics {
        let copy_gbps = if self.config.use_dma {
            DMA_CHANNEL_GBPS * f64::from(self.config.dma_channels)
        } else {
            COPY_THREAD_GBPS * f64::from(self.config.copy_threads)
        };
        MigrationMechanics {
            lanes: 1,
            fixed_ns: fixed_ns(self.topology.page_bytes),
            alone_fixed_ns: fixed_ns(self.topology.page_bytes),
            run_fixed_ns: fixed_ns(PAGE_2M),
            remap_ns: REMAP_NS,
            copy_gbps,
            mode: CopyMode::WriteProtected,
            shootdowns: shootdowns(self.topology.page_bytes),
        }
    }

    fn overheads(&self) -> Overheads {
        // The sampling thread polls all the time. The policy thread does so only when it spins;
        // else it is charged for walking its share of both hot lists each period, an upper estimate.
        let walk = |pages: u32| f64::from(self.config.cooling_pages.min(pages)) * LIST_ENTRY_NS;
        let fast_pages = self
            .topology
            .capacity_pages
            .first()
            .map_or(0, |pages| self.topology.pages.min(*pages));
        let round_ns = walk(fast_pages) + walk(self.topology.pages);
        let spins = self.config.migration_period_ms == 0.0;
        let policy_share = if self.only_counts {
            0.0
        } else if spins {
            1.0
        } else {
            (round_ns / self.period_ns as f64).min(1.0)
        };
        Overheads {
            busy_cores: 1.0 + policy_share,
            record_ns: RECORD_NS,
        }
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.admit(cx.pages);
        let range = extent.start..extent.start + extent.pages;
        if u64::from(extent.whole_pages) * self.topology.page_bytes < self.config.mmap_filter_size_bytes {
            self.make_room(extent.pages, cx);
            self.unmanaged_pages += extent.pages;
            range.for_each(|page| self.counts.set(page, UNMANAGED, true));
        } else {
            self.arrived.push(range);
        }
        Placement::FastestFree
    }

    fn on_free(&mut self, extent: &Extent, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        let gone = extent.start..extent.start + extent.pages;
        self.cold_since_alloc.retain(|range| !gone.contains(&range.start));
        self.rings.hot.retain(|page| !gone.contains(page));
        self.rings.cold.retain(|page| !gone.contains(page));
        for page in gone {
            self.unmanaged_pages -= u32::from(self.counts.has(page, UNMANAGED));
            self.unlist(page);
            self.counts.forget(page); // but for a move under way, whose end is yet to be heard of
        }
    }

    fn on_samples(&mut self, samples: &[Sample], cx: &mut Context<'_>) {
        self.admit(cx.pages);
        if !self.config.sample_based_cooling {
            return self.observe(samples);
        }
        let mut rest = samples;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(self.until_cooling));
            self.observe(now);
            self.until_cooling -= now.len();
            if self.until_cooling == 0 {
                self.until_cooling = self.config.sample_cooling_interval as usize;
                self.counts.halve();
                self.need_cooling();
            }
            rest = later;
        }
    }

    fn on_migrations(&mut self, ended: &[Migrated], _idle: bool, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        for migrated in ended {
            let page = migrated.request.page;
            if !self.counts.has(page, MIGRATING) {
                continue;
            }
            self.failed_moves += u64::from(migrated.outcome == Outcome::NoSpace);
            self.counts.set(page, MIGRATING, false);
            if migrated.outcome != Outcome::Gone && !self.only_counts {
                self.enlist(page, cx.pages.tier_of(page) == 0);
            }
            if migrated.request.how == How::Reclaim {
                continue;
            }
            self.in_flight -= 1;
            if self.in_flight == 0 {
                cx.wake_at(cx.now.max(self.tick_start + self.period_ns));
            }
        }
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        if self.only_counts {
            return; // what the policy thread does, another policy does
        }
        self.admit(cx.pages);
        if self.in_flight > 0 {
            return; // the thread is still copying; the last arrival sets the next wake-up
        }
        self.tick_start = cx.now;
        self.serve_ring(true, self.config.hot_ring_reqs_threshold, cx.pages);
        self.serve_ring(false, self.config.cold_ring_reqs_threshold, cx.pages);
        if let Some(limit) = &mut self.rate_limit {
            limit.fill(cx.now);
        }
        let completed = self.promote(cx);
        self.starved_ticks += u64::from(!completed);
        if completed || self.config.cool_when_full {
            self.cool(true);
            self.cool(false);
        }
        if self.in_flight == 0 {
            cx.wake_at(cx.now + self.period_ns);
        }
    }

    fn gauges(&self) -> Vec<Gauge> {
        let (pages, rings) = (f64::from, |ring: &VecDeque<Page>| ring.len() as f64);
        [
            ("hot_fast_pages", "hot pages in fast memory", pages(self.fast.hot.len())),
            ("hot_slow_pages", "hot pages in slow memory", pages(self.slow.hot.len())),
            (
                "unmanaged_pages",
                "pages of extents below the size filter",
                pages(self.unmanaged_pages),
            ),
            (
                "hot_requests",
                "requests waiting in the hot ring",
                rings(&self.rings.hot),
            ),
            (
                "cold_requests",
                "requests waiting in the cold ring",
                rings(&self.rings.cold),
            ),
            (
                "requests_lost",
                "requests that found their ring full",
                self.rings.lost as f64,
            ),
            ("coolings", "halvings of all counts", f64::from(self.counts.halvings())),
            (
                "starved_ticks",
                "ticks that found no cold page to demote, or no room below for it",
                self.starved_ticks as f64,
            ),
            ("failed_moves", "moves that found no space", self.failed_moves as f64),
        ]
        .into_iter()
        .filter(|(name, ..)| !self.only_counts || ["unmanaged_pages", "coolings"].contains(name))
        .map(|(name, meaning, value)| Gauge { name, meaning, value })
        .collect()
    }
}

/// The registry entry.
pub const SYSTEM: System = System {
    name: "hemem",
    summary: "sampled loads and stores, lazily halved counts, hot and cold FIFO lists, one background mover",
    source: "HeMem, SOSP'21; as described in DIMES'25 and published with Colloid (SOSP'24)",
    signal: "hardware samples of LLC load misses and stores",
    page_bytes: &[PAGE_2M, PAGE_4K],
    knobs: HememConfig::knobs,
    build,
};

fn build(config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    Ok(Box::new(Hemem::new(HememConfig::from_config(config)?, topology)))
}
