//! Connected components by Afforest, as GAPBS' `cc`: link a few neighbours of each vertex, guess the largest component from
//! a sample, and look at the other edges of those vertices only that are not in it.

use std::collections::BTreeMap;

use super::GraphObject;
use super::graph::{DEGREE, GRAPH, GraphProgram, SCALE, SEED};
use super::prelude::*;
use crate::graph::Graph;
use crate::kernel::GraphTraits;

/// Neighbours of each vertex that are linked before the guess, as in GAPBS.
const ROUNDS: usize = 2;
/// Vertices in the sample, as in GAPBS.
const SAMPLE: usize = 1024;
/// Vertices that a thread takes at a time, as in GAPBS.
const CHUNK: usize = 1 << 14;
/// Random-number domain of the sample.
const DOMAIN: u64 = 0x7361_6d70;

// Least of 15 runs of the example `cpu_cost` on Kronecker graphs of 2^11 vertices, on a machine that was busy with other
// work: rather too high than too low.
const SETUP_NS: f64 = 0.36;
const SAMPLE_NS: f64 = 4.5;
const COMPRESS_NS: f64 = 5.6;
const REST_NS: f64 = 2.2;

const INDEX: usize = 0;
const NEIGHBOURS: usize = 1;
const COMPONENTS: usize = 2;

/// The objects, in the order of GAPBS' allocations.
pub const OBJECTS: [GraphObject; 3] = [
    GraphObject {
        built: true,
        per_vertex: true,
        sweeps: true,
        layout: Layout::Positional,
        ..GraphObject::vertices("index", 8, |vertices, _| 8 * (vertices + 1))
    },
    // Rounds and the rest go through the lists in the order of their owners.
    GraphObject {
        built: true,
        layout: Layout::Lists,
        per_vertex: true,
        ..GraphObject::vertices("neighbours", 4, |_, edges| 4 * edges)
    },
    GraphObject {
        per_vertex: true,
        ..GraphObject::vertices("components", 4, |vertices, _| 4 * vertices)
    },
];

/// Connected components (Afforest).
#[derive(Debug)]
pub struct Cc;

impl GraphProgram for Cc {
    const NAME: &'static str = "cc";
    const SUMMARY: &'static str = "connected components by Afforest";
    const SOURCE: &'static str = "GAPBS cc";
    const OP_MEANING: &'static str = "one vertex linked, compressed or looked at";
    const PARAMETERS: &'static [Parameter] = &[GRAPH, SCALE, DEGREE, SEED];
    const CLASSES: &'static [AccessClass] = &[
        AccessClass::Chase,
        AccessClass::Random,
        AccessClass::Gather,
        AccessClass::Stream,
    ];
    const METRICS: &'static [Metric] = &[Metric {
        name: "components",
        unit: "",
        role: Role::Covariate,
        meaning: "connected components, single vertices included",
    }];
    const TRAITS: &'static GraphTraits = &GraphTraits {
        objects: &OBJECTS,
        gathered: &[],
        in_turn: &[],
        levels: false,
        successors: None,
    };

    type Output = Vec<u32>;

    fn passes(_values: &Values) -> u64 {
        1
    }

    fn run_on<M: Memory>(memory: &mut M, graph: Graph, values: &Values) -> Vec<u32> {
        let (vertices, edges) = (graph.vertices(), graph.neighbours.len());
        let spec = |object: usize| OBJECTS[object].spec(vertices as u64, edges as u64);
        let index = Array::new(memory, &spec(INDEX), graph.index);
        let neighbours = Array::new(memory, &spec(NEIGHBOURS), graph.neighbours);
        let components = SharedArray::new(memory, &spec(COMPONENTS), vec![0u32; vertices]);

        memory.phase(Phase::new("set up", Unit::Vertices, SETUP_NS));
        memory.for_chunks(0..vertices, CHUNK, |memory, part| {
            let count = part.len() as u64;
            for vertex in part {
                components.store(memory, vertex, vertex as u32, AccessClass::Stream);
            }
            memory.ops(count);
        });
        for round in 0..ROUNDS {
            memory.phase(Phase::new(format!("sample {}", round + 1), Unit::Vertices, SAMPLE_NS));
            memory.for_chunks(0..vertices, CHUNK, |memory, part| {
                for u in part {
                    let start = index.load(memory, u, AccessClass::Stream) as usize;
                    let end = index.load(memory, u + 1, AccessClass::Stream) as usize;
                    if start + round < end {
                        // One entry of a list every two lines or so: no stream for a prefetcher.
                        let v = neighbours.load(memory, start + round, AccessClass::Random);
                        link(memory, &components, u as u32, v);
                    }
                    memory.ops(1);
                }
            });
            compress(memory, &components, round + 1);
        }
        let largest = most_frequent(memory, &components, values.int("seed"));
        memory.phase(Phase::new("rest", Unit::Vertices, REST_NS));
        memory.for_chunks(0..vertices, CHUNK, |memory, part| {
            for u in part {
                if components.load(memory, u, AccessClass::Stream) != largest {
                    let start = index.load(memory, u, AccessClass::Stream) as usize;
                    let end = index.load(memory, u + 1, AccessClass::Stream) as usize;
                    for edge in start + ROUNDS..end {
                        let v = neighbours.load(memory, edge, AccessClass::Random);
                        link(memory, &components, u as u32, v);
                    }
                }
                memory.ops(1);
            }
        });
        compress(memory, &components, ROUNDS + 1);
        components.to_vec()
    }

    fn report(_values: &Values, labels: &Vec<u32>) -> Vec<(&'static str, f64)> {
        vec![("components", count(labels) as f64)]
    }

    fn verify_on(graph: &Graph, _values: &Values, labels: &Vec<u32>) -> Vec<Check> {
        vec![check_labels(graph, labels)]
    }
}

/// Joins the components of two vertices: the higher root points to the lower one.
fn link<M: Memory>(memory: &mut M, components: &SharedArray<u32>, u: u32, v: u32) {
    let mut one = components.load(memory, u as usize, AccessClass::Stream);
    let mut other = components.load(memory, v as usize, AccessClass::Gather);
    while one != other {
        let (high, low) = (one.max(other), one.min(other));
        let above = components.load(memory, high as usize, AccessClass::Chase);
        if above == low || (above == high && components.replace(memory, high as usize, high, low, AccessClass::Chase)) {
            break;
        }
        let next = components.load(memory, high as usize, AccessClass::Chase);
        one = components.load(memory, next as usize, AccessClass::Chase);
        other = components.load(memory, low as usize, AccessClass::Chase);
    }
}

/// Lets every vertex point to its root.
pub(super) fn compress<M: Memory>(memory: &mut M, components: &SharedArray<u32>, number: usize) {
    memory.phase(Phase::new(format!("compress {number}"), Unit::Vertices, COMPRESS_NS));
    memory.for_chunks(0..components.len(), CHUNK, |memory, part| {
        for vertex in part {
            let mut above = components.load(memory, vertex, AccessClass::Stream);
            let mut root = components.load(memory, above as usize, AccessClass::Gather);
            while above != root {
                components.store(memory, vertex, root, AccessClass::Stream);
                above = root;
                root = components.load(memory, above as usize, AccessClass::Chase);
            }
            memory.ops(1);
        }
    });
}

/// The label that most vertices of a sample have.
fn most_frequent<M: Memory>(memory: &mut M, components: &SharedArray<u32>, seed: u64) -> u32 {
    let mut rng = CounterRng::new(seed, &[DOMAIN]);
    let mut counts = BTreeMap::new();
    for _ in 0..SAMPLE {
        let vertex = rng.below(components.len() as u64) as usize;
        *counts
            .entry(components.load(memory, vertex, AccessClass::Random))
            .or_insert(0u32) += 1;
    }
    counts
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map_or(0, |(label, _)| label)
}

/// Number of different labels, each of which is the id of a vertex that has it.
pub(super) fn count(labels: &[u32]) -> usize {
    labels
        .iter()
        .enumerate()
        .filter(|(vertex, label)| *vertex == **label as usize)
        .count()
}

/// Whether two vertices have one label just if they are connected.
pub(super) fn check_labels(graph: &Graph, labels: &[u32]) -> Check {
    let mut seen = vec![false; graph.vertices()];
    let (mut components, mut wrong) = (0, 0);
    for first in 0..graph.vertices() {
        if seen[first] {
            continue;
        }
        components += 1;
        seen[first] = true;
        let mut open = vec![first];
        while let Some(u) = open.pop() {
            wrong += usize::from(labels[u] != labels[first]);
            for v in graph.list(u).iter().map(|v| *v as usize) {
                if !seen[v] {
                    seen[v] = true;
                    open.push(v);
                }
            }
        }
    }
    let found = count(labels);
    let detail = format!("{found} labels for {components} components, {wrong} vertices with another label than theirs");
    Check::new("labels", wrong == 0 && found == components, detail)
}
