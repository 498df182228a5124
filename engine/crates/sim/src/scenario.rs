//! What one run is made of: machine, workload, request. These are the documents that come in as JSON.

use serde::{Deserialize, Serialize};
use tiertune_policy::Config;
use tiertune_workload::AccessClass;

use crate::observe::Observe;
use crate::page_map::PageMapRequest;

/// Tiers that a machine has at most.
pub const MOST_TIERS: usize = 8;

/// One memory tier of a machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TierModel {
    /// Name in reports.
    pub name: String,
    /// Installed capacity.
    pub capacity_bytes: u64,
    /// Unloaded latency of a random read.
    pub latency_ns: f64,
    /// Unloaded latency of sequential reads where the medium makes a difference (Optane).
    #[serde(default)]
    pub sequential_latency_ns: Option<f64>,
    /// Peak read bandwidth, 1e9 bytes/s.
    pub read_gbps: f64,
    /// Peak write bandwidth, 1e9 bytes/s.
    pub write_gbps: f64,
    /// Peak bandwidth of single lines read at random; as in sequence where it is not given.
    #[serde(default)]
    pub random_read_gbps: Option<f64>,
    /// The same of lines written.
    #[serde(default)]
    pub random_write_gbps: Option<f64>,
    /// Whether reads and writes have separate channels (UPI, CXL) or share one bus (DDR).
    #[serde(default)]
    pub duplex: bool,
    /// `[utilisation of peak bandwidth, multiple of the unloaded latency]`, ascending from `[0, 1]`.
    pub curve: Vec<[f64; 2]>,
    /// Where each figure comes from; carried along, not used.
    #[serde(default)]
    pub sources: serde_json::Value,
}

/// A modelled machine.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Name in reports.
    pub name: String,
    /// One line.
    #[serde(default)]
    pub description: String,
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
    /// Cores that application and tiering threads share.
    pub cores: u32,
    /// Clock, 1e9 cycles/s.
    pub clock_ghz: f64,
    /// Last-level cache.
    pub llc_bytes: u64,
    /// Latency of a last-level cache hit.
    pub llc_hit_ns: f64,
    /// First-level misses that a core keeps in flight.
    pub fill_buffers: f64,
    /// Instructions that a core holds in its reorder buffer.
    #[serde(default = "default_window_instructions")]
    pub window_instructions: f64,
    /// Time that the sampled thread loses per hardware sample.
    pub sample_assist_ns: f64,
    /// Time that a thread loses per hint or write-protect fault, a migration in it not counted.
    #[serde(default = "default_hint_fault_ns")]
    pub hint_fault_ns: f64,
    /// The same for one that follows at once on the same page; without a figure [`REPEATED_FAULT_SHARE`] of the first.
    #[serde(default)]
    pub repeated_fault_ns: Option<f64>,
    /// Pages whose translations a core keeps; without a figure translating costs nothing.
    #[serde(default)]
    pub tlb_entries: Option<f64>,
    /// Time that a core loses to an interrupt because a page that it may know of is moved.
    #[serde(default = "default_shootdown_ns")]
    pub shootdown_ns: f64,
    /// Times of page moves, as a multiple of those that systems declare.
    #[serde(default = "one")]
    pub migration_cost: f64,
    /// Misses in flight by class, where this machine's cores are known to differ.
    #[serde(default)]
    pub parallelism: Parallelism,
    /// Tiers, fastest first.
    pub tiers: Vec<TierModel>,
    /// Remarks; carried along, not used.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Machine {
    /// What a thread loses by a fault that follows at once on the same page.
    #[must_use]
    pub fn repeated_fault_ns(&self) -> f64 {
        self.repeated_fault_ns
            .unwrap_or(REPEATED_FAULT_SHARE * self.hint_fault_ns)
    }
}

/// Skylake's reorder buffer.
fn default_window_instructions() -> f64 {
    224.0
}

/// Demand misses that a core keeps in flight, by class; a class without a figure has the model's.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parallelism {
    /// Of gathers.
    #[serde(default)]
    pub gather: Option<f64>,
    /// Of independent reads.
    #[serde(default)]
    pub random: Option<f64>,
    /// Of independent updates.
    #[serde(default)]
    pub update: Option<f64>,
    /// Of independent updates by locked instructions.
    #[serde(default)]
    pub locked: Option<f64>,
}

impl Parallelism {
    /// The figure of a class.
    #[must_use]
    pub fn of(&self, class: AccessClass) -> Option<f64> {
        match class {
            AccessClass::Gather => self.gather,
            AccessClass::Random => self.random,
            AccessClass::Update => self.update,
            // One at a time by definition; streams are the prefetcher's, lookups the window's.
            AccessClass::Chase | AccessClass::Stream | AccessClass::Lookup => None,
        }
    }
}

/// Published: 0.5 to 1 us for each core that a TLB shootdown goes to.
fn default_shootdown_ns() -> f64 {
    750.0
}

/// What a fault takes that finds all it touches in the caches. Measured: minor faults on shared memory take 745 ns on the
/// same 64 pages again and again, 1300 in random order over 1 GiB (Linux 6.18, virtualised; write faults, so that none
/// maps neighbours).
const REPEATED_FAULT_SHARE: f64 = 0.57;

/// A minor fault on bare metal takes 0.5 to 1.5 us, a hint fault 1 to 2 us with its bookkeeping.
fn default_hint_fault_ns() -> f64 {
    1500.0
}

/// How popular the pages of an object are within a stream.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Law {
    /// All pages of a part of the object alike; `from` and `to` are fractions of it.
    Uniform {
        /// Start of the part.
        #[serde(default)]
        from: f64,
        /// End of the part.
        #[serde(default = "one")]
        to: f64,
    },
    /// Parts with given weights, uniform inside each.
    Pieces {
        /// Ascending fractions from 0 to 1, one more than weights.
        edges: Vec<f64>,
        /// Relative weights.
        weights: Vec<f64>,
    },
    /// Equal parts with given weights, as recorded profiles have them.
    Bins {
        /// Relative weights, front to back.
        weights: Vec<f32>,
    },
    /// Popularity falls with the position as `position^-theta`.
    Zipf {
        /// Skew, 0 (uniform) to 3; ranks count stretches of 4 KiB.
        theta: f64,
    },
    /// Front to back over and over; each thread has its own equal part.
    Sweep,
}

fn one() -> f64 {
    1.0
}

/// One homogeneous flow of accesses.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StreamModel {
    /// Name of the object.
    pub object: String,
    /// Popularity of its pages.
    pub law: Law,
    /// Dependence of the accesses.
    pub class: AccessClass,
    /// Cache lines read per operation, after private caches.
    pub reads_per_op: f64,
    /// Lines written back to memory per operation.
    #[serde(default)]
    pub writebacks_per_op: f64,
    /// Retired stores per operation, cache hits included: what a store sampler counts.
    #[serde(default)]
    pub stores_per_op: f64,
    /// Misses in flight per core, instead of the class's value.
    #[serde(default)]
    pub mlp: Option<f64>,
    /// Share of reads that the prefetcher brings in, instead of the class's value.
    #[serde(default)]
    pub prefetched_share: Option<f64>,
    /// Share of its lines that come alone, none of those beside them in the same 256 bytes soon before or after, instead of
    /// the class's value.
    #[serde(default)]
    pub random_share: Option<f64>,
    /// Whether reads have already missed the last-level cache (recorded profiles).
    #[serde(default)]
    pub missed_llc: bool,
    /// Hits of the last-level cache per operation, where reads have already missed it: what core
    /// counters count and page tables notice, but memory does not.
    #[serde(default)]
    pub llc_hits_per_op: f64,
    /// Whether each thread only touches its own equal part of the object, in order of threads; the
    /// group's operations are then shared out evenly and the slowest thread ends the phase.
    #[serde(default)]
    pub partitioned: bool,
    /// Whether its pages come with these accesses: nobody could mark them before, so that they take no hint fault.
    #[serde(default)]
    pub first_touch: bool,
}

/// Threads that do the same kind of operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupModel {
    /// Name in reports.
    pub name: String,
    /// How many threads.
    pub threads: u32,
    /// Operations of all threads together; absent: as many as fit in the phase.
    #[serde(default)]
    pub ops: Option<f64>,
    /// Compute time per operation, caches warm.
    pub cpu_ns_per_op: f64,
    /// Locked instructions per operation, those left out since whose predecessor nothing missed.
    #[serde(default)]
    pub locked_per_op: f64,
    /// Locked instructions per operation since whose predecessor an element was looked up; as many as above when absent.
    #[serde(default)]
    pub locked_lookups_per_op: Option<f64>,
    /// Memory accesses.
    pub streams: Vec<StreamModel>,
}

/// A stretch of work; ends when all groups with `ops` are done, or after `seconds`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseModel {
    /// Name in reports.
    pub name: String,
    /// Fixed duration instead of fixed work.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// Objects that are freed when it begins, before any is allocated.
    #[serde(default)]
    pub free: Vec<String>,
    /// Objects that are allocated when it begins; an object that no phase allocates exists from the start.
    #[serde(default)]
    pub allocate: Vec<String>,
    /// Concurrent groups.
    pub groups: Vec<GroupModel>,
}

/// Phases that repeat together.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// How often.
    #[serde(default = "once")]
    pub repeat: u32,
    /// Whether this is before the run: systems act, but the time does not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untimed: bool,
    /// In order.
    pub phases: Vec<PhaseModel>,
}

fn once() -> u32 {
    1
}

/// A contiguous range of memory.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectModel {
    /// Name, for streams to refer to.
    pub name: String,
    /// Size.
    pub bytes: u64,
    /// Whether equal popularity is scattered over the object instead of lying together.
    #[serde(default)]
    pub scattered: bool,
    /// The place in the program that allocates it, where several objects share one; its name by default.
    #[serde(default)]
    pub site: Option<String>,
    /// Bytes of the mapping that it is part of, or of each of those that it is made of; its own size by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping_bytes: Option<u64>,
    /// Whether it is first touched side by side with all others that are, each by and by in proportion to its size.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub side_by_side: bool,
    /// For an object that is there before the first phase only: it is freed once the one of this name has been placed, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed_after: Option<String>,
}

/// A workload as streams. Objects are in order of first touch.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkloadModel {
    /// Memory.
    pub objects: Vec<ObjectModel>,
    /// Work.
    pub blocks: Vec<Block>,
    /// Whether the program's first thread waits for these, as where they are started with pthreads; with OpenMP it is one of them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first_thread_waits: bool,
}

/// Traffic of somebody else on a tier: constant while it lasts, or of threads that wait for their lines.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contention {
    /// Index of the tier.
    pub tier: usize,
    /// Reads, 1e9 bytes/s.
    #[serde(default)]
    pub read_gbps: f64,
    /// Writes, 1e9 bytes/s.
    #[serde(default)]
    pub write_gbps: f64,
    /// Cache lines that its threads always have in flight for reads: so many lines per loaded latency.
    #[serde(default)]
    pub read_lines: f64,
    /// The same for writes.
    #[serde(default)]
    pub write_lines: f64,
    /// When it begins, in seconds of the run.
    #[serde(default)]
    pub from_s: f64,
    /// When it ends; without, it goes on to the end.
    #[serde(default)]
    pub until_s: Option<f64>,
}

/// How accesses are simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Rates and thinning: cost grows with samples and migrations.
    #[default]
    Fast,
    /// Every access through an explicit cache and page table.
    Reference,
}

/// Whether two configurations at the same seed share their random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Noise {
    /// Every (config, seed) has its own noise, as on hardware.
    #[default]
    Independent,
    /// The seed alone decides, so that differences between configurations stand out.
    Paired,
}

/// One run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The machine.
    pub machine: Machine,
    /// Name of the tiering system.
    pub system: String,
    /// Its knobs; missing ones take their defaults.
    #[serde(default)]
    pub config: Config,
    /// Managed page size.
    pub page_bytes: u64,
    /// Fast-tier memory that the workload may use.
    pub fast_bytes: u64,
    /// Seed of all randomness.
    pub seed: u64,
    /// Independent or paired noise.
    #[serde(default)]
    pub noise: Noise,
    /// Fast or reference.
    #[serde(default)]
    pub mode: Mode,
    /// Points of the returned time series; 0 for none.
    #[serde(default)]
    pub timeline_points: usize,
    /// Page map to return (fast mode); none by default.
    #[serde(default)]
    pub page_map: Option<PageMapRequest>,
    /// What is counted beside the metrics; nothing by default.
    #[serde(default)]
    pub observe: Vec<Observe>,
    /// Co-runners.
    #[serde(default)]
    pub contention: Vec<Contention>,
    /// Whether to measure where the time of the run itself goes (fast mode).
    #[serde(default)]
    pub timings: bool,
    /// Simulated seconds after which a run is given up (fast mode); never by default.
    #[serde(default)]
    pub give_up_s: Option<f64>,
    /// Longest stretch at constant rates while a sampler runs.
    #[serde(default = "default_slice_ns")]
    pub slice_ns: u64,
}

/// 1 ms: a tenth of the shortest policy period in use, and what loaded latency is solved for.
fn default_slice_ns() -> u64 {
    1_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_are_refused() {
        let error = serde_json::from_str::<ObjectModel>(r#"{"name": "a", "bytes": 1, "size": 2}"#).unwrap_err();
        assert!(error.to_string().contains("size"), "{error}");
    }
}
