//! The policy trait: what a tiering system may see and what it may ask for.
//!
//! The driver (simulated machine or live daemon) calls the methods of three families:
//!
//! - *observe*: [`Policy::on_alloc`], [`Policy::on_free`], [`Policy::on_samples`], [`Policy::on_faults`],
//!   [`Policy::on_migrations`]; accessed bits and counters are read through the [`Context`];
//! - *decide*: [`Policy::on_wake`]; every method that takes a [`Context`] may also ask for
//!   migrations and for its next wake-up there;
//! - *inspect*: [`Policy::gauges`], [`Policy::save`], and [`Policy::heat`] for policies that hold a policy.
//!
//! Order: `on_alloc` for what exists at the start, then one `on_wake` at time 0, then any method
//! at times that never go back. The driver executes requested migrations in the order asked, one
//! lane after another, keeps every tier within its capacity (a request that does not fit fails
//! with [`Outcome::NoSpace`]) and reports each with its outcome. A policy sees only what hardware
//! or a kernel could tell it; it never learns true access rates.

use serde::{Deserialize, Serialize};
use std::ops::Range;

use crate::action::{CopyMode, How, Migrated, MigrationMechanics, Move, Order};
use crate::placement::Placement;
use crate::random::CounterRng;
use crate::signal::{AccessedBits, Counters, Event, Fault, Needs, Sample, SamplerRequest, Truth};

/// Virtual or real time since the start, in nanoseconds.
pub type Nanos = u64;
/// Index of a page of the managed size, counted over all objects.
pub type Page = u32;
/// Index of a tier, 0 the fastest.
pub type Tier = u8;

/// What running the policy costs, beside samples and copies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Overheads {
    /// Cores kept busy all the time by polling threads.
    pub busy_cores: f64,
    /// CPU time of the sampling thread per record; records beyond what one core handles are lost.
    pub record_ns: f64,
}

/// The sizes that a policy is built for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// Bytes of a managed page.
    pub page_bytes: u64,
    /// Pages of all objects.
    pub pages: u32,
    /// Capacity of each tier, in pages.
    pub capacity_pages: Vec<u32>,
}

impl Topology {
    /// Pages of a 2 MiB huge page.
    #[must_use]
    pub fn huge_pages(&self) -> u32 {
        ((2 << 20) / self.page_bytes).max(1) as u32
    }

    /// Pages that hold `bytes`, rounded up.
    #[must_use]
    pub fn pages_in(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(self.page_bytes)).unwrap_or(u32::MAX)
    }
}

/// A range of pages that came into being together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// Number of the allocation, in order of first touch.
    pub object: u32,
    /// Number of the place in the program that allocates it: equal for allocations of one call chain.
    pub site: u32,
    /// First page.
    pub start: Page,
    /// Number of pages.
    pub pages: u32,
    /// Pages of the mapping that these are of. A live daemon hears of one piece by piece, as it is touched; a program may
    /// cut many objects from one, or have one object in many.
    pub whole_pages: u32,
}

/// Where every page is; the policy's read-only view of what the kernel's page tables say.
pub trait PageMap {
    /// The tier that holds `page` now.
    fn tier_of(&self, page: Page) -> Tier;
    /// Pages that still fit in `tier`.
    fn free_pages(&self, tier: Tier) -> u32;
}

/// What a policy works with during a call: time, view, randomness, and its outgoing requests.
pub struct Context<'a> {
    /// The time of the call.
    pub now: Nanos,
    /// Where pages are.
    pub pages: &'a dyn PageMap,
    /// Accessed bits, for a policy that [needs](Policy::needs) them.
    pub accessed: &'a mut dyn AccessedBits,
    /// Counters, for a policy that needs them.
    pub counters: &'a Counters,
    /// Hidden facts, for an offline policy that needs them.
    pub truth: Option<&'a dyn Truth>,
    /// The policy's own seeded generator.
    pub rng: &'a mut CounterRng,
    /// Requested migrations, executed in order.
    pub moves: &'a mut Vec<Move>,
    /// Other requests.
    pub orders: &'a mut Vec<Order>,
    /// When to call [`Policy::on_wake`] next; the last value set wins.
    pub wake_at: &'a mut Option<Nanos>,
}

impl Context<'_> {
    /// Asks for `page` to be moved to tier `to` in the background.
    pub fn migrate(&mut self, page: Page, to: Tier) {
        self.moves.push(Move::page(page, to));
    }

    /// Asks for `pages` neighbouring pages to be moved as one.
    pub fn migrate_run(&mut self, page: Page, pages: u32, to: Tier) {
        self.moves.push(Move::run(page, pages, to));
    }

    /// Asks the thread that took `fault` to move the page itself.
    pub fn migrate_in_fault(&mut self, fault: &Fault, to: Tier) {
        self.moves.push(Move {
            how: How::InFault { thread: fault.thread },
            ..Move::page(fault.page, to)
        });
    }

    /// Asks for a move that keeps the old frame.
    pub fn migrate_keeping(&mut self, page: Page, to: Tier) {
        self.moves.push(Move {
            how: How::KeepingFrame,
            ..Move::page(page, to)
        });
    }

    /// Asks for a move back to the kept frame, which is in tier `to`.
    pub fn remap(&mut self, page: Page, to: Tier) {
        self.moves.push(Move {
            how: How::Remap,
            ..Move::page(page, to)
        });
    }

    /// Has `page` moved by the allocating thread before the new pages are placed.
    pub fn reclaim(&mut self, page: Page, to: Tier) {
        self.moves.push(Move {
            how: How::Reclaim,
            ..Move::page(page, to)
        });
    }

    /// Has `page` moved at once and at no cost, which only an offline oracle may.
    pub fn migrate_free(&mut self, page: Page, to: Tier) {
        self.moves.push(Move {
            how: How::Free,
            ..Move::page(page, to)
        });
    }

    /// Gives up the frame that was kept for `page`.
    pub fn release(&mut self, page: Page) {
        self.orders.push(Order::Release(page));
    }

    /// Asks for the first touch of each of `pages` to be reported. A page that is armed already stays
    /// as it is; a migration takes the guard away.
    pub fn arm(&mut self, pages: Range<Page>) {
        self.orders.push(Order::Arm(pages));
    }

    /// Changes the period of a sampler that the policy has.
    pub fn set_sampling_period(&mut self, event: Event, period: u64) {
        self.orders.push(Order::SamplingPeriod(event, period));
    }

    /// Charges CPU time to the tiering system's own threads.
    pub fn spend(&mut self, cpu_ns: f64) {
        self.orders.push(Order::Background(cpu_ns.max(0.0).round() as Nanos));
    }

    /// Charges CPU time to the application's threads.
    pub fn spend_in_application(&mut self, cpu_ns: f64) {
        self.orders.push(Order::InApplication(cpu_ns.max(0.0).round() as Nanos));
    }

    /// The thread that took `fault` takes it `times` more times at once, since the guard stayed on the page so long.
    pub fn fault_again(&mut self, fault: &Fault, times: u32) {
        self.orders.push(Order::FaultAgain {
            thread: fault.thread,
            times,
        });
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

/// How a policy that holds another takes part of its work over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takeover {
    /// The outer policy promotes and demotes hot pages itself, by [`Policy::heat`]; the inner one only
    /// keeps count (and demotes cold pages, where it does that apart from promoting).
    Placement,
    /// The outer policy judges each promotion that the inner one asks for ([`Outcome::Refused`](crate::Outcome::Refused) for those
    /// that are not to be), and demotes pages of the fast tier that fault and [are
    /// hot](Policy::is_hot). So pages of the fast tier are to be armed as those of slow tiers are.
    Gate,
}

/// What a policy knows of how hot pages are.
pub trait Heat {
    /// Probability that an access goes to `page`, from 0 to 1; where pages move as a run, to the run.
    fn probability(&self, page: Page) -> f64;
    /// Calls `visit` with the pages of `tier` that were ever seen and their probability, the likeliest
    /// first as far as the policy orders them, until it returns false.
    fn for_each(&self, tier: Tier, pages: &dyn PageMap, visit: &mut dyn FnMut(Page, f64) -> bool);

    /// The probability from which on pages are not told apart, if there is one.
    fn ceiling(&self) -> Option<f64> {
        None
    }

    /// Whether the policy would move `page` at all.
    fn manages(&self, page: Page) -> bool {
        let _ = page;
        true
    }

    /// The pages that move with `page`, itself included: the first of them and their number.
    fn run_of(&self, page: Page) -> (Page, u32) {
        (page, 1)
    }
}

/// Linux's first threshold for the time from arming a page to its touch, 1 s.
const DEFAULT_HOT_THRESHOLD_NS: Nanos = 1_000_000_000;

/// A saved state that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("this is no saved state of the policy: {0}")]
pub struct StateError(pub String);

/// Implements [`Policy::save`] and [`Policy::restore`] for a policy that is `Serialize` and
/// `Deserialize` as a whole.
#[macro_export]
macro_rules! saves_itself {
    () => {
        fn save(&self) -> Vec<u8> {
            $crate::policy::to_bytes(self)
        }

        fn restore(&mut self, state: &[u8]) -> Result<(), $crate::StateError> {
            *self = $crate::policy::from_bytes(state)?;
            Ok(())
        }
    };
}

/// A state as bytes.
///
/// # Panics
/// Never for plain data, which is all that policies keep.
#[must_use]
pub fn to_bytes<T: serde::Serialize>(state: &T) -> Vec<u8> {
    postcard::to_allocvec(state).expect("plain data serialises")
}

/// A state from its bytes.
///
/// # Errors
/// When `bytes` are not a state of this type.
pub fn from_bytes<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, StateError> {
    postcard::from_bytes(bytes).map_err(|error| StateError(error.to_string()))
}

/// A tiering system: a deterministic state machine.
pub trait Policy: Send {
    /// The samplers it wants, read once before the start.
    fn samplers(&self) -> Vec<SamplerRequest> {
        Vec::new()
    }

    /// The other signals it wants, read once before the start.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// A policy to run the whole workload with beforehand, for systems that profile offline; what it
    /// [saves](Self::save) at its end is given to [`Self::learn`].
    fn rehearsal(&self) -> Option<Box<dyn Policy>> {
        None
    }

    /// What the rehearsal found out.
    ///
    /// # Errors
    /// When `notes` are not of this policy's rehearsal.
    fn learn(&mut self, notes: &[u8]) -> Result<(), StateError> {
        let _ = notes;
        Ok(())
    }

    /// Told before the start by a policy that holds this one; `false` when it cannot be done.
    fn hand_over(&mut self, taken: Takeover) -> bool {
        let _ = taken;
        false
    }

    /// Knobs that decide nothing any more once another policy has [taken over](Takeover); a composition does not have them.
    fn idle_knobs(&self) -> &'static [&'static str] {
        &[]
    }

    /// How hot pages are, for policies that hold this one.
    fn heat(&self) -> Option<&dyn Heat> {
        None
    }

    /// Whether the page of a hint fault passes this policy's own test for being hot, in whichever tier it
    /// is; asked by a policy that holds this one by [`Takeover::Gate`].
    fn is_hot(&self, fault: &Fault) -> bool {
        fault.at.saturating_sub(fault.armed_at) < DEFAULT_HOT_THRESHOLD_NS
    }

    /// Makes each scan cover `factor` times what it usually does, from the next scan on: for a policy that
    /// holds this one and leaves a part of the pages unarmed. `false` when it cannot be done.
    fn widen_scans(&mut self, factor: f64) -> bool {
        let _ = factor;
        false
    }

    /// How it copies pages.
    fn mechanics(&self) -> MigrationMechanics {
        MigrationMechanics {
            lanes: 1,
            fixed_ns: 0,
            alone_fixed_ns: 0,
            run_fixed_ns: 0,
            remap_ns: 0,
            copy_gbps: 10.0,
            mode: CopyMode::Unmapped,
            shootdowns: 0.0,
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

    /// The pages of an extent are gone, and with them migrations of them that were asked for.
    fn on_free(&mut self, extent: &Extent, cx: &mut Context<'_>) {
        let _ = (extent, cx);
    }

    /// Faults since the last call, in order of time.
    fn on_faults(&mut self, faults: &[Fault], cx: &mut Context<'_>) {
        let _ = (faults, cx);
    }

    /// Samples since the last call, in the order recorded.
    fn on_samples(&mut self, samples: &[Sample], cx: &mut Context<'_>) {
        let _ = (samples, cx);
    }

    /// Migrations that ended since the last call, in order; `idle` when none is left under way. A policy
    /// that is held by another also hears of what that one moved, and of its own that were refused.
    fn on_migrations(&mut self, ended: &[Migrated], idle: bool, cx: &mut Context<'_>) {
        let _ = (ended, idle, cx);
    }

    /// The time asked for with [`Context::wake_at`] has come (first call: time 0). A policy that needs the truth
    /// is also called when it changes.
    fn on_wake(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }

    /// Numbers worth reporting.
    fn gauges(&self) -> Vec<Gauge> {
        Vec::new()
    }

    /// Its whole state; a policy without any has nothing to save.
    fn save(&self) -> Vec<u8> {
        Vec::new()
    }

    /// Takes up a [saved](Self::save) state of a policy with the same config and topology.
    ///
    /// # Errors
    /// When `state` is not one.
    fn restore(&mut self, state: &[u8]) -> Result<(), StateError> {
        if state.is_empty() {
            return Ok(());
        }
        Err(StateError(format!("{} bytes for a policy without state", state.len())))
    }
}
