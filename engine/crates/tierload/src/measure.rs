//! Measurements of the memory of this host, from which `tiertune calibrate` makes a machine file.
//!
//! Every sample is a window of a tenth of a second, cut into slots of half a millisecond of which only those count in which
//! all threads had their processors. Windows of different kinds take turns, so that what a shared host does meanwhile
//! spreads over all of them.

pub mod arguments;
mod host;
mod loaded;
mod moves;
mod updates;

use serde_json::{Value as Json, json};

pub use host::Region;

/// Cache lines are what memory moves.
pub const LINE_BYTES: usize = 64;

/// What is measured.
#[derive(Debug, Clone, PartialEq)]
pub enum Measure {
    /// Latency of dependent reads beside threads that stream, by how hard they stream; with none, idle latency.
    Loaded {
        /// Streaming threads beside the one that chases.
        threads: usize,
        /// Shares of the streamed lines that are also written.
        write_shares: Vec<f64>,
        /// Turns of a waiting loop after every 4 KiB: 0 streams at full speed.
        pauses: Vec<u64>,
    },
    /// Bandwidth of threads that stream, by how many they are and what share of lines they write.
    Stream {
        /// Numbers of threads.
        threads: Vec<usize>,
        /// Shares of the lines that are also written.
        write_shares: Vec<f64>,
    },
    /// Rate of independent random reads and updates beside that of dependent ones, per thread.
    Updates {
        /// Numbers of threads.
        threads: Vec<usize>,
    },
    /// Time to move a page between nodes, or, with one node, to copy it and to take and fault in its frame.
    Moves {
        /// Pages of each size in a sample.
        pages: usize,
        /// The node that they go to.
        to: Option<u32>,
    },
}

/// A measurement with what all of them need.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What is measured.
    pub measure: Measure,
    /// Buffer of every thread.
    pub buffer_bytes: usize,
    /// Samples of each kind.
    pub samples: u32,
    /// Length of a sample's window.
    pub window_s: f64,
    /// Node that the memory is on; absent: where the kernel puts it.
    pub node: Option<u32>,
    /// A word that every sample carries.
    pub label: Option<String>,
}

impl Measure {
    /// Name on the command line and in documents.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Loaded { .. } => "loaded",
            Self::Stream { .. } => "stream",
            Self::Updates { .. } => "updates",
            Self::Moves { .. } => "moves",
        }
    }
}

/// Carries a plan out; `sample` gets a document for every sample as soon as it is there.
///
/// # Errors
/// With a sentence where this host does not let the measurement happen.
pub fn carry_out(plan: &Plan, mut sample: impl FnMut(Json)) -> Result<(), String> {
    let mut sample = |mut document: Json| {
        if let Some(label) = &plan.label {
            document["label"] = label.as_str().into();
        }
        sample(document);
    };
    match &plan.measure {
        Measure::Loaded {
            threads,
            write_shares,
            pauses,
        } => loaded::latencies(plan, *threads, write_shares, pauses, &mut sample),
        Measure::Stream { threads, write_shares } => loaded::bandwidths(plan, threads, write_shares, &mut sample),
        Measure::Updates { threads } => updates::rates(plan, threads, &mut sample),
        Measure::Moves { pages, to } => moves::times(plan, *pages, *to, &mut sample),
    }
}

/// What is measured, and with what, as a document.
#[must_use]
pub fn begin(plan: &Plan) -> Json {
    json!({
        "event": "begin", "measure": plan.measure.name(), "buffer_bytes": plan.buffer_bytes, "samples": plan.samples,
        "window_s": plan.window_s, "node": plan.node, "processors": host::processors().len(),
        "version": env!("CARGO_PKG_VERSION"),
    })
}
