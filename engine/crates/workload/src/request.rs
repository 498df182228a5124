//! What can be recorded: the kernels' parameters, read from JSON, with a sentence for every mistake.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tiertune_policy::nearest::nearest;

use crate::graph::GraphKind;
use crate::kernels::{GraphObject, bc, gups, pr};

const SCALES: (u64, u64) = (10, 24);
/// Most undirected edges that are generated: what scale 24 with degree 16 has, about 8 GB while building.
const MOST_EDGES: u64 = 16 << SCALES.1;
/// Least last-level cache of a recording.
pub(crate) const LEAST_LLC_BYTES: u64 = 512;

/// Betweenness centrality.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BcRequest {
    /// Which random graph.
    pub graph: GraphKind,
    /// The graph has 2^scale vertices.
    pub scale: u32,
    /// Undirected edges per vertex before duplicates are removed.
    #[serde(default = "gapbs_degree")]
    pub degree: u32,
    /// Number of sources.
    #[serde(default = "one")]
    pub sources: u32,
    /// Seed of the graph and of the sources.
    #[serde(default = "seed")]
    pub seed: u64,
    /// Bytes of the last-level cache, scaled like the footprint.
    pub llc_bytes: u64,
}

/// PageRank.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrRequest {
    /// Which random graph.
    pub graph: GraphKind,
    /// The graph has 2^scale vertices.
    pub scale: u32,
    /// Undirected edges per vertex before duplicates are removed.
    #[serde(default = "gapbs_degree")]
    pub degree: u32,
    /// Number of iterations; there is no early stop.
    pub iterations: u32,
    /// Seed of the graph.
    #[serde(default = "seed")]
    pub seed: u64,
    /// Bytes of the last-level cache, scaled like the footprint.
    pub llc_bytes: u64,
}

/// Random updates with a hot set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GupsRequest {
    /// Bytes of the table.
    pub table_bytes: u64,
    /// Bytes of the hot set, of all threads together.
    pub hot_bytes: u64,
    /// Probability that an update goes to the hot set.
    #[serde(default = "hot_share")]
    pub hot_share: f64,
    /// Number of updates, of all threads together.
    pub updates: u64,
    /// When and how far the hot set moves.
    #[serde(default)]
    pub moves: Moves,
    /// Threads; each has a private region with its own part of the hot set.
    #[serde(default = "gups_threads")]
    pub threads: u32,
    /// Seed of the updates.
    #[serde(default = "seed")]
    pub seed: u64,
    /// Bytes of the last-level cache, scaled like the footprint.
    pub llc_bytes: u64,
}

/// When the hot set moves: how often (evenly spaced, a quarter of it each time), or a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Moves {
    /// That many moves, evenly spaced, each by a quarter of the hot set.
    Count(u32),
    /// Moves one by one.
    List(Vec<HotMove>),
}

/// One move of the hot set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotMove {
    /// Number of updates after which it happens.
    pub at_update: u64,
    /// Part of the hot set that is replaced, 0 to 1.
    #[serde(default = "hemem_turnover")]
    pub share: f64,
}

impl Default for Moves {
    fn default() -> Self {
        Moves::Count(0)
    }
}

fn gapbs_degree() -> u32 {
    16
}
fn one() -> u32 {
    1
}
fn seed() -> u64 {
    1
}
fn hot_share() -> f64 {
    0.9
}
fn hemem_turnover() -> f64 {
    0.25
}
fn gups_threads() -> u32 {
    12
}

/// What to record; in JSON a mapping with the key `kernel` beside the kernel's own keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kernel", rename_all = "lowercase", try_from = "Value")]
pub enum RecordRequest {
    /// Betweenness centrality.
    Bc(BcRequest),
    /// PageRank.
    Pr(PrRequest),
    /// Random updates with a hot set.
    Gups(GupsRequest),
}

/// Why nothing can be recorded; every message is one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RecordError(pub String);

/// Kernels and the keys that each takes.
const KERNELS: [(&str, &[&str]); 3] = [
    ("bc", &["graph", "scale", "degree", "sources", "seed", "llc_bytes"]),
    ("pr", &["graph", "scale", "degree", "iterations", "seed", "llc_bytes"]),
    (
        "gups",
        &[
            "table_bytes",
            "hot_bytes",
            "hot_share",
            "updates",
            "moves",
            "threads",
            "seed",
            "llc_bytes",
        ],
    ),
];

impl TryFrom<Value> for RecordRequest {
    type Error = RecordError;

    fn try_from(mut value: Value) -> Result<Self, RecordError> {
        let Some(map) = value.as_object_mut() else {
            return refuse(format!("record must be a mapping with the key kernel, not {value}"));
        };
        let names = KERNELS.map(|(name, _)| name);
        let Some(kernel) = map.remove("kernel") else {
            return refuse(format!("record.kernel is missing; choose one of {}", names.join(", ")));
        };
        let Some((name, keys)) = KERNELS.iter().find(|(name, _)| kernel == *name) else {
            let given = kernel.as_str().map_or_else(|| kernel.to_string(), str::to_owned);
            return refuse(format!(
                "record.kernel is {given}, which is not a kernel{}",
                suggestion(&given, names)
            ));
        };
        for key in map.keys() {
            if !keys.contains(&key.as_str()) {
                let near = suggestion(key, keys.iter().copied());
                return refuse(format!("record.{key} is not a key of the kernel {name}{near}"));
            }
        }
        if let Some(Value::String(graph)) = map.get("graph") {
            if !GraphKind::NAMES.contains(&graph.as_str()) {
                let near = suggestion(graph, GraphKind::NAMES);
                return refuse(format!("record.graph is {graph}, which is not a kind of graph{near}"));
            }
        }
        let failed =
            |cause: serde_json::Error| RecordError(format!("record for the kernel {name} is not valid: {cause}"));
        let request = match *name {
            "bc" => Self::Bc(serde_json::from_value(value).map_err(failed)?),
            "pr" => Self::Pr(serde_json::from_value(value).map_err(failed)?),
            _ => Self::Gups(serde_json::from_value(value).map_err(failed)?),
        };
        request.check()?;
        Ok(request)
    }
}

pub(crate) fn refuse<T>(sentence: String) -> Result<T, RecordError> {
    Err(RecordError(sentence))
}

fn suggestion<'a>(given: &str, choices: impl IntoIterator<Item = &'a str>) -> String {
    nearest(given, choices).map_or_else(String::new, |near| format!("; the nearest is {near}"))
}

/// A graph kernel's request, whichever it is.
pub(crate) struct GraphRun {
    pub kind: GraphKind,
    pub scale: u32,
    pub degree: u32,
    pub seed: u64,
    pub llc_bytes: u64,
    pub objects: &'static [GraphObject],
}

impl RecordRequest {
    /// Name of the kernel.
    #[must_use]
    pub fn kernel(&self) -> &'static str {
        match self {
            Self::Bc(_) => "bc",
            Self::Pr(_) => "pr",
            Self::Gups(_) => "gups",
        }
    }

    /// The same request with another last-level cache.
    #[must_use]
    pub fn with_llc_bytes(mut self, bytes: u64) -> Self {
        match &mut self {
            Self::Bc(request) => request.llc_bytes = bytes,
            Self::Pr(request) => request.llc_bytes = bytes,
            Self::Gups(request) => request.llc_bytes = bytes,
        }
        self
    }

    /// Whether every number is in its range and the run fits this machine.
    ///
    /// # Errors
    /// With the key, its value and the nearest valid one.
    pub fn check(&self) -> Result<(), RecordError> {
        let llc_bytes = match self {
            Self::Bc(request) => {
                within("sources", u64::from(request.sources), 1, 1024)?;
                request.llc_bytes
            }
            Self::Pr(request) => {
                within("iterations", u64::from(request.iterations), 1, 1000)?;
                request.llc_bytes
            }
            Self::Gups(request) => {
                request.check()?;
                request.llc_bytes
            }
        };
        within("llc_bytes", llc_bytes, LEAST_LLC_BYTES, 4 << 30)?;
        if let Some(run) = self.graph_run() {
            if u64::from(run.scale) > SCALES.1 {
                return refuse(format!(
                    "record.scale is {}, which would not fit in memory; the largest graph that is recorded has scale {} \
                     (carry.scale may be larger)",
                    run.scale, SCALES.1
                ));
            }
            within("scale", u64::from(run.scale), SCALES.0, SCALES.1)?;
            within("degree", u64::from(run.degree), 1, MOST_EDGES >> run.scale)?;
        }
        Ok(())
    }

    pub(crate) fn graph_run(&self) -> Option<GraphRun> {
        match self {
            Self::Bc(r) => Some(GraphRun {
                kind: r.graph,
                scale: r.scale,
                degree: r.degree,
                seed: r.seed,
                llc_bytes: r.llc_bytes,
                objects: &bc::OBJECTS,
            }),
            Self::Pr(r) => Some(GraphRun {
                kind: r.graph,
                scale: r.scale,
                degree: r.degree,
                seed: r.seed,
                llc_bytes: r.llc_bytes,
                objects: &pr::OBJECTS,
            }),
            Self::Gups(_) => None,
        }
    }

    /// The objects of a graph kernel.
    #[must_use]
    pub(crate) fn graph_objects(&self) -> &'static [GraphObject] {
        self.graph_run().map_or(&[], |run| run.objects)
    }

    /// Graph, scale and degree of a graph kernel.
    #[must_use]
    pub(crate) fn graph_input(&self) -> Option<(GraphKind, u32, u32)> {
        self.graph_run().map(|run| (run.kind, run.scale, run.degree))
    }
}

impl GupsRequest {
    fn check(&self) -> Result<(), RecordError> {
        within("table_bytes", self.table_bytes, 1 << 20, 8 << 30)?;
        within("threads", u64::from(self.threads), 1, 256)?;
        within(
            "hot_bytes",
            self.hot_bytes,
            u64::from(self.threads) * gups::ELEMENT_BYTES,
            self.table_bytes,
        )?;
        within("updates", self.updates, 1, 10_000_000_000)?;
        if !(0.0..=1.0).contains(&self.hot_share) {
            return refuse(format!(
                "record.hot_share is {}, it must be from 0 to 1",
                self.hot_share
            ));
        }
        let moves = self.moves();
        if moves.len() > 64 {
            return refuse(format!("record.moves asks for {} moves, the most is 64", moves.len()));
        }
        if moves.windows(2).any(|pair| pair[0].at_update >= pair[1].at_update) {
            return refuse("record.moves must be in rising order of at_update".to_owned());
        }
        for step in &moves {
            within("moves.at_update", step.at_update, 1, self.updates - 1)?;
            if !(step.share > 0.0 && step.share <= 1.0) {
                return refuse(format!(
                    "record.moves.share is {}, it must be above 0 and at most 1",
                    step.share
                ));
            }
        }
        Ok(())
    }

    /// The shape that the kernel runs.
    #[must_use]
    pub fn shape(&self) -> gups::Shape {
        gups::Shape {
            table_bytes: self.table_bytes,
            hot_bytes: self.hot_bytes,
            hot_share: self.hot_share,
            threads: self.threads,
        }
    }

    /// The moves as the kernel takes them.
    #[must_use]
    pub fn moves(&self) -> Vec<gups::Move> {
        match &self.moves {
            Moves::Count(count) => (1..=u64::from(*count))
                .map(|turn| gups::Move {
                    at_update: (u128::from(self.updates) * u128::from(turn) / u128::from(count + 1)) as u64,
                    share: hemem_turnover(),
                })
                .collect(),
            Moves::List(list) => list
                .iter()
                .map(|step| gups::Move {
                    at_update: step.at_update,
                    share: step.share,
                })
                .collect(),
        }
    }
}

fn within(key: &str, value: u64, least: u64, most: u64) -> Result<(), RecordError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let near = value.clamp(least, most);
    refuse(format!(
        "record.{key} is {value}, it must be from {least} to {most}; the nearest is {near}"
    ))
}
