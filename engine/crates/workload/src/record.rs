//! Executing a kernel under the recorder.

use serde::{Deserialize, Serialize};

use crate::carry::CarrySpec;
use crate::graph::Graph;
use crate::kernels::{bc, graph_bytes, gups, pr};
use crate::law::expected_edges;
use crate::memory::Layout;
use crate::profile::{FORMAT_VERSION, GraphInfo, Metadata, Profile, RECORDER_VERSION, SmallerRun};
use crate::recorder::{Recorder, Recording};
pub use crate::request::{BcRequest, GupsRequest, HotMove, Moves, PrRequest, RecordError, RecordRequest};
use crate::request::{GraphRun, LEAST_LLC_BYTES, refuse};

/// Slices of equal work that a run is cut into; the boundaries of levels and phases add more.
const WORK_SLICES: u64 = 64;
/// The graph that measures how skew grows is smaller by this many doublings.
const SMALLER_BY: u32 = 2;
/// Elements of GUPS' table that are backed while recording.
const RECORDED_BACKING: usize = 1 << 10;

/// Sizes before and after carrying, known before anything is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Footprint of the recorded run in bytes (for graphs: its expected value).
    pub recorded_bytes: u64,
    /// Footprint of the replayed run in bytes.
    pub carried_bytes: u64,
    /// Last-level cache to record with: the machine's, scaled by recorded over carried footprint.
    pub llc_bytes: u64,
}

/// How large the run and its carried version are, and which cache to record with. `llc_bytes` of the request is ignored.
///
/// # Errors
/// When the request is out of range.
pub fn plan(request: &RecordRequest, spec: &CarrySpec, machine_llc_bytes: u64) -> Result<Plan, RecordError> {
    request.clone().with_llc_bytes(LEAST_LLC_BYTES).check()?;
    let (recorded_bytes, carried_bytes) = match (request, request.graph_run()) {
        (RecordRequest::Gups(gups), _) => (gups.table_bytes, spec.table_bytes.unwrap_or(gups.table_bytes)),
        (_, Some(run)) => {
            let bytes = |scale: u32| {
                graph_bytes(
                    run.objects,
                    1 << scale,
                    expected_edges(run.kind, scale, run.degree).round() as u64,
                )
            };
            (bytes(run.scale), bytes(spec.scale.unwrap_or(run.scale).min(40)))
        }
        _ => (1, 1),
    };
    let scaled = machine_llc_bytes as f64 * recorded_bytes as f64 / carried_bytes as f64;
    Ok(Plan {
        recorded_bytes,
        carried_bytes,
        llc_bytes: (scaled.round() as u64).max(LEAST_LLC_BYTES),
    })
}

/// Executes the kernel and returns what reached memory. Equal requests give equal profiles.
///
/// # Errors
/// When the request is out of range.
pub fn record(request: &RecordRequest) -> Result<Profile, RecordError> {
    request.check()?;
    if let RecordRequest::Gups(gups) = request {
        let mut recorder = Recorder::new(gups.llc_bytes, gups.updates.div_ceil(WORK_SLICES));
        gups::run(
            &mut recorder,
            &gups.shape(),
            gups.updates,
            &gups.moves(),
            gups.seed,
            RECORDED_BACKING,
        );
        return Ok(assemble(request, gups::OP_MEANING, recorder.finish(), None, None));
    }
    let Some(run) = request.graph_run() else {
        return refuse(format!("the kernel {} has no graph", request.kernel()));
    };
    let (info, mut recording) = record_graph(request, &run, run.scale, run.llc_bytes);
    // A quarter of the graph with a quarter of the cache shows how skew grows with the graph.
    let smaller_scale = run.scale - SMALLER_BY;
    let smaller_llc = (run.llc_bytes >> SMALLER_BY).max(LEAST_LLC_BYTES);
    let (smaller_info, smaller) = record_graph(request, &run, smaller_scale, smaller_llc);
    for (object, small) in recording.objects.iter_mut().zip(&smaller.objects) {
        let ratio = match (object.layout, object.line_cv2, small.line_cv2) {
            (Layout::Vertices, Some(large), Some(small)) if small > 0.0 => large / small,
            (Layout::Lists, _, _) => mean_list(&info) / mean_list(&smaller_info),
            _ => 1.0,
        };
        object.skew_growth = ratio.powf(1.0 / f64::from(SMALLER_BY));
    }
    let ops: u64 = smaller.slices.iter().map(|slice| slice.ops).sum();
    let smaller_run = SmallerRun {
        scale: smaller_scale,
        graph: smaller_info,
        llc_bytes: smaller.llc_bytes,
        reads_per_op: smaller.total_reads as f64 / ops as f64,
        writebacks_per_op: smaller.total_writebacks as f64 / ops as f64,
    };
    let meaning = if matches!(request, RecordRequest::Bc(_)) {
        bc::OP_MEANING
    } else {
        pr::OP_MEANING
    };
    Ok(assemble(request, meaning, recording, Some(info), Some(smaller_run)))
}

/// Length of the list in which an edge lies, averaged over edges: mean degree * (1 + CV^2).
fn mean_list(info: &GraphInfo) -> f64 {
    info.edges as f64 / info.vertices as f64 * (1.0 + info.degree_cv2)
}

fn record_graph(request: &RecordRequest, run: &GraphRun, scale: u32, llc_bytes: u64) -> (GraphInfo, Recording) {
    let graph = Graph::generate(run.kind, scale, run.degree, run.seed);
    let info = graph.info();
    let passes = match request {
        RecordRequest::Bc(bc) => 2 * u64::from(bc.sources),
        RecordRequest::Pr(pr) => u64::from(pr.iterations),
        RecordRequest::Gups(_) => 1,
    };
    let mut recorder = Recorder::new(llc_bytes, (passes * info.edges).div_ceil(WORK_SLICES));
    match request {
        RecordRequest::Bc(bc) => {
            let sources = bc::pick_sources(&graph, bc.sources, bc.seed);
            bc::run(&mut recorder, graph, &sources);
        }
        RecordRequest::Pr(pr) => {
            pr::run(&mut recorder, graph, pr.iterations);
        }
        RecordRequest::Gups(_) => {}
    }
    (info, recorder.finish())
}

fn assemble(
    request: &RecordRequest,
    op_meaning: &str,
    recording: Recording,
    graph: Option<GraphInfo>,
    smaller: Option<SmallerRun>,
) -> Profile {
    Profile {
        metadata: Metadata {
            format_version: FORMAT_VERSION,
            recorder_version: RECORDER_VERSION,
            request: request.clone(),
            op_meaning: op_meaning.to_owned(),
            llc_bytes: recording.llc_bytes,
            graph,
            smaller,
            objects: recording.objects,
            slices: recording.slices,
            total_reads: recording.total_reads,
            total_writebacks: recording.total_writebacks,
        },
        columns: recording.columns,
    }
}
