//! `mru`: the most recently used pages belong in fast memory, the least recently used make room.
//!
//! DIMES'25 (figure 8) compares tuned systems with a "simple, untuned, recency-based" one and gives
//! no algorithm; this is ours. A sample stamps its page with the time. Every period the slow pages
//! seen within `window_ms` go up, newest first, at most `batch_pages` of them, each for the fast page
//! that was seen longest ago, provided that this one was seen earlier by more than `hysteresis_ms`.
//! There are no counts: a page seen once just now beats one seen a thousand times before.
//!
//! A public HeMem fork carries a simpler variant, `variant` fifo here: what goes down is the page
//! that came to fast memory first, seen or not, and with `background_evict` one goes down each tick
//! whether or not its room is needed.
//!
//! What had to be decided:
//!
//! - a page that nobody has seen counts as seen when it was allocated;
//! - a page that arrives joins the end of its list, as if it were the newest there, but keeps its
//!   stamp; so does one that could not be moved;
//! - with more than two tiers, tier 0 is "fast" and all others together are "slow"; a demoted page
//!   goes to the fastest slow tier with room;
//! - with `alloc_evict` an allocation that does not fit fast memory first evicts pages that were seen
//!   earlier (fifo: came earlier). The allocating thread waits for
//!   those copies, as in direct reclaim. An allocation never evicts its own pages: what is larger than fast
//!   memory begins there and goes on below.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::ops::Range;

use crate::knob::{Config, KnobError};
use crate::mover::{self, Mover, Room};
use crate::page_list::{Links, NIL, PageList};
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::{
    Context, Event, Extent, Gauge, Migrated, MigrationMechanics, Nanos, Outcome, Overheads, Page, PageMap, Placement,
    Policy, Sample, SamplerRequest, Tier, Topology, prefetch,
};

crate::knobs! {
    /// Knobs of `mru`.
    pub struct MruConfig for "mru" {
        /// LLC load misses per hardware sample
        sampling_period: u64 = 5003, int(100, 50_000, log), unit "events/sample", special [], tuned, restart,
            source "as hemem's, to compare at equal cost";
        /// Time between two rounds of promotions
        period_ms: f64 = 10.0, float(1.0, 1000.0, log), unit "ms", special [], tuned, live,
            source "as hemem's migration_period_ms; range ours";
        /// Most pages promoted per round
        batch_pages: u32 = 64, int(1, 4096, log), unit "pages", special [], tuned, live, source "ours";
        /// A page that was not seen for this long is not promoted any more
        window_ms: f64 = 500.0, float(1.0, 60_000.0, log), unit "ms", special [], tuned, live, source "ours";
        /// How much longer ago than the promoted page its victim must have been seen
        hysteresis_ms: f64 = 0.0, float(0.0, 1000.0), unit "ms", special [], tuned, live,
            when "variant" = "recency", source "ours";
        /// Which page makes room: the one seen longest ago, or the one in fast memory for longest
        variant: String = "recency".to_string(), choice("recency", "fifo"), unit "", special [], fixed, rebuild,
            source "ours; fifo as in a public HeMem fork";
        /// Whether a page goes down each round even if nothing needs its room
        background_evict: bool = false, bool, unit "", special [], fixed, rebuild,
            when "variant" = "fifo", source "a public HeMem fork";
        /// Whether an allocation first evicts pages from full fast memory, so that new pages are always fast
        alloc_evict: bool = true, bool, unit "", special [], fixed, rebuild,
            source "ours, and a public HeMem fork; what makes recency good at reading what was just inserted";
    }
}

// What is known about a page is one u64 (and two links of 4 bytes): flags, and above them the time
// in nanoseconds when it was last seen. All zero is a page that never was, is in no list and rests.
/// The page is in a list; `FAST` says in which.
const LISTED: u64 = 1;
const FAST: u64 = 2;
/// The page was asked to move and has not arrived.
const MIGRATING: u64 = 4;
const FLAG_BITS: u32 = 3;

/// Samples whose page states are fetched together before any is worked on; see `hemem`'s counts.
const BLOCK: usize = 64;

#[derive(Serialize, Deserialize)]
struct Mru {
    config: MruConfig,
    topology: Topology,
    fifo: bool,
    window_ns: Nanos,
    hysteresis_ns: Nanos,
    states: Vec<u64>,
    links: Links,
    /// Pages of fast memory, the next victim in front.
    fast: PageList,
    /// Pages of slow memory that were seen, the newest at the back.
    seen_slow: PageList,
    /// Pages that are in front of all of `fast` but not listed there: those of these ranges that
    /// were in fast memory from the start and that nothing has happened to. Listing them one by
    /// one would take longer than all the rest of a short trial.
    since_start: VecDeque<Range<Page>>,
    /// Extents whose pages the driver has placed since the last call, and when.
    arrived: Vec<(Range<Page>, Nanos)>,
    mover: Mover,
}

fn nanos(ms: f64) -> Nanos {
    (ms * 1e6).round() as Nanos
}

impl Mru {
    fn new(config: MruConfig, topology: &Topology) -> Self {
        Self {
            fifo: config.variant == "fifo",
            window_ns: nanos(config.window_ms),
            hysteresis_ns: nanos(config.hysteresis_ms),
            states: vec![0; topology.pages as usize],
            links: Links::new(topology.pages),
            fast: PageList::default(),
            seen_slow: PageList::default(),
            since_start: VecDeque::new(),
            arrived: Vec::new(),
            mover: Mover::new(config.period_ms),
            topology: topology.clone(),
            config,
        }
    }

    fn has(&self, page: Page, flag: u64) -> bool {
        self.states[page as usize] & flag != 0
    }

    fn seen_at(&self, page: Page) -> Nanos {
        self.states[page as usize] >> FLAG_BITS
    }

    /// Puts a page that is in no list at the back of one.
    fn enlist(&mut self, page: Page, fast: bool) {
        let state = &mut self.states[page as usize];
        *state = (*state & !FAST) | LISTED | if fast { FAST } else { 0 };
        let list = if fast { &mut self.fast } else { &mut self.seen_slow };
        list.push_back(&mut self.links, page);
    }

    /// Takes a page out of the list that it is in, if any.
    fn unlist(&mut self, page: Page) {
        if self.has(page, LISTED) {
            self.states[page as usize] &= !LISTED;
            let fast = self.has(page, FAST);
            let list = if fast { &mut self.fast } else { &mut self.seen_slow };
            list.remove(&mut self.links, page);
        }
    }

    /// New pages of fast memory join the end of its list, seen at the time of their allocation.
    fn admit(&mut self, pages: &dyn PageMap) {
        for (range, at) in std::mem::take(&mut self.arrived) {
            if at == 0 && self.fast.is_empty() {
                self.since_start.push_back(range);
                continue;
            }
            for page in range.filter(|page| pages.tier_of(*page) == 0) {
                self.states[page as usize] = at << FLAG_BITS;
                self.enlist(page, true);
            }
        }
    }

    /// Stamps the pages of a batch of samples: the hottest loop of a trial.
    fn observe(&mut self, samples: &[Sample], now: Nanos, pages: &dyn PageMap) {
        for block in samples.chunks(BLOCK) {
            // Asking for a block of states and links before working on any lets the misses overlap.
            for sample in block {
                prefetch(&self.states, sample.page as usize);
            }
            std::hint::black_box(block.iter().fold(0, |sum, sample| sum ^ self.links.fetch(sample.page)));
            for Sample { page, .. } in block {
                self.see(*page, now, pages);
            }
        }
    }

    fn see(&mut self, page: Page, now: Nanos, pages: &dyn PageMap) {
        let state = self.states[page as usize];
        // All samples of a batch have one time: the second of a page has nothing to add.
        if state >> FLAG_BITS == now && state & (LISTED | MIGRATING) != 0 {
            return;
        }
        self.states[page as usize] = (state & ((1 << FLAG_BITS) - 1)) | (now << FLAG_BITS);
        if state & MIGRATING != 0 {
            return;
        }
        let fast = if state & LISTED != 0 {
            state & FAST != 0
        } else {
            // Not the sample's tier: the page may have moved since.
            pages.tier_of(page) == 0
        };
        if !(fast && self.fifo) {
            self.unlist(page);
            self.enlist(page, fast);
        }
    }

    /// The page of fast memory that is to go next, or [`NIL`].
    fn victim(&mut self, pages: &dyn PageMap) -> Page {
        while let Some(range) = self.since_start.front_mut() {
            let states = &self.states;
            let resting = |page: &Page| states[*page as usize] & (LISTED | MIGRATING) == 0;
            match range.find(|page| resting(page) && pages.tier_of(*page) == 0) {
                Some(page) => {
                    range.start = page; // it stays in front until something is done with it
                    return page;
                }
                None => self.since_start.pop_front(),
            };
        }
        self.fast.front()
    }

    /// The page of slow memory that was seen last, or [`NIL`] when none was within the window.
    fn candidate(&mut self, now: Nanos) -> Page {
        loop {
            let page = self.seen_slow.back();
            // A page that returned to the back after a failed move may be older than those in front
            // of it. What is too old leaves the list, which each page pays for by having been seen.
            if page == NIL || now - self.seen_at(page) <= self.window_ns {
                return page;
            }
            self.unlist(page);
        }
    }

    fn ask(&mut self, page: Page, to: Tier, cx: &mut Context<'_>) {
        self.unlist(page);
        self.states[page as usize] |= MIGRATING;
        self.mover.ask(page, to, cx);
    }

    /// Evicts what was seen before now, page by page, as far as `pages` new ones need the room.
    fn evict_for(&mut self, pages: u32, cx: &mut Context<'_>) {
        let mut room = Room::now(cx.pages, self.topology.capacity_pages.len());
        let short = pages.saturating_sub(cx.pages.free_pages(0));
        for _ in 0..short {
            let (victim, below) = (self.victim(cx.pages), room.below());
            let (false, Some(below)) = (victim == NIL, below) else {
                break;
            };
            let older = if self.fifo {
                cx.now > 0
            } else {
                self.seen_at(victim) + self.hysteresis_ns < cx.now
            };
            if !older {
                break;
            }
            room.moved(0, below);
            self.unlist(victim);
            self.states[victim as usize] |= MIGRATING;
            cx.reclaim(victim, below);
        }
    }

    fn promote(&mut self, cx: &mut Context<'_>) {
        let mut room = Room::now(cx.pages, self.topology.capacity_pages.len());
        if self.config.background_evict && self.fifo {
            let victim = self.victim(cx.pages);
            if let (true, Some(below)) = (victim != NIL, room.below()) {
                room.moved(0, below);
                self.ask(victim, below, cx);
            }
        }
        for _ in 0..self.config.batch_pages {
            let page = self.candidate(cx.now);
            if page == NIL {
                break;
            }
            if !room.is_in_fast() {
                let victim = self.victim(cx.pages);
                let Some(below) = room.below() else { break };
                if victim == NIL {
                    break;
                }
                // Candidates come newest first and victims oldest first: none after these is further apart.
                if !self.fifo && self.seen_at(victim) + self.hysteresis_ns >= self.seen_at(page) {
                    break;
                }
                room.moved(0, below);
                self.ask(victim, below, cx);
            }
            room.moved(cx.pages.tier_of(page), 0);
            self.ask(page, 0, cx);
        }
    }
}

impl Policy for Mru {
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
        // A page and a victim each, an upper estimate.
        self.mover.overheads(2.0 * f64::from(self.config.batch_pages))
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.admit(cx.pages);
        if self.config.alloc_evict {
            self.evict_for(extent.pages, cx);
        }
        self.arrived.push((extent.start..extent.start + extent.pages, cx.now));
        Placement::FastestFree
    }

    fn on_free(&mut self, extent: &Extent, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        let gone = extent.start..extent.start + extent.pages;
        self.since_start.retain(|range| !gone.contains(&range.start));
        for page in gone {
            self.unlist(page);
            self.states[page as usize] &= MIGRATING; // the end of a move under way is yet to be heard of
        }
    }

    fn on_samples(&mut self, samples: &[Sample], cx: &mut Context<'_>) {
        self.admit(cx.pages);
        self.observe(samples, cx.now, cx.pages);
    }

    fn on_migrations(&mut self, ended: &[Migrated], _: bool, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        for migrated in ended {
            let page = migrated.request.page;
            self.states[page as usize] &= !MIGRATING;
            if migrated.outcome == Outcome::Gone {
                continue;
            }
            let (fast, wanted_up) = (cx.pages.tier_of(page) == 0, migrated.request.to == 0);
            // A page that went down waits to be seen again; one that could not go up waits for another try.
            if fast || wanted_up {
                self.enlist(page, fast);
            }
        }
        self.mover.arrived(ended, cx);
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        if self.mover.begin(cx.now) {
            self.promote(cx);
            self.mover.decided(cx);
        }
    }

    fn gauges(&self) -> Vec<Gauge> {
        vec![
            Gauge {
                name: "seen_slow_pages",
                meaning: "pages of slow memory that were seen and wait to be promoted",
                value: f64::from(self.seen_slow.len()),
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
    name: "mru",
    summary: "the most recently sampled pages go up, the least recently sampled make room",
    source: "recency baseline after DIMES'25 figure 8, which gives no algorithm; fifo as in a public HeMem fork",
    signal: "hardware samples of LLC load misses",
    page_bytes: &[PAGE_2M, PAGE_4K],
    knobs: MruConfig::knobs,
    build,
};

fn build(config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    Ok(Box::new(Mru::new(MruConfig::from_config(config)?, topology)))
}
