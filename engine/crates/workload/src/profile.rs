//! A recorded access profile: per slice of work, object, class and 4 KiB page, what reached memory.

use serde::{Deserialize, Serialize};

use crate::class::AccessClass;
use crate::memory::{Layout, Unit};
use crate::record::RecordRequest;

/// Version of the columns and of the metadata below; profiles of another version are refused.
pub const FORMAT_VERSION: u32 = 1;

/// Version of what the recorder counts and how.
pub const RECORDER_VERSION: u32 = 3;

/// Fingerprint of the sources of all kernels and of the recorder; part of every cache key, so that nobody has to think
/// of raising a version for recordings of changed code to be made anew.
pub const SOURCES: &str = env!("TIERTUNE_WORKLOAD_SOURCES");

/// Bytes per recorded page.
pub const PAGE_BYTES: u64 = 4096;

/// An object of the recorded run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectInfo {
    /// Name as in the kernel.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Size of one element in bytes (the bitmap counts bytes).
    pub element_bytes: u32,
    /// Order of the elements.
    pub layout: Layout,
    /// Whether `Stream` accesses sweep the object in index order.
    pub sweeps: bool,
    /// Place in the order of first touches, from 0.
    pub touch_order: u32,
    /// Squared coefficient of variation of the lines' read counts over the run, streams left out; layout `vertices` only.
    pub line_cv2: Option<f64>,
    /// Factor by which the squared variation of single elements grows when the graph doubles; 1 for positional objects.
    pub skew_growth: f64,
    /// Whether each thread touches only its own equal part.
    #[serde(default, skip_serializing_if = "is_false")]
    pub partitioned: bool,
    /// Share of fetched lines, by class, that come alone: none of those beside them in the same 256 bytes was fetched shortly
    /// before or after. Absent where nobody counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub random_share: Option<[f64; AccessClass::ALL.len()]>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl ObjectInfo {
    /// Share of lines of `class` that come alone.
    #[must_use]
    pub fn random_share(&self, class: AccessClass) -> f64 {
        self.random_share
            .map_or_else(|| class.random_share(), |shares| shares[class as usize])
    }

    /// 4 KiB pages that the object spans.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.bytes.div_ceil(PAGE_BYTES) as u32
    }
}

/// A slice of work of the recorded run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SliceInfo {
    /// Phase that the slice belongs to.
    pub phase: String,
    /// What one operation is.
    pub unit: Unit,
    /// Operations done in the slice.
    pub ops: u64,
    /// Nanoseconds of computing per operation with all data in the private caches.
    pub cpu_ns_per_op: f64,
    /// Loads and stores executed, cache hits included.
    pub accesses: u64,
    /// Of these stores, those that the program makes, or tries, by locked instructions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub locked: u64,
    /// Of these, those that wait for memory: since the one before, a miss has begun whose address needed no other.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub locked_behind_miss: u64,
    /// Of these, those since whose predecessor an element was looked up.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub locked_behind_lookup: u64,
    /// Whether accesses other than streams are equally distributed throughout the phase.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stationary: bool,
    /// Whether computing was counted by access, so that it grows with the accesses of an operation.
    #[serde(default, skip_serializing_if = "is_false")]
    pub by_access: bool,
}

impl SliceInfo {
    /// What its counts are divided by. What an iteration does after its last edge, or while an object is set up, is no
    /// operation of its own, but not nothing.
    #[must_use]
    pub fn work(&self) -> f64 {
        self.ops.max(1) as f64
    }
}

/// An object that appeared or went during the run; those there before the first phase are not listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AllocationEvent {
    /// Name of the object.
    pub object: String,
    /// Its position in [`Metadata::objects`].
    pub number: u16,
    /// Its size in bytes.
    pub bytes: u64,
    /// The slice in which it happened.
    pub slice: u32,
    /// Operations of that slice done before.
    pub ops: u64,
    /// Whether it was freed, rather than allocated.
    pub freed: bool,
}

/// The input graph as built.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphInfo {
    /// Number of vertices.
    pub vertices: u64,
    /// Stored directed edges: each undirected edge counts twice; duplicates and self loops are removed.
    pub edges: u64,
    /// Vertices without an edge.
    pub isolated: u64,
    /// Squared coefficient of variation of the vertex degrees.
    pub degree_cv2: f64,
}

/// The same kernel recorded on a graph of a quarter of the size, to measure how skew grows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmallerRun {
    /// Its scale.
    pub scale: u32,
    /// Its graph.
    pub graph: GraphInfo,
    /// Its last-level cache in bytes.
    pub llc_bytes: u64,
    /// Lines read from memory per operation.
    pub reads_per_op: f64,
    /// Lines written back per operation.
    pub writebacks_per_op: f64,
    /// Loads and stores per operation of slices whose computing is counted by access; absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accesses_per_op: Option<f64>,
}

/// Loads and stores per operation of slices whose computing is counted by access; nothing where there are none.
#[must_use]
pub fn accesses_per_op(slices: &[SliceInfo]) -> Option<f64> {
    let inside = || slices.iter().filter(|slice| slice.by_access);
    let ops = inside().map(|slice| slice.ops).sum::<u64>();
    let accesses = inside().map(|slice| slice.accesses).sum::<u64>();
    (ops > 0).then(|| accesses as f64 / ops as f64)
}

/// Everything about a profile but its rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// [`FORMAT_VERSION`] of the writer.
    pub format_version: u32,
    /// [`RECORDER_VERSION`] of the writer.
    pub recorder_version: u32,
    /// What was asked for; holds the kernel and its parameters.
    pub request: RecordRequest,
    /// What one operation is.
    pub op_meaning: String,
    /// Size of the last-level cache as modelled, in bytes.
    pub llc_bytes: u64,
    /// The input graph; graph kernels only.
    pub graph: Option<GraphInfo>,
    /// The run on the smaller graph; graph kernels only.
    pub smaller: Option<SmallerRun>,
    /// Objects; the position is the number stored in the rows.
    pub objects: Vec<ObjectInfo>,
    /// Allocations and frees during the run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<AllocationEvent>,
    /// Slices; the position is the number stored in the rows.
    pub slices: Vec<SliceInfo>,
    /// Lines read from memory over the whole run, as the cache model counted them.
    pub total_reads: u64,
    /// Lines written back over the whole run, as the cache model counted them.
    pub total_writebacks: u64,
}

/// The rows of a profile, column by column; all columns are equally long, rows sorted by the first four.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    /// Slice number.
    pub slice: Vec<u32>,
    /// Object number.
    pub object: Vec<u16>,
    /// Position of the class in [`AccessClass::ALL`].
    pub class: Vec<u8>,
    /// 4 KiB page within the object.
    pub page: Vec<u32>,
    /// Lines read from memory, prefetched ones included.
    pub reads: Vec<u32>,
    /// Part of the reads that the sampling of load misses does not see: prefetched, or fetched for a store.
    pub prefetched: Vec<u32>,
    /// Lines written back to memory.
    pub writebacks: Vec<u32>,
    /// Retired stores, cache hits included.
    pub stores: Vec<u32>,
    /// Accesses that passed the private cache.
    pub touches: Vec<u32>,
}

impl Columns {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slice.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slice.is_empty()
    }

    /// Whether all columns are equally long, sorted, and name only slices and objects that there are.
    pub(crate) fn check(&self, slices: usize, objects: &[ObjectInfo]) -> Result<(), ProfileError> {
        let error = |text: String| Err(ProfileError(text));
        let rows = self.len();
        let lengths = [
            ("object", self.object.len()),
            ("class", self.class.len()),
            ("page", self.page.len()),
            ("reads", self.reads.len()),
            ("prefetched", self.prefetched.len()),
            ("writebacks", self.writebacks.len()),
            ("stores", self.stores.len()),
            ("touches", self.touches.len()),
        ];
        if let Some((name, length)) = lengths.iter().find(|(_, length)| *length != rows) {
            return error(format!(
                "the profile's column {name} has {length} rows, its column slice has {rows}"
            ));
        }
        let key = |row: usize| (self.slice[row], self.object[row], self.class[row], self.page[row]);
        for row in 0..rows {
            let (slice, object, class, page) = key(row);
            if slice as usize >= slices {
                return error(format!(
                    "row {row} of the profile names slice {slice}, it has {}",
                    slices
                ));
            }
            if class as usize >= AccessClass::ALL.len() {
                return error(format!(
                    "row {row} of the profile names class {class}, there are {}",
                    AccessClass::ALL.len()
                ));
            }
            let Some(info) = objects.get(object as usize) else {
                return error(format!(
                    "row {row} of the profile names object {object}, it has {}",
                    objects.len()
                ));
            };
            if page >= info.pages() {
                return error(format!(
                    "row {row} of the profile names page {page} of {}, which has {}",
                    info.name,
                    info.pages()
                ));
            }
            if self.prefetched[row] > self.reads[row] {
                return error(format!("row {row} of the profile has more prefetched reads than reads"));
            }
            if row > 0 && key(row - 1) >= key(row) {
                return error(format!("row {row} of the profile is out of order"));
            }
        }
        Ok(())
    }
}

/// A recorded profile.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// Everything but the rows.
    pub metadata: Metadata,
    /// The rows.
    pub columns: Columns,
}

/// Why stored parts are not a profile; every message is one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ProfileError(pub String);

impl Profile {
    /// Puts a stored profile together again, checking that the parts fit.
    ///
    /// # Errors
    /// When the metadata is of another version or not readable, or when columns differ in length, are
    /// unsorted, or name slices, objects, classes or pages that the metadata does not have.
    pub fn from_parts(metadata_json: &str, columns: Columns) -> Result<Self, ProfileError> {
        let error = |text: String| Err(ProfileError(text));
        let value: serde_json::Value = serde_json::from_str(metadata_json)
            .map_err(|cause| ProfileError(format!("the profile's metadata is not JSON: {cause}")))?;
        if value["format_version"] != FORMAT_VERSION {
            let found = &value["format_version"];
            return error(format!(
                "the profile has format version {found}, this engine reads version {FORMAT_VERSION}"
            ));
        }
        let metadata: Metadata = serde_json::from_value(value)
            .map_err(|cause| ProfileError(format!("the profile's metadata is not valid: {cause}")))?;
        columns.check(metadata.slices.len(), &metadata.objects)?;
        Ok(Self { metadata, columns })
    }

    /// The metadata as JSON, as [`Profile::from_parts`] reads it.
    ///
    /// # Panics
    /// Never: the metadata holds only numbers, texts and lists.
    #[must_use]
    pub fn metadata_json(&self) -> String {
        serde_json::to_string(&self.metadata).expect("metadata is plain data")
    }

    /// The sum of all recorded objects, in bytes.
    #[must_use]
    pub fn footprint_bytes(&self) -> u64 {
        self.metadata.objects.iter().map(|object| object.bytes).sum()
    }

    /// Operations of the whole run.
    #[must_use]
    pub fn ops(&self) -> u64 {
        self.metadata.slices.iter().map(|slice| slice.ops).sum()
    }
}
