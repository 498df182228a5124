//! A recorded profile carried to a larger input: what the simulator replays.

use serde::{Deserialize, Serialize};

use crate::class::AccessClass;
use crate::profile::{PAGE_BYTES, Profile};
use crate::record::RecordRequest;

mod bins;
mod graph;
mod growth;
mod gups;
mod notes;
mod reshape;
mod rows;
mod traffic;

/// The most parts an object is cut into.
pub const MAX_BINS: u32 = 8192;

/// To what a profile is carried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CarrySpec {
    /// Graph scale (2^scale vertices) of the replayed run; the recorded one if not given. Graph kernels only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<u32>,
    /// Table size in bytes of the replayed run; the recorded one if not given. GUPS only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_bytes: Option<u64>,
    /// Hot bytes of the replayed run; if not given they grow with the table. GUPS only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot_bytes: Option<u64>,
    /// Page size in bytes that the replay will place and migrate.
    pub page_bytes: u64,
    /// How often the recorded run is repeated.
    #[serde(default = "one_run")]
    pub runs: u32,
}

fn one_run() -> u32 {
    1
}

/// A workload ready for the simulator: objects, and for each slice of work who touches what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// Objects in the order in which they are first touched.
    pub objects: Vec<ReplayObject>,
    /// Slices of work in order.
    pub slices: Vec<ReplaySlice>,
    /// How often the whole list of slices runs.
    pub repeat: u32,
    /// In plain words: what was scaled and how.
    pub notes: Vec<String>,
}

impl Replay {
    /// The sum of all objects, in bytes.
    #[must_use]
    pub fn footprint_bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.bytes).sum()
    }
}

/// One contiguous object of the replayed workload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayObject {
    /// Name as in the kernel.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Number of equal parts for which weights are given.
    pub bins: u32,
    /// Whether the pages of a bin lie all over the object (a popularity class) instead of side by side.
    pub scattered: bool,
}

/// One slice of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplaySlice {
    /// Phase that the slice belongs to.
    pub phase: String,
    /// Operations in this slice (always above 0).
    pub ops: f64,
    /// Nanoseconds of computing per operation with all data in the private caches.
    pub cpu_ns_per_op: f64,
    /// Who touches what; streams without any access are left out.
    pub streams: Vec<ReplayStream>,
}

/// The accesses of one class to one object within a slice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReplayStream {
    /// Index into [`Replay::objects`].
    pub object: usize,
    /// How the accesses depend on each other.
    pub class: AccessClass,
    /// Lines read from memory per operation, prefetched ones included.
    pub reads_per_op: f64,
    /// Part of the reads that the sampling of load misses does not see (prefetched, or fetched for a store); 0 to 1.
    pub prefetched_share: f64,
    /// Lines written back to memory per operation.
    pub writebacks_per_op: f64,
    /// Retired stores per operation, cache hits included.
    pub stores_per_op: f64,
    /// Share of the accesses that go to each bin of the object; as long as the object has bins, sums to 1.
    pub weights: Vec<f32>,
    /// Whether each thread touches only its own equal part of the object, parts in thread order.
    #[serde(default)]
    pub partitioned: bool,
}

/// Why a profile cannot be carried; every message is one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CarryError(pub String);

impl Profile {
    /// The profile as the simulator replays it, at the size and page size of `spec`. See [`Replay::notes`] for what was scaled.
    ///
    /// # Errors
    /// When `spec` asks for keys of another kernel, for less than what was recorded, or for an impossible page size.
    pub fn carry(&self, spec: &CarrySpec) -> Result<Replay, CarryError> {
        if spec.page_bytes < PAGE_BYTES || !spec.page_bytes.is_power_of_two() {
            let near = spec.page_bytes.clamp(PAGE_BYTES, 1 << 40).next_power_of_two();
            return Err(CarryError(format!(
                "page_bytes is {}, it must be a power of two from {PAGE_BYTES}; the nearest is {near}",
                spec.page_bytes
            )));
        }
        if spec.runs == 0 {
            return Err(CarryError("carry.runs is 0, it must be at least 1".to_owned()));
        }
        let foreign = |key: &str, owner: &str| {
            let kernel = self.metadata.request.kernel();
            Err(CarryError(format!(
                "carry.{key} belongs to {owner}, but the recorded kernel is {kernel}"
            )))
        };
        if let RecordRequest::Gups(request) = &self.metadata.request {
            if spec.scale.is_some() {
                return foreign("scale", "the graph kernels");
            }
            return gups::carry(self, request, spec);
        }
        if spec.table_bytes.is_some() {
            return foreign("table_bytes", "gups");
        }
        if spec.hot_bytes.is_some() {
            return foreign("hot_bytes", "gups");
        }
        graph::carry(self, spec)
    }
}
