//! `hmsdk`: SK hynix' HMSDK, which is DAMON on every node's physical memory and two DAMOS schemes.
//!
//! Each tier has a context with a thread (kdamond). It holds the tier's frames as regions. Every sample
//! interval it clears the accessed bit of one random page of each region and looks at it an interval
//! later; hits are counted per region. After `aggr_ratio` looks neighbours with similar counts are merged,
//! regions that changed are made young, the scheme is applied, counts start over, and all regions are cut
//! in two at random. The fast tier's scheme (`migrate_cold`) demotes regions without accesses that have
//! been so for long, the slow tiers' (`migrate_hot`) promotes regions with some. A quota of time, by
//! measured throughput, and of bytes admits the regions of highest priority first. There is no state per
//! page; a filter looks at each page's own bit just before it moves.
//!
//! What one might not expect:
//!
//! - a context starts with one region, so it takes a dozen aggregations to get to thousands;
//! - a look only tells whether a page was touched at all: what is touched more than once per sample
//!   interval is as hot as can be, and a region is judged by one page of it at a time;
//! - quotas are charged for whole regions, also for pages that the filter keeps or that find no room;
//! - a region that was tried is of age 0 again: what the filter kept waits for the full age once more;
//! - while it migrates, a context does not look at anything;
//! - rates and ages are cut off to whole looks and aggregations: below 20 looks, 5 % means 0, which
//!   idle regions reach too;
//! - cutting in three needs the number of regions to be that of the last time, and the kernel keeps one
//!   such number for all contexts.
//!
//! What had to be decided:
//!
//! - which page lies in which frame: see `hmsdk/frames.rs`. No region is smaller than a managed page,
//!   so at 2 MiB every page is a huge page with one accessed bit;
//! - more than two tiers: tier 0 demotes to the fastest slow tier with room, all others promote to tier 0;
//! - every context has a migrating thread of its own; when only one of them has work, both help it;
//! - a promotion that finds fast memory full fails in the kernel (nothing is reclaimed for it) and so
//!   ends its region's turn; here it is not even asked for, but counted and charged as a region tried;
//! - both schemes have the same watermarks (HMSDK has none), of which the memory of all tiers counts.

mod frames;
mod knobs;
pub mod regions;
mod scheme;
mod watermarks;

use serde::{Deserialize, Serialize};
use std::ops::Range;

use crate::kernel_migration::Unmapping;
use crate::knob::{Config, KnobError};
use crate::mover::LIST_ENTRY_NS;
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::{
    Context, Extent, Gauge, Migrated, MigrationMechanics, Nanos, Needs, Outcome, Page, PageMap, Placement, Policy,
    Tier, Topology,
};

use frames::Frames;
pub use knobs::HmsdkConfig;
use regions::Region;
use scheme::{Action, Scheme};
use watermarks::Watermarks;

/// Of Linux 6.11 and later.
const UNMAPPING: Unmapping = Unmapping::Together;
/// One look at an accessed bit through the reverse map: 0.5 to 1 us with what it does to the TLB.
const LOOK_NS: f64 = 750.0;
/// Finding that a frame holds no page of an application.
const EMPTY_NS: f64 = 50.0;

/// One context and its thread.
#[derive(Serialize, Deserialize)]
struct Kdamond {
    tier: Tier,
    regions: Vec<Region>,
    /// Frames that it watches.
    frames: u32,
    scheme: Scheme,
    watermarks: Option<Watermarks>,
    /// Looks since the last aggregation.
    looks: u32,
    /// When it looks next, unless it migrates.
    next_at: Nanos,
    started: bool,
    in_flight: u32,
    applying_since: Nanos,
    /// CPU time of what it did before it began to migrate.
    owed_ns: f64,
    hot_frames: u32,
    cold_frames: u32,
}

#[derive(Default, Serialize, Deserialize)]
struct Tally {
    looks: u64,
    rests: u64,
    promotions_without_room: u64,
    demotions_without_room: u64,
    filtered: u64,
    failed: u64,
}

#[derive(Serialize, Deserialize)]
struct Hmsdk {
    config: HmsdkConfig,
    topology: Topology,
    frames: Frames,
    kdamonds: Vec<Kdamond>,
    /// Regions that the context that split last had then.
    last_count: u32,
    /// Extents whose pages the driver has placed since the last call, and pages without a frame.
    arrived: Vec<Range<Page>>,
    /// One more than the context that has asked for a page to move, by page.
    asked_by: Vec<u16>,
    /// Pages under way to each tier.
    coming: Vec<u32>,
    tally: Tally,
}

impl Hmsdk {
    fn new(config: HmsdkConfig, topology: &Topology) -> Self {
        let capacity = &topology.capacity_pages;
        let most = match u64::from(config.region_max_size_mib) << 20 {
            0 => u32::MAX,
            bytes => topology.pages_in(bytes),
        };
        let mut kdamonds = Vec::new();
        for (tier, frames) in capacity.iter().enumerate() {
            let action = if tier == 0 { Action::Demote } else { Action::Promote };
            for start in (0..*frames).step_by(most as usize) {
                let end = start.saturating_add(most).min(*frames);
                kdamonds.push(Kdamond {
                    tier: tier as Tier,
                    regions: vec![Region::new(start, end)],
                    frames: end - start,
                    scheme: Scheme::new(action, &config, topology.page_bytes),
                    watermarks: Watermarks::new(&config),
                    looks: 0,
                    next_at: 0,
                    started: false,
                    in_flight: 0,
                    applying_since: 0,
                    owed_ns: 0.0,
                    hot_frames: 0,
                    cold_frames: 0,
                });
            }
        }
        Self {
            frames: Frames::new(capacity, topology.pages),
            kdamonds,
            last_count: 0,
            arrived: Vec::new(),
            asked_by: vec![0; topology.pages as usize],
            coming: vec![0; capacity.len()],
            tally: Tally::default(),
            topology: topology.clone(),
            config,
        }
    }

    /// New pages get frames, in order of their index.
    fn admit(&mut self, pages: &dyn PageMap) {
        for range in std::mem::take(&mut self.arrived) {
            for page in range {
                self.settle(page, pages);
            }
        }
    }

    /// Gives a page a frame of the tier that it is in. A page may be there before the move out of its
    /// frame has been reported; then it waits for the next call.
    fn settle(&mut self, page: Page, pages: &dyn PageMap) {
        if !self.frames.put(page, pages.tier_of(page)) {
            self.arrived.push(page..page + 1);
        }
    }

    /// Picks a page of every region and clears its accessed bit; returns the CPU time.
    fn prepare(&mut self, index: usize, cx: &mut Context<'_>) -> f64 {
        let kdamond = &mut self.kdamonds[index];
        let mut ns = 0.0;
        for region in &mut kdamond.regions {
            region.sampled = region.start + cx.rng.below(region.frames().into()) as u32;
            ns += match self.frames.page(kdamond.tier, region.sampled) {
                Some(page) => {
                    cx.accessed.test_and_clear(page);
                    LOOK_NS
                }
                None => EMPTY_NS,
            };
        }
        ns
    }

    /// Counts the sampled pages that were accessed since; returns the CPU time.
    fn look(&mut self, index: usize, cx: &mut Context<'_>) -> f64 {
        let kdamond = &mut self.kdamonds[index];
        let mut ns = 0.0;
        for region in &mut kdamond.regions {
            ns += match self.frames.page(kdamond.tier, region.sampled) {
                Some(page) => {
                    region.accesses += u32::from(cx.accessed.test(page));
                    LOOK_NS
                }
                None => EMPTY_NS,
            };
        }
        self.tally.looks += kdamond.regions.len() as u64;
        ns
    }

    /// Goes on until it sleeps or waits for migrations.
    fn work(&mut self, index: usize, cx: &mut Context<'_>) {
        let mut ns = 0.0;
        if self.kdamonds[index].started {
            ns += self.look(index, cx);
            self.kdamonds[index].looks += 1;
        }
        self.kdamonds[index].started = true;
        if self.kdamonds[index].looks == self.config.aggr_ratio {
            self.kdamonds[index].looks = 0;
            ns += self.aggregate(index, cx);
        }
        cx.spend(ns);
        let kdamond = &mut self.kdamonds[index];
        kdamond.owed_ns = ns;
        if kdamond.in_flight == 0 {
            self.sleep(index, cx);
        } else {
            kdamond.applying_since = cx.now;
        }
    }

    /// Prepares the next look and sleeps until then, or rests.
    fn sleep(&mut self, index: usize, cx: &mut Context<'_>) {
        if let Some(rest_ns) = self.rest_ns(index, cx.pages) {
            self.tally.rests += 1;
            let kdamond = &mut self.kdamonds[index];
            // What was marked before the rest is not looked at after it.
            kdamond.started = false;
            kdamond.next_at = cx.now + std::mem::take(&mut kdamond.owed_ns).round() as Nanos + rest_ns;
            return;
        }
        let ns = self.prepare(index, cx);
        cx.spend(ns);
        let kdamond = &mut self.kdamonds[index];
        let busy_ns = (ns + std::mem::take(&mut kdamond.owed_ns)).round() as Nanos;
        kdamond.next_at = cx.now + busy_ns + self.config.sample_interval_us * 1000;
    }

    /// How long a thread rests by its watermarks.
    fn rest_ns(&mut self, index: usize, pages: &dyn PageMap) -> Option<Nanos> {
        let marks = self.kdamonds[index].watermarks.as_mut()?;
        marks.rest_ns(watermarks::free_permil(pages, &self.topology.capacity_pages))
    }

    /// Merges, applies the scheme, starts over and splits; returns the CPU time.
    fn aggregate(&mut self, index: usize, cx: &mut Context<'_>) -> f64 {
        let (most_regions, ratio) = (self.config.max_regions(), self.config.aggr_ratio);
        let kdamond = &mut self.kdamonds[index];
        let before = kdamond.regions.len();
        let highest = kdamond.regions.iter().map(|region| region.accesses).max().unwrap_or(0);
        let threshold = highest / self.config.merge_divisor;
        let most_frames = (kdamond.frames / self.config.min_regions).max(1);
        regions::merge(
            &mut kdamond.regions,
            threshold,
            most_frames,
            most_regions as usize,
            ratio,
        );
        self.count(index);
        let apply_ns = self.apply(index, cx);
        let kdamond = &mut self.kdamonds[index];
        kdamond.scheme.took(apply_ns);
        regions::start_over(&mut kdamond.regions);
        regions::split(&mut kdamond.regions, most_regions, &mut self.last_count, cx.rng);
        apply_ns + (before + kdamond.regions.len()) as f64 * LIST_ENTRY_NS
    }

    /// Frames that count as hot and as cold at the moment, for the gauges.
    fn count(&mut self, index: usize) {
        let hot = (self.config.prom_accesses_min_percent * f64::from(self.config.aggr_ratio) / 100.0) as u32;
        let kdamond = &mut self.kdamonds[index];
        let frames = |wanted: &dyn Fn(&Region) -> bool| {
            let regions = kdamond.regions.iter().filter(|region| wanted(region));
            regions.map(Region::frames).sum()
        };
        let (hot_frames, cold_frames) = (
            frames(&|region| region.accesses >= hot.max(1)),
            frames(&|r| r.accesses == 0),
        );
        kdamond.hot_frames = hot_frames;
        kdamond.cold_frames = cold_frames;
    }

    /// Basis points of fast memory that are used (for promoting) or free (for demoting).
    fn fast_bp(&self, action: Action, pages: &dyn PageMap) -> u64 {
        let all = u64::from(self.topology.capacity_pages[0]).max(1);
        let free = u64::from(pages.free_pages(0)).min(all);
        let counted = if action == Action::Promote { all - free } else { free };
        counted * 10_000 / all
    }

    /// Applies the scheme to all regions that it fits; returns the CPU time, without the migrations.
    fn apply(&mut self, index: usize, cx: &mut Context<'_>) -> f64 {
        let fast_bp = self.fast_bp(self.kdamonds[index].scheme.action, cx.pages);
        let kdamond = &mut self.kdamonds[index];
        let regions = std::mem::take(&mut kdamond.regions);
        kdamond.scheme.adjust(&regions, cx.now, fast_bp);
        let mut ns = regions.len() as f64 * LIST_ENTRY_NS;
        let mut kept = Vec::with_capacity(regions.len() + 2);
        let last = regions.len() - 1;
        for (nth, mut region) in regions.into_iter().enumerate() {
            let scheme = &mut self.kdamonds[index].scheme;
            let mut rest = None;
            if !scheme.is_spent()
                && scheme.skip_charged(&mut region, nth == last, &mut kept)
                && scheme.admits(&region)
                && scheme.charge(&mut region, &mut rest)
            {
                ns += self.migrate(index, &region, cx);
                region.age = 0;
            }
            kept.push(region);
            kept.extend(rest);
        }
        self.kdamonds[index].regions = kept;
        ns
    }

    /// Asks for the pages of a region that pass the filter to move; returns the CPU time.
    fn migrate(&mut self, index: usize, region: &Region, cx: &mut Context<'_>) -> f64 {
        let (tier, action) = (self.kdamonds[index].tier, self.kdamonds[index].scheme.action);
        let wanted_young = action == Action::Promote;
        let mut ns = 0.0;
        for frame in region.start..region.end {
            let Some(page) = self.frames.page(tier, frame) else {
                ns += EMPTY_NS;
                continue;
            };
            if self.asked_by[page as usize] != 0 {
                continue; // of an extent that was freed and came back meanwhile
            }
            ns += LIST_ENTRY_NS;
            if self.config.young_filter {
                ns += LOOK_NS;
                if cx.accessed.test_and_clear(page) != wanted_young {
                    self.tally.filtered += 1;
                    continue;
                }
            }
            let room = |to: &usize| cx.pages.free_pages(*to as Tier) > self.coming[*to];
            let mut targets = if wanted_young { 0..1 } else { 1..self.coming.len() };
            let Some(to) = targets.find(|to| room(to)) else {
                let lost = if wanted_young {
                    &mut self.tally.promotions_without_room
                } else {
                    &mut self.tally.demotions_without_room
                };
                *lost += 1;
                continue;
            };
            self.asked_by[page as usize] = index as u16 + 1;
            self.coming[to] += 1;
            self.kdamonds[index].in_flight += 1;
            cx.migrate(page, to as Tier);
        }
        ns
    }

    /// Sets the next wake-up to that of the context that is due first.
    fn set_alarm(&self, cx: &mut Context<'_>) {
        let waiting = self.kdamonds.iter().filter(|kdamond| kdamond.in_flight == 0);
        if let Some(at) = waiting.map(|kdamond| kdamond.next_at).min() {
            cx.wake_at(at);
        }
    }
}

impl Policy for Hmsdk {
    crate::saves_itself!();

    fn needs(&self) -> Needs {
        Needs {
            accessed_bits: true,
            ..Needs::default()
        }
    }

    fn mechanics(&self) -> MigrationMechanics {
        MigrationMechanics {
            lanes: (self.kdamonds.len() as u32).max(1),
            ..UNMAPPING.mechanics(self.topology.page_bytes)
        }
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.admit(cx.pages);
        self.arrived.push(extent.start..extent.start + extent.pages);
        Placement::FastestFree
    }

    fn on_free(&mut self, extent: &Extent, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        let gone = extent.start..extent.start + extent.pages;
        self.arrived.retain(|range| !gone.contains(&range.start));
        gone.for_each(|page| self.frames.take_out(page));
    }

    fn on_migrations(&mut self, ended: &[Migrated], _idle: bool, cx: &mut Context<'_>) {
        for migrated in ended {
            let page = migrated.request.page;
            let Some(index) = std::mem::take(&mut self.asked_by[page as usize]).checked_sub(1) else {
                continue;
            };
            let index = usize::from(index);
            self.coming[usize::from(migrated.request.to)] -= 1;
            self.kdamonds[index].in_flight -= 1;
            match migrated.outcome {
                Outcome::Done => {
                    cx.spend(UNMAPPING.cpu_ns(self.topology.page_bytes));
                    if self.frames.frame(page).is_some() {
                        self.settle(page, cx.pages);
                    }
                }
                Outcome::NoSpace => self.tally.failed += 1,
                _ => {}
            }
            if self.kdamonds[index].in_flight == 0 {
                let span_ns = cx.now - self.kdamonds[index].applying_since;
                self.kdamonds[index].scheme.took(span_ns as f64);
                self.sleep(index, cx);
            }
        }
        self.admit(cx.pages);
        self.set_alarm(cx);
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        self.admit(cx.pages);
        for index in 0..self.kdamonds.len() {
            let kdamond = &self.kdamonds[index];
            if kdamond.in_flight == 0 && kdamond.next_at <= cx.now {
                self.work(index, cx);
            }
        }
        self.set_alarm(cx);
    }

    fn gauges(&self) -> Vec<Gauge> {
        let of = |action: Action, value: &dyn Fn(&Kdamond) -> f64| -> f64 {
            let kdamonds = self.kdamonds.iter().filter(|kdamond| kdamond.scheme.action == action);
            kdamonds.map(value).sum()
        };
        let all = |value: &dyn Fn(&Kdamond) -> f64| self.kdamonds.iter().map(value).sum::<f64>();
        let tally = &self.tally;
        [
            (
                "hot_pages",
                "frames in regions with the accesses for promotion",
                all(&|k| k.hot_frames.into()),
            ),
            (
                "cold_pages",
                "frames in regions without accesses",
                all(&|k| k.cold_frames.into()),
            ),
            (
                "fast_regions",
                "regions of fast memory",
                of(Action::Demote, &|k| k.regions.len() as f64),
            ),
            (
                "slow_regions",
                "regions of slow memory",
                of(Action::Promote, &|k| k.regions.len() as f64),
            ),
            ("looks", "accessed bits looked at for regions", tally.looks as f64),
            (
                "rests",
                "times that a thread found free memory outside its watermarks",
                tally.rests as f64,
            ),
            (
                "filtered_pages",
                "pages that the filter kept where they were",
                tally.filtered as f64,
            ),
            (
                "promotion_quota_bytes",
                "region bytes that may be promoted per window, 0 for no limit",
                of(Action::Promote, &|k| k.scheme.effective_bytes() as f64),
            ),
            (
                "demotion_quota_bytes",
                "region bytes that may be demoted per window, 0 for no limit",
                of(Action::Demote, &|k| k.scheme.effective_bytes() as f64),
            ),
            (
                "quotas_exceeded",
                "quota windows that ran out",
                all(&|k| k.scheme.exceeded() as f64),
            ),
            (
                "promotions_without_room",
                "pages to be promoted that found fast memory full",
                tally.promotions_without_room as f64,
            ),
            (
                "demotions_without_room",
                "pages to be demoted that found slow memory full",
                tally.demotions_without_room as f64,
            ),
            ("failed_moves", "moves that found no space", tally.failed as f64),
        ]
        .map(|(name, meaning, value)| Gauge { name, meaning, value })
        .into()
    }
}

/// The registry entry.
pub const SYSTEM: System = System {
    name: "hmsdk",
    summary: "regions of physical memory watched by accessed bits; schemes that promote hot and demote idle ones",
    source: "SK hynix HMSDK v4.0 (tools/gen_migpol.py) on Linux DAMON; as tuned in DIMES'25",
    signal: "accessed bits",
    page_bytes: &[PAGE_2M, PAGE_4K],
    knobs: HmsdkConfig::knobs,
    build,
};

fn build(config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    Ok(Box::new(Hmsdk::new(HmsdkConfig::from_config(config)?, topology)))
}
