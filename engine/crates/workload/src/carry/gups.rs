//! Carrying the profile of random updates to a larger table.

use super::bins::bin_count;
use super::rows::{Stream, streams};
use super::{CarryError, CarrySpec, Replay, ReplayObject, ReplaySlice, ReplayStream};
use crate::kernels::gups::{Move, Shape, phase_name, read_moves};
use crate::profile::{PAGE_BYTES, Profile};

/// How far the ratio of hot bytes to table bytes may be off, from rounding to whole elements and pages.
const RATIO_TOLERANCE: f64 = 1e-3;

pub(crate) fn carry(profile: &Profile, spec: &CarrySpec) -> Result<Replay, CarryError> {
    let values = profile.metadata.request.values();
    let recorded = Shape::of(values);
    let table_bytes = spec.size("table_bytes").unwrap_or(recorded.table_bytes);
    if table_bytes < recorded.table_bytes {
        return Err(CarryError(format!(
            "carry.table_bytes is {table_bytes}, less than the {0} bytes that were recorded; the nearest is {0}",
            recorded.table_bytes
        )));
    }
    let factor = table_bytes as f64 / recorded.table_bytes as f64;
    let kept_hot_bytes = (recorded.hot_bytes as f64 * factor).round() as u64;
    let hot_bytes = spec.size("hot_bytes").unwrap_or(kept_hot_bytes);
    if (hot_bytes as f64 / kept_hot_bytes as f64 - 1.0).abs() > RATIO_TOLERANCE {
        return Err(CarryError(format!(
            "carry.hot_bytes is {hot_bytes}, but the recorded hot part is {} of {} bytes and its share is kept; the nearest is \
             {kept_hot_bytes}",
            recorded.hot_bytes, recorded.table_bytes
        )));
    }
    let target = Shape {
        table_bytes,
        hot_bytes,
        ..recorded.clone()
    };
    let moves = read_moves(values).map_err(|error| CarryError(format!("record.{} {}", error.name, error.text)))?;
    let stored = &profile.metadata.objects;
    if stored.len() != 1 || stored[0].bytes != recorded.table_bytes {
        return Err(CarryError(format!(
            "the profile's objects are not those of its request: one table of {} bytes",
            recorded.table_bytes
        )));
    }
    let bins = bin_count(u32::MAX, table_bytes.div_ceil(spec.page_bytes));
    let all = streams(&profile.columns, &profile.metadata.objects);
    let mut slices = Vec::new();
    for phase in 0..=moves.len() {
        let name = phase_name(phase);
        let inside: Vec<usize> = (0..profile.metadata.slices.len())
            .filter(|slice| profile.metadata.slices[*slice].phase == name)
            .collect();
        let ops: u64 = inside.iter().map(|slice| profile.metadata.slices[*slice].ops).sum();
        let parts: Vec<&Stream> = all.iter().filter(|stream| inside.contains(&stream.slice)).collect();
        if let (Some(first), true) = (parts.first(), ops > 0) {
            let hot_share = hot_share(&parts, &recorded, &moves[..phase]);
            let weights = two_level_weights(&target, &moves[..phase], hot_share, bins);
            let per_op =
                |count: fn(&Stream) -> u64| parts.iter().map(|part| count(part)).sum::<u64>() as f64 / ops as f64;
            let reads_per_op = per_op(|part| part.reads);
            slices.push(ReplaySlice {
                phase: name,
                ops: ops as f64 * factor,
                cpu_ns_per_op: profile.metadata.slices[inside[0]].cpu_ns_per_op,
                locked_per_op: 0.0,
                locked_lookups_per_op: 0.0,
                one_thread: false,
                free: Vec::new(),
                allocate: Vec::new(),
                streams: vec![ReplayStream {
                    object: 0,
                    class: first.class,
                    reads_per_op,
                    prefetched_share: per_op(|part| part.prefetched) / reads_per_op.max(f64::MIN_POSITIVE),
                    random_share: profile.metadata.objects[0].random_share(first.class),
                    writebacks_per_op: per_op(|part| part.writebacks),
                    stores_per_op: per_op(|part| part.stores),
                    llc_hits_per_op: per_op(|part| part.hits),
                    weights,
                    // Each thread has a private region, in thread order: see `Shape::hot_ranges`.
                    partitioned: true,
                    first_touch: false,
                }],
            });
        }
    }
    let mut notes = vec![
        format!(
            "Recorded by running {} updates on a table of {} bytes with {} hot; replayed on {table_bytes} bytes with {hot_bytes} \
             hot, in {} private regions, and {factor:.2} times the updates.",
            values.int("updates"), recorded.table_bytes, recorded.hot_bytes, recorded.threads
        ),
        format!(
            "All ratios are kept, hot-set moves happen after the same share of the updates, and reads per update stay as \
             recorded because the last-level cache was scaled with the table, to {} bytes.",
            profile.metadata.llc_bytes
        ),
        format!(
            "Each thread only touches its own region: {} equal parts of the table in thread order, each with its share of the hot \
             bytes (at its start before the first move), as long as the replay has {} threads.",
            recorded.threads, recorded.threads
        ),
        "Between two moves updates are independent and equally distributed, so the recorded slices of such a stretch are \
         pooled, and the measured share of the hot part is spread evenly over it: counting noise is not carried."
            .to_owned(),
    ];
    notes.extend(super::notes::window_note(profile));
    Ok(Replay {
        loading: Vec::new(),
        objects: vec![ReplayObject {
            name: "table".to_owned(),
            bytes: table_bytes,
            bins,
            scattered: false,
            mapping_bytes: None,
            side_by_side: false,
            freed_after: None,
        }],
        slices,
        repeat: spec.runs,
        notes,
    })
}

/// The part of the reads that falls on hot bytes, from pages that lie wholly inside or outside the hot ranges.
fn hot_share(parts: &[&Stream], shape: &Shape, moves: &[Move]) -> f64 {
    let ranges = shape.hot_ranges(moves);
    let (mut hot, mut hot_pages, mut cold, mut cold_pages) = (0.0, 0.0, 0.0, 0.0);
    for page in 0..shape.table_bytes / PAGE_BYTES {
        let (from, to) = (page * PAGE_BYTES, (page + 1) * PAGE_BYTES);
        let reads: f64 = parts.iter().map(|part| part.pages[page as usize]).sum();
        let overlap = overlap(&ranges, from as f64, to as f64);
        if overlap == PAGE_BYTES as f64 {
            hot += reads;
            hot_pages += 1.0;
        } else if overlap == 0.0 {
            cold += reads;
            cold_pages += 1.0;
        }
    }
    let hot_bytes: u64 = ranges.iter().map(|(from, to)| to - from).sum();
    if hot_pages == 0.0 || cold_pages == 0.0 {
        // No page is purely hot or purely cold: the whole table counts as one.
        return hot_bytes as f64 / shape.table_bytes as f64;
    }
    let hot_density = hot / hot_pages * hot_bytes as f64;
    let cold_density = cold / cold_pages * (shape.table_bytes - hot_bytes) as f64;
    hot_density / (hot_density + cold_density)
}

/// Bytes of `[from, to)` that lie in the ranges.
fn overlap(ranges: &[(u64, u64)], from: f64, to: f64) -> f64 {
    ranges
        .iter()
        .map(|(start, end)| (to.min(*end as f64) - from.max(*start as f64)).max(0.0))
        .sum()
}

/// Bin weights when `hot_share` lies evenly on the hot ranges and the rest evenly beside them.
fn two_level_weights(shape: &Shape, moves: &[Move], hot_share: f64, bins: u32) -> Vec<f32> {
    let ranges = shape.hot_ranges(moves);
    let hot_bytes: u64 = ranges.iter().map(|(from, to)| to - from).sum();
    let hot_density = hot_share / hot_bytes as f64;
    let cold_density = (1.0 - hot_share) / (shape.table_bytes - hot_bytes).max(1) as f64;
    let bin_bytes = shape.table_bytes as f64 / f64::from(bins);
    (0..bins)
        .map(|bin| {
            let hot = overlap(&ranges, f64::from(bin) * bin_bytes, f64::from(bin + 1) * bin_bytes);
            (hot * hot_density + (bin_bytes - hot) * cold_density) as f32
        })
        .collect()
}
