//! Graph500's breadth-first search: plain, level by level, from several roots, each followed by its validation.

use super::GraphObject;
use super::bfs::check_tree;
use super::graph::{DEGREE, GRAPH, GraphProgram, SCALE, SEED, input, pick_sources};
use super::prelude::*;
use crate::graph::Graph;
use crate::kernel::GraphTraits;

const UNREACHED: i64 = -1;
/// Levels that are being looked for; a tree that is none ends in this.
const MOST_LEVELS: i64 = 1 << 20;
const CHUNK: usize = 64;
const SWEEP_CHUNK: usize = 1 << 14;

// Least of 15 runs of the example `cpu_cost` on Kronecker graphs of 2^10 vertices, on a machine that was busy with other
// work: rather too high than too low.
const CLEAR_NS: f64 = 0.33;
const SEARCH_NS: f64 = 1.8;
const LEVELS_NS: f64 = 3.8;
const JOINED_NS: f64 = 1.2;
const EDGES_NS: f64 = 2.8;

const STARTS: usize = 0;
const NEIGHBOURS: usize = 1;
const EDGES: usize = 2;
const TREE: usize = 3;
const LIST: usize = 4;
const LEVELS: usize = 5;
const SEEN: usize = 6;

/// The objects of version 2.1.4, `omp-csr`; the edges as drawn are kept for the validation.
pub const OBJECTS: [GraphObject; 7] = [
    GraphObject {
        built: true,
        per_vertex: true,
        ..GraphObject::vertices("starts", 16, |vertices, _| 16 * vertices)
    },
    GraphObject {
        built: true,
        layout: Layout::Lists,
        ..GraphObject::vertices("neighbours", 8, |_, edges| 8 * edges)
    },
    GraphObject {
        built: true,
        layout: Layout::Positional,
        sweeps: true,
        bytes_per_draw: 16,
        ..GraphObject::vertices("edges", 16, |_, _| 0)
    },
    GraphObject::vertices("tree", 8, |vertices, _| 8 * vertices),
    GraphObject {
        layout: Layout::Positional,
        per_vertex: true,
        ..GraphObject::vertices("list", 8, |vertices, _| 8 * vertices)
    },
    GraphObject::vertices("levels", 8, |vertices, _| 8 * vertices),
    GraphObject::vertices("seen", 4, |vertices, _| 4 * vertices),
];

/// Breadth-first searches with validation.
#[derive(Debug)]
pub struct Graph500;

/// What is left of the searches.
#[derive(Debug)]
pub struct Searches {
    root: u32,
    tree: Vec<i64>,
    /// Rules broken in any search.
    broken: u64,
}

impl GraphProgram for Graph500 {
    const NAME: &'static str = "bfs500";
    const FAMILY: &'static str = "graph500";
    const SUMMARY: &'static str = "breadth-first searches from several roots, each validated";
    const SOURCE: &'static str = "Graph500 2.1.4, omp-csr";
    const OP_MEANING: &'static str =
        "one edge examined (search) or drawn edge checked (validation), or one vertex set up or levelled";
    const PARAMETERS: &'static [Parameter] = &[
        GRAPH,
        SCALE,
        DEGREE,
        Parameter::int("roots", 1, 64, "searches; Graph500 takes 64")
            .or(Default::Int(64))
            .work(),
        SEED,
    ];
    const CLASSES: &'static [AccessClass] = &[
        AccessClass::Chase,
        AccessClass::Random,
        AccessClass::Gather,
        AccessClass::Stream,
    ];
    const METRICS: &'static [Metric] = &[Metric {
        name: "broken_rules",
        unit: "",
        role: Role::Validity,
        meaning: "rules of the validation that a search broke",
    }];
    const SMALL: &'static str = r#"{"graph": "kron", "scale": 10, "roots": 3}"#;
    const TRAITS: &'static GraphTraits = &GraphTraits {
        objects: &OBJECTS,
        gathered: &[("search", "tree")],
        in_turn: &[],
        levels: true,
        successors: None,
    };

    type Output = Searches;

    fn passes(values: &Values) -> u64 {
        2 * values.int("roots")
    }

    fn run_on<M: Memory>(memory: &mut M, graph: Graph, values: &Values) -> Searches {
        let roots = pick_sources(&graph, values.int("roots") as u32, values.int("seed"));
        let (kind, scale, degree) = input(values);
        let drawn = Graph::edges(kind, scale, degree, values.int("seed"));
        let (vertices, edges) = (graph.vertices(), graph.neighbours.len());
        let spec = |object: usize| OBJECTS[object].spec_drawn(vertices as u64, edges as u64, drawn.len() as u64);
        let starts = (0..vertices)
            .map(|vertex| [graph.index[vertex], graph.index[vertex + 1]])
            .collect();
        let neighbours = graph.neighbours.iter().map(|v| i64::from(*v)).collect();
        let wide = drawn.iter().map(|(u, v)| [i64::from(*u), i64::from(*v)]).collect();
        let search = Search {
            starts: Array::new(memory, &spec(STARTS), starts),
            neighbours: Array::new(memory, &spec(NEIGHBOURS), neighbours),
            edges: Array::new(memory, &spec(EDGES), wide),
            tree: SharedArray::new(memory, &spec(TREE), vec![UNREACHED; vertices]),
            list: SharedArray::new(memory, &spec(LIST), vec![0i64; vertices]),
            levels: SharedArray::new(memory, &spec(LEVELS), vec![UNREACHED; vertices]),
            seen: SharedArray::new(memory, &spec(SEEN), vec![0u32; vertices]),
        };
        let mut broken = 0;
        for root in &roots {
            search.run(memory, *root);
            broken += search.validate(memory, *root);
        }
        Searches {
            root: roots.last().copied().unwrap_or(0),
            tree: search.tree.to_vec(),
            broken,
        }
    }

    fn report(_values: &Values, searches: &Searches) -> Vec<(&'static str, f64)> {
        vec![("broken_rules", searches.broken as f64)]
    }

    fn verify_on(graph: &Graph, _values: &Values, searches: &Searches) -> Vec<Check> {
        let broken = searches.broken;
        vec![
            Check::new("validation", broken == 0, format!("{broken} rules broken")),
            check_tree(graph, searches.root, |vertex| searches.tree[vertex]),
        ]
    }
}

struct Search {
    starts: Array<[u64; 2]>,
    neighbours: Array<i64>,
    edges: Array<[i64; 2]>,
    tree: SharedArray<i64>,
    list: SharedArray<i64>,
    levels: SharedArray<i64>,
    seen: SharedArray<u32>,
}

impl Search {
    fn run<M: Memory>(&self, memory: &mut M, root: u32) {
        let vertices = self.tree.len();
        memory.phase(Phase::new("clear", Unit::Vertices, CLEAR_NS).whole());
        self.tree.fill(memory, UNREACHED);
        memory.ops(vertices as u64);
        memory.phase(Phase::new("search", Unit::Edges, SEARCH_NS));
        self.tree.store(memory, root as usize, root.into(), AccessClass::Random);
        self.list.store(memory, 0, root.into(), AccessClass::Stream);
        let tail = AtomicUsize::new(1);
        let mut level = 0..1;
        while !level.is_empty() {
            memory.for_chunks(level.clone(), CHUNK, |memory, part| {
                for position in part {
                    let v = self.list.load(memory, position, AccessClass::Stream);
                    let [start, end] = self
                        .starts
                        .load(memory, v as usize, AccessClass::Gather)
                        .map(|edge| edge as usize);
                    // The prefetcher needs two lines of eight entries to see a stream; those before are addressed by a gather.
                    let streamed_from = start / 8 * 8 + 16;
                    for edge in start..end {
                        let class = if edge < streamed_from {
                            AccessClass::Gather
                        } else {
                            AccessClass::Stream
                        };
                        let other = self.neighbours.load(memory, edge, class) as usize;
                        if self.tree.load(memory, other, AccessClass::Gather) == UNREACHED
                            && self.tree.replace(memory, other, UNREACHED, v, AccessClass::Gather)
                        {
                            let place = tail.fetch_add(1, Relaxed);
                            self.list.store(memory, place, other as i64, AccessClass::Stream);
                        }
                    }
                    memory.ops((end - start) as u64);
                }
            });
            level = level.end..tail.load(Relaxed);
        }
    }

    /// Counts the rules that the tree breaks, as Graph500's validation: vertices have levels, drawn edges join neighbouring
    /// levels and no reached with an unreached vertex, and edges of the tree were drawn.
    fn validate<M: Memory>(&self, memory: &mut M, root: u32) -> u64 {
        let vertices = self.tree.len();
        let broken = AtomicU64::new(0);
        memory.phase(Phase::new("levels", Unit::Vertices, LEVELS_NS).untimed());
        self.levels.fill(memory, UNREACHED);
        self.seen.fill(memory, 0);
        self.levels.store(memory, root as usize, 0, AccessClass::Random);
        memory.for_chunks(0..vertices, SWEEP_CHUNK, |memory, part| {
            let mut wrong = 0;
            for vertex in part {
                wrong += u64::from(!self.level(memory, vertex));
                memory.ops(1);
            }
            broken.fetch_add(wrong, Relaxed);
        });
        memory.phase(Phase::new("edges", Unit::Edges, EDGES_NS).untimed());
        memory.for_chunks(0..self.edges.data().len(), SWEEP_CHUNK, |memory, part| {
            let mut wrong = 0;
            for edge in part {
                let [i, j] = self.edges.load(memory, edge, AccessClass::Stream);
                let level_i = self.levels.load(memory, i as usize, AccessClass::Gather);
                let level_j = self.levels.load(memory, j as usize, AccessClass::Gather);
                wrong += u64::from((level_i < 0) != (level_j < 0) || level_i.abs_diff(level_j) > 1);
                for (one, other) in [(i, j), (j, i)] {
                    if self.tree.load(memory, one as usize, AccessClass::Gather) == other {
                        self.seen.store(memory, one as usize, 1, AccessClass::Gather);
                    }
                }
                memory.ops(1);
            }
            broken.fetch_add(wrong, Relaxed);
        });
        memory.phase(Phase::new("joined", Unit::Vertices, JOINED_NS).untimed());
        memory.for_chunks(0..vertices, SWEEP_CHUNK, |memory, part| {
            let mut wrong = 0;
            for vertex in part {
                let inside = self.tree.load(memory, vertex, AccessClass::Stream) != UNREACHED;
                let seen = self.seen.load(memory, vertex, AccessClass::Stream) == 1;
                wrong += u64::from(inside && !seen && vertex != root as usize);
                memory.ops(1);
            }
            broken.fetch_add(wrong, Relaxed);
        });
        broken.into_inner()
    }

    /// Finds the level of a vertex by going up to one that has a level, and gives it to all on the way.
    fn level<M: Memory>(&self, memory: &mut M, vertex: usize) -> bool {
        if self.tree.load(memory, vertex, AccessClass::Stream) == UNREACHED {
            return true;
        }
        let (mut above, mut steps) = (vertex, 0);
        let mut known = self.levels.load(memory, vertex, AccessClass::Stream);
        while known == UNREACHED && steps < MOST_LEVELS {
            let parent = self.tree.load(memory, above, AccessClass::Chase);
            if parent == UNREACHED || parent == above as i64 {
                return false;
            }
            above = parent as usize;
            steps += 1;
            known = self.levels.load(memory, above, AccessClass::Chase);
        }
        if known == UNREACHED {
            return false;
        }
        let (mut below, mut level) = (vertex, known + steps);
        while steps > 0 {
            self.levels.store(memory, below, level, AccessClass::Chase);
            below = self.tree.load(memory, below, AccessClass::Chase) as usize;
            level -= 1;
            steps -= 1;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::GraphKind;
    use crate::memory::Native;

    fn search(tree: Vec<i64>, edges: &[(u32, u32)]) -> Search {
        let (graph, memory) = (Graph::from_edges(tree.len(), edges), &mut Native);
        let spec = |object: usize| OBJECTS[object].spec_drawn(64, 64, 64);
        let vertices = tree.len();
        Search {
            starts: Array::new(memory, &spec(STARTS), vec![[0, 0]; vertices]),
            neighbours: Array::new(
                memory,
                &spec(NEIGHBOURS),
                graph.neighbours.iter().map(|v| i64::from(*v)).collect(),
            ),
            edges: Array::new(
                memory,
                &spec(EDGES),
                edges.iter().map(|(u, v)| [i64::from(*u), i64::from(*v)]).collect(),
            ),
            tree: SharedArray::new(memory, &spec(TREE), tree),
            list: SharedArray::new(memory, &spec(LIST), vec![0; vertices]),
            levels: SharedArray::new(memory, &spec(LEVELS), vec![0; vertices]),
            seen: SharedArray::new(memory, &spec(SEEN), vec![0; vertices]),
        }
    }

    #[test]
    fn validation_takes_right_trees_and_no_others() {
        // 0 - 1 - 2 - 3 with 0 - 2, and 4 alone.
        let edges = [(0, 1), (1, 2), (2, 3), (0, 2), (4, 4)];
        let broken = |tree: [i64; 5]| search(tree.to_vec(), &edges).validate(&mut Native, 0);
        assert_eq!(broken([0, 0, 0, 2, -1]), 0);
        assert!(
            broken([0, 0, 1, 2, -1]) > 0,
            "0 and 2 are joined, so 2 is not two levels down"
        );
        assert!(broken([0, 0, 0, 1, -1]) > 0, "3 is not joined with 1");
        assert!(broken([0, 0, 0, -1, -1]) > 0, "3 can be reached");
        assert!(broken([0, 2, 1, 2, -1]) > 0, "a circle has no level");
        assert!(broken([0, 0, 0, 2, 4]) > 0, "4 is its own parent and not the root");
    }

    #[test]
    fn edges_as_drawn_build_the_graph() {
        let drawn = Graph::edges(GraphKind::Kron, 8, 4, 2);
        assert_eq!(drawn.len(), 4 << 8);
        assert_eq!(
            Graph::from_edges(1 << 8, &drawn),
            Graph::generate(GraphKind::Kron, 8, 4, 2)
        );
    }
}
