//! Executing a kernel under the recorder.

use serde::{Deserialize, Serialize};

use crate::carry::{CarrySpec, loading};
use crate::kernel::Program;
use crate::memory::{Memory, ObjectSpec};
use crate::parameter::{Parameter, ParameterError, Values};
use crate::profile::{FORMAT_VERSION, GraphInfo, Metadata, Profile, RECORDER_VERSION, SmallerRun};
use crate::recorder::{Recorder, Recording};
use crate::request::LEAST_LLC_BYTES;
pub use crate::request::{RecordError, RecordRequest};

/// Slices of equal work that a run is cut into; the boundaries of levels and phases add more.
pub(crate) const WORK_SLICES: u64 = 64;
/// More slices than this are not asked for.
const MOST_SLICES: u64 = 1200;
/// The largest footprint that is recorded, in bytes, unless a kernel says otherwise.
const MOST_BYTES: u64 = 8 << 30;

/// Sizes before and after carrying, known before anything is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// All objects of the recorded run in bytes (for graphs: the expected value).
    pub recorded_bytes: u64,
    /// All objects of the replayed run in bytes.
    pub carried_bytes: u64,
    /// The most of them that is there at a time, what is there while the input is loaded left out.
    pub footprint_bytes: u64,
    /// Last-level cache to record with: the machine's, scaled by recorded over carried bytes.
    pub llc_bytes: u64,
}

/// How large the run and its carried version are, and which cache to record with. `llc_bytes` of the request is ignored.
///
/// # Errors
/// When the request is out of range.
pub fn plan(request: &RecordRequest, spec: &CarrySpec, machine_llc_bytes: u64) -> Result<Plan, RecordError> {
    request.clone().with_llc_bytes(LEAST_LLC_BYTES).check()?;
    let kernel = request.definition();
    loading::check(spec.loading, kernel).map_err(|error| RecordError(error.0))?;
    let bytes = |values: &Values| (kernel.objects)(values).iter().map(|object| object.bytes).sum::<u64>();
    let recorded_bytes = bytes(request.values());
    let sizes: Vec<(&str, u64)> = spec.sizes().filter(|(name, _)| kernel.carries(name)).collect();
    let carried = (kernel.resize)(request.values(), &sizes);
    let carried_bytes = bytes(&carried);
    let scaled = machine_llc_bytes as f64 * recorded_bytes as f64 / carried_bytes as f64;
    Ok(Plan {
        recorded_bytes,
        carried_bytes,
        footprint_bytes: kernel.footprint_bytes(&carried),
        llc_bytes: (scaled.round() as u64).max(LEAST_LLC_BYTES),
    })
}

/// Executes the kernel and returns what reached memory. Equal requests give equal profiles.
///
/// # Errors
/// When the request is out of range.
pub fn record(request: &RecordRequest) -> Result<Profile, RecordError> {
    request.check()?;
    Ok((request.definition().record)(request))
}

/// Executes a kernel that needs nothing beside its parameters.
#[must_use]
pub fn record_plain<P: Program>(request: &RecordRequest) -> Profile {
    record_sliced::<P>(request, 0, WORK_SLICES)
}

/// The same with a last-level cache of at least `held_bytes`: what a loop body reuses at once and a real cache holds at
/// any size, although a cache that is scaled with the footprint would not (rows of a grid that shrinks in three
/// dimensions). Cut into about so many slices of equal work: several for each sweep, where sweeps are what a run does.
#[must_use]
pub fn record_sliced<P: Program>(request: &RecordRequest, held_bytes: u64, slices: u64) -> Profile {
    let llc_bytes = request.llc_bytes().max(held_bytes);
    let mut recorder = Recorder::new(
        llc_bytes,
        P::ops(request.values()).div_ceil(slices.clamp(WORK_SLICES, MOST_SLICES)),
    )
    .windowed(request.window_share());
    P::run(&mut recorder, request.values());
    recorder.end();
    assemble(request, recorder.finish(), None, None)
}

/// Whether the objects are small enough to be recorded on the machines on which tests run.
///
/// # Errors
/// With the first parameter that a recording can be carried by.
pub fn check_footprint(
    parameters: &[Parameter],
    values: &Values,
    objects: &[ObjectSpec],
) -> Result<(), ParameterError> {
    let bytes: u64 = objects.iter().map(|object| object.bytes).sum();
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    let blamed = parameters.iter().find(|parameter| parameter.carried);
    let name = blamed
        .or(parameters.first())
        .map_or("kernel", |parameter| parameter.name);
    let text = format!(
        "is {}, which takes {bytes} bytes; at most {MOST_BYTES} bytes are recorded (carry.{name} may be larger)",
        values.get(name).document()
    );
    Err(ParameterError::new(name, text))
}

pub(crate) fn assemble(
    request: &RecordRequest,
    recording: Recording,
    graph: Option<GraphInfo>,
    smaller: Option<SmallerRun>,
) -> Profile {
    Profile {
        metadata: Metadata {
            format_version: FORMAT_VERSION,
            recorder_version: RECORDER_VERSION,
            request: request.clone(),
            op_meaning: request.definition().op_meaning.to_owned(),
            llc_bytes: recording.llc_bytes,
            graph,
            smaller,
            objects: recording.objects,
            events: recording.events,
            slices: recording.slices,
            total_reads: recording.total_reads,
            total_writebacks: recording.total_writebacks,
        },
        columns: recording.columns,
    }
}
