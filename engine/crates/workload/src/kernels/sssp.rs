//! Shortest paths by delta-stepping (Meyer and Sanders), as GAPBS' `sssp`: vertices wait in buckets of equal distance.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Mutex;

use super::GraphObject;
use super::graph::{DEGREE, GRAPH, GraphProgram, List, SCALE, SEED, pick_sources};
use super::prelude::*;
use crate::graph::Graph;
use crate::kernel::GraphTraits;

/// Distance of vertices that are not reached.
const FAR: u32 = u32::MAX / 2;
/// Weights are uniform from 1 to this, as in GAPBS.
const MOST_WEIGHT: u64 = 255;
/// Vertices that a thread takes at a time, as in GAPBS.
const CHUNK: usize = 64;
const WEIGHTS: u64 = 0x7765_6967;

// Least of 15 runs of the example `cpu_cost` on Kronecker graphs of 2^11 vertices, on a machine that was busy with other
// work: rather too high than too low.
const CLEAR_NS: f64 = 0.29;
const RELAX_NS: f64 = 2.3;

const INDEX: usize = 0;
const NEIGHBOURS: usize = 1;
const DISTANCES: usize = 2;
const FRONTIER: usize = 3;
const BUCKETS: usize = 4;

/// The objects, in the order of GAPBS' allocations; entries of lists hold a vertex and a weight.
pub const OBJECTS: [GraphObject; 5] = [
    GraphObject {
        built: true,
        per_vertex: true,
        ..GraphObject::vertices("index", 8, |vertices, _| 8 * (vertices + 1))
    },
    GraphObject {
        built: true,
        layout: Layout::Lists,
        ..GraphObject::vertices("neighbours", 8, |_, edges| 8 * edges)
    },
    GraphObject::vertices("distances", 4, |vertices, _| 4 * vertices),
    // Room for every edge, of which only the start is ever used.
    GraphObject {
        layout: Layout::Positional,
        per_vertex: true,
        ..GraphObject::vertices("frontier", 4, |_, edges| 4 * edges)
    },
    // What the threads' vectors hold together, written and read in order.
    GraphObject {
        layout: Layout::Positional,
        per_vertex: true,
        ..GraphObject::vertices("buckets", 4, |vertices, _| 8 * vertices)
    },
];

/// Shortest paths from a few sources.
#[derive(Debug)]
pub struct Sssp;

/// The last source and the distances from it.
pub type Distances = (u32, Vec<u32>);

/// The weight of an edge, the same both ways.
fn weight(u: usize, v: u32, seed: u64) -> u32 {
    let (low, high) = ((u as u64).min(v.into()), (u as u64).max(v.into()));
    1 + CounterRng::new(seed, &[WEIGHTS, low, high]).below(MOST_WEIGHT) as u32
}

impl GraphProgram for Sssp {
    const NAME: &'static str = "sssp";
    const SUMMARY: &'static str = "shortest paths by delta-stepping";
    const SOURCE: &'static str = "GAPBS sssp";
    const OP_MEANING: &'static str = "one edge relaxed, or one vertex set up";
    const PARAMETERS: &'static [Parameter] = &[
        GRAPH,
        SCALE,
        DEGREE,
        Parameter::int(
            "sources",
            1,
            1024,
            "searches one after the other, each from a vertex drawn at random",
        )
        .or(Default::Int(1))
        .work(),
        Parameter::int(
            "delta",
            1,
            1 << 20,
            "distances that share a bucket; weights are 1 to 255",
        )
        .or(Default::Int(1)),
        SEED,
    ];
    const CLASSES: &'static [AccessClass] = &[
        AccessClass::Random,
        AccessClass::Gather,
        AccessClass::Stream,
        AccessClass::Lookup,
    ];
    const METRICS: &'static [Metric] = &[Metric {
        name: "reached",
        unit: "",
        role: Role::Covariate,
        meaning: "vertices that the last search reached",
    }];
    const TRAITS: &'static GraphTraits = &GraphTraits {
        objects: &OBJECTS,
        gathered: &[],
        in_turn: &[],
        levels: false,
        successors: None,
    };

    type Output = Distances;

    fn passes(values: &Values) -> u64 {
        values.int("sources")
    }

    fn run_on<M: Memory>(memory: &mut M, graph: Graph, values: &Values) -> Distances {
        let seed = values.int("seed");
        let sources = pick_sources(&graph, values.int("sources") as u32, seed);
        let (vertices, edges) = (graph.vertices(), graph.neighbours.len());
        let spec = |object: usize| OBJECTS[object].spec(vertices as u64, edges as u64);
        let mut weighted = Vec::with_capacity(edges);
        for u in 0..vertices {
            weighted.extend(graph.list(u).iter().map(|v| [*v, weight(u, *v, seed)]));
        }
        drop(graph.neighbours);
        let search = Search {
            index: Array::new(memory, &spec(INDEX), graph.index),
            neighbours: Array::new(memory, &spec(NEIGHBOURS), weighted),
            distances: SharedArray::new(memory, &spec(DISTANCES), vec![FAR; vertices]),
            frontier: SharedArray::new(memory, &spec(FRONTIER), vec![0u32; edges]),
            buckets: memory.allocate(&spec(BUCKETS)),
            bucket_bytes: 8 * vertices,
            delta: values.int("delta") as u32,
        };
        for source in &sources {
            search.run(memory, *source);
        }
        (sources.last().copied().unwrap_or(0), search.distances.to_vec())
    }

    fn report(_values: &Values, (_, distances): &Distances) -> Vec<(&'static str, f64)> {
        vec![(
            "reached",
            distances.iter().filter(|distance| **distance < FAR).count() as f64,
        )]
    }

    fn verify_on(graph: &Graph, values: &Values, (source, found): &Distances) -> Vec<Check> {
        let expected = dijkstra(graph, *source, values.int("seed"));
        let wrong = found
            .iter()
            .zip(&expected)
            .filter(|(found, expected)| found != expected)
            .count();
        let detail = format!("{wrong} of {} differ from Dijkstra's", found.len());
        vec![Check::new(
            "distances",
            wrong == 0 && found.len() == expected.len(),
            detail,
        )]
    }
}

struct Search {
    index: Array<u64>,
    neighbours: Array<[u32; 2]>,
    distances: SharedArray<u32>,
    frontier: SharedArray<u32>,
    buckets: ObjectId,
    bucket_bytes: usize,
    delta: u32,
}

/// Buckets and how many entries have passed through them.
#[derive(Default)]
struct Waiting {
    buckets: Vec<Vec<u32>>,
}

impl Search {
    fn run<M: Memory>(&self, memory: &mut M, source: u32) {
        memory.phase(Phase::new("clear", Unit::Vertices, CLEAR_NS).whole());
        self.distances.fill(memory, FAR);
        memory.ops(self.distances.len() as u64);
        memory.phase(Phase::new("relax", Unit::Edges, RELAX_NS));
        self.distances.store(memory, source as usize, 0, AccessClass::Random);
        self.frontier.store(memory, 0, source, AccessClass::Stream);
        let waiting = Mutex::new(Waiting::default());
        let (pushed, mut taken) = (AtomicUsize::new(0), 0);
        let (mut bucket, mut count) = (0, 1);
        loop {
            memory.for_chunks(0..count, CHUNK, |memory, part| {
                let mut found = Vec::new();
                for position in part {
                    let u = self.frontier.load(memory, position, AccessClass::Stream) as usize;
                    // Others were done in an earlier bucket.
                    if self.distances.load(memory, u, AccessClass::Gather) >= self.delta * bucket {
                        self.relax(memory, u, &mut found);
                    }
                }
                let start = pushed.fetch_add(found.len(), Relaxed);
                for number in start..start + found.len() {
                    memory.store(self.buckets, self.place(number), AccessClass::Stream);
                }
                // A poisoned lock means that another thread panicked, and that ends the run anyway.
                if let Ok(mut waiting) = waiting.lock() {
                    for (bucket, vertex) in found {
                        if waiting.buckets.len() <= bucket {
                            waiting.buckets.resize_with(bucket + 1, Vec::new);
                        }
                        waiting.buckets[bucket].push(vertex);
                    }
                }
            });
            let Ok(mut waiting) = waiting.lock() else { return };
            let Some(next) = waiting.buckets.iter().position(|bucket| !bucket.is_empty()) else {
                return;
            };
            bucket = next as u32;
            let vertices = std::mem::take(&mut waiting.buckets[next]);
            drop(waiting);
            count = vertices.len();
            let from = taken;
            memory.for_chunks(0..count, CHUNK, |memory, part| {
                for position in part {
                    memory.load(self.buckets, self.place(from + position), AccessClass::Stream);
                    self.frontier
                        .store(memory, position, vertices[position], AccessClass::Stream);
                }
            });
            taken += count;
        }
    }

    /// Vectors that are emptied are filled again, so all entries share the room of the largest moment.
    fn place(&self, number: usize) -> usize {
        number * 4 % self.bucket_bytes
    }

    fn relax<M: Memory>(&self, memory: &mut M, u: usize, found: &mut Vec<(usize, u32)>) {
        let own = self.distances.load(memory, u, AccessClass::Gather);
        let list = List::of::<8, M>(memory, &self.index, u);
        for edge in list.start..list.end {
            let [v, weight] = self.neighbours.load(memory, edge, list.class(edge));
            let through = own + weight;
            let mut known = self.distances.load(memory, v as usize, AccessClass::Gather);
            while through < known {
                if self
                    .distances
                    .replace(memory, v as usize, known, through, AccessClass::Gather)
                {
                    found.push(((through / self.delta) as usize, v));
                    break;
                }
                known = self.distances.load(memory, v as usize, AccessClass::Gather);
            }
        }
        memory.ops(list.len() as u64);
    }
}

/// Distances with a heap, the plain reference.
fn dijkstra(graph: &Graph, source: u32, seed: u64) -> Vec<u32> {
    let mut distances = vec![FAR; graph.vertices()];
    distances[source as usize] = 0;
    let mut open = BinaryHeap::from([Reverse((0, source))]);
    while let Some(Reverse((distance, u))) = open.pop() {
        if distance > distances[u as usize] {
            continue;
        }
        for v in graph.list(u as usize) {
            let through = distance + weight(u as usize, *v, seed);
            if through < distances[*v as usize] {
                distances[*v as usize] = through;
                open.push(Reverse((through, *v)));
            }
        }
    }
    distances
}
