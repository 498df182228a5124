//! What a policy may see: samples, hint faults, accessed bits, counters and, offline, the truth.

use crate::{Nanos, Page, Tier};
use serde::{Deserialize, Serialize};

/// What a hardware sample counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Event {
    /// A demand load that missed the last-level cache.
    LoadMiss,
    /// A retired store, cache hits included.
    Store,
    /// A demand load that missed the last-level cache and was served by another tier than the first (loads
    /// from remote memory have an event of their own).
    SlowLoadMiss,
}

/// One hardware sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// The page accessed.
    pub page: Page,
    /// The tier that served it.
    pub tier: Tier,
    /// The event that overflowed.
    pub event: Event,
}

/// A hardware sampler that a policy wants: one record every `period` events of a kind and thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplerRequest {
    /// The event counted.
    pub event: Event,
    /// Events per record.
    pub period: u64,
}

/// Which access to a guarded page faulted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FaultKind {
    /// The first touch of a page armed with [`Context::arm`](crate::Context::arm) (a NUMA hint fault).
    Hint,
    /// The first store to a page whose old frame was kept (a write-protect fault).
    Write,
}

/// A fault that an application thread took; it has paid for it, and the guard is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fault {
    /// The page.
    pub page: Page,
    /// The tier that it was in.
    pub tier: Tier,
    /// What kind.
    pub kind: FaultKind,
    /// When the guard was set.
    pub armed_at: Nanos,
    /// When the page was touched.
    pub at: Nanos,
    /// The application thread.
    pub thread: u32,
}

/// The accessed bits of the page table.
pub trait AccessedBits {
    /// Whether `page` was accessed since its bit was last cleared, or since it was mapped; clears the bit.
    /// A page that was never cleared has been accessed: the fault that maps it sets its bit.
    fn test_and_clear(&mut self, page: Page) -> bool;
    /// The same without clearing the bit.
    fn test(&mut self, page: Page) -> bool;
    /// `page` will be tested soon: a place to look its state up, so that cache misses overlap. Changes nothing.
    fn fetch(&self, page: Page) {
        let _ = page;
    }
}

/// Counters of one tier since the start, for demand reads that miss the last-level cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct TierCounters {
    /// Requests (CHA/TOR inserts).
    pub inserts: f64,
    /// Requests in flight, integrated over time (CHA/TOR occupancy): `inserts` times loaded latency.
    pub occupancy_ns: f64,
    /// Time with at least one request in flight; occupancy over this is the parallelism.
    pub busy_ns: f64,
    /// Bytes read from the tier, by anyone.
    pub read_bytes: f64,
    /// Bytes written to the tier, by anyone.
    pub written_bytes: f64,
}

/// Counters of all cores that run the application, summed up since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreCounters {
    /// Unhalted cycles (`c` in Soar).
    pub cycles: f64,
    /// Cycles stalled on misses of the last-level cache (`s`).
    pub stall_cycles: f64,
    /// Cycles with a demand data read outstanding off core (`A1`); hits of the last-level cache count.
    pub outstanding_cycles: f64,
    /// Demand data reads outstanding off core, integrated over cycles (`A2`).
    pub occupancy_cycles: f64,
    /// Demand data reads that went off core (`A3`).
    pub reads: f64,
}

/// What the performance counters say, cumulative; a policy takes differences.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// By tier.
    pub tiers: Vec<TierCounters>,
    /// Of the application's cores.
    pub cores: CoreCounters,
    /// How long each of the application's threads has run on a core, by number, for a policy that needs hint faults: the time in
    /// which it neither slept nor waited for a core. A thread that is not listed is taken to have run all the time.
    pub run_ns: Vec<f64>,
    /// Which of the threads is the one that the program began with, if one is; nobody asks where none is listed.
    pub first_thread: Option<u32>,
}

/// Over which time [`Truth`] is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Horizon {
    /// The whole run.
    Run,
    /// What runs now, at the rates of now.
    Now,
}

/// Pages that are alike: what they will be accessed like.
pub struct Alike<'a> {
    /// Number of pages.
    pub pages: u32,
    /// The `n`-th of them, `n` below `pages`.
    pub page: &'a dyn Fn(u32) -> Page,
    /// Reads that reach memory, per page and operation-weighted: per run, or per second for
    /// [`Horizon::Now`].
    pub reads: f64,
    /// Thread time in nanoseconds that one of them costs more in each tier than in tier 0, over the
    /// same span, at unloaded latencies and the parallelism of its accesses; entry 0 is 0.
    pub stall_ns: &'a [f64],
}

/// The future and the hidden: for offline oracles only, never offered by a live driver.
pub trait Truth {
    /// Calls `visit` for every set of pages that are alike.
    fn for_each(&self, horizon: Horizon, visit: &mut dyn FnMut(&Alike<'_>));
    /// Latency of each tier if reads went to the tiers in these shares (they add up to 1) and demand gave
    /// way to latency; over the whole run a mean over time.
    fn latency_at(&self, horizon: Horizon, shares: &[f64]) -> Vec<f64>;
}

/// What a policy needs beside hardware samples; a driver that cannot offer it refuses the system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Needs {
    /// Hint faults on armed pages.
    pub hint_faults: bool,
    /// Accessed bits.
    pub accessed_bits: bool,
    /// Per-tier and per-core counters.
    pub counters: bool,
    /// [`Truth`]: simulated machines only.
    pub truth: bool,
}
