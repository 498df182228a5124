//! Profiles of processes that nobody here executed: sampled on a host, or imported from another tool.
//!
//! They hold the same columns as recorded ones. What was executed is not known, so they are replayed at the size at
//! which they were seen; what was not seen either (how much traffic a touched page stands for) is said in the metadata.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::carry::bins::{bin_count, cut};
use crate::carry::rows::{page_count, streams};
use crate::carry::{CarryError, CarrySpec, Replay, ReplayObject, ReplaySlice, ReplayStream};
use crate::profile::{Columns, FORMAT_VERSION, ObjectInfo, ProfileError, SliceInfo};

/// The largest replayed process: 2^44 bytes.
const MOST_BYTES: u64 = 1 << 44;

/// Where a profile comes from and what it cannot say.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The program, as it was called.
    pub program: String,
    /// Sampler, or the tool whose file was imported.
    pub sampler: String,
    /// What the sampler sees, and what it does not.
    pub sees: String,
    /// What one operation is.
    pub operation: String,
    /// Threads that were busy on average, at least 1; replayed so unless asked otherwise.
    pub threads: u32,
    /// Settings of the sampler.
    pub parameters: BTreeMap<String, String>,
    /// The machine that it ran on.
    pub machine: BTreeMap<String, String>,
    /// Numbers by which touches became traffic, with their units in their names.
    pub scaling: BTreeMap<String, f64>,
    /// What was assumed or left out, in sentences.
    pub notes: Vec<String>,
}

/// Everything about a measured profile but its rows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Metadata {
    /// [`FORMAT_VERSION`] of the writer.
    pub format_version: u32,
    /// Where it comes from.
    pub measured: Source,
    /// Objects; the position is the number stored in the rows.
    pub objects: Vec<ObjectInfo>,
    /// Slices; the position is the number stored in the rows.
    pub slices: Vec<SliceInfo>,
}

/// A profile of a process.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Everything but the rows.
    pub metadata: Metadata,
    /// The rows.
    pub columns: Columns,
}

/// Whether stored metadata is of a measured profile rather than a recorded one.
#[must_use]
pub fn is_measured(metadata_json: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(metadata_json).is_ok_and(|value| value.get("measured").is_some())
}

impl Measured {
    /// Puts a stored profile together, checking that the parts fit.
    ///
    /// # Errors
    /// As [`crate::Profile::from_parts`]; also for slices without work and objects that are too large.
    pub fn from_parts(metadata_json: &str, columns: Columns) -> Result<Self, ProfileError> {
        let value: serde_json::Value = serde_json::from_str(metadata_json)
            .map_err(|cause| ProfileError(format!("the profile's metadata is not JSON: {cause}")))?;
        if value["format_version"] != FORMAT_VERSION {
            let found = &value["format_version"];
            return Err(ProfileError(format!(
                "the profile has format version {found}, this engine reads version {FORMAT_VERSION}"
            )));
        }
        let metadata: Metadata = serde_json::from_value(value)
            .map_err(|cause| ProfileError(format!("the profile's metadata is not valid: {cause}")))?;
        if metadata.objects.is_empty() || metadata.objects.iter().any(|object| object.bytes == 0) {
            return Err(ProfileError("the profile has an object without a page".to_owned()));
        }
        let bytes: u128 = metadata.objects.iter().map(|object| u128::from(object.bytes)).sum();
        if bytes > u128::from(MOST_BYTES) {
            return Err(ProfileError(format!(
                "the profile's objects have {bytes} bytes, the most is {MOST_BYTES}"
            )));
        }
        let works = |slice: &SliceInfo| slice.ops > 0 && slice.cpu_ns_per_op.is_finite() && slice.cpu_ns_per_op > 0.0;
        if let Some(idle) = metadata.slices.iter().position(|slice| !works(slice)) {
            return Err(ProfileError(format!("slice {idle} of the profile has no work in it")));
        }
        if metadata.measured.threads == 0 {
            return Err(ProfileError("the profile has no threads".to_owned()));
        }
        columns.check(metadata.slices.len(), &metadata.objects)?;
        if columns.is_empty() {
            return Err(ProfileError("the profile has no row: nothing was seen".to_owned()));
        }
        Ok(Self { metadata, columns })
    }

    /// As the simulator replays it, on pages of `spec.page_bytes`.
    ///
    /// # Errors
    /// When `spec` asks for another size: what is not known cannot be scaled.
    pub fn carry(&self, spec: &CarrySpec) -> Result<Replay, CarryError> {
        spec.check()?;
        if let Some((key, _)) = spec.sizes().next() {
            return Err(CarryError(format!(
                "carry.{key} is for a kernel; a measured process is replayed at its own size and carried by nothing but 'runs'"
            )));
        }
        if spec.loading.is_some() {
            return Err(CarryError(
                "carry.loading is for a kernel on a graph; leave it out".to_owned(),
            ));
        }
        let objects = &self.metadata.objects;
        let mut order: Vec<usize> = (0..objects.len()).collect();
        order.sort_by_key(|number| objects[*number].touch_order);
        let mut place = vec![0; order.len()];
        for (position, number) in order.iter().enumerate() {
            place[*number] = position;
        }
        let bins = |object: &ObjectInfo| bin_count(page_count(object), object.bytes.div_ceil(spec.page_bytes));
        let slice = |slice: &SliceInfo| ReplaySlice {
            phase: slice.phase.clone(),
            ops: slice.ops as f64,
            cpu_ns_per_op: slice.cpu_ns_per_op,
            locked_per_op: 0.0,
            locked_lookups_per_op: 0.0,
            one_thread: false,
            free: Vec::new(),
            allocate: Vec::new(),
            streams: Vec::new(),
        };
        let mut slices: Vec<ReplaySlice> = self.metadata.slices.iter().map(slice).collect();
        for stream in streams(&self.columns, objects) {
            let ops = self.metadata.slices[stream.slice].ops as f64;
            let weights = cut(&stream.shares(), bins(&objects[stream.object]));
            slices[stream.slice].streams.push(ReplayStream {
                object: place[stream.object],
                class: stream.class,
                reads_per_op: stream.reads as f64 / ops,
                prefetched_share: stream.prefetched as f64 / stream.reads.max(1) as f64,
                random_share: objects[stream.object].random_share(stream.class),
                writebacks_per_op: stream.writebacks as f64 / ops,
                stores_per_op: stream.stores as f64 / ops,
                // Visits that hit caches were not counted, only that a page was touched.
                llc_hits_per_op: 0.0,
                weights: weights.iter().map(|weight| *weight as f32).collect(),
                partitioned: false,
                first_touch: false,
            });
        }
        let source = &self.metadata.measured;
        let mut notes = vec![format!(
            "Measured on a real process ({}), sampler {}: {}.",
            source.program, source.sampler, source.sees
        )];
        notes.extend(source.notes.iter().cloned());
        let replayed = order.iter().map(|number| &objects[*number]).map(|object| ReplayObject {
            name: object.name.clone(),
            bytes: object.bytes,
            bins: bins(object),
            scattered: false,
            mapping_bytes: None,
            side_by_side: false,
            freed_after: None,
        });
        Ok(Replay {
            loading: Vec::new(),
            objects: replayed.collect(),
            slices,
            repeat: spec.runs,
            notes,
        })
    }
}
