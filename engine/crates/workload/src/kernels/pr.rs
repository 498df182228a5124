//! PageRank as GAPBS' `pr`: Gauss-Seidel pull with an array of contributions.

use super::GraphObject;
use super::graph::{DEGREE, GRAPH, GraphProgram, SCALE, SEED};
use super::prelude::*;
use crate::graph::Graph;
use crate::kernel::GraphTraits;

/// What one operation is.
pub const OP_MEANING: &str = "one edge gathered, or one vertex entry set up";

const DAMPING: f32 = 0.85;
/// Vertices that a thread takes at a time, as in GAPBS.
const CHUNK: usize = 1 << 14;

// Measured like those in `bc.rs`.
/// Nanoseconds per edge of an iteration, the per-vertex work included.
pub const ITERATION_NS: f64 = 0.76;
/// Nanoseconds per vertex of the set-up.
pub const SETUP_NS: f64 = 0.8;

const fn swept(name: &'static str, element_bytes: u32, bytes: fn(u64, u64) -> u64) -> GraphObject {
    GraphObject {
        name,
        element_bytes,
        layout: Layout::Positional,
        sweeps: true,
        built: false,
        per_vertex: true,
        bytes,
        bytes_per_draw: 0,
    }
}

/// The objects, in the order of GAPBS' allocations.
pub const OBJECTS: [GraphObject; 4] = [
    GraphObject {
        built: true,
        ..swept("index", 8, |vertices, _| 8 * (vertices + 1))
    },
    GraphObject {
        built: true,
        per_vertex: false,
        ..swept("neighbours", 4, |_, edges| 4 * edges)
    },
    swept("scores", 4, |vertices, _| 4 * vertices),
    GraphObject {
        layout: Layout::Vertices,
        per_vertex: false,
        ..swept("contributions", 4, |vertices, _| 4 * vertices)
    },
];

/// PageRank.
#[derive(Debug)]
pub struct Pr;

impl GraphProgram for Pr {
    const NAME: &'static str = "pr";
    const SUMMARY: &'static str = "PageRank, pulling, without an early stop";
    const SOURCE: &'static str = "GAPBS pr";
    const OP_MEANING: &'static str = OP_MEANING;
    const PARAMETERS: &'static [Parameter] = &[
        GRAPH,
        SCALE,
        DEGREE,
        Parameter::int("iterations", 1, 1000, "sweeps over all edges").work(),
        SEED,
    ];
    const CLASSES: &'static [AccessClass] = &[AccessClass::Gather, AccessClass::Stream];
    const SMALL: &'static str = r#"{"graph": "kron", "scale": 10, "iterations": 10}"#;
    const TRAITS: &'static GraphTraits = &GraphTraits {
        objects: &OBJECTS,
        gathered: &[("iteration", "contributions")],
        in_turn: &[],
        levels: false,
        successors: None,
    };

    type Output = Vec<f32>;

    fn passes(values: &Values) -> u64 {
        values.int("iterations")
    }

    fn run_on<M: Memory>(memory: &mut M, graph: Graph, values: &Values) -> Vec<f32> {
        run(memory, graph, values.int("iterations") as u32)
    }

    fn verify_on(graph: &Graph, values: &Values, scores: &Vec<f32>) -> Vec<Check> {
        // What is not handed out: the damped share of vertices without edges, and what has not converged yet.
        let n = graph.vertices() as f64;
        let isolated = graph.info().isolated as f64 / n;
        let sum: f64 = scores.iter().map(|score| f64::from(*score)).sum();
        let expected = 1.0 - f64::from(DAMPING) * isolated;
        let left = f64::from(DAMPING).powf(values.int("iterations") as f64) + 1e-3;
        // One more sweep changes little if the scores are those of the graph.
        let share = |u: u32| f64::from(scores[u as usize]) / graph.degree(u as usize) as f64;
        let change: f64 = (0..graph.vertices())
            .map(|v| {
                let incoming: f64 = graph.list(v).iter().map(|u| share(*u)).sum();
                ((1.0 - f64::from(DAMPING)) / n + f64::from(DAMPING) * incoming - f64::from(scores[v])).abs()
            })
            .sum();
        vec![
            Check::new(
                "sum",
                (sum - expected).abs() < left,
                format!("{sum:.6} against {expected:.6}"),
            ),
            Check::new(
                "fixed point",
                change < left,
                format!("one more sweep changes {change:.2e} in all"),
            ),
        ]
    }
}

/// Runs that many iterations and returns the scores.
pub fn run<M: Memory>(memory: &mut M, graph: Graph, iterations: u32) -> Vec<f32> {
    let (vertices, edges) = (graph.vertices(), graph.neighbours.len());
    let spec = |object: usize| OBJECTS[object].spec(vertices as u64, edges as u64);
    let index = Array::new(memory, &spec(0), graph.index);
    let neighbours = Array::new(memory, &spec(1), graph.neighbours);
    let scores = SharedArray::new(memory, &spec(2), vec![0f32; vertices]);
    let contributions = SharedArray::new(memory, &spec(3), vec![0f32; vertices]);
    let first_score = 1.0 / vertices as f32;
    let base_score = (1.0 - DAMPING) / vertices as f32;

    memory.phase(Phase::new("set up", Unit::Vertices, SETUP_NS).whole());
    scores.fill(memory, first_score);
    memory.for_chunks(0..vertices, CHUNK, |memory, part| {
        let mut start = index.load(memory, part.start, AccessClass::Stream);
        for vertex in part {
            let end = index.load(memory, vertex + 1, AccessClass::Stream);
            contributions.store(memory, vertex, first_score / (end - start) as f32, AccessClass::Stream);
            start = end;
        }
    });
    memory.ops(vertices as u64);

    for iteration in 1..=iterations {
        memory.phase(Phase::new(format!("iteration {iteration}"), Unit::Edges, ITERATION_NS));
        memory.for_chunks(0..vertices, CHUNK, |memory, part| {
            let mut start = index.load(memory, part.start, AccessClass::Stream) as usize;
            for vertex in part {
                let end = index.load(memory, vertex + 1, AccessClass::Stream) as usize;
                let mut incoming = 0f32;
                for edge in start..end {
                    let other = neighbours.load(memory, edge, AccessClass::Stream) as usize;
                    incoming += contributions.load(memory, other, AccessClass::Gather);
                }
                let score = base_score + DAMPING * incoming;
                // GAPBS also reads the old score, for its error sum.
                scores.load(memory, vertex, AccessClass::Stream);
                scores.store(memory, vertex, score, AccessClass::Stream);
                contributions.store(memory, vertex, score / (end - start) as f32, AccessClass::Stream);
                memory.ops((end - start) as u64);
                start = end;
            }
        });
    }
    scores.to_vec()
}
