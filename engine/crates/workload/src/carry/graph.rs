//! Carrying the profile of a graph kernel to a larger graph.

use std::ops::Range;

use super::bins::cut;
use super::chance::leave_out_chance;
use super::growth::{Growth, factor_of, luck};
use super::loading::Loading;
use super::longer::Longer;
use super::notes::{chance_note, object_note, size_notes, sources_note};
use super::reshape::reshape;
use super::rows::{Stream, streams};
use super::traffic::corrections;
use super::{CarryError, CarrySpec, Replay, ReplayObject, ReplaySlice, ReplayStream};
use crate::class::AccessClass;
use crate::law::{expected_degree_cv2, expected_edges};
use crate::memory::{Layout, Unit};
use crate::profile::{AllocationEvent, GraphInfo, Metadata, ObjectInfo, Profile};

/// Scales whose address ranges make sense: 2^36 vertices with degree 16 are 4 TB of neighbours.
const MOST_SCALE: u32 = 36;

pub(crate) fn carry(profile: &Profile, spec: &CarrySpec) -> Result<Replay, CarryError> {
    let metadata = &profile.metadata;
    let (Some((kind, recorded_scale, degree)), Some(graph)) = (metadata.request.graph_input(), &metadata.graph) else {
        return Err(CarryError(format!(
            "the profile of {} has no graph",
            metadata.request.kernel()
        )));
    };
    let scale = spec.size("scale").unwrap_or(recorded_scale.into());
    let scale = u32::try_from(scale).unwrap_or(u32::MAX);
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
    let mut streams = streams(&profile.columns, &profile.metadata.objects);
    let lives = lives(metadata, &streams);
    // Lines of a freed object that are dirty still are written back when it is freed.
    for stream in &mut streams {
        let own = || lives.iter().filter(|(number, _)| *number == stream.object);
        if !own().any(|(_, life)| life.contains(&stream.slice)) {
            let ends = own().map(|(_, life)| life.end).filter(|end| *end <= stream.slice);
            stream.slice = ends.max().map_or(stream.slice, |end| end - 1);
        }
    }
    let lists = lists(metadata, &streams);
    let of_lists = |stream: &Stream| {
        let swept = metadata.objects[stream.object].sweeps && stream.class == AccessClass::Stream;
        lists[stream.object] && !swept
    };
    // At the recorded size pages are those that were recorded.
    let chance_left_out = scale != recorded_scale && leave_out_chance(&mut streams, &metadata.slices, of_lists);
    let streams = streams;
    let mut growths: Vec<Growth> = (0..metadata.objects.len())
        .map(|number| Growth::new(profile, number, graph, &target, scale, spec.page_bytes))
        .collect();
    for stream in streams
        .iter()
        .filter(|stream| reshaped(&metadata.objects[stream.object], stream))
    {
        growths[stream.object].curve.add(&stream.pages);
    }

    if scale != recorded_scale {
        for (number, growth) in growths.iter_mut().enumerate() {
            growth.luck = luck(&metadata.objects[number], number, &streams);
        }
    }

    let mut order: Vec<usize> = (0..metadata.objects.len()).collect();
    let loaded = spec.loading.map(Loading::order).unwrap_or_default();
    order.sort_by_key(|number| {
        let object = &metadata.objects[*number];
        let built = loaded.iter().position(|name| *name == object.name);
        (built.unwrap_or(loaded.len()), object.touch_order)
    });
    let passing = spec.loading.map_or(0, |loading| loading.passing().len());
    let mut place = vec![0; order.len()];
    for (position, number) in order.iter().enumerate() {
        place[*number] = passing + position;
    }
    let factor = |unit: Unit| match unit {
        Unit::Vertices => factor_of(graph.vertices, target.vertices),
        Unit::Edges | Unit::Updates | Unit::Operations => factor_of(graph.edges, target.edges),
    };
    let carried_bytes: u64 = growths.iter().map(|growth| growth.bytes).sum();
    let corrections = corrections(
        metadata,
        &streams,
        (graph, &target),
        scale,
        factor_of(profile.footprint_bytes(), carried_bytes),
        |stream| factor(unit(metadata, stream)) / factor(Unit::Edges),
    );
    let longer = Longer::new(metadata, recorded_scale, scale);
    let mut slices: Vec<ReplaySlice> = metadata
        .slices
        .iter()
        .map(|slice| ReplaySlice {
            phase: slice.phase.clone(),
            ops: slice.work() * factor(slice.unit),
            cpu_ns_per_op: slice.cpu_ns_per_op * longer.computing(slice),
            locked_per_op: slice.locked_behind_miss as f64 / slice.work(),
            locked_lookups_per_op: slice.locked_behind_lookup as f64 / slice.work(),
            one_thread: false,
            free: Vec::new(),
            allocate: Vec::new(),
            streams: Vec::new(),
        })
        .collect();
    for (number, life) in &lives {
        slices[life.start].allocate.push(place[*number]);
        slices[life.end].free.push(place[*number]);
    }
    for stream in &streams {
        let object = &metadata.objects[stream.object];
        let grown = longer.accesses(&metadata.slices[stream.slice], stream.class);
        let growth = &mut growths[stream.object];
        let mut weights = cut(&stream.shares(), growth.bins);
        if reshaped(object, stream) {
            let goal = growth.target_variation(object, stream, spec.page_bytes);
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
        let ops = slice.work() * factor(slice.unit) / factor(unit(metadata, stream));
        let corrected: f64 = corrections
            .iter()
            .map(|correction| correction.of(metadata, stream))
            .product();
        slices[stream.slice].streams.push(ReplayStream {
            object: place[stream.object],
            class: stream.class,
            reads_per_op: corrected * grown * stream.reads as f64 / ops,
            prefetched_share: stream.prefetched as f64 / (stream.reads.max(1)) as f64,
            random_share: object.random_share(stream.class),
            writebacks_per_op: stream.writebacks as f64 / ops,
            stores_per_op: stream.stores as f64 / ops,
            // Accesses stay as many, so what misses more hits less.
            llc_hits_per_op: ((grown * stream.hits as f64 - (corrected - 1.0) * stream.reads as f64) / ops).max(0.0),
            weights: weights.iter().map(|weight| *weight as f32).collect(),
            // Any thread may read any vertex or edge.
            partitioned: false,
            first_touch: false,
        });
    }
    let there = order.iter().map(|number| ReplayObject {
        name: metadata.objects[*number].name.clone(),
        bytes: growths[*number].bytes,
        bins: growths[*number].bins,
        scattered: metadata.objects[*number].layout != Layout::Positional,
        mapping_bytes: None,
        side_by_side: false,
        freed_after: None,
    });
    let before = spec
        .loading
        .into_iter()
        .flat_map(|loading| loading.objects(target.vertices, passing + 1, spec.page_bytes));
    let objects: Vec<ReplayObject> = before.chain(there).collect();
    let at_start = |number: usize| !slices.iter().any(|slice| slice.allocate.contains(&number));
    let loaded = spec
        .loading
        .map(|loading| loading.slices(&objects, at_start, spec.page_bytes));
    let mut notes = size_notes(profile, recorded_scale, scale, graph, &target, carried_bytes);
    notes.extend(chance_left_out.then(chance_note));
    notes.extend(sources_note(profile, &streams, graph, scale));
    notes.extend(longer.note());
    notes.extend(corrections.iter().map(|correction| correction.note(metadata)));
    notes.extend(
        order
            .iter()
            .filter_map(|number| object_note(&metadata.objects[*number], &growths[*number], spec.page_bytes)),
    );
    Ok(Replay {
        loading: loaded.unwrap_or_default(),
        objects,
        slices,
        repeat: spec.runs,
        notes,
    })
}

/// When objects exist that are there for parts of the run only: from which slice on, and from which on not. Objects that
/// stay to the end are taken to be there from the start.
fn lives(metadata: &Metadata, streams: &[Stream]) -> Vec<(usize, Range<usize>)> {
    let of = |number: usize| {
        let mut events: Vec<&AllocationEvent> = metadata.events.iter().collect();
        events.retain(|event| usize::from(event.number) == number);
        let begins: Vec<usize> = events.iter().step_by(2).map(|event| event.slice as usize).collect();
        let lives = events.chunks(2).enumerate().map(|(nth, pair)| {
            let [_, freed] = pair else { return None };
            let until = begins.get(nth + 1).copied().unwrap_or(usize::MAX);
            let touches = |s: &&Stream| s.object == number && s.reads + s.stores + s.hits > 0;
            let slices = streams.iter().filter(touches).map(|s| s.slice);
            let touched = slices.filter(|slice| (begins[nth]..until).contains(slice)).max();
            let end = touched.map_or(0, |slice| slice + 1).max(freed.slice as usize);
            (freed.freed && end < metadata.slices.len()).then_some((number, begins[nth]..end))
        });
        lives.collect::<Option<Vec<_>>>().unwrap_or_default()
    };
    (0..metadata.objects.len()).flat_map(of).collect()
}

/// Which objects are lists: pieces of them are found through an index. A page holds so few of them that chance matters;
/// of an object with an entry for each vertex it holds hundreds.
fn lists(metadata: &Metadata, streams: &[Stream]) -> Vec<bool> {
    let mut lists = vec![false; metadata.objects.len()];
    for stream in streams.iter().filter(|stream| stream.class == AccessClass::Lookup) {
        let declared = metadata.request.graph_object(&metadata.objects[stream.object].name);
        lists[stream.object] = declared.is_some_and(|object| !object.per_vertex);
    }
    lists
}

/// With what the accesses of a stream grow.
fn unit(metadata: &Metadata, stream: &Stream) -> Unit {
    let name = &metadata.objects[stream.object].name;
    let Some(object) = metadata.request.graph_object(name) else {
        return Unit::Edges;
    };
    let grows_with_edges = (object.bytes)(1, 1 << 20) > (object.bytes)(1, 0);
    let swept = stream.class == AccessClass::Stream && !grows_with_edges;
    // A list is found once for its vertex, however long it is.
    if object.per_vertex || swept || stream.class == AccessClass::Lookup {
        Unit::Vertices
    } else {
        Unit::Edges
    }
}

/// Whether the page weights of a stream depend on the page size and on the skew of the graph.
pub(super) fn reshaped(object: &ObjectInfo, stream: &Stream) -> bool {
    match object.layout {
        Layout::Positional => false,
        // Sequential accesses to vertex arrays sweep them; their weights say where the sweep is.
        Layout::Vertices => stream.class != AccessClass::Stream,
        Layout::Lists => !(object.sweeps && stream.class == AccessClass::Stream),
    }
}
