//! `soar`: a profiling run says what each object costs, and the dearest per byte are placed in fast memory.
//!
//! The profiling run has all of memory fast. It logs allocations, samples load misses, and reads four counters
//! every second: cycles, stalls, cycles with a demand read outstanding (A1) and demand reads (A3). A1/A3 is the
//! latency that is left of a read when misses overlap. From it and the stall share follows by how much the
//! program would slow down, and each object gets its share of that by samples, corrected where misses overlap.
//! Objects that one place in the program allocates are of one kind. Kinds are ranked by score per byte of the most
//! that was live at a time; from the top as many as fit wholly are for fast memory. The kind that straddles the
//! boundary is placed by first touch, all others go to slow memory.
//!
//! What one might not expect:
//!
//! - nothing watches the run itself: a program that changes its ways is placed for its average;
//! - the kind at the boundary may take all of fast memory before those above it arrive. Those are bound to the fast
//!   node (`numa_alloc_onnode`), so the thread that allocates them has room made by demotion before it goes on.
//!
//! What had to be decided here:
//!
//! - objects that the profiling run did not see, and small ones, are placed by first touch;
//! - pages of lower rank make room: what was never profiled first, then what straddles the boundary. What finds none
//!   to make room for it begins in slow memory and is moved page by page when there is;
//! - the last window of the profiling run ends with the run, however short;
//! - objects may be cut in parts (`split_objects`), which then are kinds of their own;
//! - with more than two tiers all but the first are slow; what goes there takes the fastest of them with room.

mod knobs;
mod profile;

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use crate::kernel_migration;
use crate::knob::{Config, KnobError};
use crate::mover::Room;
use crate::numa_scan::runs_by_tier;
use crate::policy::from_bytes;
use crate::registry::{PAGE_2M, PAGE_4K, System};
use crate::watermarks::{WATERMARK_SCALE_FACTOR, Watermarks};
use crate::{
    Context, Extent, Gauge, How, Migrated, MigrationMechanics, Outcome, Page, Placement, Policy, StateError, Tier,
    Topology,
};

pub use knobs::SoarConfig;
use profile::{Kind, Profile, is_small, part_pages};

/// Walking the stack at an allocation, in our judgement.
const BACKTRACE_NS: f64 = 2_000.0;
/// Exchanges under way at a time.
const BATCH_PAGES: u32 = 512;

/// Where a kind belongs, the lowest first: the order in which pages are demoted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Rank {
    /// It was not profiled.
    Unknown,
    /// It straddles the boundary.
    Boundary,
    Slow,
    Fast,
}

#[derive(Serialize, Deserialize)]
struct Soar {
    config: SoarConfig,
    topology: Topology,
    watermarks: Watermarks,
    ranks: BTreeMap<Kind, Rank>,
    /// What the profiling run found, for the gauges.
    planned_pages: [u32; 3],
    best_unit_score: f64,
    all_scores: f64,
    aol_cycles: f64,
    windows: u64,
    samples: u64,
    /// Extents whose pages the driver has placed since the last call.
    arrived: Vec<Extent>,
    /// Pages of rank `Fast` that were placed in slow memory.
    misplaced: VecDeque<Range<Page>>,
    /// Pages that may make room for them, by rank.
    yielding: BTreeMap<Rank, VecDeque<Range<Page>>>,
    /// Those that were asked to go down and have not yet.
    leaving: BTreeMap<Page, Rank>,
    in_flight: u32,
    demoted_pages: u64,
    failed_moves: u64,
}

impl Soar {
    fn new(config: SoarConfig, topology: &Topology) -> Self {
        Self {
            config,
            topology: topology.clone(),
            watermarks: Watermarks::new(topology, WATERMARK_SCALE_FACTOR),
            ranks: BTreeMap::new(),
            planned_pages: [0; 3],
            best_unit_score: 0.0,
            all_scores: 0.0,
            aol_cycles: 0.0,
            windows: 0,
            samples: 0,
            arrived: Vec::new(),
            misplaced: VecDeque::new(),
            yielding: BTreeMap::new(),
            leaving: BTreeMap::new(),
            in_flight: 0,
            demoted_pages: 0,
            failed_moves: 0,
        }
    }

    /// Ranks kinds by score per page and gives fast memory to the first that fit.
    fn plan(&mut self, profile: &Profile) {
        let unit_score = |kind: &Kind| profile.kinds[kind].score / f64::from(profile.kinds[kind].most_pages.max(1));
        let mut kinds: Vec<Kind> = profile.kinds.keys().copied().collect();
        kinds.sort_by(|one, other| unit_score(other).total_cmp(&unit_score(one)));
        let mut room = self.topology.capacity_pages[0].saturating_sub(self.watermarks.low);
        let mut rank = Rank::Fast;
        self.planned_pages = [0; 3];
        for kind in &kinds {
            let pages = profile.kinds[kind].most_pages;
            if rank == Rank::Boundary {
                rank = Rank::Slow;
            } else if rank == Rank::Fast && pages > room {
                rank = Rank::Boundary;
            } else if rank == Rank::Fast {
                room -= pages;
            }
            let column = match rank {
                Rank::Fast => 0,
                Rank::Boundary => 1,
                Rank::Slow | Rank::Unknown => 2,
            };
            self.planned_pages[column] += pages;
            self.ranks.insert(*kind, rank);
        }
        self.best_unit_score = kinds.first().map_or(0.0, unit_score);
        self.all_scores = profile.kinds.values().map(|known| known.score).sum();
        self.aol_cycles = profile.aol_cycles();
        (self.windows, self.samples) = (profile.windows, profile.all_samples);
    }

    /// The parts of an extent with their ranks.
    fn parts(&self, extent: &Extent) -> Vec<(Range<Page>, Rank)> {
        let part = if is_small(&self.config, &self.topology, extent) {
            extent.pages.max(1)
        } else {
            part_pages(&self.config, &self.topology, extent)
        };
        let end = extent.start + extent.pages;
        let rank = |number: u32| {
            let known = self.ranks.get(&(extent.site, number));
            let small = is_small(&self.config, &self.topology, extent);
            known.copied().filter(|_| !small).unwrap_or(Rank::Unknown)
        };
        (0..extent.pages.div_ceil(part))
            .map(|number| {
                let start = extent.start + number * part;
                (start..end.min(start + part), rank(number))
            })
            .collect()
    }

    /// Takes up extents that the driver has placed.
    fn admit(&mut self, cx: &mut Context<'_>) {
        for extent in std::mem::take(&mut self.arrived) {
            for (pages, rank) in self.parts(&extent) {
                if rank == Rank::Fast {
                    let misplaced = &mut self.misplaced;
                    runs_by_tier(pages, cx.pages, |run, tier| {
                        if tier != 0 {
                            misplaced.push_back(run);
                        }
                    });
                } else {
                    self.yielding.entry(rank).or_default().push_back(pages);
                }
            }
        }
    }

    /// The next page of fast memory with a lower rank than `Fast`.
    fn victim(&mut self, cx: &Context<'_>) -> Option<(Page, Rank)> {
        for (rank, ranges) in &mut self.yielding {
            while let Some(range) = ranges.front_mut() {
                let found = range.find(|page| cx.pages.tier_of(*page) == 0);
                if range.start == range.end {
                    ranges.pop_front();
                }
                if let Some(page) = found {
                    return Some((page, *rank));
                }
            }
        }
        None
    }

    /// The next page to leave fast memory, and where to: noted as leaving, its room as taken.
    fn leave(&mut self, room: &mut Room, cx: &Context<'_>) -> Option<(Page, Tier)> {
        let below = room.below()?;
        let (victim, rank) = self.victim(cx)?;
        room.moved(0, below);
        self.leaving.insert(victim, rank);
        Some((victim, below))
    }

    /// Has as many pages of lower rank go down as the new ones have too little room, while their thread waits.
    fn make_room(&mut self, pages: u32, cx: &mut Context<'_>) {
        if !self.config.demote_on_demand {
            return;
        }
        let mut room = Room::now(cx.pages, self.topology.capacity_pages.len());
        for _ in 0..pages.saturating_sub(cx.pages.free_pages(0)) {
            let Some((victim, below)) = self.leave(&mut room, cx) else {
                break;
            };
            cx.reclaim(victim, below);
        }
    }

    /// Moves misplaced pages up, for which others go down.
    fn correct(&mut self, cx: &mut Context<'_>) {
        if self.in_flight > 0 || !self.config.demote_on_demand {
            return;
        }
        let mut room = Room::now(cx.pages, self.topology.capacity_pages.len());
        for _ in 0..BATCH_PAGES {
            let Some(range) = self.misplaced.front() else { break };
            let page = range.start;
            if !room.is_in_fast() {
                let Some((victim, below)) = self.leave(&mut room, cx) else {
                    break;
                };
                self.ask(victim, below, cx);
            }
            let range = &mut self.misplaced[0];
            range.start += 1;
            if range.start == range.end {
                self.misplaced.pop_front();
            }
            room.moved(cx.pages.tier_of(page), 0);
            self.ask(page, 0, cx);
        }
    }

    fn ask(&mut self, page: Page, to: Tier, cx: &mut Context<'_>) {
        self.in_flight += 1;
        cx.spend(kernel_migration::cpu_ns(self.topology.page_bytes));
        cx.migrate(page, to);
    }
}

impl Policy for Soar {
    crate::saves_itself!();

    fn rehearsal(&self) -> Option<Box<dyn Policy>> {
        Some(Box::new(Profile::new(&self.config, &self.topology)))
    }

    fn learn(&mut self, notes: &[u8]) -> Result<(), StateError> {
        let mut profile: Profile = from_bytes(notes)?;
        profile.close();
        self.plan(&profile);
        Ok(())
    }

    fn mechanics(&self) -> MigrationMechanics {
        kernel_migration::mechanics(self.topology.page_bytes)
    }

    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        self.admit(cx);
        cx.spend_in_application(BACKTRACE_NS);
        self.arrived.push(extent.clone());
        cx.wake_at(cx.now);
        let parts = self.parts(extent);
        let bound = parts.iter().filter(|(_, rank)| *rank == Rank::Fast);
        let bound_pages = bound.map(|(pages, _)| pages.end - pages.start).sum();
        self.make_room(bound_pages, cx);
        let mut fast = [0u64; 4];
        for (number, (_, rank)) in parts.iter().enumerate() {
            fast[number / 64] |= u64::from(*rank != Rank::Slow) << (number % 64);
        }
        Placement::Parts {
            part_pages: parts.first().map_or(1, |(pages, _)| pages.end - pages.start),
            fast,
        }
    }

    fn on_free(&mut self, extent: &Extent, cx: &mut Context<'_>) {
        self.admit(cx);
        let gone = extent.start..extent.start + extent.pages;
        self.misplaced.retain(|range| !gone.contains(&range.start));
        for ranges in self.yielding.values_mut() {
            ranges.retain(|range| !gone.contains(&range.start));
        }
        cx.wake_at(cx.now);
    }

    fn on_migrations(&mut self, ended: &[Migrated], _idle: bool, cx: &mut Context<'_>) {
        self.admit(cx);
        for migrated in ended {
            self.in_flight -= u32::from(migrated.request.how != How::Reclaim);
            let page = migrated.request.page;
            let rank = self.leaving.remove(&page);
            match (migrated.outcome, rank) {
                (Outcome::Done, left) => self.demoted_pages += u64::from(left.is_some()),
                (Outcome::Gone, _) => {}
                (_, rank) => {
                    self.failed_moves += 1;
                    let again = page..page + 1;
                    match rank {
                        Some(rank) => self.yielding.entry(rank).or_default().push_front(again),
                        None => self.misplaced.push_back(again),
                    }
                }
            }
        }
        if ended.iter().any(|migrated| migrated.outcome == Outcome::Done) {
            self.correct(cx);
        }
    }

    fn on_wake(&mut self, cx: &mut Context<'_>) {
        self.admit(cx);
        self.correct(cx);
    }

    fn gauges(&self) -> Vec<Gauge> {
        let [fast, boundary, slow] = self.planned_pages.map(f64::from);
        let misplaced: u32 = self.misplaced.iter().map(|range| range.end - range.start).sum();
        [
            ("hot_pages", "pages of kinds that are for fast memory", fast),
            ("warm_pages", "pages of the kind at the boundary", boundary),
            ("cold_pages", "pages of kinds that are for slow memory", slow),
            (
                "misplaced_pages",
                "pages for fast memory that wait in slow memory",
                f64::from(misplaced),
            ),
            ("profile_aol_cycles", "A1/A3 of the profiling run", self.aol_cycles),
            ("profile_windows", "windows of the profiling run", self.windows as f64),
            ("profile_samples", "samples of the profiling run", self.samples as f64),
            ("profile_score", "scores of all kinds", self.all_scores),
            (
                "best_unit_score",
                "score per page of the first kind",
                self.best_unit_score,
            ),
            (
                "demoted_pages",
                "pages that made room for a higher rank",
                self.demoted_pages as f64,
            ),
            ("failed_moves", "moves that failed", self.failed_moves as f64),
        ]
        .map(|(name, meaning, value)| Gauge { name, meaning, value })
        .into()
    }
}

/// The registry entry.
pub const SYSTEM: System = System {
    name: "soar",
    summary: "a profiling run scores objects by the stalls they cause; the dearest per byte are placed in fast memory",
    source: "Soar, OSDI'25; as published by its authors",
    signal: "a profiling run: hardware samples of LLC load misses, core counters, allocations",
    page_bytes: &[PAGE_4K, PAGE_2M],
    knobs: SoarConfig::knobs,
    build,
};

fn build(config: &Config, topology: &Topology) -> Result<Box<dyn Policy>, KnobError> {
    Ok(Box::new(Soar::new(SoarConfig::from_config(config)?, topology)))
}
