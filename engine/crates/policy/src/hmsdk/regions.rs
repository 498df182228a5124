//! DAMON's regions: neighbouring frames that are taken to be accessed alike, so that one look at one of
//! them stands for all. Regions that turn out alike grow together, all are cut in two at random, and what
//! was cut wrongly grows together again.

use serde::{Deserialize, Serialize};

use crate::CounterRng;

/// Frames from `start` to before `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// First frame.
    pub start: u32,
    /// One more than the last frame.
    pub end: u32,
    /// Looks in this aggregation that found an access.
    pub accesses: u32,
    /// The same of the aggregation before.
    pub last_accesses: u32,
    /// Aggregations for which `accesses` has been about the same.
    pub age: u32,
    /// The frame looked at.
    pub sampled: u32,
}

impl Region {
    /// A region that nothing is known of.
    #[must_use]
    pub fn new(start: u32, end: u32) -> Self {
        Self {
            start,
            end,
            accesses: 0,
            last_accesses: 0,
            age: 0,
            sampled: start,
        }
    }

    /// Number of frames.
    #[must_use]
    pub fn frames(&self) -> u32 {
        self.end - self.start
    }

    /// Keeps the first `frames` and returns the rest, which starts out with the same history.
    #[must_use]
    pub fn cut_off_after(&mut self, frames: u32) -> Self {
        let rest = Self {
            start: self.start + frames,
            ..*self
        };
        self.end = rest.start;
        rest
    }
}

/// Ages all regions by one aggregation and merges neighbours whose accesses differ by at most `threshold`,
/// up to `most_frames`; what is merged is a mean weighted by size. Repeats with twice the threshold while
/// there are more than `most_regions`.
pub fn merge(regions: &mut Vec<Region>, mut threshold: u32, most_frames: u32, most_regions: usize, max_accesses: u32) {
    loop {
        merge_once(regions, threshold, most_frames);
        // The kernel compares before it doubles, so the last try may be above the maximum.
        let tried = threshold;
        threshold = (threshold * 2).max(1);
        if regions.len() <= most_regions || tried >= max_accesses {
            return;
        }
    }
}

fn merge_once(regions: &mut Vec<Region>, threshold: u32, most_frames: u32) {
    let mut kept: Vec<Region> = Vec::with_capacity(regions.len());
    for mut region in regions.drain(..) {
        let steady = region.accesses.abs_diff(region.last_accesses) <= threshold;
        region.age = if steady { region.age + 1 } else { 0 };
        match kept.last_mut() {
            Some(before)
                if before.accesses.abs_diff(region.accesses) <= threshold
                    && before.frames() + region.frames() <= most_frames =>
            {
                let (a, b) = (u64::from(before.frames()), u64::from(region.frames()));
                let mean = |x: u32, y: u32| ((u64::from(x) * a + u64::from(y) * b) / (a + b)) as u32;
                before.accesses = mean(before.accesses, region.accesses);
                before.age = mean(before.age, region.age);
                before.end = region.end;
            }
            _ => kept.push(region),
        }
    }
    *regions = kept;
}

/// Starts the next aggregation.
pub fn start_over(regions: &mut [Region]) {
    for region in regions {
        region.last_accesses = region.accesses;
        region.accesses = 0;
    }
}

/// Cuts every region of more than two frames at a random tenth, unless there are more than half of
/// `most_regions`; in three when there are few and their number was `last_count` at the last time.
pub fn split(regions: &mut Vec<Region>, most_regions: u32, last_count: &mut u32, rng: &mut CounterRng) {
    let count = regions.len() as u32;
    if count > most_regions / 2 {
        return;
    }
    let cuts = if *last_count == count && count < most_regions / 3 {
        2
    } else {
        1
    };
    let mut all = Vec::with_capacity(regions.len() * (cuts + 1));
    for mut region in regions.drain(..) {
        let mut rest: [Option<Region>; 2] = [None, None];
        for rest in rest.iter_mut().take(cuts) {
            let frames = region.frames();
            if frames <= 2 {
                break;
            }
            let first = (u64::from(frames) * (1 + rng.below(9)) / 10) as u32;
            if first > 0 {
                *rest = Some(region.cut_off_after(first));
            }
        }
        // The second cut is in the first part of the first one.
        all.push(region);
        all.extend(rest.into_iter().rev().flatten());
    }
    *regions = all;
    *last_count = count;
}
