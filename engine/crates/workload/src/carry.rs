//! A recorded profile carried to a larger input: what the simulator replays.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};

use crate::class::AccessClass;
use crate::kernel::Kernel;
use crate::kernels::KERNELS;
use crate::parameter::suggestion;
use crate::profile::{PAGE_BYTES, Profile};

pub(crate) mod bins;
mod chance;
pub(crate) mod graph;
mod grown;
mod growth;
pub(crate) mod gups;
pub(crate) mod loading;
mod longer;
mod mapping;
mod notes;
mod reading;
mod reshape;
pub(crate) mod rows;
pub(crate) mod stretch;
mod traffic;

pub use loading::Loading;

/// The most parts an object is cut into.
pub const MAX_BINS: u32 = 8192;

/// To what a profile is carried. In JSON sizes stand beside the other keys: `{"scale": 29, "page_bytes": 2097152}`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Map<String, Json>")]
pub struct CarrySpec {
    sizes: BTreeMap<String, u64>,
    /// Page size in bytes that the replay will place and migrate.
    pub page_bytes: u64,
    /// How often the recorded run is repeated.
    pub runs: u32,
    /// How the graph got into memory; if it is not said, it is there as if in its arrays from the beginning.
    pub loading: Option<Loading>,
}

impl CarrySpec {
    /// The recorded size, replayed once on pages of this size.
    #[must_use]
    pub fn new(page_bytes: u64) -> Self {
        Self {
            sizes: BTreeMap::new(),
            page_bytes,
            runs: 1,
            loading: None,
        }
    }

    /// The same with another value of a parameter that kernels are carried by (see [`crate::parameter::Parameter::carried`]).
    #[must_use]
    pub fn with(mut self, parameter: &str, value: u64) -> Self {
        self.sizes.insert(parameter.to_owned(), value);
        self
    }

    /// What a parameter is carried to; nothing if it keeps its recorded value.
    #[must_use]
    pub fn size(&self, parameter: &str) -> Option<u64> {
        self.sizes.get(parameter).copied()
    }

    /// Whether page size and runs are possible.
    pub(crate) fn check(&self) -> Result<(), CarryError> {
        if self.page_bytes < PAGE_BYTES || !self.page_bytes.is_power_of_two() {
            let near = self.page_bytes.clamp(PAGE_BYTES, 1 << 40).next_power_of_two();
            return Err(CarryError(format!(
                "page_bytes is {}, it must be a power of two from {PAGE_BYTES}; the nearest is {near}",
                self.page_bytes
            )));
        }
        if self.runs == 0 {
            return Err(CarryError("carry.runs is 0, it must be at least 1".to_owned()));
        }
        Ok(())
    }

    /// All parameters that are carried, by name.
    pub fn sizes(&self) -> impl Iterator<Item = (&str, u64)> {
        self.sizes.iter().map(|(name, value)| (name.as_str(), *value))
    }
}

impl TryFrom<Map<String, Json>> for CarrySpec {
    type Error = CarryError;

    fn try_from(map: Map<String, Json>) -> Result<Self, CarryError> {
        let number = |key: &str, value: &Json| {
            value
                .as_u64()
                .ok_or_else(|| CarryError(format!("carry.{key} is {value}, it must be a whole number")))
        };
        let Some(page_bytes) = map.get("page_bytes") else {
            return Err(CarryError("carry.page_bytes is missing".to_owned()));
        };
        let mut spec = Self::new(number("page_bytes", page_bytes)?);
        for (key, value) in &map {
            match key.as_str() {
                "page_bytes" => {}
                "runs" => {
                    let runs = number(key, value)?;
                    spec.runs = u32::try_from(runs)
                        .map_err(|_| CarryError(format!("carry.runs is {runs}, the most is {}", u32::MAX)))?;
                }
                "loading" => {
                    let name = value
                        .as_str()
                        .ok_or_else(|| CarryError(format!("carry.loading is {value}, it must be a word")))?;
                    spec.loading = Some(Loading::named(name).map_err(CarryError)?);
                }
                _ if KERNELS.iter().any(|kernel| kernel.carries(key)) => {
                    spec.sizes.insert(key.clone(), number(key, value)?);
                }
                _ => {
                    let carried = KERNELS
                        .iter()
                        .flat_map(|kernel| kernel.parameters)
                        .filter(|known| known.carried);
                    let known = carried.map(|known| known.name).chain(["loading", "page_bytes", "runs"]);
                    let near = suggestion(key, known);
                    return Err(CarryError(format!("carry.{key} is not a size of any kernel{near}")));
                }
            }
        }
        Ok(spec)
    }
}

/// A workload ready for the simulator: objects, and for each slice of work who touches what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Replay {
    /// Objects in the order in which they are first touched.
    pub objects: Vec<ReplayObject>,
    /// Slices before the run, which are not timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loading: Vec<ReplaySlice>,
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
    /// Bytes of the mapping that the object is part of, or of each of those that it is made of; none if it is one by
    /// itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping_bytes: Option<u64>,
    /// Whether it is first touched side by side with all others that are.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub side_by_side: bool,
    /// For an object that is there before the run only: freed once the one with this number has been placed, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freed_after: Option<usize>,
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
    /// Locked instructions per operation that wait for misses.
    #[serde(default)]
    pub locked_per_op: f64,
    /// Locked instructions per operation with a lookup since the one before.
    #[serde(default)]
    pub locked_lookups_per_op: f64,
    /// Whether one thread does it while all others wait.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_thread: bool,
    /// Objects freed when it begins, as positions in [`Replay::objects`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub free: Vec<usize>,
    /// Objects allocated when it begins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocate: Vec<usize>,
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
    /// Share of the lines that come alone, none of those beside them in the same 256 bytes with them.
    pub random_share: f64,
    /// Lines written back to memory per operation.
    pub writebacks_per_op: f64,
    /// Retired stores per operation, cache hits included.
    pub stores_per_op: f64,
    /// Hits of the last-level cache per operation, beside the reads.
    #[serde(default)]
    pub llc_hits_per_op: f64,
    /// Share of the accesses that go to each bin of the object; as long as the object has bins, sums to 1.
    pub weights: Vec<f32>,
    /// Whether each thread touches only its own equal part of the object, parts in thread order.
    #[serde(default)]
    pub partitioned: bool,
    /// Whether its pages come with these accesses, so that no scanner has seen them before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first_touch: bool,
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
        spec.check()?;
        let kernel = self.metadata.request.definition();
        for (key, _) in spec.sizes() {
            if !kernel.carries(key) {
                return Err(CarryError(format!(
                    "carry.{key} belongs to {}, but the recorded kernel is {}",
                    owners(key),
                    kernel.name
                )));
            }
        }
        loading::check(spec.loading, kernel)?;
        (kernel.carry)(self, spec)
    }
}

/// The kernels that are carried by a parameter, in words.
fn owners(parameter: &str) -> String {
    let owners: Vec<&Kernel> = KERNELS.iter().filter(|kernel| kernel.carries(parameter)).collect();
    if owners.iter().all(|kernel| kernel.graph.is_some()) {
        return "the graph kernels".to_owned();
    }
    let names: Vec<&str> = owners.iter().map(|kernel| kernel.name).collect();
    names.join(", ")
}
