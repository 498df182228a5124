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
//!   would cool them (`cool_when_full` mends that).
//!
//! What had to be decided here, because the original has no such case:
//!
//! - with more than two tiers, tier 0 is "fast" and all others together are "slow"; a demoted page
//!   goes to the fastest slow tier with room, a promoted one always to tier 0;
//! - all decisions of a tick are taken at its start, the copies follow; the next tick starts when
//!   the period is over and all copies have ended, as in a thread that copies and then sleeps;
//! - a page that could not be moved returns to the back of the list it came from;
//! - counts are one byte and stop at 255. With cooling by threshold they never pass
//!   `cooling_threshold` + 2, so only `sample_based_cooling` can see the stop.

use std::collections::VecDeque;

use crate::knob::{Config, KnobError};
use crate::page_list::{Linked, Links, NIL, PageList};
use crate::policy::{
    Context, CopyMode, Event, Extent, Gauge, Migrated, MigrationMechanics, Nanos, Overheads, Page, PageMap, Placement,
    Policy, Sample, SamplerRequest, Topology,
};
use crate::registry::{PAGE_2M, PAGE_4K, System};

crate::knobs! {
    /// Knobs of `hemem`: ten that campaigns tune, then switches and structural constants.
    pub struct HememConfig for "hemem" {
        /// LLC load misses per hardware sample
        sampling_period: u64 = 5003, int(100, 50_000, log), unit "events/sample", special [], tuned, restart,
            source "HeMem as published with Colloid (pebs.h SAMPLE_PERIOD); 10007 and 19997 in other branches; range ours";
        /// Retired stores per hardware sample
        write_sampling_period: u64 = 10_007, int(1000, 100_000, log), unit "events/sample", special [], tuned, restart,
            when "use_store_samples" = true, source "a public HeMem fork (pebs.h WRITE_SAMPLE_PERIOD); range ours";
        /// Load samples that make a page hot
        read_hot_threshold: u32 = 8, int(1, 64, log), unit "samples", special [], tuned, restart,
            source "DIMES'25 section 1; pebs.h HOT_READ_THRESHOLD (4 in one branch); range ours";
        /// Store samples that make a page hot
        write_hot_threshold: u32 = 4, int(1, 64, log), unit "samples", special [], tuned, restart,
            when "use_store_samples" = true, source "pebs.h HOT_WRITE_THRESHOLD; range ours";
        /// A count of one kind above this halves the counts of all pages
        cooling_threshold: u8 = 18, int(2, 128, log), unit "samples", special [], tuned, restart,
            source "DIMES'25 section 1; pebs.h PEBS_COOLING_THRESHOLD (10 in other branches); range ours";
        /// Entries of each hot list looked at for cooled pages per tick
        cooling_pages: u32 = 8192, int(64, 65_536, log), unit "pages", special [], tuned, restart,
            source "DIMES'25 section 2.1; pebs.h COOLING_PAGES; range ours";
        /// Time between two rounds of the policy thread
        migration_period_ms: f64 = 10.0, float(1.0, 5000.0, log), unit "ms",
            special [(0, "spin: the next round follows at once, at the earliest after 1 ms")], tuned, restart,
            source "DIMES'25 section 2.1, Colloid section 4.1; PEBS_KSWAPD_INTERVAL; two branches spin; range ours";
        /// Cap on promoted bytes: GiB per second, or GiB per tick when rate_mode says so
        max_migration_rate_gib: f64 = 10.0, float(0.1, 32.0, log), unit "GiB/s or GiB/tick", special [], tuned, restart,
            source "pebs.h PEBS_KSWAPD_MIGRATE_RATE; range ours";
        /// Hot requests served per tick
        hot_ring_reqs_threshold: u32 = 1_048_576, int(128, 1_048_576, log), unit "requests", special [], tuned, restart,
            source "pebs.h HOT_RING_REQS_THRESHOLD; range ours";
        /// Cold requests served per tick
        cold_ring_reqs_threshold: u32 = 128, int(16, 65_536, log), unit "requests", special [], tuned, restart,
            source "pebs.h COLD_RING_REQS_THRESHOLD; range ours";
        /// Whether stores are sampled (DIMES'25) or not (most published branches)
        use_store_samples: bool = true, bool, unit "", special [], fixed, rebuild,
            source "DIMES'25 section 2.1 against the branches, where the store stream is compiled out";
        /// What max_migration_rate_gib limits: bytes per second (its comment) or bytes per tick (its code)
        rate_mode: String = "per_second".to_string(), choice("per_second", "per_tick"), unit "", special [], fixed, rebuild,
            source "the constant's comment against the loop that uses it";
        /// Whether the hot lists are still cooled in a tick that found fast memory full of hot pages
        cool_when_full: bool = false, bool, unit "", special [], fixed, rebuild,
            source "ours; the published code jumps past the cooling";
        /// Whether cooling leaves still-hot entries in place behind a cursor or requeues them at the back
        cool_in_place: bool = true, bool, unit "", special [], fixed, rebuild, source "COOL_IN_PLACE";
        /// Whether counts are halved every sample_cooling_interval samples instead of by cooling_threshold
        sample_based_cooling: bool = false, bool, unit "", special [], fixed, rebuild, source "SAMPLE_BASED_COOLING";
        /// Samples between two halvings
        sample_cooling_interval: u32 = 10_000, int(1, 1_000_000_000, log), unit "samples", special [], fixed, rebuild,
            when "sample_based_cooling" = true, source "SAMPLE_BASED_COOLING; 1000 in the Colloid branch";
        /// Smaller allocations are not managed: they take fast memory while there is room and stay
        mmap_filter_size_bytes: u64 = 1 << 30, int(0, 1 << 40), unit "bytes", special [], fixed, rebuild,
            source "hemem.h; the Memtis authors used 128 MiB for one workload";
        /// Entries of each request ring; a request that finds it full is lost
        ring_capacity: u64 = 128 << 20, int(1, 1 << 32, log), unit "requests", special [], fixed, rebuild,
            source "pebs.h CAPACITY";
        /// Whether the I/OAT engine copies pages (default) or CPU threads do
        use_dma: bool = true, bool, unit "", special [], fixed, rebuild, source "HeMem's default build";
        /// DMA channels used per copy, 4.5 GB/s each in our judgement (I/OAT: 8 to 10 GB/s over two)
        dma_channels: u32 = 2, int(1, 16), unit "channels", special [], fixed, rebuild,
            when "use_dma" = true, source "hemem.c; speed ours";
        /// Threads that copy a page together, 2.5 GB/s each in our judgement
        copy_threads: u32 = 4, int(1, 64), unit "threads", special [], fixed, rebuild,
            when "use_dma" = false, source "hemem.c MAX_COPY_THREADS; speed ours";
        /// Size of one DMA request; recorded only, inert: its cost per request is below 1 % of a copy
        dma_request_bytes: u64 = 1 << 20, int(4096, 1 << 30, log), unit "bytes", special [], fixed, rebuild,
            when "use_dma" = true, source "hemem.c";
        /// Buffer pages per core and event; recorded only, inert: the driver owns sampling buffers
        perf_pages: u32 = 65_537, int(2, 1 << 24), unit "pages", special [], fixed, rebuild,
            source "pebs.h PERF_PAGES, 1 + 2^16; 1 + 2^14 and 1 + 2^8 in other branches";
        /// Weight of new values in the reported miss ratio; recorded only, inert: it feeds statistics
        miss_ratio_weight: f64 = 0.5, float(0.0, 1.0), unit "", special [], fixed, rebuild, source "pebs.c, statistics only";
    }
}

/// A round of a spinning policy thread: serving the rings and walking twice 8192 list entries takes
/// about this long, and no decision can change faster than samples arrive.
const SPIN_ROUND_NS: Nanos = 1_000_000;
/// Time to look at one list entry (kernel LRU scans take 100 to 300 ns a page).
const LIST_ENTRY_NS: f64 = 100.0;
/// Protection, remapping and TLB shootdown around the copy of a 2 MiB page, as a HeMem fork measured.
const FIXED_2M_NS: f64 = 500_000.0;
/// The same for a 4 KiB page: 12 us end to end (Soar/Alto section 5.1) less about 0.5 us of copying.
const FIXED_4K_NS: f64 = 11_500.0;
const DMA_CHANNEL_GBPS: f64 = 4.5;
const COPY_THREAD_GBPS: f64 = 2.5;
/// Samples whose entries are fetched together before any is worked on.
const BLOCK: usize = 32;

const LOAD_FAST: usize = 0;
const LOAD_SLOW: usize = 1;
const STORE: usize = 2;

const MANAGED: u8 = 1;
const HOT: u8 = 2;
/// A request about the page waits in one of the rings.
const QUEUED: u8 = 4;
/// The page is in a list of fast memory rather than of slow memory.
const FAST: u8 = 8;
/// The page is in no list: it was asked to move and has not arrived.
const MIGRATING: u8 = 16;

/// All that is known about a page: 16 bytes, so that a sample touches one cache line.
#[derive(Clone, Copy, Default)]
struct Entry {
    counts: [u8; 3],
    flags: u8,
    /// The number of halvings that `counts` have seen.
    clock: u32,
    links: Links,
}

const _: () = assert!(size_of::<Entry>() == 16);

impl Entry {
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

impl Linked for Entry {
    fn links(&self) -> &Links {
        &self.links
    }
    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// The lists of fast or of slow memory, and how far the walk for cooled pages has come.
#[derive(Default)]
struct Side {
    hot: PageList,
    cold: PageList,
    cooling: Option<Walk>,
    needs_cooling: bool,
}

/// A walk over a hot list: from `next` on to `last`, which was the back of the list at its start.
#[derive(Clone, Copy)]
struct Walk {
    next: Page,
    last: Page,
}

impl Side {
    fn list(&mut self, hot: bool) -> &mut PageList {
        if hot { &mut self.hot } else { &mut self.cold }
    }

    /// Takes `page` out of the hot list, keeping a walk that stands on it valid.
    fn remove_hot(&mut self, entries: &mut [Entry], page: Page) {
        if let Some(walk) = &mut self.cooling {
            let links = entries[page as usize].links;
            if walk.next == page && walk.last == page {
                self.finish_cooling();
            } else if walk.next == page {
                walk.next = links.next;
            } else if walk.last == page {
                walk.last = links.previous;
            }
        }
        self.hot.remove(entries, page);
    }

    fn finish_cooling(&mut self) {
        self.cooling = None;
        self.needs_cooling = false;
    }
}

struct Hemem {
    config: HememConfig,
    topology: Topology,
    period_ns: Nanos,
    entries: Vec<Entry>,
    fast: Side,
    slow: Side,
    hot_ring: VecDeque<Page>,
    cold_ring: VecDeque<Page>,
    /// Number of halvings so far.
    clock: u32,
    /// Samples until the next halving, with `sample_based_cooling`.
    until_cooling: u64,
    /// Extents whose pages the driver has placed since the last call.
    arrived: Vec<Extent>,
    tick_start: Option<Nanos>,
    in_flight: u32,
    /// What may still be promoted, in bytes times nanoseconds per second: exact for any rate.
    allowance: u128,
    requests_lost: u64,
    starved_ticks: u64,
    failed: u64,
    unmanaged_pages: u64,
}

const NANOS_PER_SECOND: u128 = 1_000_000_000;

impl Hemem {
    fn new(config: HememConfig, topology: &Topology) -> Self {
        let period_ns = (config.migration_period_ms * 1e6).round() as Nanos;
        Self {
            period_ns: if period_ns == 0 { SPIN_ROUND_NS } else { period_ns },
            until_cooling: u64::from(config.sample_cooling_interval),
            entries: vec![Entry::default(); topology.pages as usize],
            topology: topology.clone(),
            config,
            fast: Side::default(),
            slow: Side::default(),
            hot_ring: VecDeque::new(),
            cold_ring: VecDeque::new(),
            clock: 0,
            arrived: Vec::new(),
            tick_start: None,
            in_flight: 0,
            allowance: 0,
            requests_lost: 0,
            starved_ticks: 0,
            failed: 0,
            unmanaged_pages: 0,
        }
    }

    /// New pages start in the cold list of wherever the driver put them.
    fn admit(&mut self, pages: &dyn PageMap) {
        for extent in std::mem::take(&mut self.arrived) {
            for page in extent.start..extent.start + extent.pages {
                self.entries[page as usize].flags = MANAGED;
                self.enlist(page, pages.tier_of(page) == 0);
            }
        }
    }

    /// Puts a page that is in no list at the back of the list it belongs to.
    fn enlist(&mut self, page: Page, fast: bool) {
        let entry = &mut self.entries[page as usize];
        entry.flags = entry.flags & !(FAST | MIGRATING) | if fast { FAST } else { 0 };
        let hot = entry.has(HOT);
        let side = if fast { &mut self.fast } else { &mut self.slow };
        side.list(hot).push_back(&mut self.entries, page);
    }

    /// The sampling thread's work for one batch.
    fn count(&mut self, samples: &[Sample]) {
        let cooling_threshold = if self.config.sample_based_cooling { u8::MAX } else { self.config.cooling_threshold };
        let (read_hot, write_hot) = (self.config.read_hot_threshold, self.config.write_hot_threshold);
        let capacity = self.config.ring_capacity as usize;
        let start_clock = self.clock;
        let mut clock = start_clock;
        for block in samples.chunks(BLOCK) {
            // Entries are far apart, so each is a cache miss; asking for a block of them first lets
            // the misses overlap.
            let touched: u8 = block.iter().fold(0, |sum, s| sum ^ self.entries[s.page as usize].flags);
            std::hint::black_box(touched);
            for sample in block {
                let kind = match sample.event {
                    Event::Store => STORE,
                    Event::LoadMiss if sample.tier == 0 => LOAD_FAST,
                    Event::LoadMiss => LOAD_SLOW,
                };
                let page = sample.page;
                let entry = &mut self.entries[page as usize];
                if !entry.has(MANAGED) || (kind == STORE && !self.config.use_store_samples) {
                    continue;
                }
                entry.counts[kind] = entry.counts[kind].saturating_add(1);
                // Hot or not is judged before pending halvings are applied, as in the original.
                let hot = is_hot(entry.counts, read_hot, write_hot);
                if hot != entry.has(HOT) && !entry.has(QUEUED) {
                    let ring = if hot { &mut self.hot_ring } else { &mut self.cold_ring };
                    if ring.len() < capacity {
                        ring.push_back(page);
                        entry.flags |= QUEUED;
                    } else {
                        self.requests_lost += 1;
                    }
                }
                entry.counts = halved(entry.counts, clock - entry.clock);
                entry.clock = clock;
                clock += u32::from(entry.counts[kind] > cooling_threshold);
            }
        }
        if clock != start_clock {
            self.cool_from(clock);
        }
    }

    fn cool_from(&mut self, clock: u32) {
        self.clock = clock;
        self.fast.needs_cooling = true;
        self.slow.needs_cooling = true;
    }

    /// Serves at most `limit` requests of a ring.
    fn serve_ring(&mut self, hot: bool, limit: u32) {
        for _ in 0..limit {
            let ring = if hot { &mut self.hot_ring } else { &mut self.cold_ring };
            let Some(page) = ring.pop_front() else { break };
            let entry = &mut self.entries[page as usize];
            entry.flags &= !QUEUED;
            if entry.has(HOT) == hot {
                continue;
            }
            let fast = entry.has(FAST);
            self.reclassify(page, fast, hot);
        }
    }

    /// Moves a page between the hot and the cold list of its side.
    fn reclassify(&mut self, page: Page, fast: bool, hot: bool) {
        self.entries[page as usize].flags ^= HOT;
        let side = if fast { &mut self.fast } else { &mut self.slow };
        if hot {
            side.cold.remove(&mut self.entries, page);
        } else {
            side.remove_hot(&mut self.entries, page);
        }
        side.list(hot).push_back(&mut self.entries, page);
    }

    /// Promotes hot pages of slow memory; `false` when it stopped because fast memory is all hot.
    fn promote(&mut self, cx: &mut Context<'_>) -> bool {
        let mut free: Vec<u32> =
            (0..self.topology.capacity_pages.len()).map(|t| cx.pages.free_pages(t as u8)).collect();
        let page_cost = u128::from(self.topology.page_bytes) * NANOS_PER_SECOND;
        while self.may_promote(page_cost) {
            let page = self.slow.hot.front();
            if page == NIL {
                return true;
            }
            let counts = self.entries[page as usize].counts;
            if !is_hot(counts, self.config.read_hot_threshold, self.config.write_hot_threshold) {
                self.reclassify(page, false, false);
                continue;
            }
            if free[0] == 0 {
                // Back to the end of its list when nothing can make room, as if taken and returned.
                let victim = self.fast.cold.front();
                let below = (1..free.len()).find(|tier| free[*tier] > 0);
                let (true, Some(below)) = (victim != NIL, below) else {
                    self.slow.remove_hot(&mut self.entries, page);
                    self.slow.hot.push_back(&mut self.entries, page);
                    return false;
                };
                self.fast.cold.remove(&mut self.entries, victim);
                free[0] += 1;
                free[below] -= 1;
                self.ask(victim, below as u8, cx);
            }
            self.slow.remove_hot(&mut self.entries, page);
            free[0] -= 1;
            free[cx.pages.tier_of(page) as usize] += 1;
            self.allowance = self.allowance.saturating_sub(page_cost);
            self.ask(page, 0, cx);
        }
        true
    }

    fn ask(&mut self, page: Page, to: u8, cx: &mut Context<'_>) {
        self.entries[page as usize].flags |= MIGRATING;
        self.in_flight += 1;
        cx.migrate(page, to);
    }

    /// Bytes that one tick may promote at the configured rate, on average, in units of `allowance`.
    fn tick_allowance(&self, elapsed: Nanos) -> u128 {
        let gib_bytes = u128::from((self.config.max_migration_rate_gib * f64::from(1u32 << 30)).round() as u64);
        gib_bytes * if self.per_tick() { NANOS_PER_SECOND } else { u128::from(elapsed) }
    }

    fn per_tick(&self) -> bool {
        self.config.rate_mode == "per_tick"
    }

    /// Per second, only what the rate has earned; per tick, the original loop's test: it starts
    /// another page as long as any of the allowance is left.
    fn may_promote(&self, page_cost: u128) -> bool {
        if self.per_tick() { self.allowance > 0 } else { self.allowance >= page_cost }
    }

    /// Renews the allowance at the start of a tick. Per second it is a token bucket: it fills with
    /// time, and holds one period's worth and a page, so that a tick that copied for long is not
    /// followed by an even longer one, and a rate below one page per period still adds up.
    fn renew_allowance(&mut self, now: Nanos) {
        if self.per_tick() {
            self.allowance = self.tick_allowance(0);
            return;
        }
        let elapsed = self.tick_start.map_or(self.period_ns, |start| now - start);
        let page = u128::from(self.topology.page_bytes) * NANOS_PER_SECOND;
        let bucket = self.tick_allowance(self.period_ns) + page;
        self.allowance = bucket.min(self.allowance + self.tick_allowance(elapsed));
    }

    /// Walks a part of a side's hot list and moves what has cooled to its cold list.
    fn cool(&mut self, fast: bool) {
        let (read_hot, write_hot) = (self.config.read_hot_threshold, self.config.write_hot_threshold);
        let (clock, in_place, limit) = (self.clock, self.config.cool_in_place, self.config.cooling_pages);
        let side = if fast { &mut self.fast } else { &mut self.slow };
        if !side.needs_cooling || side.hot.is_empty() {
            return;
        }
        side.cooling.get_or_insert(Walk { next: side.hot.front(), last: side.hot.back() });
        for _ in 0..limit {
            let Some(walk) = &mut side.cooling else { break };
            let page = walk.next;
            let entry = self.entries[page as usize];
            if !is_hot(halved(entry.counts, clock - entry.clock), read_hot, write_hot) {
                self.entries[page as usize].flags &= !HOT;
                side.remove_hot(&mut self.entries, page);
                side.cold.push_back(&mut self.entries, page);
                continue;
            }
            let ended = page == walk.last;
            walk.next = entry.links.next;
            if !in_place {
                side.hot.remove(&mut self.entries, page);
                side.hot.push_back(&mut self.entries, page);
            }
            if ended {
                side.finish_cooling();
            }
        }
    }
}

/// Whether counts reach either threshold.
#[inline]
fn is_hot(counts: [u8; 3], read_hot: u32, write_hot: u32) -> bool {
    let loads = u32::from(counts[LOAD_FAST]) + u32::from(counts[LOAD_SLOW]);
    (loads >= read_hot) | (u32::from(counts[STORE]) >= write_hot)
}

/// Counts after `times` halvings.
#[inline]
fn halved(counts: [u8; 3], times: u32) -> [u8; 3] {
    let times = times.min(8);
    counts.map(|count| (u32::from(count) >> times) as u8)
}

impl Policy for Hemem {
    fn samplers(&self) -> Vec<SamplerRequest> {
        let mut samplers = vec![SamplerRequest { event: Event::LoadMiss, period: self.config.sampling_period }];
        if self.config.use_store_samples {
            samplers.push(SamplerRequest { event: Event::Store, period: self.config.write_sampling_period });
        }
        samplers
    }

    fn mechanics(&self) -> MigrationMechanics {
        // Between the two measured sizes the fixed part is taken as linear in bytes (TLB and
        // page-table work per 4 KiB); only those two sizes are in use.
        let share = (self.topology.page_bytes as f64 - PAGE_4K as f64) / (PAGE_2M - PAGE_4K) as f64;
        let copy_gbps = if self.config.use_dma {
            DMA_CHANNEL_GBPS * f64::from(self.config.dma_channels)
        } else {
            COPY_THREAD_GBPS * f64::from(self.config.copy_threads)
        };
        MigrationMechanics {
            lanes: 1,
            fixed_ns: (FIXED_4K_NS + share * (FIXED_2M_NS - FIXED_4K_NS)).max(0.0).round() as Nanos,
            copy_gbps,
            mode: CopyMode::WriteProtected,
        }
    }

    fn overheads(&self) -> Overheads {
        // The sampling thread polls all the time. The policy thread does so only when it spins;
        // else it is charged for walking its share of both hot lists each period, an upper estimate.
        let walk = |pages: u32| f64::from(self.config.cooling_pages.min(pages)) * LIST_ENTRY_NS;
        let fast_pages = self.topology.capacity_pages.first().map_or(0, |pages| self.topology.pages.min(*pages));
        let round_ns = walk(fast_pages) + walk(self.topology.pages);
        let spins = self.config.migration_period_ms == 0.0;
        let policy_share = if spins { 1.0 } else { (round_ns / self.period_ns as f64).min(1.0) };
        Overheads { busy_cores: 1.0 + policy_share, record_ns: 300.0 }
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.admit(cx.pages);
        if u64::from(extent.pages) * self.topology.page_bytes < self.config.mmap_filter_size_bytes {
            self.unmanaged_pages += u64::from(extent.pages);
        } else {
            self.arrived.push(extent.clone());
        }
        Placement::FastestFree
    }

    fn on_samples(&mut self, samples: &[Sample], cx: &mut Context<'_>) {
        self.admit(cx.pages);
        if !self.config.sample_based_cooling {
            return self.count(samples);
        }
        let mut rest = samples;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(self.until_cooling as usize));
            self.count(now);
            self.until_cooling -= now.len() as u64;
            if self.until_cooling == 0 {
                self.until_cooling = u64::from(self.config.sample_cooling_interval);
                self.cool_from(self.clock + 1);
            }
            rest = later;
        }
    }

    fn on_migrations(&mut self, ended: &[Migrated], _idle: bool, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        for migrated in ended {
            let page = migrated.request.page;
            if !self.entries[page as usize].has(MIGRATING) {
                continue;
            }
            self.failed += u64::from(migrated.outcome == crate::policy::Outcome::NoSpace);
            self.enlist(page, cx.pages.tier_of(page) == 0);
            self.in_flight -= 1;
            if self.in_flight == 0 {
                let due = self.tick_start.map_or(cx.now, |start| start + self.period_ns);
                cx.wake_at(due.max(cx.now));
            }
        }
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        if self.in_flight > 0 {
            return; // the thread is still copying; the last arrival sets the next wake-up
        }
        self.serve_ring(true, self.config.hot_ring_reqs_threshold);
        self.serve_ring(false, self.config.cold_ring_reqs_threshold);
        self.renew_allowance(cx.now);
        self.tick_start = Some(cx.now);
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
        let gauge = |name, meaning, value| Gauge { name, meaning, value };
        vec![
            gauge("hot_fast_pages", "hot pages in fast memory", f64::from(self.fast.hot.len())),
            gauge("hot_slow_pages", "hot pages in slow memory", f64::from(self.slow.hot.len())),
            gauge("cold_fast_pages", "cold pages in fast memory", f64::from(self.fast.cold.len())),
            gauge("cold_slow_pages", "cold pages in slow memory", f64::from(self.slow.cold.len())),
            gauge("unmanaged_pages", "pages of extents below the size filter", self.unmanaged_pages as f64),
            gauge("hot_requests", "requests waiting in the hot ring", self.hot_ring.len() as f64),
            gauge("cold_requests", "requests waiting in the cold ring", self.cold_ring.len() as f64),
            gauge("requests_lost", "requests that found their ring full", self.requests_lost as f64),
            gauge("coolings", "halvings of all counts", f64::from(self.clock)),
            gauge("starved_ticks", "ticks that found fast memory full of hot pages", self.starved_ticks as f64),
            gauge("failed_moves", "moves that found no space", self.failed as f64),
        ]
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
