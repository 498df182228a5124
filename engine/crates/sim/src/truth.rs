//! What only a simulator knows: how often each page is going to be read, and what that costs where.

use tiertune_policy::{Alike, Horizon, Truth};

use crate::cache::hit_shares;
use crate::operation::{Operation, operation_time, unloaded_ns};
use crate::scenario::Machine;
use crate::workload::{Phase, Popularity, Workload};

/// Reads of a page of a piece, and what they cost in each tier more than in the fastest.
#[derive(Debug, Clone, Default, PartialEq)]
struct Value {
    reads: f64,
    stall_ns: Vec<f64>,
}

/// By object and piece.
type Values = Vec<Vec<Value>>;

/// The truth about a run.
pub struct Foresight<'w> {
    workload: &'w Workload,
    machine: &'w Machine,
    run: Values,
    now: Values,
    latency_ns: Vec<f64>,
}

impl<'w> Foresight<'w> {
    /// Adds up all phases of `workload`.
    #[must_use]
    pub fn new(workload: &'w Workload, machine: &'w Machine) -> Self {
        let mut foresight = Self {
            workload,
            machine,
            run: Vec::new(),
            now: Vec::new(),
            latency_ns: machine.tiers.iter().map(|tier| tier.latency_ns).collect(),
        };
        foresight.run = foresight.nothing();
        foresight.now = foresight.nothing();
        let mut run = foresight.nothing();
        // Phases repeat, so each is worked out once.
        for (phases, repeat) in &workload.schedule {
            for phase in phases.clone().map(|p| &workload.phases[p]) {
                foresight.add(phase, &foresight.ops_at_best(phase), f64::from(*repeat), &mut run);
            }
        }
        foresight.run = run;
        foresight
    }

    fn nothing(&self) -> Values {
        let value = Value {
            reads: 0.0,
            stall_ns: vec![0.0; self.machine.tiers.len()],
        };
        let objects = self.workload.objects.iter();
        objects.map(|o| vec![value.clone(); o.pieces()]).collect()
    }

    /// Operations of each group of a phase; where time is given, as many as fit with all memory fast.
    fn ops_at_best(&self, phase: &Phase) -> Vec<f64> {
        let tiers = self.machine.tiers.len();
        let mass: Vec<f64> = (0..phase.streams.len() * tiers)
            .map(|i| if i % tiers == 0 { 1.0 } else { 0.0 })
            .collect();
        let miss = vec![1.0; phase.streams.len()];
        let ops = phase.groups.iter().map(|group| {
            let operation = Operation {
                group,
                streams: &phase.streams,
                mass: &mass,
                miss: &miss,
            };
            let op_ns = operation_time(self.machine, &operation, &vec![1.0; tiers]);
            let fit = phase
                .seconds
                .map_or(f64::INFINITY, |s| s * 1e9 * f64::from(group.threads) / op_ns);
            group.ops.unwrap_or(f64::INFINITY).min(fit)
        });
        let ops: Vec<f64> = ops.collect();
        // A group without an end of its own runs as long as the others do; its share is what matters.
        let longest = ops.iter().copied().filter(|ops| ops.is_finite()).fold(1.0, f64::max);
        ops.into_iter()
            .map(|ops| if ops.is_finite() { ops } else { longest })
            .collect()
    }

    /// Adds what `ops` operations of each group of `phase` read.
    fn add(&self, phase: &Phase, ops: &[f64], times: f64, into: &mut Values) {
        let objects = &self.workload.objects;
        let mut reads = vec![0.0; phase.streams.len()];
        for (group, ops) in phase.groups.iter().zip(ops) {
            for s in group.streams.clone() {
                reads[s] = ops * phase.streams[s].reads_per_op;
            }
        }
        let page_bytes = self.workload.page_bytes;
        let hits = hit_shares(&phase.streams, objects, &reads, page_bytes, self.machine.llc_bytes);
        for (s, stream) in phase.streams.iter().enumerate() {
            let object = &objects[stream.object];
            let extra_ns: Vec<f64> = (0..self.machine.tiers.len())
                .map(|tier| {
                    let extra =
                        unloaded_ns(self.machine, tier, stream.class) - unloaded_ns(self.machine, 0, stream.class);
                    let mlp = stream.mlp.min(self.machine.fill_buffers);
                    extra
                        * ((1.0 - stream.prefetched_share) / mlp + stream.prefetched_share / self.machine.fill_buffers)
                })
                .collect();
            for (piece, value) in into[stream.object].iter_mut().enumerate() {
                let (density, hit) = match &stream.popularity {
                    Popularity::Stationary { density, .. } => (f64::from(density[piece]), hits[s].get(piece)),
                    Popularity::Sweep => (1.0 / f64::from(object.pages), hits[s].first()),
                };
                let miss = if stream.missed_llc {
                    1.0
                } else {
                    1.0 - hit.copied().unwrap_or(0.0)
                };
                let read = times * reads[s] * density * miss;
                value.reads += read;
                for (stall, extra) in value.stall_ns.iter_mut().zip(&extra_ns) {
                    *stall += read * extra;
                }
            }
        }
    }

    /// A phase begins, whose groups do `per_ns` operations per nanosecond.
    pub fn begin(&mut self, phase: &Phase, per_ns: &[f64]) {
        let per_s: Vec<f64> = per_ns.iter().map(|rate| rate * 1e9).collect();
        let mut now = self.nothing();
        self.add(phase, &per_s, 1.0, &mut now);
        self.now = now;
    }

    /// Tiers have these latencies now.
    pub fn set_latency_ns(&mut self, latency_ns: impl Iterator<Item = f64>) {
        self.latency_ns.clear();
        self.latency_ns.extend(latency_ns);
    }
}

impl Truth for Foresight<'_> {
    fn for_each(&self, horizon: Horizon, visit: &mut dyn FnMut(&Alike<'_>)) {
        let values = match horizon {
            Horizon::Run => &self.run,
            Horizon::Now => &self.now,
        };
        for (object, values) in self.workload.objects.iter().zip(values) {
            for (edges, value) in object.edges.windows(2).zip(values) {
                visit(&Alike {
                    pages: edges[1] - edges[0],
                    page: &|n| object.page_at(edges[0] + n),
                    reads: value.reads,
                    stall_ns: &value.stall_ns,
                });
            }
        }
    }

    fn latency_ns(&self) -> Vec<f64> {
        self.latency_ns.clone()
    }
}
