//! Connected components by Shiloach and Vishkin, as GAPBS' `cc_sv`: sweeps over all edges until no label changes.

use super::GraphObject;
use super::cc::{check_labels, compress, count};
use super::graph::{DEGREE, GRAPH, GraphProgram, SCALE, SEED};
use super::prelude::*;
use crate::graph::Graph;
use crate::kernel::GraphTraits;

/// Vertices that a thread takes at a time, as in GAPBS.
const CHUNK: usize = 1 << 14;

// Least of 15 runs of the example `cpu_cost` on Kronecker graphs of 2^11 vertices, on a machine that was busy with other
// work: rather too high than too low.
const SETUP_NS: f64 = 0.36;
const HOOK_NS: f64 = 1.8;

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
    GraphObject {
        built: true,
        layout: Layout::Positional,
        sweeps: true,
        ..GraphObject::vertices("neighbours", 4, |_, edges| 4 * edges)
    },
    GraphObject::vertices("components", 4, |vertices, _| 4 * vertices),
];

/// Connected components (Shiloach and Vishkin).
#[derive(Debug)]
pub struct CcSv;

impl GraphProgram for CcSv {
    const NAME: &'static str = "cc_sv";
    const SUMMARY: &'static str = "connected components by Shiloach and Vishkin";
    const SOURCE: &'static str = "GAPBS cc_sv";
    const OP_MEANING: &'static str = "one edge compared, or one vertex compressed";
    const PARAMETERS: &'static [Parameter] = &[GRAPH, SCALE, DEGREE, SEED];
    const CLASSES: &'static [AccessClass] = &[AccessClass::Chase, AccessClass::Gather, AccessClass::Stream];
    const METRICS: &'static [Metric] = &[Metric {
        name: "components",
        unit: "",
        role: Role::Covariate,
        meaning: "connected components, single vertices included",
    }];
    const TRAITS: &'static GraphTraits = &GraphTraits {
        objects: &OBJECTS,
        gathered: &[("hook", "components")],
        in_turn: &[],
        levels: false,
        successors: None,
    };

    type Output = Vec<u32>;

    fn passes(_values: &Values) -> u64 {
        3
    }

    fn run_on<M: Memory>(memory: &mut M, graph: Graph, _values: &Values) -> Vec<u32> {
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
        let mut sweep = 0;
        loop {
            sweep += 1;
            let changes = AtomicU64::new(0);
            memory.phase(Phase::new(format!("hook {sweep}"), Unit::Edges, HOOK_NS));
            memory.for_chunks(0..vertices, CHUNK, |memory, part| {
                let mut start = index.load(memory, part.start, AccessClass::Stream) as usize;
                let mut changed = 0;
                for u in part {
                    let end = index.load(memory, u + 1, AccessClass::Stream) as usize;
                    for edge in start..end {
                        let v = neighbours.load(memory, edge, AccessClass::Stream) as usize;
                        let one = components.load(memory, u, AccessClass::Stream);
                        let other = components.load(memory, v, AccessClass::Gather);
                        if one == other {
                            continue;
                        }
                        let (high, low) = (one.max(other), one.min(other));
                        if components.load(memory, high as usize, AccessClass::Chase) == high {
                            components.store(memory, high as usize, low, AccessClass::Chase);
                            changed += 1;
                        }
                    }
                    memory.ops((end - start) as u64);
                    start = end;
                }
                changes.fetch_add(changed, Relaxed);
            });
            compress(memory, &components, sweep);
            if changes.into_inner() == 0 {
                return components.to_vec();
            }
        }
    }

    fn report(_values: &Values, labels: &Vec<u32>) -> Vec<(&'static str, f64)> {
        vec![("components", count(labels) as f64)]
    }

    fn verify_on(graph: &Graph, _values: &Values, labels: &Vec<u32>) -> Vec<Check> {
        vec![check_labels(graph, labels)]
    }
}
