//! How much longer an operation is on a larger graph, where its work is counted by access: the lists that a triangle count
//! merges get longer with the skew of the graph.
//!
//! A law of the generators says how much longer ([`merges`](crate::merges)), and a smaller recording which share of the
//! accesses that is: others are as many for each edge at every size. Computing grows with it, and so do accesses in sequence
//! and their misses; those that are not in sequence begin a list, and stay as many for each operation as recorded. Beside
//! recordings at three and four doublings more, from 2^14 and 2^15 vertices, computing is right within 3 %, lines in sequence on
//! Kronecker graphs within 1 and on Twitter-like ones, where a cache holds more of the longest lists, 5 and 6 % too many.

use crate::class::AccessClass;
use crate::merges::expected_merged;
use crate::profile::{Metadata, SliceInfo, accesses_per_op};

/// By what accesses of an operation grow.
#[derive(Debug, Clone, Copy)]
pub struct Longer(f64);

impl Longer {
    /// From the recorded scale to another one; 1 where no computing is counted by access.
    pub fn new(metadata: &Metadata, recorded_scale: u32, scale: u32) -> Self {
        let recorded = accesses_per_op(&metadata.slices);
        let smaller = metadata.smaller.as_ref();
        let less = smaller.and_then(|smaller| Some((smaller.scale, smaller.accesses_per_op?)));
        let (Some(here), Some((smaller_scale, there)), Some((kind, _, degree))) =
            (recorded, less, metadata.request.graph_input())
        else {
            return Self(1.0);
        };
        let law = |scale: u32| expected_merged(kind, scale, degree);
        let merged = law(recorded_scale);
        let share = (1.0 - there / here) / (1.0 - law(smaller_scale) / merged);
        // Lists of a uniform graph are as long at every size, so that nothing says which share they are, nor need it.
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 1.0 };
        Self(1.0 + share * (law(scale) / merged - 1.0))
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
                 by a law of the generator; lines read in sequence grow as much.",
                self.0
            )
        })
    }
}
