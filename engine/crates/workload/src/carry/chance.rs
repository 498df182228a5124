//! What differs between the slices of a phase by chance only.
//!
//! A list is read once in a level of a search, and which lists come in which part of the level is chance: the queue holds
//! vertices in the order in which they were found. A slice sees a few lists of each page, so that its counts scatter by
//! half. The simulator draws accesses by these counts again: left in, a page of which no list came by would be idle for all of
//! the slice and another busy throughout, which reclaim by accessed bits would make use of.

use std::collections::BTreeMap;

use super::rows::Stream;
use crate::class::AccessClass;
use crate::profile::SliceInfo;

/// Moves the page counts of lists towards those of their phase, as far as slices differ by no more than independent
/// accesses do; whether there are any. What moves through them, as a sweep does, stays.
pub fn leave_out_chance(streams: &mut [Stream], slices: &[SliceInfo], of_lists: impl Fn(&Stream) -> bool) -> bool {
    let together = accesses_together(streams);
    let mut pools = pools(streams, slices, of_lists);
    pools.retain(|members| members.len() > 1);
    for members in &pools {
        let sum = sum_of(streams, members);
        let weight: f64 = sum.iter().sum();
        let mean: Vec<f64> = sum.iter().map(|pages| pages / weight).collect();
        let scatter: f64 = mean.iter().map(|share| share * (1.0 - share)).sum();
        for number in members {
            let stream = &mut streams[*number];
            let differences = stream.pages.iter().zip(&mean);
            let found: f64 = differences
                .map(|(pages, mean)| (pages / stream.weight - mean).powi(2))
                .sum();
            // The slice is a part of its phase, and so much nearer to it.
            let by_chance = together[*number] * scatter * (1.0 / stream.weight - 1.0 / weight);
            let kept = if found > by_chance {
                (1.0 - by_chance / found).sqrt()
            } else {
                0.0
            };
            for (pages, mean) in stream.pages.iter_mut().zip(&mean) {
                *pages = stream.weight * mean + kept * (*pages - stream.weight * mean);
            }
        }
    }
    !pools.is_empty()
}

/// Puts the page counts of stationary phases together: all that varies between their slices is chance.
pub fn pool_stationary(streams: &mut [Stream], slices: &[SliceInfo]) {
    let stationary = |stream: &Stream| slices[stream.slice].stationary && stream.class != AccessClass::Stream;
    for members in pools(streams, slices, stationary) {
        let sum = sum_of(streams, &members);
        let weight = sum.iter().sum();
        for number in members {
            streams[number].pages.clone_from(&sum);
            streams[number].weight = weight;
        }
    }
}

/// The streams that belong, as positions: together those of an object and a class in slices side by side of one phase.
fn pools(streams: &[Stream], slices: &[SliceInfo], belongs: impl Fn(&Stream) -> bool) -> Vec<Vec<usize>> {
    let phases: Vec<usize> = (0..slices.len())
        .scan(0, |phase, number| {
            *phase += usize::from(number > 0 && slices[number].phase != slices[number - 1].phase);
            Some(*phase)
        })
        .collect();
    let mut pools: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (number, stream) in streams.iter().enumerate().filter(|(_, stream)| belongs(stream)) {
        let pool = (phases[stream.slice], stream.object, stream.class);
        pools.entry(pool).or_default().push(number);
    }
    pools.into_values().collect()
}

/// The page counts of some streams of one object, added up.
fn sum_of(streams: &[Stream], members: &[usize]) -> Vec<f64> {
    let mut sum = vec![0.0; streams[members[0]].pages.len()];
    for number in members {
        for (sum, pages) in sum.iter_mut().zip(&streams[*number].pages) {
            *sum += pages;
        }
    }
    sum
}

/// For each stream how many of its accesses come together: of the lines behind the first of a list as many as there are for
/// each list that is found in the slice.
fn accesses_together(streams: &[Stream]) -> Vec<f64> {
    let mut found: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for stream in streams.iter().filter(|stream| stream.class == AccessClass::Lookup) {
        *found.entry((stream.slice, stream.object)).or_default() += stream.weight;
    }
    let of = |stream: &Stream| match found.get(&(stream.slice, stream.object)) {
        Some(lists) if stream.class == AccessClass::Stream => (stream.weight / lists).max(1.0),
        _ => 1.0,
    };
    streams.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::super::bins::variation;
    use super::*;
    use crate::memory::Unit;
    use tiertune_policy::CounterRng;

    const PAGES: usize = 1000;

    fn slice(phase: &str) -> SliceInfo {
        SliceInfo {
            phase: phase.to_owned(),
            unit: Unit::Edges,
            ops: 1,
            cpu_ns_per_op: 1.0,
            accesses: 0,
            locked: 0,
            locked_behind_miss: 0,
            locked_behind_lookup: 0,
            stationary: false,
            by_access: false,
        }
    }

    fn stream(slice: usize, class: AccessClass, pages: Vec<f64>) -> Stream {
        let weight = pages.iter().sum();
        Stream {
            slice,
            object: 0,
            class,
            reads: weight as u64,
            prefetched: 0,
            writebacks: 0,
            stores: 0,
            hits: 0,
            pages,
            weight,
        }
    }

    /// So many lists, each of so many lines on a page drawn from `among`.
    fn drawn(lists: usize, lines: f64, among: std::ops::Range<usize>, rng: &mut CounterRng) -> Vec<f64> {
        let mut pages = vec![0.0; PAGES];
        for _ in 0..lists {
            pages[among.start + (rng.next_f64() * among.len() as f64) as usize] += lines;
        }
        pages
    }

    #[test]
    fn lists_that_come_by_chance_are_as_likely_throughout_a_phase() {
        let mut rng = CounterRng::new(1, &[]);
        let mut streams: Vec<Stream> = (0..8)
            .flat_map(|slice| {
                let first = drawn(4 * PAGES, 1.0, 0..PAGES, &mut rng);
                let rest = drawn(4 * PAGES, 2.0, 0..PAGES, &mut rng);
                [
                    stream(slice, AccessClass::Lookup, first),
                    stream(slice, AccessClass::Stream, rest),
                ]
            })
            .collect();
        assert!(streams.iter().all(|stream| variation(&stream.pages) > 0.2));
        // Four lists a page and slice: one page in 55 is on none of them, in any run.
        let idle = |stream: &Stream| stream.pages.iter().map(|rate| (-rate).exp()).sum::<f64>() / PAGES as f64;
        assert!((0.07..0.09).contains(&idle(&streams[0])), "{}", idle(&streams[0]));
        let slices: Vec<SliceInfo> = (0..8).map(|_| slice("forward 6")).collect();
        assert!(leave_out_chance(&mut streams, &slices, |_| true));
        for stream in &streams {
            // That of all eight, and of a correction for what of one is beyond the expected.
            let left = variation(&stream.pages);
            assert!(left < 0.06, "{:?} {left}", stream.class);
            assert!((stream.pages.iter().sum::<f64>() / stream.weight - 1.0).abs() < 1e-9);
        }
        for stream in streams.iter().filter(|stream| stream.class == AccessClass::Lookup) {
            assert!((0.018..0.025).contains(&idle(stream)), "{}", idle(stream));
        }
    }

    #[test]
    fn what_moves_stays() {
        let mut rng = CounterRng::new(2, &[]);
        let half = |slice: usize| if slice < 4 { 0..PAGES / 2 } else { PAGES / 2..PAGES };
        let mut streams: Vec<Stream> = (0..8)
            .map(|slice| stream(slice, AccessClass::Lookup, drawn(4 * PAGES, 1.0, half(slice), &mut rng)))
            .collect();
        let slices: Vec<SliceInfo> = (0..8).map(|_| slice("forward 6")).collect();
        assert!(leave_out_chance(&mut streams, &slices, |_| true));
        for stream in &streams {
            let inside: f64 = stream.pages[half(stream.slice)].iter().sum();
            assert!(
                (0.9..1.0).contains(&(inside / stream.weight)),
                "{}",
                inside / stream.weight
            );
        }
    }

    #[test]
    fn other_phases_and_what_is_no_list_are_left_alone() {
        let mut rng = CounterRng::new(3, &[]);
        let counts: Vec<Vec<f64>> = (0..4).map(|_| drawn(PAGES, 1.0, 0..PAGES, &mut rng)).collect();
        let all = |class: AccessClass| -> Vec<Stream> {
            let numbered = counts.iter().enumerate();
            numbered
                .map(|(slice, pages)| stream(slice, class, pages.clone()))
                .collect()
        };
        let levels: Vec<SliceInfo> = ["forward 1", "forward 2", "forward 1", "backward 1"].map(slice).into();
        let mut streams = all(AccessClass::Lookup);
        assert!(!leave_out_chance(&mut streams, &levels, |_| true));
        assert!(
            streams
                .iter()
                .zip(&counts)
                .all(|(stream, pages)| stream.pages == *pages)
        );
        let one_level: Vec<SliceInfo> = (0..4).map(|_| slice("iteration")).collect();
        let mut others = all(AccessClass::Lookup);
        assert!(!leave_out_chance(&mut others, &one_level, |_| false));
        assert!(others.iter().zip(&counts).all(|(stream, pages)| stream.pages == *pages));
    }
}
