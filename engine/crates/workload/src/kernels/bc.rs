//! Betweenness centrality (Brandes) as GAPBS runs it: breadth first with path counts, then backwards by level.

use super::GraphObject;
pub use super::graph::pick_sources;
use super::graph::{DEGREE, GRAPH, GraphProgram, List, SCALE, SEED};
use super::prelude::*;
use crate::graph::Graph;
use crate::kernel::GraphTraits;

/// What one operation is.
pub const OP_MEANING: &str = "one edge examined (forward or backward), or one vertex entry set up or normalised";

// Measured with `cargo run --release -p tiertune-workload --example cpu_cost`: a graph of 2^11 vertices, so that
// everything stays in the private caches, run natively on one core of the AMD EPYC virtual machine on which this
// was developed; the least of seven times 15 runs, because the machine was shared (load 5 to 12 on two cores).
// They include hits in the private caches and mispredicted branches.
/// Nanoseconds per edge of the forward pass.
pub const FORWARD_NS: f64 = 5.0;
/// Nanoseconds per edge of the backward pass.
pub const BACKWARD_NS: f64 = 2.1;
/// Nanoseconds per vertex of clearing one source's arrays.
pub const CLEAR_NS: f64 = 0.13;
/// Nanoseconds per vertex of the final normalisation.
pub const NORMALISE_NS: f64 = 1.7;

/// Vertices that a thread takes from a queue at a time, as GAPBS, and of sweeps.
const CHUNK: usize = 64;
const SWEEP_CHUNK: usize = 1 << 16;

const INDEX: usize = 0;
const NEIGHBOURS: usize = 1;
const SCORES: usize = 2;
const PATH_COUNTS: usize = 3;
const SUCCESSORS: usize = 4;
const QUEUE: usize = 5;
const DEPTHS: usize = 6;
const DELTAS: usize = 7;

/// The objects, in the order of GAPBS' allocations.
pub const OBJECTS: [GraphObject; 8] = [
    GraphObject {
        built: true,
        per_vertex: true,
        ..GraphObject::vertices("index", 8, |vertices, _| 8 * (vertices + 1))
    },
    GraphObject {
        built: true,
        layout: Layout::Lists,
        ..GraphObject::vertices("neighbours", 4, |_, edges| 4 * edges)
    },
    GraphObject {
        per_vertex: true,
        ..GraphObject::vertices("scores", 4, |vertices, _| 4 * vertices)
    },
    GraphObject::vertices("path_counts", 8, |vertices, _| 8 * vertices),
    GraphObject {
        layout: Layout::Lists,
        ..GraphObject::vertices("successors", 8, |_, edges| 8 * edges.div_ceil(64))
    },
    GraphObject {
        layout: Layout::Positional,
        per_vertex: true,
        ..GraphObject::vertices("queue", 4, |vertices, _| 4 * vertices)
    },
    GraphObject::vertices("depths", 4, |vertices, _| 4 * vertices),
    GraphObject::vertices("deltas", 4, |vertices, _| 4 * vertices),
];

/// Betweenness centrality.
#[derive(Debug)]
pub struct Bc;

impl GraphProgram for Bc {
    const NAME: &'static str = "bc";
    const SUMMARY: &'static str = "betweenness centrality (Brandes) from a few sources";
    const SOURCE: &'static str = "GAPBS bc";
    const OP_MEANING: &'static str = OP_MEANING;
    const PARAMETERS: &'static [Parameter] = &[
        GRAPH,
        SCALE,
        DEGREE,
        Parameter::int("sources", 1, 1024, "source vertices")
            .or(Default::Int(1))
            .work(),
        SEED,
    ];
    const CLASSES: &'static [AccessClass] = &[
        AccessClass::Gather,
        AccessClass::Update,
        AccessClass::Stream,
        AccessClass::Lookup,
    ];
    const TRAITS: &'static GraphTraits = &GraphTraits {
        objects: &OBJECTS,
        gathered: &[("forward", "depths")],
        in_turn: &[("depths", "deltas")],
        levels: true,
        successors: Some(("forward", "path_counts")),
    };

    type Output = Vec<f32>;

    fn passes(values: &Values) -> u64 {
        2 * values.int("sources")
    }

    fn run_on<M: Memory>(memory: &mut M, graph: Graph, values: &Values) -> Vec<f32> {
        let sources = pick_sources(&graph, values.int("sources") as u32, values.int("seed"));
        run(memory, graph, &sources)
    }

    fn verify_on(graph: &Graph, values: &Values, scores: &Vec<f32>) -> Vec<Check> {
        let sources = pick_sources(graph, values.int("sources") as u32, values.int("seed"));
        let expected = reference(graph, &sources);
        let worst = scores
            .iter()
            .zip(&expected)
            .map(|(found, expected)| (f64::from(*found) - expected).abs())
            .fold(0.0, f64::max);
        // Scores are single precision and at most 1; their sums lose a few more bits.
        let detail = format!("largest difference {worst:.1e} of scores up to 1");
        vec![Check::new("scores", worst < 1e-3, detail)]
    }
}

/// Scores by Brandes' recursion in doubles with one list of vertices by distance, scaled so that the largest is 1.
fn reference(graph: &Graph, sources: &[u32]) -> Vec<f64> {
    let n = graph.vertices();
    let mut scores = vec![0f64; n];
    for source in sources {
        let (mut distance, mut paths, mut share) = (vec![u32::MAX; n], vec![0f64; n], vec![0f64; n]);
        let mut order = vec![*source];
        (distance[*source as usize], paths[*source as usize]) = (0, 1.0);
        let mut next = 0;
        while next < order.len() {
            let u = order[next] as usize;
            next += 1;
            for v in graph.list(u) {
                let v = *v as usize;
                if distance[v] == u32::MAX {
                    distance[v] = distance[u] + 1;
                    order.push(v as u32);
                }
                if distance[v] == distance[u] + 1 {
                    paths[v] += paths[u];
                }
            }
        }
        for u in order.iter().rev().map(|u| *u as usize) {
            for v in graph.list(u).iter().map(|v| *v as usize) {
                if distance[v] == distance[u] + 1 {
                    share[u] += paths[u] / paths[v] * (1.0 + share[v]);
                }
            }
            scores[u] += share[u];
        }
    }
    let largest = scores.iter().copied().fold(0.0, f64::max);
    if largest > 0.0 {
        scores.iter_mut().for_each(|score| *score /= largest);
    }
    scores
}

/// Runs from the given sources and returns the scores, scaled so that the largest is 1.
pub fn run<M: Memory>(memory: &mut M, graph: Graph, sources: &[u32]) -> Vec<f32> {
    let (vertices, edges) = (graph.vertices(), graph.neighbours.len());
    let spec = |object: usize| OBJECTS[object].spec(vertices as u64, edges as u64);
    let index = Array::new(memory, &spec(INDEX), graph.index);
    let neighbours = Array::new(memory, &spec(NEIGHBOURS), graph.neighbours);
    let scores = SharedArray::new(memory, &spec(SCORES), vec![0f32; vertices]);
    let path_counts = SharedArray::new(memory, &spec(PATH_COUNTS), vec![0f64; vertices]);
    let successors = SharedArray::new(memory, &spec(SUCCESSORS), vec![0u64; edges.div_ceil(64)]);
    let queue = SharedArray::new(memory, &spec(QUEUE), vec![0u32; vertices]);
    // As in GAPBS, depths and deltas are allocated anew for each source, and are never there at the same time.
    let mut deltas_before: Option<SharedArray<f32>> = None;

    for (turn, source) in sources.iter().enumerate() {
        memory.phase(Phase::new("clear", Unit::Vertices, CLEAR_NS).whole());
        if let Some(deltas) = deltas_before.take() {
            deltas.free(memory);
        }
        let depths = SharedArray::new(memory, &spec(DEPTHS), vec![-1i32; vertices]);
        if turn == 0 {
            scores.fill(memory, 0.0);
        }
        path_counts.fill(memory, 0.0);
        successors.fill(memory, 0);
        depths.fill(memory, -1);
        memory.ops(vertices as u64);

        // Forward: level by level over the queue; `levels` holds where each level starts in it.
        let source = *source as usize;
        depths.store(memory, source, 0, AccessClass::Update);
        path_counts.store(memory, source, 1.0, AccessClass::Update);
        queue.store(memory, 0, source as u32, AccessClass::Stream);
        let mut levels = vec![0usize, 1];
        let tail = AtomicUsize::new(1);
        while levels[levels.len() - 2] < levels[levels.len() - 1] {
            let depth = levels.len() as i32 - 1;
            memory.phase(Phase::new(format!("forward {depth}"), Unit::Edges, FORWARD_NS));
            let level = levels[levels.len() - 2]..levels[levels.len() - 1];
            memory.for_chunks(level, CHUNK, |memory, part| {
                for position in part {
                    let u = queue.load(memory, position, AccessClass::Stream) as usize;
                    let list = List::of::<4, M>(memory, &index, u);
                    let mut paths_u = None;
                    for edge in list.start..list.end {
                        let class = list.class(edge);
                        let v = neighbours.load(memory, edge, class) as usize;
                        let mut depth_v = depths.load(memory, v, AccessClass::Gather);
                        if depth_v == -1 {
                            if depths.replace(memory, v, -1, depth, AccessClass::Gather) {
                                queue.store(memory, tail.fetch_add(1, Relaxed), v as u32, AccessClass::Stream);
                            }
                            // Who else found it did so from this level too.
                            depth_v = depth;
                        }
                        if depth_v == depth {
                            successors.locked_update(memory, edge / 64, class, |word| word | 1 << (edge % 64));
                            // Stays in a register, so it is loaded once per list.
                            let paths_u =
                                *paths_u.get_or_insert_with(|| path_counts.load(memory, u, AccessClass::Gather));
                            path_counts.locked_update(memory, v, AccessClass::Update, |paths| paths + paths_u);
                        }
                    }
                    memory.ops(list.len() as u64);
                }
            });
            levels.push(tail.load(Relaxed));
        }

        memory.phase(Phase::new("clear", Unit::Vertices, CLEAR_NS).whole());
        depths.free(memory);
        let deltas = SharedArray::new(memory, &spec(DELTAS), vec![0f32; vertices]);
        deltas.fill(memory, 0.0);
        memory.ops(vertices as u64);
        // The last entry of `levels` closes an empty level. As in GAPBS, the deepest vertices are walked too.
        for level in (0..levels.len() - 2).rev() {
            memory.phase(Phase::new(format!("backward {}", level + 1), Unit::Edges, BACKWARD_NS));
            memory.for_chunks(levels[level]..levels[level + 1], CHUNK, |memory, part| {
                for position in part {
                    let u = queue.load(memory, position, AccessClass::Stream) as usize;
                    let list = List::of::<4, M>(memory, &index, u);
                    let (mut delta_u, mut paths_u) = (0f32, None);
                    for edge in list.start..list.end {
                        let class = list.class(edge);
                        // GAPBS holds the list's pointer and reads the neighbour only for successors.
                        if successors.load(memory, edge / 64, class) >> (edge % 64) & 1 == 1 {
                            let v = neighbours.load(memory, edge, class) as usize;
                            let paths_u =
                                *paths_u.get_or_insert_with(|| path_counts.load(memory, u, AccessClass::Gather));
                            let paths_v = path_counts.load(memory, v, AccessClass::Gather);
                            let delta_v = deltas.load(memory, v, AccessClass::Gather);
                            delta_u += (paths_u / paths_v) as f32 * (1.0 + delta_v);
                        }
                    }
                    deltas.store(memory, u, delta_u, AccessClass::Update);
                    let score = scores.load(memory, u, AccessClass::Update);
                    scores.store(memory, u, score + delta_u, AccessClass::Update);
                    memory.ops(list.len() as u64);
                }
            });
        }
        deltas_before = Some(deltas);
    }

    memory.phase(Phase::new("normalise", Unit::Vertices, NORMALISE_NS).whole());
    if let Some(deltas) = deltas_before {
        deltas.free(memory);
    }
    // Scores are not negative, so their bits are in their order.
    let largest = AtomicU32::new(0);
    memory.for_chunks(0..vertices, SWEEP_CHUNK, |memory, part| {
        let mut most = 0f32;
        for vertex in part {
            most = most.max(scores.load(memory, vertex, AccessClass::Stream));
        }
        largest.fetch_max(most.to_bits(), Relaxed);
    });
    let largest = f32::from_bits(largest.into_inner());
    if largest > 0.0 {
        memory.for_chunks(0..vertices, SWEEP_CHUNK, |memory, part| {
            for vertex in part {
                let score = scores.load(memory, vertex, AccessClass::Stream);
                scores.store(memory, vertex, score / largest, AccessClass::Stream);
            }
        });
    }
    memory.ops(vertices as u64);
    scores.to_vec()
}
