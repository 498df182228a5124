//! What kernels on graphs have in common: parameters, input, and how they are recorded.

use tiertune_policy::CounterRng;

use super::GraphObject;
use crate::cache::LINE_BYTES;
use crate::class::AccessClass;
use crate::graph::{Graph, GraphKind};
use crate::kernel::{Check, GraphTraits, Metric, Program};
use crate::law::expected_edges;
use crate::memory::{Array, Layout, Memory, ObjectSpec, Phase, Unit};
use crate::parameter::{Default, Parameter, ParameterError, Values, within};
use crate::profile::{GraphInfo, Profile, SmallerRun, accesses_per_op};
use crate::record::{RecordRequest, WORK_SLICES, assemble};
use crate::recorder::{Recorder, Recording};
use crate::request::LEAST_LLC_BYTES;

/// Scales of recorded graphs.
const SCALES: (u64, u64) = (10, 24);
/// Most undirected edges that are recorded: what scale 24 with degree 16 has, about 8 GB while building.
const MOST_EDGES: u64 = 16 << SCALES.1;
/// The graph that measures how skew grows is smaller by this many doublings.
const SMALLER_BY: u32 = 2;

/// Nominal: the graph is built before a recorded run starts, so nothing is derived from this.
const BUILD_NS: f64 = 1.0;

/// Which random graph.
pub const GRAPH: Parameter = Parameter::word(
    "graph",
    "a kind of graph",
    &GraphKind::NAMES,
    "kron (skewed degrees), uniform, or twitter (as skewed as Twitter, popular vertices have low ids)",
);
/// Size of the graph.
pub const SCALE: Parameter = Parameter::int("scale", 4, 31, "the graph has 2^scale vertices").carried();
/// Edges.
pub const DEGREE: Parameter = Parameter::int(
    "degree",
    1,
    16_384,
    "undirected edges per vertex before duplicates are removed",
)
.or(Default::Int(16));
/// Seed.
pub const SEED: Parameter =
    Parameter::int("seed", 0, u64::MAX, "seed of the graph and of what is drawn from it").or(Default::Int(1));

/// The suite that kernels on generated graphs follow.
pub const GAPBS: &str = "gapbs";

/// Graph, scale and degree.
#[must_use]
pub fn input(values: &Values) -> (GraphKind, u32, u32) {
    let kind = GraphKind::named(values.word("graph"));
    (kind, values.int("scale") as u32, values.int("degree") as u32)
}

/// A kernel on a generated graph; see [`Program`] for what is not explained here.
pub trait GraphProgram {
    /// As in [`Program`].
    const NAME: &'static str;
    /// As in [`Program`].
    const FAMILY: &'static str = GAPBS;
    /// As in [`Program`].
    const SUMMARY: &'static str;
    /// As in [`Program`].
    const SOURCE: &'static str;
    /// As in [`Program`].
    const OP_MEANING: &'static str;
    /// [`GRAPH`], [`SCALE`], [`DEGREE`], the kernel's own, [`SEED`].
    const PARAMETERS: &'static [Parameter];
    /// As in [`Program`].
    const CLASSES: &'static [AccessClass];
    /// As in [`Program`].
    const METRICS: &'static [Metric] = &[];
    /// As in [`Program`].
    const SMALL: &'static str = r#"{"graph": "kron", "scale": 10, "degree": 8}"#;
    /// Objects, and what carrying needs to know.
    const TRAITS: &'static GraphTraits;

    /// What a run computes.
    type Output;

    /// Times that a run goes over all stored edges, about.
    fn passes(values: &Values) -> u64;

    /// Whether a run allocates an object; all of them if not said otherwise.
    fn allocates(_values: &Values, _object: &GraphObject) -> bool {
        true
    }

    /// Runs on a graph that is built already.
    fn run_on<M: Memory>(memory: &mut M, graph: Graph, values: &Values) -> Self::Output;

    /// As in [`Program`].
    fn report(_values: &Values, _output: &Self::Output) -> Vec<(&'static str, f64)> {
        Vec::new()
    }

    /// Compares a result with a plain reference on the same graph.
    fn verify_on(graph: &Graph, values: &Values, output: &Self::Output) -> Vec<Check>;
}

/// The graph that the parameters describe.
#[must_use]
pub fn build(values: &Values) -> Graph {
    let (kind, scale, degree) = input(values);
    Graph::generate(kind, scale, degree, values.int("seed"))
}

impl<P: GraphProgram> Program for P {
    const NAME: &'static str = P::NAME;
    const FAMILY: &'static str = P::FAMILY;
    const SUMMARY: &'static str = P::SUMMARY;
    const SOURCE: &'static str = P::SOURCE;
    const OP_MEANING: &'static str = P::OP_MEANING;
    const PARAMETERS: &'static [Parameter] = P::PARAMETERS;
    const CLASSES: &'static [AccessClass] = P::CLASSES;
    const METRICS: &'static [Metric] = P::METRICS;
    const SMALL: &'static str = P::SMALL;
    const GRAPH: Option<&'static GraphTraits> = Some(P::TRAITS);

    type Output = P::Output;

    fn objects(values: &Values) -> Vec<ObjectSpec> {
        let (kind, scale, degree) = input(values);
        // Sizes asked for may be beyond any machine; the carry itself refuses those.
        let scale = scale.min(40);
        let edges = expected_edges(kind, scale, degree).round() as u64;
        let draws = u64::from(degree) << scale;
        let used = P::TRAITS.objects.iter().filter(|object| P::allocates(values, object));
        used.map(|object| object.spec_drawn(1 << scale, edges, draws)).collect()
    }

    fn run<M: Memory>(memory: &mut M, values: &Values) -> P::Output {
        memory.phase(Phase::new("build", Unit::Vertices, BUILD_NS).whole().untimed());
        P::run_on(memory, build(values), values)
    }

    fn report(values: &Values, output: &P::Output) -> Vec<(&'static str, f64)> {
        P::report(values, output)
    }

    fn verify(values: &Values, output: &P::Output) -> Vec<Check> {
        P::verify_on(&build(values), values, output)
    }

    fn check_recording(values: &Values) -> Result<(), ParameterError> {
        let scale = values.int("scale");
        if scale > SCALES.1 {
            let text = format!(
                "is {scale}, which would not fit in memory; the largest graph that is recorded has scale {} (carry.scale may be \
                 larger)",
                SCALES.1
            );
            return Err(ParameterError::new("scale", text));
        }
        within("scale", scale, SCALES.0, SCALES.1)?;
        within("degree", values.int("degree"), 1, MOST_EDGES >> scale)
    }

    fn ops(values: &Values) -> u64 {
        let (kind, scale, degree) = input(values);
        P::passes(values) * expected_edges(kind, scale, degree) as u64
    }

    fn record(request: &RecordRequest) -> Profile {
        let values = request.values();
        let (info, mut recording) = record_on::<P>(values, request.llc_bytes());
        if input(values).0 == GraphKind::Twitter {
            // Ids say how popular a vertex is, so places in vertex arrays and lists mean the same at every size.
            for object in &mut recording.objects {
                object.layout = Layout::Positional;
                object.line_cv2 = None;
            }
        }
        // A quarter of the graph with a quarter of the cache shows how skew grows with the graph.
        let scale = values.int("scale") as u32 - SMALLER_BY;
        let llc_bytes = (request.llc_bytes() >> SMALLER_BY).max(LEAST_LLC_BYTES);
        let (smaller_info, smaller) = record_on::<P>(&values.clone().with("scale", scale.into()), llc_bytes);
        for (object, small) in recording.objects.iter_mut().zip(&smaller.objects) {
            let ratio = match (object.layout, object.line_cv2, small.line_cv2) {
                (Layout::Vertices, Some(large), Some(small)) if small > 0.0 => large / small,
                (Layout::Lists, _, _) => mean_list(&info) / mean_list(&smaller_info),
                _ => 1.0,
            };
            object.skew_growth = ratio.powf(1.0 / f64::from(SMALLER_BY));
        }
        let ops: u64 = smaller.slices.iter().map(|slice| slice.ops).sum();
        let smaller_run = SmallerRun {
            scale,
            graph: smaller_info,
            llc_bytes: smaller.llc_bytes,
            reads_per_op: smaller.total_reads as f64 / ops as f64,
            writebacks_per_op: smaller.total_writebacks as f64 / ops as f64,
            accesses_per_op: accesses_per_op(&smaller.slices),
        };
        assemble(request, recording, Some(info), Some(smaller_run))
    }

    fn carry(profile: &Profile, spec: &crate::CarrySpec) -> Result<crate::Replay, crate::CarryError> {
        crate::carry::graph::carry(profile, spec)
    }
}

/// Length of the list in which an edge lies, averaged over edges: mean degree * (1 + CV^2).
fn mean_list(info: &GraphInfo) -> f64 {
    info.edges as f64 / info.vertices as f64 * (1.0 + info.degree_cv2)
}

fn record_on<P: GraphProgram>(values: &Values, llc_bytes: u64) -> (GraphInfo, Recording) {
    let graph = build(values);
    let info = graph.info();
    let mut recorder = Recorder::new(llc_bytes, (P::passes(values) * info.edges).div_ceil(WORK_SLICES));
    P::run_on(&mut recorder, graph, values);
    (info, recorder.finish())
}

/// The sources that GAPBS' picker would take: uniform over vertices that have an edge, repeats allowed.
#[must_use]
pub fn pick_sources(graph: &Graph, count: u32, seed: u64) -> Vec<u32> {
    let mut rng = CounterRng::new(seed, &[0x736f_7572_6365]);
    if graph.neighbours.is_empty() {
        return Vec::new();
    }
    let mut pick = || loop {
        let vertex = rng.below(graph.vertices() as u64) as u32;
        if graph.degree(vertex as usize) > 0 {
            return vertex;
        }
    };
    (0..count).map(|_| pick()).collect()
}

/// Distance of every vertex from one, in edges; `u32::MAX` for those that it does not reach. The plain reference.
#[must_use]
pub fn distances(graph: &Graph, source: u32) -> Vec<u32> {
    let mut distance = vec![u32::MAX; graph.vertices()];
    distance[source as usize] = 0;
    let mut reached = vec![source];
    let mut next = 0;
    while next < reached.len() {
        let u = reached[next] as usize;
        next += 1;
        for v in graph.list(u) {
            if distance[*v as usize] == u32::MAX {
                distance[*v as usize] = distance[u] + 1;
                reached.push(*v);
            }
        }
    }
    distance
}

/// The list of one vertex, found at random, so that its start is a random access and the rest a stream.
#[derive(Debug, Clone, Copy)]
pub struct List {
    /// The first entry.
    pub start: usize,
    /// The one after the last.
    pub end: usize,
    streamed_from: usize,
}

impl List {
    /// Reads where the list of a vertex lies. `ENTRY_BYTES` is the size of one entry.
    #[inline(always)]
    pub fn of<const ENTRY_BYTES: usize, M: Memory>(memory: &mut M, index: &Array<u64>, vertex: usize) -> Self {
        let start = index.load(memory, vertex, AccessClass::Lookup) as usize;
        let end = index.load(memory, vertex + 1, AccessClass::Lookup) as usize;
        let per_line = LINE_BYTES as usize / ENTRY_BYTES;
        Self {
            start,
            end,
            streamed_from: start / per_line * per_line + per_line,
        }
    }

    /// The first line is addressed by the list's place in the index. Reading it upwards has the next one fetched (Intel's
    /// optimisation manual on the prefetcher of the first-level cache), and two are a stream.
    #[inline(always)]
    #[must_use]
    pub fn class(&self, edge: usize) -> AccessClass {
        if edge < self.streamed_from {
            AccessClass::Lookup
        } else {
            AccessClass::Stream
        }
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether there is no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end == self.start
    }
}
