//! Triangles, as GAPBS' `tc`: vertices get new ids by falling degree where degrees are skewed, then sorted lists are merged.

use super::GraphObject;
use super::graph::{DEGREE, GRAPH, GraphProgram, List, SCALE, SEED};
use super::prelude::*;
use crate::graph::Graph;
use crate::kernel::GraphTraits;

/// Vertices that a thread takes at a time, as in GAPBS.
const CHUNK: usize = 64;
const SWEEP_CHUNK: usize = 1 << 14;

// Least of 15 runs of the example `cpu_cost` on Kronecker graphs of 2^11 vertices, on a machine that was busy with other
// work: rather too high than too low.
const RANK_NS: f64 = 1.8;
const RELABEL_NS: f64 = 8.1;
/// Of an entry that is compared: 40 ns for each edge of 2^11 vertices, which compares 32.4. How many there are grows with
/// the graph's skew, by 1.6 for four times as many vertices.
const COMPARE_NS: f64 = 1.23;

const INDEX: usize = 0;
const NEIGHBOURS: usize = 1;
const NEW_IDS: usize = 2;
const NEW_INDEX: usize = 3;
const NEW_NEIGHBOURS: usize = 4;

/// The objects; the last three only where vertices get new ids.
pub const OBJECTS: [GraphObject; 5] = [
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
    GraphObject::vertices("new_ids", 4, |vertices, _| 4 * vertices),
    // New ids are ranks by degree, so places mean the same at every size.
    GraphObject {
        layout: Layout::Positional,
        per_vertex: true,
        ..GraphObject::vertices("new_index", 8, |vertices, _| 8 * (vertices + 1))
    },
    GraphObject {
        layout: Layout::Positional,
        ..GraphObject::vertices("new_neighbours", 4, |_, edges| 4 * edges)
    },
];

/// Triangle count.
#[derive(Debug)]
pub struct Tc;

/// GAPBS draws 1000 degrees to see whether they are skewed; for its generators the answer is known.
fn relabels(values: &Values) -> bool {
    values.word("graph") != "uniform"
}

impl GraphProgram for Tc {
    const NAME: &'static str = "tc";
    const SUMMARY: &'static str = "triangles, by merging lists after sorting vertices by degree";
    const SOURCE: &'static str = "GAPBS tc";
    const OP_MEANING: &'static str =
        "one edge whose lists are merged, or one edge copied under new ids, or one vertex ranked";
    const PARAMETERS: &'static [Parameter] = &[GRAPH, SCALE, DEGREE, SEED];
    const CLASSES: &'static [AccessClass] = &[
        AccessClass::Random,
        AccessClass::Gather,
        AccessClass::Stream,
        AccessClass::Lookup,
    ];
    const METRICS: &'static [Metric] = &[Metric {
        name: "triangles",
        unit: "",
        role: Role::Covariate,
        meaning: "triangles of the graph",
    }];
    const TRAITS: &'static GraphTraits = &GraphTraits {
        objects: &OBJECTS,
        gathered: &[("relabel", "new_ids")],
        in_turn: &[],
        levels: false,
        successors: None,
    };

    type Output = u64;

    fn passes(_values: &Values) -> u64 {
        1
    }

    fn allocates(values: &Values, object: &GraphObject) -> bool {
        relabels(values) || ["index", "neighbours"].contains(&object.name)
    }

    fn run_on<M: Memory>(memory: &mut M, graph: Graph, values: &Values) -> u64 {
        let (vertices, edges) = (graph.vertices(), graph.neighbours.len());
        let spec = |object: usize| OBJECTS[object].spec(vertices as u64, edges as u64);
        let index = Array::new(memory, &spec(INDEX), graph.index);
        let neighbours = Array::new(memory, &spec(NEIGHBOURS), graph.neighbours);
        if !relabels(values) {
            return count(memory, &index, |memory, edge, class| {
                neighbours.load(memory, edge, class)
            });
        }
        let new_ids = SharedArray::new(memory, &spec(NEW_IDS), vec![0u32; vertices]);
        let mut new_index = Array::new(memory, &spec(NEW_INDEX), vec![0u64; vertices + 1]);
        let new_neighbours = SharedArray::new(memory, &spec(NEW_NEIGHBOURS), vec![0u32; edges]);
        rank(memory, &index, &new_ids, &mut new_index);

        memory.phase(Phase::new("relabel", Unit::Edges, RELABEL_NS));
        memory.for_chunks(0..vertices, SWEEP_CHUNK, |memory, part| {
            let mut list = Vec::new();
            for u in part {
                let start = index.load(memory, u, AccessClass::Stream) as usize;
                let end = index.load(memory, u + 1, AccessClass::Stream) as usize;
                list.clear();
                for edge in start..end {
                    let v = neighbours.load(memory, edge, AccessClass::Stream) as usize;
                    list.push(new_ids.load(memory, v, AccessClass::Gather));
                }
                // Sorted in the private caches, then written.
                list.sort_unstable();
                let own = new_ids.load(memory, u, AccessClass::Stream) as usize;
                let place = new_index.load(memory, own, AccessClass::Random) as usize;
                for (offset, v) in list.iter().enumerate() {
                    let class = if offset < 16 {
                        AccessClass::Random
                    } else {
                        AccessClass::Stream
                    };
                    new_neighbours.store(memory, place + offset, *v, class);
                }
                memory.ops((end - start) as u64);
            }
        });
        count(memory, &new_index, |memory, edge, class| {
            new_neighbours.load(memory, edge, class)
        })
    }

    fn report(_values: &Values, triangles: &u64) -> Vec<(&'static str, f64)> {
        vec![("triangles", *triangles as f64)]
    }

    fn verify_on(graph: &Graph, _values: &Values, triangles: &u64) -> Vec<Check> {
        let expected = intersections(graph);
        let detail = format!("{triangles} against {expected}");
        vec![Check::new("triangles", *triangles == expected, detail)]
    }
}

/// Gives every vertex its rank by falling degree as new id, and says where the lists of new ids start.
fn rank<M: Memory>(memory: &mut M, index: &Array<u64>, new_ids: &SharedArray<u32>, new_index: &mut Array<u64>) {
    let vertices = new_ids.len();
    memory.phase(Phase::new("rank", Unit::Vertices, RANK_NS));
    // Counts by degree stay in the private caches: few degrees are frequent.
    let mut starts: Vec<u32> = Vec::new();
    let degree = |memory: &mut M, vertex: usize| {
        let start = index.load(memory, vertex, AccessClass::Stream);
        (index.load(memory, vertex + 1, AccessClass::Stream) - start) as usize
    };
    for vertex in 0..vertices {
        let degree = degree(memory, vertex);
        if starts.len() <= degree {
            starts.resize(degree + 1, 0);
        }
        starts[degree] += 1;
        memory.ops(1);
    }
    let (mut next, mut edge) = (0u32, 0u64);
    for (degree, start) in starts.iter_mut().enumerate().rev() {
        let count = *start;
        *start = next;
        for id in next..next + count {
            new_index.store(memory, id as usize, edge, AccessClass::Stream);
            edge += degree as u64;
        }
        next += count;
    }
    new_index.store(memory, vertices, edge, AccessClass::Stream);
    for vertex in 0..vertices {
        let degree = degree(memory, vertex);
        new_ids.store(memory, vertex, starts[degree], AccessClass::Stream);
        starts[degree] += 1;
        memory.ops(1);
    }
}

/// Triangles u > v > w by merging the lists of u and v up to v.
fn count<M: Memory>(
    memory: &mut M,
    index: &Array<u64>,
    entry: impl Fn(&mut M, usize, AccessClass) -> u32 + Sync,
) -> u64 {
    memory.phase(Phase::new("count", Unit::Edges, COMPARE_NS).by_access());
    let total = AtomicU64::new(0);
    memory.for_chunks(0..index.data().len() - 1, CHUNK, |memory, part| {
        let mut triangles = 0;
        for u in part {
            let start = index.load(memory, u, AccessClass::Stream) as usize;
            let end = index.load(memory, u + 1, AccessClass::Stream) as usize;
            for edge in start..end {
                let v = entry(memory, edge, AccessClass::Stream) as usize;
                if v > u {
                    break;
                }
                let list = List::of::<4, M>(memory, index, v);
                let mut other = list.start;
                for own in start..edge {
                    let w = entry(memory, own, AccessClass::Stream);
                    if w as usize > v {
                        break;
                    }
                    while other < list.end && entry(memory, other, list.class(other)) < w {
                        other += 1;
                    }
                    if other == list.end {
                        break;
                    }
                    if entry(memory, other, list.class(other)) == w {
                        triangles += 1;
                    }
                }
            }
            memory.ops((end - start) as u64);
        }
        total.fetch_add(triangles, Relaxed);
    });
    total.into_inner()
}

/// Triangles by marking the neighbours of each vertex, without an order of lists: the plain reference.
fn intersections(graph: &Graph) -> u64 {
    let mut marked = vec![false; graph.vertices()];
    let mut corners = 0u64;
    for u in 0..graph.vertices() {
        for v in graph.list(u) {
            marked[*v as usize] = true;
        }
        for v in graph.list(u) {
            corners += graph.list(*v as usize).iter().filter(|w| marked[**w as usize]).count() as u64;
        }
        for v in graph.list(u) {
            marked[*v as usize] = false;
        }
    }
    // Each triangle is met from each corner, both ways round.
    corners / 6
}
