//! Carrying the profile of a graph kernel to a larger graph.

use super::bins::{AggregationCurve, bin_count, cut, variation};
use super::reshape::reshape;
use super::rows::{Stream, streams};
use super::{CarryError, CarrySpec, Replay, ReplayObject, ReplaySlice, ReplayStream};
use crate::cache::LINE_BYTES;
use crate::class::AccessClass;
use crate::law::{expected_degree_cv2, expected_edges};
use crate::memory::Layout;
use crate::profile::{GraphInfo, Metadata, ObjectInfo, PAGE_BYTES, Profile};

/// Scales whose address ranges make sense: 2^36 vertices with degree 16 are 4 TB of neighbours.
const MOST_SCALE: u32 = 36;
/// Below this change of the logarithm of degree variation, skew is taken as not growing (uniform graphs).
const LEAST_LOG_GROWTH: f64 = 0.05;

/// How one object grows.
struct Growth {
    bytes: u64,
    bins: u32,
    /// Factor of the squared variation of single elements.
    skew: f64,
    curve: AggregationCurve,
    /// Read counts of all recorded pages, and of all bins after carrying, over the whole run.
    before: Vec<f64>,
    after: Vec<f64>,
    unreached: u32,
}

pub(super) fn carry(profile: &Profile, spec: &CarrySpec) -> Result<Replay, CarryError> {
    let metadata = &profile.metadata;
    let (Some((kind, recorded_scale, degree)), Some(graph)) = (metadata.request.graph_input(), &metadata.graph) else {
        return Err(CarryError(format!(
            "the profile of {} has no graph",
            metadata.request.kernel()
        )));
    };
    let scale = spec.scale.unwrap_or(recorded_scale);
    if !(recorded_scale..=MOST_SCALE).contains(&scale) {
        let near = scale.clamp(recorded_scale, MOST_SCALE);
        return Err(CarryError(format!(
            "carry.scale is {scale}, it must be from {recorded_scale} (the recorded scale) to {MOST_SCALE}; the nearest is {near}"
        )));
    }
    let target = if scale == recorded_scale {
        graph.clone()
    } else {
        GraphInfo {
            vertices: 1 << scale,
            edges: expected_edges(kind, scale, degree).round() as u64,
            isolated: 0,
            degree_cv2: expected_degree_cv2(kind, scale, degree),
        }
    };
    let streams = streams(profile);
    let mut growths: Vec<Growth> = metadata
        .objects
        .iter()
        .map(|object| growth(metadata, object, graph, &target, spec.page_bytes))
        .collect();
    for stream in streams
        .iter()
        .filter(|stream| reshaped(&metadata.objects[stream.object], stream))
    {
        growths[stream.object].curve.add(&stream.pages);
    }

    let mut order: Vec<usize> = (0..metadata.objects.len()).collect();
    order.sort_by_key(|number| metadata.objects[*number].touch_order);
    let mut place = vec![0; order.len()];
    for (position, number) in order.iter().enumerate() {
        place[*number] = position;
    }
    let ops_factor = target.edges as f64 / graph.edges as f64;
    let mut slices: Vec<ReplaySlice> = metadata
        .slices
        .iter()
        .map(|slice| ReplaySlice {
            phase: slice.phase.clone(),
            ops: slice.ops as f64 * ops_factor,
            cpu_ns_per_op: slice.cpu_ns_per_op,
            streams: Vec::new(),
        })
        .collect();
    for stream in &streams {
        let object = &metadata.objects[stream.object];
        let growth = &mut growths[stream.object];
        let mut weights = cut(&stream.shares(), growth.bins);
        if reshaped(object, stream) {
            let goal = target_variation(object, stream, growth, spec.page_bytes);
            growth.unreached += u32::from(!reshape(&mut weights, goal));
        }
        for (sum, pages) in growth.before.iter_mut().zip(&stream.pages) {
            *sum += pages;
        }
        for (sum, weight) in growth.after.iter_mut().zip(&weights) {
            *sum += weight * stream.weight;
        }
        let ops = metadata.slices[stream.slice].ops as f64;
        slices[stream.slice].streams.push(ReplayStream {
            object: place[stream.object],
            class: stream.class,
            reads_per_op: stream.reads as f64 / ops,
            prefetched_share: stream.prefetched as f64 / (stream.reads.max(1)) as f64,
            writebacks_per_op: stream.writebacks as f64 / ops,
            stores_per_op: stream.stores as f64 / ops,
            weights: weights.iter().map(|weight| *weight as f32).collect(),
        });
    }
    let objects: Vec<ReplayObject> = order
        .iter()
        .map(|number| ReplayObject {
            name: metadata.objects[*number].name.clone(),
            bytes: growths[*number].bytes,
            bins: growths[*number].bins,
            scattered: metadata.objects[*number].layout != Layout::Positional,
        })
        .collect();
    let footprint = objects.iter().map(|object| object.bytes).sum();
    let mut notes = size_notes(profile, recorded_scale, scale, graph, &target, footprint);
    notes.extend(
        order
            .iter()
            .filter_map(|number| object_note(&metadata.objects[*number], &growths[*number], spec.page_bytes)),
    );
    Ok(Replay {
        objects,
        slices,
        repeat: spec.runs,
        notes,
    })
}

/// Whether the page weights of a stream depend on the page size and on the skew of the graph.
fn reshaped(object: &ObjectInfo, stream: &Stream) -> bool {
    match object.layout {
        Layout::Positional => false,
        // Sequential accesses to vertex arrays sweep them; their weights say where the sweep is.
        Layout::Vertices => stream.class != AccessClass::Stream,
        Layout::Lists => !(object.sweeps && stream.class == AccessClass::Stream),
    }
}

fn growth(metadata: &Metadata, object: &ObjectInfo, graph: &GraphInfo, target: &GraphInfo, page_bytes: u64) -> Growth {
    let sized = metadata
        .request
        .graph_objects()
        .iter()
        .find(|known| known.name == object.name);
    let bytes = sized.map_or(object.bytes, |known| (known.bytes)(target.vertices, target.edges));
    let mean_list = |info: &GraphInfo| info.edges as f64 / info.vertices as f64 * (1.0 + info.degree_cv2);
    let skew = match object.layout {
        Layout::Positional => 1.0,
        Layout::Lists => mean_list(target) / mean_list(graph),
        Layout::Vertices => vertex_skew(metadata, object, graph, target),
    };
    let bins = bin_count(object.pages(), bytes.div_ceil(page_bytes));
    Growth {
        bytes,
        bins,
        skew,
        curve: AggregationCurve::default(),
        before: vec![0.0; object.pages() as usize],
        after: vec![0.0; bins as usize],
        unreached: 0,
    }
}

/// Degrees vary more in larger graphs by a known law; what passes the cache varies by a power of that, measured
/// between the recorded and the smaller graph.
fn vertex_skew(metadata: &Metadata, object: &ObjectInfo, graph: &GraphInfo, target: &GraphInfo) -> f64 {
    let Some(smaller) = &metadata.smaller else { return 1.0 };
    let doublings = (graph.vertices as f64 / smaller.graph.vertices as f64).log2();
    let measured = object.skew_growth.ln() * doublings;
    let degrees = (graph.degree_cv2 / smaller.graph.degree_cv2).ln();
    if degrees.abs() < LEAST_LOG_GROWTH {
        return 1.0;
    }
    (target.degree_cv2 / graph.degree_cv2).powf(measured / degrees)
}

/// The squared variation between pages that this stream has at the target.
fn target_variation(object: &ObjectInfo, stream: &Stream, growth: &Growth, page_bytes: u64) -> f64 {
    let recorded = variation(&stream.pages);
    let page_factor = page_bytes as f64 / PAGE_BYTES as f64;
    let together = page_factor / growth.skew;
    if object.layout == Layout::Vertices {
        // Ids are permuted, so pages average independent elements. Counting noise does not grow with skew.
        let noise = stream.pages.len() as f64 / stream.weight;
        let excess = (recorded - noise).max(0.0);
        return excess / together + recorded.min(noise) / page_factor;
    }
    // No page can be read more than whole: with a share f of all lines read, variation ends at 1/f - 1.
    let lines = stream.pages.len() as f64 * (PAGE_BYTES / LINE_BYTES) as f64;
    let whole = (lines / stream.weight - 1.0).max(recorded);
    (recorded * growth.curve.ratio(together)).min(whole)
}

fn gigabytes(bytes: u64) -> String {
    if bytes >= 1_000_000_000 {
        format!("{:.2} GB", bytes as f64 / 1e9)
    } else {
        format!("{:.2} MB", bytes as f64 / 1e6)
    }
}

fn size_notes(
    profile: &Profile,
    recorded_scale: u32,
    scale: u32,
    graph: &GraphInfo,
    target: &GraphInfo,
    footprint: u64,
) -> Vec<String> {
    let metadata = &profile.metadata;
    let ops = profile.ops() as f64;
    let mut notes = vec![
        format!(
            "Recorded by running {} at scale {recorded_scale} ({} vertices, {} stored edges, {}); replayed at scale {scale} \
             ({} vertices, {} stored edges expected, {}).",
            metadata.request.kernel(),
            graph.vertices,
            graph.edges,
            gigabytes(profile.footprint_bytes()),
            target.vertices,
            target.edges,
            gigabytes(footprint),
        ),
        format!(
            "Work grows with the stored edges, by {:.1}; the share of each level and phase stays as recorded.",
            target.edges as f64 / graph.edges as f64
        ),
    ];
    let mut kept = format!(
        "Memory reads and write-backs per operation ({:.3} and {:.3} on average) are kept, because the last-level cache \
         was scaled with the footprint, to {} bytes",
        metadata.total_reads as f64 / ops,
        metadata.total_writebacks as f64 / ops,
        metadata.llc_bytes,
    );
    if let Some(smaller) = &metadata.smaller {
        kept += &format!(
            "; recorded again at scale {} with {} bytes they are {:.3} and {:.3}",
            smaller.scale, smaller.llc_bytes, smaller.reads_per_op, smaller.writebacks_per_op
        );
    }
    notes.push(kept + ".");
    notes.push(
        "Assumed: one thread's order of accesses stands for all threads; the memory used and freed while building the \
         graph is left out; objects are placed once, in the order of their first touch."
            .to_owned(),
    );
    notes
}

fn object_note(object: &ObjectInfo, growth: &Growth, page_bytes: u64) -> Option<String> {
    if object.layout == Layout::Positional {
        return None;
    }
    let (before, after) = (variation(&growth.before).sqrt(), variation(&growth.after).sqrt());
    let mut note = format!(
        "{}: {} recorded pages of 4 KiB stand for {} pages of {} KiB; the squared variation of single elements grows by \
         {:.2}, a page averages {} times the elements; coefficient of variation between pages over the run {before:.3} -> \
         {after:.3}.",
        object.name,
        object.pages(),
        growth.bytes.div_ceil(page_bytes),
        page_bytes >> 10,
        growth.skew,
        page_bytes / PAGE_BYTES,
    );
    if growth.unreached > 0 {
        note += &format!(
            " In {} streams the recorded weights could not be spread that far.",
            growth.unreached
        );
    }
    Some(note)
}
