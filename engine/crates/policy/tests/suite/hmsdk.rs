//! Properties of `hmsdk`: whatever happens, its regions tile what they watch and nothing counted is lost.

use proptest::prelude::*;
use tiertune_policy::CounterRng;
use tiertune_policy::hmsdk::regions::{Region, merge, split, start_over};

/// Regions that tile `0..`, with sizes, accesses, last accesses and ages as given.
fn tiled(parts: &[(u32, u32, u32, u32)]) -> Vec<Region> {
    let mut start = 0;
    let mut regions = Vec::new();
    for (frames, accesses, last_accesses, age) in parts {
        regions.push(Region {
            accesses: *accesses,
            last_accesses: *last_accesses,
            age: *age,
            ..Region::new(start, start + frames)
        });
        start += frames;
    }
    regions
}

fn parts() -> impl Strategy<Value = Vec<(u32, u32, u32, u32)>> {
    prop::collection::vec((1u32..60, 0u32..=20, 0u32..=20, 0u32..40), 1..80)
}

/// Every frame of `0..frames` is in exactly one region, and no region is empty.
fn assert_tiles(regions: &[Region], frames: u32) {
    assert!(regions.iter().all(|region| region.start < region.end));
    assert!(regions.windows(2).all(|pair| pair[0].end == pair[1].start));
    assert_eq!((regions[0].start, regions[regions.len() - 1].end), (0, frames));
}

/// Accesses times frames.
fn weight(regions: &[Region]) -> u64 {
    let weights = regions.iter().map(|r| u64::from(r.accesses) * u64::from(r.frames()));
    weights.sum()
}

proptest! {
    #[test]
    fn merging_tiles_and_keeps_what_was_counted(parts in parts(), threshold in 0u32..8, most in 1u32..400) {
        let mut regions = tiled(&parts);
        let (frames, before, count) = (regions[regions.len() - 1].end, weight(&regions), regions.len());
        let largest = regions.iter().map(Region::frames).max().expect("there is one");
        merge(&mut regions, threshold, most, usize::MAX, 20);
        assert_tiles(&regions, frames);
        prop_assert!(regions.iter().all(|region| region.frames() <= most.max(largest)));
        // A mean is cut off to a whole number at each merger, so at most a frame's worth per frame is lost.
        let merged = (count - regions.len()) as u64;
        prop_assert!(weight(&regions) <= before);
        prop_assert!(before - weight(&regions) <= merged * u64::from(frames));
        prop_assert!(merged > 0 || before == weight(&regions));
    }

    /// Where all is alike nothing at all is lost, and all that may becomes one.
    #[test]
    fn equal_neighbours_become_one(sizes in prop::collection::vec(1u32..60, 1..80), accesses in 0u32..=20, age in 0u32..40) {
        let parts: Vec<_> = sizes.iter().map(|size| (*size, accesses, accesses, age)).collect();
        let mut regions = tiled(&parts);
        let frames = regions[regions.len() - 1].end;
        merge(&mut regions, 0, u32::MAX, usize::MAX, 20);
        prop_assert_eq!(regions.len(), 1);
        prop_assert_eq!((regions[0].frames(), regions[0].accesses, regions[0].age), (frames, accesses, age + 1));
    }

    #[test]
    fn splitting_tiles_and_both_parts_know_the_whole_past(
        parts in parts(), most in 2u32..1000, last_count in 0u32..80, seed in any::<u64>(),
    ) {
        let mut regions = tiled(&parts);
        let (frames, before, count) = (regions[regions.len() - 1].end, weight(&regions), regions.len() as u32);
        let old = regions.clone();
        let mut last = last_count;
        split(&mut regions, most, &mut last, &mut CounterRng::new(seed, &[]));
        assert_tiles(&regions, frames);
        prop_assert_eq!(weight(&regions), before);
        for region in &regions {
            let whole = old.iter().find(|old| old.start <= region.start && region.end <= old.end);
            let whole = whole.expect("no region spans two old ones");
            prop_assert_eq!((region.age, region.last_accesses), (whole.age, whole.last_accesses));
        }
        if count > most / 2 {
            prop_assert_eq!(&regions, &old);
        } else {
            prop_assert!(regions.len() as u32 <= most.max(2 * count), "{} of at most {most}", regions.len());
            prop_assert_eq!(last, count);
        }
    }

    #[test]
    fn a_new_aggregation_remembers_the_last_one_only(parts in parts()) {
        let mut regions = tiled(&parts);
        start_over(&mut regions);
        for (region, (_, accesses, _, age)) in regions.iter().zip(&parts) {
            prop_assert_eq!((region.accesses, region.last_accesses, region.age), (0, *accesses, *age));
        }
    }
}

#[test]
fn a_region_that_changed_is_young_again() {
    let mut regions = tiled(&[(10, 5, 5, 7), (10, 5, 9, 7)]);
    merge(&mut regions, 0, 10, usize::MAX, 20);
    assert_eq!((regions[0].age, regions[1].age), (8, 0));
}

#[test]
fn too_many_regions_are_merged_with_ever_less_regard_for_their_accesses() {
    let parts: Vec<_> = (0..20).map(|nth| (10, nth, nth, 0)).collect();
    let mut regions = tiled(&parts);
    merge(&mut regions, 0, u32::MAX, 5, 20);
    assert!(regions.len() <= 5, "{}", regions.len());
}
