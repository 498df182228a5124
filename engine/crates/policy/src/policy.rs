//! The policy trait: what a tiering system may see and what it may ask for.
//!
//! The driver (simulated machine or live daemon) calls the methods of three families:
//!
//! - *observe*: [`Policy::on_alloc`], [`Policy::on_samples`], [`Policy::on_migrations`];
//! - *decide*: [`Policy::on_wake`]; every method that takes a [`Context`] may also ask for
//!   migrations and for its next wake-up there;
//! - *inspect*: [`Policy::gauges`].
//!
//! Order: `on_alloc` for what exists at the start, then one `on_wake` at time 0, then any method
//! at times that never go back. The driver executes requested migrations in the order asked, one
//! lane after another, keeps every tier within its capacity (a request that does not fit fails
//! with [`Outcome::NoSpace`]) and reports each with its outcome. A policy sees only what hardware
//! or a kernel could tell it; it never learns true access rates.

use crate::random::CounterRng;

/// Virtual or real time since the start, in nanoseconds.
pub type Nanos = u64;
/// Index of a page of the managed size, counted over all objects.
pub type Page = u32;
/// Index of a tier, 0 the fastest.
pub type Tier = u8;

/// What a hardware sample counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Event {
    /// A demand load that missed the last-level cache.
    LoadMiss,
    /// A retired store, cache hits included.
    Store,
}

/// One hardware sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The page accessed.
    pub page: Page,
    /// The tier that served it.
    pub tier: Tier,
    /// The event that overflowed.
    pub event: Event,
}

/// A hardware sampler that a policy wants: one record every `period` events of a kind and thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplerRequest {
    /// The event counted.
    pub event: Event,
    /// Events per record.
    pub period: u64,
}

/// What happens to accesses to a page while it is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyMode {
    /// Readers go on, writers wait for the end of the copy (userfaultfd write protection).
    WriteProtected,
    /// The page is unmapped: every access waits.
    Unmapped,
}

/// How a system moves pages; constants of its design, not knobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MigrationMechanics {
    /// Copies under way at once.
    pub lanes: u32,
    /// Time per migration before and after the copy: protection, remapping, TLB shootdown.
    pub fixed_ns: Nanos,
    /// Upper bound of one lane's copy speed, in 1e9 bytes per second.
    pub copy_gbps: f64,
    /// Who waits meanwhile.
    pub mode: CopyMode,
}

/// What running the policy costs, beside samples and copies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overheads {
    /// Cores kept busy all the time by polling threads.
    pub busy_cores: f64,
    /// CPU time of the sampling thread per record; records beyond what one core handles are lost.
    pub record_ns: f64,
}

/// The sizes that a policy is built for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Bytes of a managed page.
    pub page_bytes: u64,
    /// Pages of all objects.
    pub pages: u32,
    /// Capacity of each tier, in pages.
    pub capacity_pages: Vec<u32>,
}

/// A range of pages that came into being together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// First page.
    pub start: Page,
    /// Number of pages.
    pub pages: u32,
}

/// Where every page is; the policy's read-only view of what the kernel's page tables say.
pub trait PageMap {
    /// The tier that holds `page` now.
    fn tier_of(&self, page: Page) -> Tier;
    /// Pages that still fit in `tier`.
    fn free_pages(&self, tier: Tier) -> u32;
}

/// A request to move a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// The page.
    pub page: Page,
    /// Where to.
    pub to: Tier,
}

/// How a requested migration ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The page is where it was asked to be.
    Done,
    /// The target tier was full.
    NoSpace,
    /// The page was already there.
    AlreadyThere,
}

/// One executed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    /// What was asked.
    pub request: Move,
    /// What came of it.
    pub outcome: Outcome,
    /// When it ended.
    pub at: Nanos,
}

/// What a policy works with during a call: time, view, randomness, and its outgoing requests.
pub struct Context<'a> {
    /// The time of the call.
    pub now: Nanos,
    /// Where pages are.
    pub pages: &'a dyn PageMap,
    /// The policy's own seeded generator.
    pub rng: &'a mut CounterRng,
    /// Requested migrations, executed in order.
    pub moves: &'a mut Vec<Move>,
    /// When to call [`Policy::on_wake`] next; the last value set wins.
    pub wake_at: &'a mut Option<Nanos>,
}

impl Context<'_> {
    /// Asks for `page` to be moved to tier `to`.
    pub fn migrate(&mut self, page: Page, to: Tier) {
        self.moves.push(Move { page, to });
    }

    /// Asks for [`Policy::on_wake`] at `at` (at once when that has passed).
    pub fn wake_at(&mut self, at: Nanos) {
        *self.wake_at = Some(at);
    }
}

/// A named number that a policy reports about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Gauge {
    /// Name with unit.
    pub name: &'static str,
    /// One line.
    pub meaning: &'static str,
    /// Current value.
    pub value: f64,
}

/// Where new pages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The fastest tier with room, page by page (first touch).
    FastestFree,
    /// The slowest tier, then the next faster one when it is full.
    SlowestFree,
    /// The fastest tier, which the driver makes as large as it takes: the all-fast reference line.
    FastUnbounded,
    /// Round robin over the tiers by weight; a page whose tier is full goes to the next slower tier
    /// with room, after the slowest to the fastest.
    Interleaved(Interleave),
}

/// A weighted round over the tiers: first `weight_fast` pages to tier 0, then `weight_slow` to tier
/// 1, as many to tier 2, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interleave {
    /// Pages in a row for tier 0, at least 1.
    pub weight_fast: u8,
    /// Pages in a row for each slower tier, at least 1.
    pub weight_slow: u8,
    /// Where in the round the first page of the extent is, below [`Interleave::round_pages`].
    pub position: u32,
}

impl Interleave {
    /// Pages of a round over `tiers` tiers.
    #[must_use]
    pub fn round_pages(&self, tiers: u32) -> u32 {
        u32::from(self.weight_fast) + u32::from(self.weight_slow) * tiers.saturating_sub(1)
    }

    /// The tier that the page at `position` of a round is meant for, and how many pages from there
    /// on are meant for the same tier.
    #[must_use]
    pub fn run_at(&self, position: u32) -> (Tier, u32) {
        let (fast, slow) = (u32::from(self.weight_fast), u32::from(self.weight_slow));
        match position.checked_sub(fast) {
            None => (0, fast - position),
            Some(below) => ((1 + below / slow) as Tier, slow - below % slow),
        }
    }
}

/// A tiering system: a deterministic state machine.
pub trait Policy: Send {
    /// The samplers it wants, read once before the start.
    fn samplers(&self) -> Vec<SamplerRequest> {
        Vec::new()
    }

    /// How it copies pages.
    fn mechanics(&self) -> MigrationMechanics {
        MigrationMechanics {
            lanes: 1,
            fixed_ns: 0,
            copy_gbps: 10.0,
            mode: CopyMode::Unmapped,
        }
    }

    /// What it costs to run.
    fn overheads(&self) -> Overheads {
        Overheads {
            busy_cores: 0.0,
            record_ns: 0.0,
        }
    }

    /// Where the pages of a new extent go; called once per extent, in order of first touch.
    /// The driver places them at once, so [`Context::pages`] shows them from the next call on.
    fn on_alloc(&mut self, extent: &Extent, cx: &mut Context<'_>) -> Placement {
        let _ = (extent, cx);
        Placement::FastestFree
    }

    /// Samples since the last call, in the order recorded.
    fn on_samples(&mut self, samples: &[Sample], cx: &mut Context<'_>) {
        let _ = (samples, cx);
    }

    /// Migrations that ended since the last call, in order; `idle` when none is left under way.
    fn on_migrations(&mut self, ended: &[Migrated], idle: bool, cx: &mut Context<'_>) {
        let _ = (ended, idle, cx);
    }

    /// The time asked for with [`Context::wake_at`] has come (first call: time 0).
    fn on_wake(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }

    /// Numbers worth reporting.
    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }
}
