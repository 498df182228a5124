//! What the simple migrating systems share: one background thread that decides once a period and
//! copies what it decided, the room it counts on meanwhile, and what all of that costs.

use crate::registry::{PAGE_2M, PAGE_4K};
use crate::{Context, CopyMode, Migrated, MigrationMechanics, Nanos, Outcome, Overheads, Page, PageMap, Tier};
use serde::{Deserialize, Serialize};

/// Time to look at one list entry (kernel LRU scans take 100 to 300 ns a page).
pub const LIST_ENTRY_NS: f64 = 100.0;
/// Time of the sampling thread per record (200 to 500 ns in systems of this kind).
pub const RECORD_NS: f64 = 300.0;
/// Protection, remapping and TLB shootdown around the copy of a 2 MiB page, as a HeMem fork measured.
const FIXED_2M_NS: f64 = 500_000.0;
/// The same for a 4 KiB page: 12 us end to end (Soar/Alto section 5.1) less about 0.5 us of copying.
const FIXED_4K_NS: f64 = 11_500.0;
/// A move without a copy: page tables and a TLB shootdown (3 to 5 us, as Nomad's remapping is taken to cost).
pub const REMAP_NS: Nanos = 4_000;
/// HeMem's default: two I/OAT channels, 4.5 GB/s each in our judgement.
const COPY_GBPS: f64 = 9.0;

/// Time of a move beside the copy. Between the two sizes it is taken as linear in bytes; only those
/// two are in use.
#[must_use]
pub fn fixed_ns(page_bytes: u64) -> Nanos {
    let share = (page_bytes as f64 - PAGE_4K as f64) / (PAGE_2M - PAGE_4K) as f64;
    (FIXED_4K_NS + share * (FIXED_2M_NS - FIXED_4K_NS)).max(0.0).round() as Nanos
}

/// Interrupts for a page: one as it is protected against writes, one as it is mapped elsewhere. For a page of 2 MiB they
/// are below a hundredth of the time in which it is copied, and left out.
#[must_use]
pub fn shootdowns(page_bytes: u64) -> f64 {
    if page_bytes < PAGE_2M { 2.0 } else { 0.0 }
}

/// A baseline is to differ from `hemem` in what it decides only, so it copies as `hemem` does by default.
#[must_use]
pub fn mechanics(page_bytes: u64) -> MigrationMechanics {
    MigrationMechanics {
        lanes: 1,
        fixed_ns: fixed_ns(page_bytes),
        alone_fixed_ns: fixed_ns(page_bytes),
        run_fixed_ns: fixed_ns(PAGE_2M),
        remap_ns: REMAP_NS,
        copy_gbps: COPY_GBPS,
        mode: CopyMode::WriteProtected,
        shootdowns: shootdowns(page_bytes),
    }
}

/// The thread: all decisions of a tick are taken at its start and the copies follow; the next tick
/// starts when the period is over and all copies have ended, as in a thread that copies, then sleeps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Mover {
    period_ns: Nanos,
    tick_start: Nanos,
    in_flight: u32,
    failed_moves: u64,
}

impl Mover {
    /// An idle mover with a tick every `period_ms`.
    #[must_use]
    pub fn new(period_ms: f64) -> Self {
        Self {
            period_ns: ((period_ms * 1e6).round() as Nanos).max(1),
            tick_start: 0,
            in_flight: 0,
            failed_moves: 0,
        }
    }

    /// Time between the starts of two ticks without copies.
    #[must_use]
    pub fn period_ns(&self) -> Nanos {
        self.period_ns
    }

    /// Moves that found no space.
    #[must_use]
    pub fn failed_moves(&self) -> u64 {
        self.failed_moves
    }

    /// Starts a tick; `false` while copies are under way, whose last arrival sets the next wake-up.
    pub fn begin(&mut self, now: Nanos) -> bool {
        let idle = self.in_flight == 0;
        if idle {
            self.tick_start = now;
        }
        idle
    }

    /// Asks for a move during a tick.
    pub fn ask(&mut self, page: Page, to: Tier, cx: &mut Context<'_>) {
        self.in_flight += 1;
        cx.migrate(page, to);
    }

    /// Ends the decisions of a tick.
    pub fn decided(&self, cx: &mut Context<'_>) {
        if self.in_flight == 0 {
            cx.wake_at(self.tick_start + self.period_ns);
        }
    }

    /// Takes note of copies that ended.
    pub fn arrived(&mut self, ended: &[Migrated], cx: &mut Context<'_>) {
        // What was over at once was never in flight.
        let copied = || ended.iter().filter(|migrated| !migrated.request.how.is_at_once());
        if copied().next().is_none() {
            return;
        }
        let full = |migrated: &&Migrated| migrated.outcome == Outcome::NoSpace;
        self.failed_moves += copied().filter(full).count() as u64;
        self.in_flight -= copied().count() as u32;
        if self.in_flight == 0 {
            cx.wake_at(cx.now.max(self.tick_start + self.period_ns));
        }
    }

    /// What a polling sampling thread and this thread cost, `entries` list entries a tick.
    #[must_use]
    pub fn overheads(&self, entries: f64) -> Overheads {
        Overheads {
            busy_cores: 1.0 + (entries * LIST_ENTRY_NS / self.period_ns as f64).min(1.0),
            record_ns: RECORD_NS,
        }
    }
}

/// Free pages by tier as they will be once the moves asked for so far have been carried out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Room(Vec<u32>);

impl Room {
    /// What is free now in each of `tiers` tiers.
    #[must_use]
    pub fn now(pages: &dyn PageMap, tiers: usize) -> Self {
        Self((0..tiers).map(|tier| pages.free_pages(tier as Tier)).collect())
    }

    /// Whether tier 0 has room.
    #[must_use]
    pub fn is_in_fast(&self) -> bool {
        self.in_fast() > 0
    }

    /// Pages that tier 0 has room for.
    #[must_use]
    pub fn in_fast(&self) -> u32 {
        self.0[0]
    }

    /// The fastest tier below tier 0 with room, where demoted pages go.
    #[must_use]
    pub fn below(&self) -> Option<Tier> {
        (1..self.0.len())
            .find(|tier| self.0[*tier] > 0)
            .map(|tier| tier as Tier)
    }

    /// Counts a move.
    pub fn moved(&mut self, from: Tier, to: Tier) {
        self.0[usize::from(from)] += 1;
        self.0[usize::from(to)] -= 1;
    }
}
