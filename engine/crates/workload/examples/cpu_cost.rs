//! Measures what an operation of each kernel costs with all data in the private caches.
//!
//! `cargo run --release -p tiertune-workload --example cpu_cost`; the printed minima (the
//! machine may be shared) are the constants in `kernels/`.

use std::collections::BTreeMap;
use std::time::Instant;

use tiertune_workload::AccessClass;
use tiertune_workload::graph::{Graph, GraphKind};
use tiertune_workload::kernels::{bc, gups, pr};
use tiertune_workload::memory::{Memory, ObjectId, ObjectSpec, Phase};

/// Runs natively and takes the time of every phase.
#[derive(Default)]
struct Stopwatch {
    running: Option<(String, Instant)>,
    ops: u64,
    spent: BTreeMap<String, (f64, u64)>,
}

impl Memory for Stopwatch {
    fn allocate(&mut self, _spec: &ObjectSpec) -> ObjectId {
        ObjectId(0)
    }
    #[inline(always)]
    fn load(&mut self, _object: ObjectId, _offset: usize, _class: AccessClass) {}
    #[inline(always)]
    fn store(&mut self, _object: ObjectId, _offset: usize, _class: AccessClass) {}
    fn phase(&mut self, phase: Phase) {
        self.stop();
        let kind = phase.name.split(' ').next().unwrap_or_default().to_owned();
        self.running = Some((kind, Instant::now()));
    }
    #[inline(always)]
    fn ops(&mut self, count: u64) {
        self.ops += count;
    }
}

impl Stopwatch {
    fn stop(&mut self) {
        if let Some((kind, start)) = self.running.take() {
            let entry = self.spent.entry(kind).or_default();
            entry.0 += start.elapsed().as_nanos() as f64;
            entry.1 += self.ops;
        }
        self.ops = 0;
    }
}

fn measure(name: &str, kernel: impl Fn(&mut Stopwatch)) {
    let mut runs: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for _ in 0..15 {
        let mut watch = Stopwatch::default();
        kernel(&mut watch);
        watch.stop();
        for (kind, (ns, ops)) in watch.spent {
            runs.entry(kind).or_default().push(ns / ops as f64);
        }
    }
    for (kind, mut costs) in runs {
        costs.sort_by(f64::total_cmp);
        let (least, median) = (costs[0], costs[costs.len() / 2]);
        println!("{name:5} {kind:10} {least:6.2} ns per operation at least, {median:6.2} in the median");
    }
}

fn main() {
    let graph = Graph::generate(GraphKind::Kron, 11, 16, 1);
    let sources = bc::pick_sources(&graph, 200, 1);
    measure("bc", |watch| drop(bc::run(watch, graph.clone(), &sources)));
    measure("pr", |watch| drop(pr::run(watch, graph.clone(), 200)));
    let shape = gups::Shape {
        table_bytes: 64 << 10,
        hot_bytes: 8 << 10,
        hot_share: 0.9,
        threads: 4,
    };
    measure("gups", |watch| {
        drop(gups::run(watch, &shape, 2_000_000, &[], 1, 8 << 10))
    });
}
