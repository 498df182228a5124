//! How a graph gets into memory. By first touch that decides where its arrays lie: their order, and what lay in memory before
//! them and is gone when the run begins. Where loading is part of what is replayed, systems act meanwhile.

use serde_json::{Value as Json, json};

use super::reading::{self, Reading};
use super::{CarryError, ReplayObject, ReplaySlice};
use crate::kernel::Kernel;
use crate::kernels::graph::GAPBS;
use crate::parameter::suggestion;

/// How a program of GAPBS got its graph. Of what is computed nothing differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    /// Read from a serialized file (`-f graph.sg`): its offsets, the neighbours, then the index, made of the offsets,
    /// which are freed (`ReadSerializedGraph` in src/reader.h). Nothing but their places is left of it.
    Serialized,
    /// The same, replayed before the first operation that is timed.
    Read,
    /// Generated and built (`-g`, `-u`). The edges are gone when the graph is copied without its duplicates; beside
    /// the copy are the number of edges of each vertex and the offsets made of them, and the graph as it was, all
    /// freed after it (`SquishCSR` in src/builder.h). That graph came after the edges, which filled fast memory, and is
    /// taken to lie in slow memory: it does where less than 97 % of the footprint is fast, 75 % with weights.
    Generated,
}

impl Loading {
    const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Serialized, "serialized", "read from a file, -f"),
        (
            Self::Read,
            "read",
            "read from a file, -f, in phases before the timed ones, in which systems act",
        ),
        (Self::Generated, "generated", "-g, -u"),
    ];

    /// By name, or why there is none.
    pub(super) fn named(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, known, _)| *known == name);
        let near = || suggestion(name, Self::ALL.iter().map(|(_, known, _)| *known));
        found.map(|(loading, _, _)| *loading).ok_or_else(|| {
            let [first, second, last] = Self::ALL.map(|(_, known, _)| known);
            format!(
                "carry.loading is '{name}', it must be {first}, {second} or {last}{}",
                near()
            )
        })
    }

    /// The names for kernels like this one, each with its meaning; none where nothing is loaded so.
    pub(crate) fn document(kernel: &Kernel) -> Vec<Json> {
        let all = Self::ALL.iter().filter(|_| is_loaded(kernel));
        all.map(|(_, name, meaning)| json!({"name": name, "meaning": meaning}))
            .collect()
    }

    /// The arrays that are there before the run only, in order of first touch, and their bytes for each vertex.
    pub(super) fn passing(self) -> &'static [(&'static str, u64)] {
        match self {
            Self::Serialized | Self::Read => &[(OFFSETS, 8)],
            Self::Generated => &[("squished_degrees", 4), (OFFSETS, 8)],
        }
    }

    /// The graph's arrays in order of first touch, before all others of the run.
    pub(super) fn order(self) -> [&'static str; 2] {
        match self {
            Self::Serialized | Self::Read => [NEIGHBOURS, INDEX],
            Self::Generated => [INDEX, NEIGHBOURS],
        }
    }

    /// What is there before the run only as objects, for a graph whose last array is the one at this place.
    pub(super) fn objects(self, vertices: u64, last: usize, page_bytes: u64) -> impl Iterator<Item = ReplayObject> {
        self.passing().iter().map(move |(name, bytes)| ReplayObject {
            name: (*name).to_owned(),
            bytes: bytes * vertices,
            bins: if self == Self::Read {
                reading::bins(bytes * vertices, page_bytes)
            } else {
                1
            },
            scattered: false,
            mapping_bytes: None,
            side_by_side: false,
            freed_after: (self != Self::Read).then_some(last),
        })
    }

    /// What is replayed before the run of a graph with these objects, of which `at_start` are there when it begins.
    pub(super) fn slices(
        self,
        objects: &[ReplayObject],
        at_start: impl Fn(usize) -> bool,
        page_bytes: u64,
    ) -> Vec<ReplaySlice> {
        let place = |name: &str| objects.iter().position(|object| object.name == name);
        match (self, place(OFFSETS), place(NEIGHBOURS), place(INDEX)) {
            (Self::Read, Some(offsets), Some(neighbours), Some(index)) => {
                let read = Reading {
                    objects,
                    offsets,
                    neighbours,
                    index,
                };
                read.slices(at_start, page_bytes)
            }
            _ => Vec::new(),
        }
    }
}

const OFFSETS: &str = "offsets";
const NEIGHBOURS: &str = "neighbours";
const INDEX: &str = "index";

/// Whether programs like this one load their graph so.
fn is_loaded(kernel: &Kernel) -> bool {
    kernel.family == GAPBS
}

/// Whether programs like this one load a graph, if loading is asked for.
pub(crate) fn check(loading: Option<Loading>, kernel: &Kernel) -> Result<(), CarryError> {
    match loading {
        Some(_) if !is_loaded(kernel) => Err(CarryError(format!(
            "carry.loading is for kernels on graphs as in GAPBS, which {} is not; leave it out",
            kernel.name
        ))),
        _ => Ok(()),
    }
}
