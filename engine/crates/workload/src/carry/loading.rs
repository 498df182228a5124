//! What of a graph's loading decides where its arrays lie by first touch: their order, and what lay in memory before
//! them and is gone when the run begins.

use serde_json::{Value as Json, json};

use super::{CarryError, ReplayObject};
use crate::kernel::Kernel;
use crate::kernels::graph::GAPBS;
use crate::parameter::suggestion;

/// How a program of GAPBS got its graph. Of what is computed nothing differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loading {
    /// Read from a serialized file (`-f graph.sg`): its offsets, the neighbours, then the index, made of the offsets,
    /// which are freed (`ReadSerializedGraph` in src/reader.h).
    Serialized,
    /// Generated and built (`-g`, `-u`). The edges are gone when the graph is copied without its duplicates; beside
    /// the copy are the number of edges of each vertex and the offsets made of them, and the graph as it was, all
    /// freed after it (`SquishCSR` in src/builder.h). That graph came after the edges, which filled fast memory, and is
    /// taken to lie in slow memory: it does where less than 97 % of the footprint is fast, 75 % with weights.
    Generated,
}

impl Loading {
    const ALL: [(Self, &'static str, &'static str); 2] = [
        (Self::Serialized, "serialized", "read from a file, -f"),
        (Self::Generated, "generated", "-g, -u"),
    ];

    /// By name, or why there is none.
    pub(super) fn named(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|(_, known, _)| *known == name);
        let near = || suggestion(name, Self::ALL.iter().map(|(_, known, _)| *known));
        found.map(|(loading, _, _)| *loading).ok_or_else(|| {
            let [one, other] = Self::ALL.map(|(_, known, _)| known);
            format!("carry.loading is '{name}', it must be {one} or {other}{}", near())
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
            Self::Serialized => &[("offsets", 8)],
            Self::Generated => &[("squished_degrees", 4), ("offsets", 8)],
        }
    }

    /// The graph's arrays in order of first touch, before all others of the run.
    pub(super) fn order(self) -> [&'static str; 2] {
        match self {
            Self::Serialized => ["neighbours", "index"],
            Self::Generated => ["index", "neighbours"],
        }
    }

    /// What is there before the run only as objects, for a graph whose last array is the one at this place.
    pub(super) fn objects(self, vertices: u64, last: usize) -> impl Iterator<Item = ReplayObject> {
        self.passing().iter().map(move |(name, bytes)| ReplayObject {
            name: (*name).to_owned(),
            bytes: bytes * vertices,
            bins: 1,
            scattered: false,
            mapping_bytes: None,
            side_by_side: false,
            freed_after: Some(last),
        })
    }
}

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
