//! Carrying a profile to a larger input when the kernel says nothing of its own: objects get their declared sizes, the
//! popularity of their parts is stretched with them, and work grows with the footprint.

use super::bins::{AggregationCurve, bin_count, cut, variation};
use super::chance::pool_stationary;
use super::grown::cut_grown;
use super::mapping;
use super::reshape::reshape;
use super::rows::{Stream, page_count, streams};
use super::{CarryError, CarrySpec, Replay, ReplayObject, ReplaySlice, ReplayStream};
use crate::class::AccessClass;
use crate::kernel::Program;
use crate::memory::Layout;
use crate::parameter::Values;
use crate::profile::{AllocationEvent, ObjectInfo, PAGE_BYTES, Profile};

/// The largest address space that is replayed: 2^52 bytes.
const MOST_BYTES: u64 = 1 << 52;

/// An object at its carried size.
struct Stretched {
    bytes: u64,
    bins: u32,
    skew: f64,
    curve: AggregationCurve,
}

pub(crate) fn carry<P: Program>(profile: &Profile, spec: &CarrySpec) -> Result<Replay, CarryError> {
    let metadata = &profile.metadata;
    let recorded = metadata.request.values();
    let sizes: Vec<(&str, u64)> = spec.sizes().collect();
    for (name, value) in &sizes {
        let least = recorded.int(name);
        if *value < least {
            return Err(CarryError(format!(
                "carry.{name} is {value}, less than the {least} that was recorded; the nearest is {least}"
            )));
        }
    }
    let target = P::resize(recorded, &sizes);
    P::check(&target).map_err(|error| CarryError(format!("carry.{} {}", error.name, error.text)))?;
    let mut all = streams(&profile.columns, &profile.metadata.objects);
    let mut objects = stretched::<P>(profile, &target, spec)?;
    for stream in &all {
        if averaged(&metadata.objects[stream.object], stream) {
            objects[stream.object].curve.add(&stream.pages);
        }
    }
    pool_stationary(&mut all, &metadata.slices);

    let mut order: Vec<usize> = (0..metadata.objects.len()).collect();
    order.sort_by_key(|number| metadata.objects[*number].touch_order);
    let mut place = vec![0; order.len()];
    for (position, number) in order.iter().enumerate() {
        place[*number] = position;
    }

    let mut slices: Vec<ReplaySlice> = Vec::with_capacity(metadata.slices.len());
    let mut work = Vec::with_capacity(metadata.slices.len());
    for slice in &metadata.slices {
        let growth = P::work_growth(recorded, &target, slice);
        work.push(growth);
        slices.push(ReplaySlice {
            phase: slice.phase.clone(),
            ops: slice.work() * growth,
            cpu_ns_per_op: slice.cpu_ns_per_op,
            locked_per_op: slice.locked_behind_miss as f64 / slice.work(),
            locked_lookups_per_op: slice.locked_behind_lookup as f64 / slice.work(),
            one_thread: false,
            free: Vec::new(),
            allocate: Vec::new(),
            streams: Vec::new(),
        });
    }
    for stream in &all {
        let info = &metadata.objects[stream.object];
        let object = &objects[stream.object];
        let mut weights = cut(&stream.shares(), object.bins);
        if averaged(info, stream) {
            reshape(&mut weights, goal(info, object, stream, spec.page_bytes));
        }
        let ops = metadata.slices[stream.slice].work();
        let traffic = P::traffic_growth(recorded, &target, &info.name, stream.class);
        slices[stream.slice].streams.push(ReplayStream {
            object: place[stream.object],
            class: stream.class,
            reads_per_op: traffic * stream.reads as f64 / ops,
            prefetched_share: stream.prefetched as f64 / stream.reads.max(1) as f64,
            random_share: info.random_share(stream.class),
            writebacks_per_op: traffic * stream.writebacks as f64 / ops,
            stores_per_op: traffic * stream.stores as f64 / ops,
            llc_hits_per_op: traffic * stream.hits as f64 / ops,
            weights: weights.iter().map(|weight| *weight as f32).collect(),
            partitioned: info.partitioned,
            first_touch: false,
        });
    }
    let mut replayed: Vec<ReplayObject> = order
        .iter()
        .map(|number| ReplayObject {
            name: metadata.objects[*number].name.clone(),
            bytes: objects[*number].bytes,
            bins: objects[*number].bins,
            scattered: metadata.objects[*number].layout != Layout::Positional,
            mapping_bytes: None,
            side_by_side: false,
            freed_after: None,
        })
        .collect();
    let specs = P::objects(&target);
    mapping::settle(&mut replayed, &specs);
    for object in &mut replayed {
        let spec = specs.iter().find(|spec| spec.name == object.name);
        object.side_by_side = spec.is_some_and(|spec| spec.side_by_side);
    }
    let mut replay = Replay {
        loading: Vec::new(),
        notes: Vec::new(),
        objects: replayed,
        slices,
        repeat: spec.runs,
    };
    cut_grown(
        &mut replay,
        &|position| stays(profile, order[position]),
        spec.page_bytes,
    );
    replay.notes = notes(profile, &replay.objects, &sizes, &work);
    Ok(replay)
}

/// The objects at the sizes that the kernel declares for the target; those that it does not declare grow with the rest.
fn stretched<P: Program>(profile: &Profile, target: &Values, spec: &CarrySpec) -> Result<Vec<Stretched>, CarryError> {
    let recorded = profile.metadata.request.values();
    let (small, large) = (P::objects(recorded), P::objects(target));
    let sum = |objects: &[crate::memory::ObjectSpec]| objects.iter().map(|object| object.bytes as f64).sum::<f64>();
    let footprint = sum(&large) / sum(&small);
    if sum(&large) > MOST_BYTES as f64 {
        return Err(CarryError(format!(
            "the carried objects have {:.0} bytes, the most is {MOST_BYTES}",
            sum(&large)
        )));
    }
    let size = |objects: &[crate::memory::ObjectSpec], name: &str| {
        objects
            .iter()
            .find(|known| known.name == name)
            .map(|known| known.bytes as f64)
    };
    let stretch = |object: &ObjectInfo| {
        let growth = match (size(&small, &object.name), size(&large, &object.name)) {
            (Some(small), Some(large)) => large / small,
            _ => footprint,
        };
        let bytes = (object.bytes as f64 * growth).round().max(1.0) as u64;
        Stretched {
            bytes,
            bins: bin_count(page_count(object), bytes.div_ceil(spec.page_bytes)),
            skew: P::skew_growth(recorded, target, &object.name),
            curve: AggregationCurve::default(),
        }
    };
    Ok(profile.metadata.objects.iter().map(stretch).collect())
}

/// Whether an object is allocated during the run, and stays to its end.
fn stays(profile: &Profile, number: usize) -> bool {
    let mut events = profile.metadata.events.iter();
    let own = |event: &&AllocationEvent| usize::from(event.number) == number;
    let positional = profile.metadata.objects[number].layout == Layout::Positional;
    positional && events.clone().any(|event| own(&event)) && !events.any(|event| own(&event) && event.freed)
}

/// Whether the pages of a stream hold elements in random order, so that larger pages are more alike.
fn averaged(object: &ObjectInfo, stream: &Stream) -> bool {
    object.layout != Layout::Positional && !(object.sweeps && stream.class == AccessClass::Stream)
}

/// The squared variation between pages that a stream has at the target.
fn goal(info: &ObjectInfo, object: &Stretched, stream: &Stream, page_bytes: u64) -> f64 {
    let recorded = variation(&stream.pages);
    let page_factor = page_bytes as f64 / PAGE_BYTES as f64;
    if info.layout == Layout::Lists {
        return recorded * object.curve.ratio((page_factor / object.skew).max(1.0));
    }
    // Counting noise does not grow with skew.
    let noise = stream.pages.len() as f64 / stream.weight;
    (recorded - noise).max(0.0) * object.skew / page_factor + recorded.min(noise) / page_factor
}

fn notes(profile: &Profile, objects: &[ReplayObject], sizes: &[(&str, u64)], work: &[f64]) -> Vec<String> {
    let metadata = &profile.metadata;
    let request = &metadata.request;
    let carried: Vec<String> = sizes
        .iter()
        .map(|(name, value)| format!("{name} {} -> {value}", request.values().int(name)))
        .collect();
    let size = if carried.is_empty() {
        "at the recorded size".to_owned()
    } else {
        format!("with {}", carried.join(", "))
    };
    let bytes: u64 = objects.iter().map(|object| object.bytes).sum();
    let (least, most) = work.iter().fold((f64::MAX, 0f64), |(least, most), growth| {
        (least.min(*growth), most.max(*growth))
    });
    let growth = if most / least < 1.0 + 1e-9 {
        format!("{most:.2}")
    } else {
        format!("{least:.2} to {most:.2}, by phase")
    };
    let mut notes = vec![
        format!(
            "Recorded by running {} with {} bytes; replayed {size}: {bytes} bytes, and the operations times {growth}.",
            request.kernel(),
            profile.footprint_bytes(),
        ),
        format!(
            "Reads and write-backs of an operation stay as recorded unless the kernel says otherwise, because the last-level \
             cache was scaled with the footprint, to {} bytes.",
            metadata.llc_bytes
        ),
        "Where an object is accessed more or less, its larger version is in the same proportion of its length; objects whose \
         elements lie in random order are accessed more evenly by larger pages, as averages of more elements are."
            .to_owned(),
    ];
    if metadata.slices.iter().any(|slice| slice.stationary) {
        notes.push(
            "Within a phase whose accesses are equally distributed the recorded slices are pooled, so that little counting \
             noise is carried."
                .to_owned(),
        );
    }
    if objects.len() > metadata.objects.len() {
        notes.push(
            "What is allocated during the run is there from the slice on that touches it first, page after page, and what is \
             never touched is left out."
                .to_owned(),
        );
    }
    notes.extend(super::notes::window_note(profile));
    notes
}
