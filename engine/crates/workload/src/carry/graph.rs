//! Carrying the profile of a graph kernel to a larger graph.

use super::bins::{AggregationCurve, bin_count, cut, variation};
use super::reshape::reshape;
use super::rows::{Stream, page_count, streams};
use super::{CarryError, CarrySpec, Replay, ReplayObject, ReplaySlice, ReplayStream};
use crate::cache::LINE_BYTES;
use crate::class::AccessClass;
use crate::graph::GraphKind;
use crate::law::{expected_degree_cv2, expected_edges, filtered_line_cv2};
use crate::memory::{Layout, Unit};
use crate::profile::{GraphInfo, Metadata, ObjectInfo, PAGE_BYTES, Profile};
use crate::record::RecordRequest;

/// Scales whose address ranges make sense: 2^36 vertices with degree 16 are 4 TB of neighbours.
const MOST_SCALE: u32 = 36;
/// Bound of the measured power, so that noise between two small graphs is not carried over many doublings.
const MOST_CLOSENESS: f64 = 1.5;

/// How one object grows.
struct Growth {
    bytes: u64,
    bins: u32,
    /// Factor of the squared variation of single elements.
    skew: f64,
    curve: AggregationCurve,
    /// Squared variation between recorded pages as the many lines give it, over that of the few pages themselves.
    luck: f64,
    /// Read counts of all recorded pages, and of all bins after carrying, over the whole run.
    before: Vec<f64>,
    after: Vec<f64>,
    /// Recorded reads of streams whose weights could not be spread as far as they should.
    unreached: f64,
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
    let mut growths: Vec<Growth> = (0..metadata.objects.len())
        .map(|number| growth(profile, number, graph, &target, scale, spec.page_bytes))
        .collect();
    for stream in streams
        .iter()
        .filter(|stream| reshaped(&metadata.objects[stream.object], stream))
    {
        growths[stream.object].curve.add(&stream.pages);
    }

    if scale != recorded_scale {
        for number in 0..growths.len() {
            growths[number].luck = luck(&metadata.objects[number], number, &streams);
        }
    }

    let mut order: Vec<usize> = (0..metadata.objects.len()).collect();
    order.sort_by_key(|number| metadata.objects[*number].touch_order);
    let mut place = vec![0; order.len()];
    for (position, number) in order.iter().enumerate() {
        place[*number] = position;
    }
    let factor = |unit: Unit| match unit {
        Unit::Vertices => factor_of(graph.vertices, target.vertices),
        Unit::Edges | Unit::Updates => factor_of(graph.edges, target.edges),
    };
    let mut slices: Vec<ReplaySlice> = metadata
        .slices
        .iter()
        .map(|slice| ReplaySlice {
            phase: slice.phase.clone(),
            ops: slice.ops as f64 * factor(slice.unit),
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
            if !reshape(&mut weights, goal) {
                growth.unreached += stream.weight;
            }
        }
        for (sum, pages) in growth.before.iter_mut().zip(&stream.pages) {
            *sum += pages;
        }
        for (sum, weight) in growth.after.iter_mut().zip(&weights) {
            *sum += weight * stream.weight;
        }
        // What grows with the vertices gets rarer per edge, as duplicate edges get rarer in larger graphs.
        let slice = &metadata.slices[stream.slice];
        let ops = slice.ops as f64 * factor(slice.unit) / factor(unit(metadata, stream));
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

/// With what the accesses of a stream grow.
fn unit(metadata: &Metadata, stream: &Stream) -> Unit {
    let name = &metadata.objects[stream.object].name;
    let Some(object) = metadata.request.graph_objects().iter().find(|known| known.name == name) else {
        return Unit::Edges;
    };
    let grows_with_edges = (object.bytes)(1, 1 << 20) > (object.bytes)(1, 0);
    let swept = stream.class == AccessClass::Stream && !grows_with_edges;
    if object.per_vertex || swept {
        Unit::Vertices
    } else {
        Unit::Edges
    }
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

fn growth(
    profile: &Profile,
    number: usize,
    graph: &GraphInfo,
    target: &GraphInfo,
    scale: u32,
    page_bytes: u64,
) -> Growth {
    let metadata = &profile.metadata;
    let object = &metadata.objects[number];
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
        Layout::Vertices => vertex_skew(profile, number, scale),
    };
    let bins = bin_count(page_count(object), bytes.div_ceil(page_bytes));
    Growth {
        bytes,
        bins,
        skew,
        curve: AggregationCurve::default(),
        luck: 1.0,
        before: vec![0.0; page_count(object) as usize],
        after: vec![0.0; bins as usize],
        unreached: 0.0,
    }
}

/// How much more single elements of a vertex array vary at the target, as far as memory sees them.
///
/// The law of the generator and a model of the cache give the growth for accesses in proportion to degree. Real accesses
/// follow degrees more or less closely; how closely is measured, as a power, between the recorded and the smaller graph.
fn vertex_skew(profile: &Profile, number: usize, scale: u32) -> f64 {
    let metadata = &profile.metadata;
    let object = &metadata.objects[number];
    let (Some(smaller), Some((GraphKind::Kron, recorded, degree))) =
        (&metadata.smaller, metadata.request.graph_input())
    else {
        // Uniform graphs have the same variation at every size.
        return 1.0;
    };
    if scale == recorded {
        return 1.0;
    }
    let columns = &profile.columns;
    let reads: u64 = (0..columns.len())
        .filter(|row| columns.object[*row] as usize == number)
        .map(|row| u64::from(columns.reads[row]))
        .sum();
    // Objects hold the last-level cache in proportion to what they bring into it.
    let held = metadata.llc_bytes as f64 * reads as f64 / metadata.total_reads.max(1) as f64;
    let share = (held / object.bytes as f64).min(0.95);
    let per_line = LINE_BYTES as u32 / object.element_bytes;
    let model = |scale: u32| filtered_line_cv2(scale, degree, per_line, share);
    let here = model(recorded);
    let modelled = (here / model(smaller.scale)).ln();
    let measured = object.skew_growth.ln() * f64::from(recorded - smaller.scale);
    let closeness = (measured / modelled).clamp(0.0, MOST_CLOSENESS);
    (model(scale) / here).powf(closeness)
}

/// The hubs of one permutation fall on a few hundred recorded pages as luck has it; the variation between the lines of
/// the object, divided by the lines of a page, says what to expect of other permutations.
fn luck(object: &ObjectInfo, number: usize, streams: &[Stream]) -> f64 {
    let Some(line_cv2) = object.line_cv2 else { return 1.0 };
    let mut pages = vec![0.0; page_count(object) as usize];
    for stream in streams
        .iter()
        .filter(|stream| stream.object == number && reshaped(object, stream))
    {
        for (sum, value) in pages.iter_mut().zip(&stream.pages) {
            *sum += value;
        }
    }
    let found = variation(&pages);
    let expected = line_cv2 / (PAGE_BYTES / LINE_BYTES) as f64;
    if found > 0.0 { expected / found } else { 1.0 }
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
        return excess * growth.luck / together + recorded.min(noise) / page_factor;
    }
    // No page can be read more than whole: with a share f of all lines read, variation ends at 1/f - 1.
    let lines = stream.pages.len() as f64 * (PAGE_BYTES / LINE_BYTES) as f64;
    let whole = (lines / stream.weight - 1.0).max(recorded);
    // Finer than recorded (less than one page together) the recorded weights are kept: sharpening slice by slice would
    // change how often a page is read over the whole run.
    (recorded * growth.curve.ratio(together.max(1.0))).min(whole)
}

fn factor_of(recorded: u64, target: u64) -> f64 {
    target as f64 / recorded as f64
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
            "Work on edges grows by {:.1}, work on vertices by {:.1}; the share of each level stays as recorded.",
            factor_of(graph.edges, target.edges),
            factor_of(graph.vertices, target.vertices),
        ),
    ];
    let mut kept = format!(
        "Memory reads and write-backs per edge or vertex ({:.3} and {:.3} per operation on average) are kept, because the last-level cache \
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
    // Levels of a uniform graph grow by its mean degree, so graphs are alike when their sizes differ by a power of it.
    let mean_degree = graph.edges as f64 / graph.vertices as f64;
    let levels_apart = f64::from(scale - recorded_scale) / mean_degree.log2();
    let off = (levels_apart - levels_apart.round()).abs();
    if matches!(&metadata.request, RecordRequest::Bc(request) if request.graph == GraphKind::Uniform) && off > 0.1 {
        let period = mean_degree.log2();
        let alike = f64::from(scale) - period * (f64::from(scale - recorded_scale) / period).round();
        notes.push(format!(
            "A uniform graph of mean degree {mean_degree:.0} fills its levels alike only every {period:.1} doublings; {} doublings \
             shift how work is shared between levels, which is not corrected: a recording at scale {alike:.0} would match.",
            scale - recorded_scale
        ));
    }
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
    let averaged = page_bytes / PAGE_BYTES;
    let why = if object.layout == Layout::Vertices {
        format!(
            "single elements vary more by a factor of {:.2} (squared), and a page averages {averaged} times the elements",
            growth.skew
        )
    } else {
        let together = averaged as f64 / growth.skew;
        let rule = if together < 1.0 {
            "finer than recorded, so recorded weights are kept"
        } else {
            "measured by putting pages together"
        };
        format!(
            "lists are longer by a factor of {:.2}, so a page holds as many lists as {together:.2} recorded pages ({rule})",
            growth.skew
        )
    };
    let mut note = format!(
        "{}: {} recorded pages of 4 KiB stand for {} pages of {} KiB; {why}; coefficient of variation between pages over \
         the run {before:.3} -> {after:.3}.",
        object.name,
        page_count(object),
        growth.bytes.div_ceil(page_bytes),
        page_bytes >> 10,
    );
    let unreached = growth.unreached / growth.before.iter().sum::<f64>();
    if unreached > 0.0 {
        note += &format!(
            " For {:.2} % of its accesses the recorded pages could not be spread that far.",
            100.0 * unreached
        );
    }
    Some(note)
}
