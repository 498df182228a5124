//! Breadth-first search that changes direction (Beamer et al., SC'12), as GAPBS' `bfs`.

use super::GraphObject;
use super::graph::{DEGREE, GRAPH, GraphProgram, List, SCALE, SEED, distances, pick_sources};
use super::prelude::*;
use crate::graph::Graph;
use crate::kernel::GraphTraits;

/// A level goes bottom-up when its lists hold more than the unexplored edges over this.
const ALPHA: i64 = 15;
/// Top-down again when a level grows no more and has fewer vertices than all over this.
const BETA: usize = 18;
/// Vertices that a thread takes at a time: of a queue, of a sweep.
const CHUNK: usize = 64;
const SWEEP_CHUNK: usize = 1 << 10;

// Least of 15 runs of the example `cpu_cost` on Kronecker graphs of 2^11 vertices, on a machine that was busy with other
// work: rather too high than too low.
const CLEAR_NS: f64 = 0.8;
const TOP_DOWN_NS: f64 = 5.8;
const BOTTOM_UP_NS: f64 = 4.8;
const CONVERT_NS: f64 = 1.2;

const INDEX: usize = 0;
const NEIGHBOURS: usize = 1;
const PARENTS: usize = 2;
const QUEUE: usize = 3;
const FRONT: usize = 4;
const NEXT: usize = 5;

fn bitmap_bytes(vertices: u64, _edges: u64) -> u64 {
    8 * vertices.div_ceil(64)
}

/// The objects, in the order of GAPBS' allocations.
pub const OBJECTS: [GraphObject; 6] = [
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
    GraphObject::vertices("parents", 4, |vertices, _| 4 * vertices),
    GraphObject {
        layout: Layout::Positional,
        per_vertex: true,
        ..GraphObject::vertices("queue", 4, |vertices, _| 4 * vertices)
    },
    GraphObject::vertices("front", 8, bitmap_bytes),
    GraphObject::vertices("next", 8, bitmap_bytes),
];

/// Direction-optimising breadth-first search.
#[derive(Debug)]
pub struct Bfs;

/// Parents by vertex, negative for those not reached, and where the search began.
pub type Tree = (u32, Vec<i32>);

impl GraphProgram for Bfs {
    const NAME: &'static str = "bfs";
    const SUMMARY: &'static str = "breadth-first search that changes direction";
    const SOURCE: &'static str = "GAPBS bfs";
    const OP_MEANING: &'static str =
        "one edge examined (top-down), or one vertex set up, looked at (bottom-up) or converted";
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
        .or(Default::Int(4))
        .work(),
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
        levels: true,
        successors: None,
    };

    type Output = Tree;

    fn passes(values: &Values) -> u64 {
        values.int("sources").div_ceil(4)
    }

    fn run_on<M: Memory>(memory: &mut M, graph: Graph, values: &Values) -> Tree {
        let sources = pick_sources(&graph, values.int("sources") as u32, values.int("seed"));
        let (vertices, edges) = (graph.vertices(), graph.neighbours.len());
        let spec = |object: usize| OBJECTS[object].spec(vertices as u64, edges as u64);
        let words = vertices.div_ceil(64);
        let mut search = Search {
            index: Array::new(memory, &spec(INDEX), graph.index),
            neighbours: Array::new(memory, &spec(NEIGHBOURS), graph.neighbours),
            parents: SharedArray::new(memory, &spec(PARENTS), vec![-1i32; vertices]),
            queue: SharedArray::new(memory, &spec(QUEUE), vec![0u32; vertices]),
            front: SharedArray::new(memory, &spec(FRONT), vec![0u64; words]),
            next: SharedArray::new(memory, &spec(NEXT), vec![0u64; words]),
        };
        for source in &sources {
            search.run(memory, *source);
        }
        (sources.last().copied().unwrap_or(0), search.parents.to_vec())
    }

    fn report(_values: &Values, (_, parents): &Tree) -> Vec<(&'static str, f64)> {
        vec![("reached", parents.iter().filter(|parent| **parent >= 0).count() as f64)]
    }

    fn verify_on(graph: &Graph, _values: &Values, (source, parents): &Tree) -> Vec<Check> {
        vec![check_tree(graph, *source, |vertex| i64::from(parents[vertex]))]
    }
}

/// Whether parents form a tree of shortest paths that reaches all that can be reached.
pub(super) fn check_tree(graph: &Graph, source: u32, parent: impl Fn(usize) -> i64) -> Check {
    let distance = distances(graph, source);
    let right = |vertex: &usize| {
        let vertex = *vertex;
        let above = parent(vertex);
        match distance[vertex] {
            u32::MAX => above < 0,
            0 => above == i64::from(source),
            own => {
                let joined = above >= 0 && graph.list(vertex).binary_search(&(above as u32)).is_ok();
                joined && distance[above as usize] + 1 == own
            }
        }
    };
    let wrong = (0..graph.vertices()).filter(|vertex| !right(vertex)).count();
    Check::new(
        "tree",
        wrong == 0,
        format!("{wrong} of {} vertices have a wrong parent", graph.vertices()),
    )
}

struct Search {
    index: Array<u64>,
    neighbours: Array<u32>,
    parents: SharedArray<i32>,
    queue: SharedArray<u32>,
    front: SharedArray<u64>,
    next: SharedArray<u64>,
}

impl Search {
    fn run<M: Memory>(&mut self, memory: &mut M, source: u32) {
        let vertices = self.parents.len();
        self.clear(memory);
        self.parents
            .store(memory, source as usize, source as i32, AccessClass::Random);
        self.queue.store(memory, 0, source, AccessClass::Stream);
        let (mut level, mut depth) = (0..1, 0);
        let mut unexplored = self.neighbours.data().len() as i64;
        let mut scout = (self.index.data()[source as usize + 1] - self.index.data()[source as usize]) as i64;
        while !level.is_empty() {
            depth += 1;
            if scout > unexplored / ALPHA {
                self.to_bitmap(memory, level.clone(), depth);
                let mut awake = level.len();
                loop {
                    let before = awake;
                    awake = self.bottom_up(memory, depth);
                    std::mem::swap(&mut self.front, &mut self.next);
                    depth += 1;
                    if awake < before && awake <= vertices / BETA {
                        break;
                    }
                }
                level = self.to_queue(memory, depth);
                scout = 1;
            } else {
                unexplored -= scout;
                (level, scout) = self.top_down(memory, level, depth);
            }
        }
    }

    /// Unreached vertices hold their degree, negative, so that a level knows how many edges the next one has.
    fn clear<M: Memory>(&self, memory: &mut M) {
        memory.phase(Phase::new("clear", Unit::Vertices, CLEAR_NS));
        memory.for_chunks(0..self.parents.len(), SWEEP_CHUNK, |memory, part| {
            let mut start = self.index.load(memory, part.start, AccessClass::Stream);
            for vertex in part {
                let end = self.index.load(memory, vertex + 1, AccessClass::Stream);
                let degree = (end - start).max(1) as i32;
                self.parents.store(memory, vertex, -degree, AccessClass::Stream);
                memory.ops(1);
                start = end;
            }
        });
    }

    fn top_down<M: Memory>(
        &self,
        memory: &mut M,
        level: std::ops::Range<usize>,
        depth: u32,
    ) -> (std::ops::Range<usize>, i64) {
        memory.phase(Phase::new(format!("top-down {depth}"), Unit::Edges, TOP_DOWN_NS));
        let (tail, scout) = (AtomicUsize::new(level.end), AtomicU64::new(0));
        memory.for_chunks(level.clone(), CHUNK, |memory, part| {
            let mut found = 0;
            for position in part {
                let u = self.queue.load(memory, position, AccessClass::Stream);
                let list = List::of::<4, M>(memory, &self.index, u as usize);
                for edge in list.start..list.end {
                    let v = self.neighbours.load(memory, edge, list.class(edge)) as usize;
                    let parent = self.parents.load(memory, v, AccessClass::Gather);
                    if parent < 0 && self.parents.replace(memory, v, parent, u as i32, AccessClass::Gather) {
                        let place = tail.fetch_add(1, Relaxed);
                        self.queue.store(memory, place, v as u32, AccessClass::Stream);
                        found += u64::from(parent.unsigned_abs());
                    }
                }
                memory.ops(list.len() as u64);
            }
            scout.fetch_add(found, Relaxed);
        });
        (level.end..tail.into_inner(), scout.into_inner() as i64)
    }

    /// Every unreached vertex looks for a neighbour in the front; returns how many found one.
    fn bottom_up<M: Memory>(&self, memory: &mut M, depth: u32) -> usize {
        memory.phase(Phase::new(format!("bottom-up {depth}"), Unit::Vertices, BOTTOM_UP_NS));
        self.next.fill(memory, 0);
        let awake = AtomicUsize::new(0);
        memory.for_chunks(0..self.parents.len(), SWEEP_CHUNK, |memory, part| {
            let mut found = 0;
            for u in part {
                memory.ops(1);
                if self.parents.load(memory, u, AccessClass::Stream) >= 0 {
                    continue;
                }
                let start = self.index.load(memory, u, AccessClass::Stream) as usize;
                let end = self.index.load(memory, u + 1, AccessClass::Stream) as usize;
                for edge in start..end {
                    // Mostly one or two entries of a list are read: no stream for a prefetcher.
                    let v = self.neighbours.load(memory, edge, AccessClass::Random) as usize;
                    if self.front.load(memory, v / 64, AccessClass::Gather) >> (v % 64) & 1 == 1 {
                        self.parents.store(memory, u, v as i32, AccessClass::Stream);
                        self.next
                            .update(memory, u / 64, AccessClass::Stream, |word| word | 1 << (u % 64));
                        found += 1;
                        break;
                    }
                }
            }
            awake.fetch_add(found, Relaxed);
        });
        awake.into_inner()
    }

    fn to_bitmap<M: Memory>(&self, memory: &mut M, level: std::ops::Range<usize>, depth: u32) {
        memory.phase(Phase::new(format!("to-bitmap {depth}"), Unit::Vertices, CONVERT_NS).whole());
        self.front.fill(memory, 0);
        memory.for_chunks(level, CHUNK, |memory, part| {
            for position in part {
                let u = self.queue.load(memory, position, AccessClass::Stream) as usize;
                self.front
                    .locked_update(memory, u / 64, AccessClass::Gather, |word| word | 1 << (u % 64));
                memory.ops(1);
            }
        });
    }

    /// The front as a new level at the start of the queue: what was in the queue is explored already.
    fn to_queue<M: Memory>(&self, memory: &mut M, depth: u32) -> std::ops::Range<usize> {
        memory.phase(Phase::new(format!("to-queue {depth}"), Unit::Vertices, CONVERT_NS).whole());
        let tail = AtomicUsize::new(0);
        memory.for_chunks(0..self.front.len(), SWEEP_CHUNK, |memory, part| {
            for number in part {
                let mut word = self.front.load(memory, number, AccessClass::Stream);
                while word != 0 {
                    let vertex = number as u32 * 64 + word.trailing_zeros();
                    self.queue
                        .store(memory, tail.fetch_add(1, Relaxed), vertex, AccessClass::Stream);
                    word &= word - 1;
                }
                memory.ops(64);
            }
        });
        0..tail.into_inner()
    }
}
