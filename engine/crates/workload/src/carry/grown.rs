//! Objects that a program allocates while it runs come into memory page by page, as it fills them: each is cut into pieces
//! that are there from the slice on that touches them first.

use std::ops::Range;

use super::{Replay, ReplayObject, ReplayStream};

/// A part of an object.
struct Piece {
    /// Its position in the new list of objects.
    place: usize,
    /// Its bins of the object.
    bins: Range<usize>,
}

/// Cuts the objects for which `grows` holds. What is never touched is left out, as it is never resident.
///
/// Nothing is cut where the program runs several times, as nobody has recorded when it gives back what it allocated.
pub(crate) fn cut_grown(replay: &mut Replay, grows: &dyn Fn(usize) -> bool, page_bytes: u64) {
    if replay.repeat != 1 {
        return;
    }
    let mut objects = Vec::with_capacity(replay.objects.len());
    let mut pieces = Vec::with_capacity(replay.objects.len());
    for (number, object) in replay.objects.iter().enumerate() {
        let stages = if grows(number) {
            stages(replay, number)
        } else {
            Vec::new()
        };
        if stages.is_empty() {
            pieces.push(vec![Piece {
                place: objects.len(),
                bins: 0..object.bins as usize,
            }]);
            objects.push(object.clone());
            continue;
        }
        let mut cut = Vec::with_capacity(stages.len());
        for (slice, bins) in stages {
            replay.slices[slice].allocate.push(objects.len());
            cut.push(Piece {
                place: objects.len(),
                bins: bins.clone(),
            });
            objects.push(part(object, bins, page_bytes));
        }
        pieces.push(cut);
    }
    replay.objects = objects;
    for slice in &mut replay.slices {
        let streams = std::mem::take(&mut slice.streams);
        slice.streams = streams
            .into_iter()
            .flat_map(|stream| {
                let of_object = &pieces[stream.object];
                shared_out(stream, of_object)
            })
            .collect();
    }
}

/// Neighbouring bins that come with the same slice. A bin comes with the first slice that touches it or one behind it: a
/// program fills memory front to back, and misses caches at some of what it fills later.
fn stages(replay: &Replay, object: usize) -> Vec<(usize, Range<usize>)> {
    let mut first = vec![usize::MAX; replay.objects[object].bins as usize];
    for (number, slice) in replay.slices.iter().enumerate() {
        for stream in slice.streams.iter().filter(|stream| stream.object == object) {
            for (first, weight) in first.iter_mut().zip(&stream.weights) {
                if *weight > 0.0 {
                    *first = (*first).min(number);
                }
            }
        }
    }
    let mut behind = usize::MAX;
    for first in first.iter_mut().rev() {
        behind = behind.min(*first);
        *first = behind;
    }
    let runs = first.chunk_by(|a, b| a == b).scan(0, |start, run| {
        let bins = *start..*start + run.len();
        *start = bins.end;
        Some((run[0], bins))
    });
    runs.filter(|(slice, _)| *slice != usize::MAX).collect()
}

/// Some bins of an object as one of its own, of whole pages: no bin has less than one.
fn part(object: &ReplayObject, bins: Range<usize>, page_bytes: u64) -> ReplayObject {
    let pages = object.bytes.div_ceil(page_bytes);
    let edge = |bin: usize| ((pages * bin as u64).div_ceil(u64::from(object.bins)) * page_bytes).min(object.bytes);
    ReplayObject {
        bytes: edge(bins.end) - edge(bins.start),
        bins: bins.len() as u32,
        mapping_bytes: object.mapping_bytes.or(Some(object.bytes)),
        ..object.clone()
    }
}

/// The accesses of a stream to each piece of its object that it touches; those to an object in one piece stay as they are.
fn shared_out(stream: ReplayStream, pieces: &[Piece]) -> Vec<ReplayStream> {
    if let [piece] = pieces
        && piece.bins.len() == stream.weights.len()
    {
        let object = piece.place;
        return vec![ReplayStream { object, ..stream }];
    }
    let whole: f64 = stream.weights.iter().map(|weight| f64::from(*weight)).sum();
    let mut result = Vec::with_capacity(pieces.len());
    for piece in pieces {
        let weights = &stream.weights[piece.bins.clone()];
        let here: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
        if here <= 0.0 {
            continue;
        }
        let share = here / whole;
        result.push(ReplayStream {
            object: piece.place,
            reads_per_op: stream.reads_per_op * share,
            writebacks_per_op: stream.writebacks_per_op * share,
            stores_per_op: stream.stores_per_op * share,
            llc_hits_per_op: stream.llc_hits_per_op * share,
            weights: weights
                .iter()
                .map(|weight| (f64::from(*weight) / here) as f32)
                .collect(),
            ..stream.clone()
        });
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carry::ReplaySlice;
    use crate::class::AccessClass;

    fn object(name: &str, pages: u64, bins: u32) -> ReplayObject {
        ReplayObject {
            name: name.to_owned(),
            bytes: pages * 4096 - 100,
            bins,
            scattered: false,
            mapping_bytes: None,
            side_by_side: false,
            freed_after: None,
        }
    }

    fn slice(streams: &[(usize, &[f32])]) -> ReplaySlice {
        let streams = streams.iter().map(|(object, weights)| ReplayStream {
            object: *object,
            class: AccessClass::Random,
            reads_per_op: 8.0,
            prefetched_share: 0.25,
            random_share: 1.0,
            writebacks_per_op: 4.0,
            stores_per_op: 2.0,
            llc_hits_per_op: 1.0,
            weights: weights.to_vec(),
            partitioned: false,
            first_touch: false,
        });
        ReplaySlice {
            phase: "p".to_owned(),
            ops: 1.0,
            cpu_ns_per_op: 1.0,
            locked_per_op: 0.0,
            locked_lookups_per_op: 0.0,
            one_thread: false,
            free: Vec::new(),
            allocate: Vec::new(),
            streams: streams.collect(),
        }
    }

    fn replay(repeat: u32) -> Replay {
        Replay {
            loading: Vec::new(),
            objects: vec![object("loaded", 3, 1), object("grown", 10, 5), object("late", 2, 1)],
            slices: vec![
                slice(&[(0, &[1.0])]),
                slice(&[(0, &[1.0]), (1, &[0.5, 0.0, 0.5, 0.0, 0.0])]),
                slice(&[(1, &[0.25, 0.5, 0.0, 0.25, 0.0]), (2, &[1.0])]),
            ],
            repeat,
            notes: Vec::new(),
        }
    }

    #[test]
    fn pieces_come_with_the_slice_that_touches_them_or_what_is_behind_them() {
        let mut cut = replay(1);
        cut_grown(&mut cut, &|number| number == 1, 4096);
        let objects: Vec<(&str, u64, u32)> = cut
            .objects
            .iter()
            .map(|object| (object.name.as_str(), object.bytes, object.bins))
            .collect();
        // The last two of ten pages are never touched.
        assert_eq!(
            objects,
            [
                ("loaded", 3 * 4096 - 100, 1),
                ("grown", 6 * 4096, 3),
                ("grown", 2 * 4096, 1),
                ("late", 2 * 4096 - 100, 1)
            ]
        );
        assert_eq!(cut.objects[1].mapping_bytes, Some(10 * 4096 - 100));
        let allocated: Vec<&[usize]> = cut.slices.iter().map(|slice| slice.allocate.as_slice()).collect();
        assert_eq!(allocated, [&[] as &[usize], &[1], &[2]]);
        let touched: Vec<(usize, f64, &[f32])> = cut.slices[2]
            .streams
            .iter()
            .map(|stream| (stream.object, stream.reads_per_op, stream.weights.as_slice()))
            .collect();
        let (early, one) = ([1.0 / 3.0, 2.0 / 3.0, 0.0], [1.0]);
        assert_eq!(touched, [(1, 6.0, early.as_slice()), (2, 2.0, &one), (3, 8.0, &one)]);
    }

    #[test]
    fn what_runs_again_and_what_does_not_grow_stays_whole() {
        let mut again = replay(2);
        cut_grown(&mut again, &|_| true, 4096);
        assert_eq!(again, replay(2));
        let mut loaded = replay(1);
        cut_grown(&mut loaded, &|_| false, 4096);
        assert_eq!(loaded, replay(1));
    }

    #[test]
    fn weights_of_what_does_not_grow_stay_to_the_bit() {
        // Rounded as they are, they do not add up to 1: dividing by their sum would change them.
        let weights: [f32; 3] = [0.3, 0.3, 0.3];
        let mut cut = replay(1);
        cut.objects[2].bins = 3;
        cut.slices[2].streams[1].weights = weights.to_vec();
        cut_grown(&mut cut, &|number| number == 1, 4096);
        assert_eq!(cut.slices[2].streams[2].weights, weights);
    }

    #[test]
    fn no_piece_is_less_than_a_page() {
        let mut cut = replay(1);
        cut.objects[1].bytes = 5 * 4096 - 4000;
        cut_grown(&mut cut, &|number| number == 1, 4096);
        assert_eq!((cut.objects[1].bytes, cut.objects[2].bytes), (3 * 4096, 4096));
    }
}
