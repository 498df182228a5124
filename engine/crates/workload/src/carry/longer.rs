//! How much longer an operation is on a larger graph, where its work is counted by access: the lists that a triangle count
//! merges get longer with the skew of the graph.
//!
//! Moments of the degrees of the generators' graphs grow by equal factors with each doubling, so a factor measured between
//! two recorded scales holds for further ones. Computing grows with it, and so do accesses in sequence and their misses;
//! those that are not in sequence begin a list, and stay as many for each operation as recorded.

use crate::class::AccessClass;
use crate::profile::{Metadata, SliceInfo, accesses_per_op};

/// By what accesses of an operation grow.
#[derive(Debug, Clone, Copy)]
pub struct Longer(f64);

impl Longer {
    /// From the recorded scale to another one; 1 where no computing is counted by access.
    pub fn new(metadata: &Metadata, recorded_scale: u32, scale: u32) -> Self {
        let smaller = metadata.smaller.as_ref();
        let (Some(here), Some(smaller)) = (accesses_per_op(&metadata.slices), smaller) else {
            return Self(1.0);
        };
        let Some(there) = smaller.accesses_per_op else {
            return Self(1.0);
        };
        let steps = f64::from(scale - recorded_scale) / f64::from(recorded_scale - smaller.scale);
        Self((here / there).powf(steps))
    }

    /// The factor of computing in a slice.
    pub fn computing(self, slice: &SliceInfo) -> f64 {
        if slice.by_access { self.0 } else { 1.0 }
    }

    /// The factor of accesses of a class in a slice.
    pub fn accesses(self, slice: &SliceInfo, class: AccessClass) -> f64 {
        if class == AccessClass::Stream {
            self.computing(slice)
        } else {
            1.0
        }
    }

    /// In plain words.
    pub fn note(self) -> Option<String> {
        (self.0 != 1.0).then(|| {
            format!(
                "Lists that are merged get longer: for each edge {:.2} times as many entries are compared as in the recording, \
                 which follows from two recorded scales; lines read in sequence grow as much.",
                self.0
            )
        })
    }
}
